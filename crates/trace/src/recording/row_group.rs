//! The rows of one row group, column by column.
//!
//! A column is decoded on request, into memory that the next one reuses: a walk over a large recording decodes one
//! row group after another, and returning the memory to the kernel in between would cost as much as the decoding.

use super::dictionary;
use super::leaf::Texts;
use super::window::{Window, guarded};
use crate::TraceError;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::page_index::RowGroupPageIndex;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescriptor;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// A row group for reading.
pub(super) struct RowGroup<'a> {
    path: &'a Path,
    rows: usize,
    reader: SerializedRowGroupReader<'a, Window>,
    metadata: &'a RowGroupMetaData,
    decoded: RefCell<Decoded>,
}

/// Definition and repetition levels of a leaf, as in [`super::leaf::Leaf`].
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// A decoded leaf: its levels, and values of one of the three types.
#[derive(Default)]
struct Decoded {
    levels: Levels,
    int32: Vec<i32>,
    int64: Vec<i64>,
    texts: Texts,
    /// Texts on their way into `texts`.
    some: Vec<ByteArray>,
}

/// Texts are decoded this many at a time: they are mostly the same few, so little memory suffices.
const TEXTS_AT_A_TIME: usize = 1024;

impl Levels {
    /// Decodes a leaf of `rows` rows, `at_a_time` of them before `taken` sees the values.
    fn decode<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        (mut rows, at_a_time): (usize, usize),
        values: &mut Vec<T::T>,
        mut taken: impl FnMut(&mut Vec<T::T>),
    ) -> Result<(), ParquetError> {
        self.definition.clear();
        self.repetition.clear();
        values.clear();
        while rows > 0 {
            let most = rows.min(at_a_time);
            let (read, _, levels) = reader.read_records(most, Some(&mut self.definition), Some(&mut self.repetition), values)?;
            if read == 0 && levels == 0 {
                return Err(ParquetError::General("a row group has fewer rows than its header says".to_owned()));
            }
            rows -= read;
            taken(values);
        }
        Ok(())
    }
}

impl Decoded {
    /// Fills in a leaf whose rows all have this value, without decoding it; returns the number of values.
    fn fill(&mut self, constant: &Constant<'_>, definition: i16, rows: usize) -> usize {
        let Decoded { levels: Levels { definition: levels, repetition }, int32, int64, texts, .. } = self;
        let present = if matches!(constant, Constant::Absent) { 0 } else { definition };
        repetition.clear();
        levels.clear();
        levels.resize(if definition == 0 { 0 } else { rows }, present);
        int32.clear();
        int64.clear();
        texts.clear();
        match constant {
            Constant::Absent => return 0,
            Constant::Int32(value) => int32.resize(rows, *value),
            Constant::Int64(value) => int64.resize(rows, *value),
            Constant::Text(text) => {
                texts.distinct.push((*text).clone());
                texts.numbers.resize(rows, 0);
            }
        }
        rows
    }

    /// Decodes a leaf and returns its number of values; `None` if no table of ours has its type.
    fn read(
        &mut self,
        group: &SerializedRowGroupReader<'_, Window>,
        (number, about): (usize, &ColumnDescriptor),
        rows: usize,
    ) -> Result<Option<usize>, ParquetError> {
        let Decoded { levels, int32, int64, texts, some } = self;
        if about.physical_type() == Type::BYTE_ARRAY && (about.max_def_level(), about.max_rep_level()) == (0, 0) {
            levels.definition.clear();
            levels.repetition.clear();
            if let Some(count) = dictionary::read(group.get_column_page_reader(number)?, rows, texts)? {
                return Ok(Some(count));
            }
        }
        Ok(Some(match group.get_column_reader(number)? {
            ColumnReader::Int32ColumnReader(reader) => {
                levels.decode(reader, (rows, rows), int32, |_| ())?;
                int32.len()
            }
            ColumnReader::Int64ColumnReader(reader) => {
                levels.decode(reader, (rows, rows), int64, |_| ())?;
                int64.len()
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                texts.clear();
                levels.decode(reader, (rows, TEXTS_AT_A_TIME), some, |some| some.drain(..).for_each(|text| texts.push(text)))?;
                texts.numbers.len()
            }
            _ => return Ok(None),
        }))
    }
}

/// The value of a leaf that is the same in every row, from the file's statistics.
enum Constant<'a> {
    Absent,
    Int32(i32),
    Int64(i64),
    Text(&'a ByteArray),
}

impl<'a> Constant<'a> {
    /// Returns the constant; `None` if the rows differ or the statistics are missing.
    fn of(column: &'a ColumnChunkMetaData, rows: usize) -> Option<Constant<'a>> {
        let (about, statistics) = (column.column_descr(), column.statistics()?);
        let absent = if about.max_def_level() == 0 { 0 } else { usize::try_from(statistics.null_count_opt()?).ok()? };
        if about.max_rep_level() > 0 || (absent != 0 && absent != rows) {
            return None;
        }
        if absent == rows {
            return Some(Constant::Absent);
        }
        match statistics {
            Statistics::Int32(of) => the_same::<Int32Type>(of).copied().map(Constant::Int32),
            Statistics::Int64(of) => the_same::<Int64Type>(of).copied().map(Constant::Int64),
            Statistics::ByteArray(of) => the_same::<ByteArrayType>(of).map(Constant::Text),
            _ => None,
        }
    }
}

/// Returns the minimum if it equals the maximum.
fn the_same<T: DataType>(statistics: &ValueStatistics<T::T>) -> Option<&T::T> {
    let are_exact = statistics.min_is_exact() && statistics.max_is_exact();
    statistics.min_opt().filter(|least| are_exact && statistics.max_opt() == Some(least))
}

/// Returns one item per entry of `present`: the next value through `convert`, or `absent`.
fn placed<V, T: Clone>(
    present: impl Iterator<Item = bool>,
    mut values: impl Iterator<Item = V>,
    absent: &T,
    mut convert: impl FnMut(V) -> T,
) -> Vec<T> {
    present.map(|there| if there { values.next().map_or_else(|| absent.clone(), &mut convert) } else { absent.clone() }).collect()
}

/// A leaf's description in the file, and its levels.
struct Shape<'a> {
    about: &'a ColumnDescriptor,
    levels: &'a Levels,
}

impl Shape<'_> {
    fn expected_values(&self, rows: usize) -> usize {
        if self.about.max_def_level() == 0 { rows } else { self.levels.definition.len() - self.absent() }
    }

    fn absent(&self) -> usize {
        let most = self.about.max_def_level();
        self.levels.definition.iter().filter(|&&level| level < most).count()
    }

    fn is_unsigned(&self) -> bool {
        match self.about.logical_type_ref() {
            Some(LogicalType::Integer(integer)) => !integer.is_signed,
            _ => matches!(self.about.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64),
        }
    }

    /// Returns each row's value through `convert`, or `absent`; last row first if `backward`.
    fn each<'v, V: 'v, T: Clone>(&self, backward: bool, values: &'v [V], absent: &T, convert: impl FnMut(&'v V) -> T) -> Vec<T> {
        let most = self.about.max_def_level();
        let levels = &self.levels.definition;
        // Most columns have a value in every row, or in none.
        if most == 0 || values.len() == levels.len() {
            return if backward { values.iter().rev().map(convert).collect() } else { values.iter().map(convert).collect() };
        }
        if values.is_empty() {
            return vec![absent.clone(); levels.len()];
        }
        if backward {
            placed(levels.iter().rev().map(|&level| level == most), values.iter().rev(), absent, convert)
        } else {
            placed(levels.iter().map(|&level| level == most), values.iter(), absent, convert)
        }
    }

    /// Returns the rows of a repeated leaf; an absent item is an empty text.
    fn lists(&self, values: &[String]) -> Vec<Vec<String>> {
        let (most, item) = (self.about.max_def_level(), self.about.repeated_ancestor_def_level());
        let (mut rows, mut values) = (Vec::new(), values.iter());
        for (&definition, &repetition) in self.levels.definition.iter().zip(&self.levels.repetition) {
            if repetition == 0 {
                rows.push(Vec::new());
            }
            let (Some(row), true) = (rows.last_mut(), definition >= item) else { continue };
            let value = if definition == most { values.next() } else { None };
            row.push(value.cloned().unwrap_or_default());
        }
        rows
    }
}

impl<'a> RowGroup<'a> {
    /// Creates a row group whose bytes `window` has in memory.
    pub(super) fn new(path: &'a Path, window: Window, number: usize, metadata: &'a RowGroupMetaData) -> Result<RowGroup<'a>, TraceError> {
        let properties = Arc::new(ReaderProperties::builder().build());
        let index = RowGroupPageIndex::new(number, None);
        let reader = guarded(path, || SerializedRowGroupReader::new(Arc::new(window), metadata, index, properties))?;
        Ok(RowGroup { path, rows: metadata.num_rows() as usize, reader, metadata, decoded: RefCell::default() })
    }

    pub(super) fn error(&self, problem: impl std::fmt::Display) -> TraceError {
        TraceError::new(self.path, problem)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Whether a column of this name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        self.metadata.schema_descr().columns().iter().any(|about| about.path().parts().first().is_some_and(|root| root == name))
    }

    /// Returns the numbers of the leaves of a column.
    fn leaves(&self, name: &str) -> Result<Vec<usize>, TraceError> {
        let columns = self.metadata.schema_descr().columns().iter().enumerate();
        let named = columns.filter(|(_, about)| about.path().parts().first().is_some_and(|root| root == name));
        let leaves: Vec<usize> = named.map(|(number, _)| number).collect();
        if leaves.is_empty() {
            return Err(self.error(format!("has no column `{name}`; SCHEMA.md lists the columns")));
        }
        Ok(leaves)
    }

    fn wrong(&self, name: &str, about: &ColumnDescriptor) -> TraceError {
        let kind = match about.logical_type_ref() {
            Some(logical) => format!("{} ({logical:?})", about.physical_type()),
            None => about.physical_type().to_string(),
        };
        self.error(format!("column `{name}` is of type {kind}, which is not the recording's"))
    }

    /// Decodes leaf `number` of column `name` and passes it on if it has this type and this maximum repetition.
    fn leaf<T>(
        &self,
        (name, number): (&str, usize),
        (physical, unsigned, repeated): (Type, bool, i16),
        use_it: impl FnOnce(&Shape<'_>, &Decoded) -> Result<T, TraceError>,
    ) -> Result<T, TraceError> {
        let about = self.metadata.schema_descr().column(number);
        let mut decoded = self.decoded.borrow_mut();
        // Decoding a constant column would cost the set-up of a decompressor (which queries the CPU's features: in a
        // virtual machine tens of microseconds), and memory to decode into.
        let values = match Constant::of(self.metadata.column(number), self.rows) {
            Some(constant) => Some(decoded.fill(&constant, about.max_def_level(), self.rows)),
            None => guarded(self.path, || decoded.read(&self.reader, (number, &about), self.rows))?,
        };
        let shape = Shape { about: &about, levels: &decoded.levels };
        let fits = about.physical_type() == physical && shape.is_unsigned() == unsigned && about.max_rep_level() == repeated;
        let Some(values) = values.filter(|_| fits) else { return Err(self.wrong(name, &about)) };
        let expected = shape.expected_values(self.rows);
        if values != expected {
            return Err(self.error(format!("is damaged: column `{name}` has {values} values where its levels say {expected}")));
        }
        use_it(&shape, &decoded)
    }

    fn int64<T: Clone>(
        &self,
        name: &str,
        (unsigned, backward): (bool, bool),
        absent: T,
        convert: impl Fn(i64) -> T,
    ) -> Result<Vec<T>, TraceError> {
        let leaf = (name, self.leaves(name)?[0]);
        self.leaf(leaf, (Type::INT64, unsigned, 0), |shape, decoded| {
            Ok(shape.each(backward, &decoded.int64, &absent, |&value| convert(value)))
        })
    }

    fn int32<T: Clone>(&self, name: &str, backward: bool, absent: T, convert: impl Fn(i32) -> T) -> Result<Vec<T>, TraceError> {
        let leaf = (name, self.leaves(name)?[0]);
        self.leaf(leaf, (Type::INT32, true, 0), |shape, decoded| Ok(shape.each(backward, &decoded.int32, &absent, |&value| convert(value))))
    }

    pub(super) fn u64s(&self, name: &str) -> Result<Vec<Option<u64>>, TraceError> {
        self.int64(name, (true, false), None, |value| Some(value as u64))
    }

    pub(super) fn i64s(&self, name: &str) -> Result<Vec<Option<i64>>, TraceError> {
        self.int64(name, (false, false), None, Some)
    }

    pub(super) fn u32s(&self, name: &str) -> Result<Vec<Option<u32>>, TraceError> {
        self.int32(name, false, None, |value| Some(value as u32))
    }

    pub(super) fn u64s_backward(&self, name: &str, absent: u64) -> Result<Vec<u64>, TraceError> {
        self.int64(name, (true, true), absent, |value| value as u64)
    }

    pub(super) fn i64s_backward<T: Clone>(&self, name: &str, absent: T, convert: impl Fn(i64) -> T) -> Result<Vec<T>, TraceError> {
        self.int64(name, (false, true), absent, convert)
    }

    pub(super) fn u32s_backward(&self, name: &str, absent: u32) -> Result<Vec<u32>, TraceError> {
        self.int32(name, true, absent, |value| value as u32)
    }

    fn strings(&self, name: &str, texts: &Texts) -> Result<Vec<String>, TraceError> {
        let not_text = |_| self.error(format!("is damaged: column `{name}` holds text that is not UTF-8"));
        let text = |value: &ByteArray| std::str::from_utf8(value.data()).map_err(not_text).map(str::to_owned);
        let distinct: Vec<String> = texts.distinct.iter().map(text).collect::<Result<_, _>>()?;
        Ok(texts.numbers.iter().map(|&number| distinct[number as usize].clone()).collect())
    }

    /// Returns the text of each row, empty where absent.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, TraceError> {
        let leaf = (name, self.leaves(name)?[0]);
        self.leaf(leaf, (Type::BYTE_ARRAY, false, 0), |shape, decoded| {
            let strings = self.strings(name, &decoded.texts)?;
            Ok(shape.each(false, &strings, &String::new(), String::clone))
        })
    }

    /// Maps each distinct text of a column to its member of a closed set.
    fn members<T: Clone>(
        &self,
        name: &str,
        backward: bool,
        absent: Option<T>,
        member: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, TraceError> {
        let known = |value: &ByteArray| {
            let text = String::from_utf8_lossy(value.data());
            member(&text).ok_or_else(|| self.error(format!("column `{name}` has `{text}`, which this version does not know")))
        };
        let leaf = (name, self.leaves(name)?[0]);
        self.leaf(leaf, (Type::BYTE_ARRAY, false, 0), |shape, decoded| {
            let Texts { distinct, numbers } = &decoded.texts;
            let members: Vec<T> = distinct.iter().map(known).collect::<Result<_, _>>()?;
            let Some(absent) = absent.or_else(|| members.first().filter(|_| shape.absent() == 0).cloned()) else {
                return self.present(name, None);
            };
            Ok(shape.each(backward, numbers, &absent, |&number| members[number as usize].clone()))
        })
    }

    /// Returns a column of names from a closed set, last row first. Without an `absent`, an absent name is an error.
    pub(super) fn names_backward<T: Clone>(
        &self,
        name: &str,
        absent: Option<T>,
        member: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, TraceError> {
        self.members(name, true, absent, member)
    }

    /// Returns a column of names, one member per row.
    pub(super) fn names<T: Copy>(&self, name: &str, member: impl Fn(&str) -> Option<T>) -> Result<Vec<Option<T>>, TraceError> {
        self.members(name, false, Some(None), |text| member(text).map(Some))
    }

    fn lists_of(&self, leaf: (&str, usize)) -> Result<Vec<Vec<String>>, TraceError> {
        self.leaf(leaf, (Type::BYTE_ARRAY, false, 1), |shape, decoded| Ok(shape.lists(&self.strings(leaf.0, &decoded.texts)?)))
    }

    pub(super) fn lists(&self, name: &str) -> Result<Vec<Vec<String>>, TraceError> {
        self.lists_of((name, self.leaves(name)?[0]))
    }

    pub(super) fn maps(&self, name: &str) -> Result<Vec<Vec<(String, String)>>, TraceError> {
        let leaves = self.leaves(name)?;
        let [keys, values] = leaves[..] else { return Err(self.wrong(name, &self.metadata.schema_descr().column(leaves[0]))) };
        let (keys, values) = (self.lists_of((name, keys))?, self.lists_of((name, values))?);
        if keys.len() != values.len() || keys.iter().zip(&values).any(|(keys, values)| keys.len() != values.len()) {
            return Err(self.error(format!("is damaged: column `{name}` has different numbers of names and values")));
        }
        Ok(keys.into_iter().zip(values).map(|(keys, values)| keys.into_iter().zip(values).collect()).collect())
    }

    /// Unwraps the value of a column that must not be absent.
    pub(super) fn present<T>(&self, name: &str, value: Option<T>) -> Result<T, TraceError> {
        value.ok_or_else(|| self.error(format!("column `{name}` has an absent value where one is required")))
    }
}
