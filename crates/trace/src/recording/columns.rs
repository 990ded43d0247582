//! Arrow columns from rows, and back.

use crate::TraceError;
use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;

/// A number of the file's unsigned columns of signed type (nanoseconds, bytes), which end at 2⁶³ − 1.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The type of a column of names from a closed set.
pub(super) fn names_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// A schema from names, types and whether a value may be absent.
pub(super) fn schema(columns: Vec<(&str, DataType, bool)>) -> SchemaRef {
    Arc::new(Schema::new(columns.into_iter().map(|(name, kind, absent)| Field::new(name, kind, absent)).collect::<Vec<_>>()))
}

/// A column of names: members of a closed set by number, `None` where absent.
pub(super) fn names(set: &[&'static str], numbers: impl Iterator<Item = Option<u8>>) -> ArrayRef {
    let keys: Int32Array = numbers.map(|n| n.map(i32::from)).collect();
    let values = StringArray::from_iter_values(set);
    Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values)).expect("numbers are within the set"))
}

pub(super) fn u64s(numbers: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(numbers.collect::<UInt64Array>())
}

pub(super) fn i64s(numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(numbers.collect::<Int64Array>())
}

pub(super) fn u32s(numbers: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(numbers.collect::<UInt32Array>())
}

pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

/// A column of lists of text.
pub(super) fn lists<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in rows {
        row.iter().for_each(|item| builder.values().append_value(item));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// The type of [`lists`].
pub(super) fn lists_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

/// A column of names with values.
pub(super) fn maps<'a>(rows: impl Iterator<Item = &'a Vec<(String, String)>>) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in rows {
        for (name, value) in row {
            builder.keys().append_value(name);
            builder.values().append_value(value);
        }
        builder.append(true).expect("as many names as values");
    }
    Arc::new(builder.finish())
}

/// The type of [`maps`].
pub(super) fn maps_type() -> DataType {
    maps(std::iter::empty()).data_type().clone()
}

/// The columns of a batch that was read, by name.
pub(super) struct Columns<'a> {
    pub batch: &'a RecordBatch,
    pub path: &'a Path,
}

impl<'a> Columns<'a> {
    pub(super) fn error(&self, problem: impl std::fmt::Display) -> TraceError {
        TraceError::new(self.path, problem)
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef, TraceError> {
        self.batch.column_by_name(name).ok_or_else(|| self.error(format!("has no column `{name}`; SCHEMA.md lists the columns")))
    }

    fn wrong(&self, name: &str, array: &ArrayRef) -> TraceError {
        self.error(format!("column `{name}` is of type {}, which is not the recording's", array.data_type()))
    }

    pub(super) fn primitive<T: ArrowPrimitiveType>(&self, name: &str) -> Result<&'a PrimitiveArray<T>, TraceError> {
        let array = self.column(name)?;
        array.as_primitive_opt::<T>().ok_or_else(|| self.wrong(name, array))
    }

    fn optional<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Option<T::Native>>, TraceError> {
        Ok(self.primitive::<T>(name)?.iter().collect())
    }

    pub(super) fn u64s(&self, name: &str) -> Result<Vec<Option<u64>>, TraceError> {
        self.optional::<UInt64Type>(name)
    }

    pub(super) fn i64s(&self, name: &str) -> Result<Vec<Option<i64>>, TraceError> {
        self.optional::<Int64Type>(name)
    }

    pub(super) fn u32s(&self, name: &str) -> Result<Vec<Option<u32>>, TraceError> {
        self.optional::<UInt32Type>(name)
    }

    pub(super) fn texts(&self, name: &str) -> Result<&'a StringArray, TraceError> {
        let array = self.column(name)?;
        array.as_string_opt::<i32>().ok_or_else(|| self.wrong(name, array))
    }

    /// A column of names, as its keys and the member each key stands for; there is one for every key that is not absent.
    pub(super) fn dictionary<T: Copy>(
        &self,
        name: &str,
        member: impl Fn(&str) -> Option<T>,
    ) -> Result<(&'a Int32Array, Vec<Option<T>>), TraceError> {
        let array = self.column(name)?;
        let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() else { return Err(self.wrong(name, array)) };
        let values = dictionary.values().as_string_opt::<i32>().ok_or_else(|| self.wrong(name, array))?;
        // A dictionary may hold values that no row has.
        let members: Vec<Option<T>> = values.iter().map(|value| member(value.unwrap_or_default())).collect();
        let known = |key: i32| usize::try_from(key).is_ok_and(|key| matches!(members.get(key), Some(Some(_))));
        let keys = dictionary.keys();
        let unknown = match keys.nulls() {
            None => keys.values().iter().copied().find(|&key| !known(key)),
            Some(_) => keys.iter().flatten().find(|&key| !known(key)),
        };
        match unknown {
            None => Ok((keys, members)),
            Some(key) => {
                let value = usize::try_from(key).ok().filter(|&key| key < values.len()).map_or("", |key| values.value(key));
                Err(self.error(format!("column `{name}` says `{value}`, which this version does not know")))
            }
        }
    }

    /// A column of names, one member per row.
    pub(super) fn names<T: Copy>(&self, name: &str, member: impl Fn(&str) -> Option<T>) -> Result<Vec<Option<T>>, TraceError> {
        let (keys, members) = self.dictionary(name, member)?;
        Ok(keys.iter().map(|key| key.and_then(|key| members[key as usize])).collect())
    }

    pub(super) fn lists(&self, name: &str) -> Result<Vec<Vec<String>>, TraceError> {
        let array = self.column(name)?;
        let lists = array.as_list_opt::<i32>().ok_or_else(|| self.wrong(name, array))?;
        let row = |items: Option<ArrayRef>| {
            let Some(items) = items else { return Ok(Vec::new()) };
            let items = items.as_string_opt::<i32>().ok_or_else(|| self.wrong(name, array))?;
            Ok(items.iter().map(|item| item.unwrap_or_default().to_owned()).collect())
        };
        lists.iter().map(row).collect()
    }

    pub(super) fn maps(&self, name: &str) -> Result<Vec<Vec<(String, String)>>, TraceError> {
        let array = self.column(name)?;
        let maps = array.as_map_opt().ok_or_else(|| self.wrong(name, array))?;
        let (Some(keys), Some(values)) = (maps.keys().as_string_opt::<i32>(), maps.values().as_string_opt::<i32>()) else {
            return Err(self.wrong(name, array));
        };
        let mut rows = Vec::with_capacity(maps.len());
        for range in maps.value_offsets().windows(2) {
            let pair = |i: usize| (keys.value(i).to_owned(), if values.is_valid(i) { values.value(i).to_owned() } else { String::new() });
            rows.push((range[0] as usize..range[1] as usize).map(pair).collect());
        }
        Ok(rows)
    }

    /// The value of a column that is never absent.
    pub(super) fn present<T>(&self, name: &str, value: Option<T>) -> Result<T, TraceError> {
        value.ok_or_else(|| self.error(format!("column `{name}` has an absent value where there must be one")))
    }
}
