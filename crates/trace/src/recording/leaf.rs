//! Columns from rows: numbers, text, lists and maps as Parquet stores them.
//!
//! A column is one *leaf*, a map is two. A leaf holds the values present, and levels that assign them to rows: a
//! definition level for each row (or list item) says whether it has a value, a repetition level of 0 begins a row.
//! (Dremel: Melnik et al., VLDB 2010; Parquet's encoding of it.)

use bytes::Bytes;
use parquet::data_type::ByteArray;

/// The present values of a leaf.
pub(super) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Texts(Texts),
}

/// Texts with few distinct values: a number for each, indexing the distinct ones.
#[derive(Default)]
pub(super) struct Texts {
    pub distinct: Vec<ByteArray>,
    pub numbers: Vec<u32>,
}

/// Maximum distinct texts searched. A dictionary with more would not pay.
const MOST_LOOKED_AT: usize = 64;

impl Texts {
    pub(super) fn clear(&mut self) {
        self.distinct.clear();
        self.numbers.clear();
    }

    /// Appends a text. Texts from one dictionary share their bytes, so they are compared by address.
    pub(super) fn push(&mut self, text: ByteArray) {
        let same = |known: &ByteArray| std::ptr::eq(known.data(), text.data());
        let number = self.distinct.iter().take(MOST_LOOKED_AT).position(same).unwrap_or_else(|| {
            self.distinct.push(text.clone());
            self.distinct.len() - 1
        });
        self.numbers.push(number as u32);
    }

    pub(super) fn to_vec(&self) -> Vec<ByteArray> {
        self.numbers.iter().map(|&number| self.distinct[number as usize].clone()).collect()
    }
}

impl FromIterator<ByteArray> for Texts {
    fn from_iter<I: IntoIterator<Item = ByteArray>>(texts: I) -> Texts {
        let distinct: Vec<ByteArray> = texts.into_iter().collect();
        Texts { numbers: (0..distinct.len() as u32).collect(), distinct }
    }
}

/// One leaf of a table's columns, in memory.
pub(super) struct Leaf {
    pub values: Values,
    /// Definition levels; empty if every row has a value.
    pub definition: Vec<i16>,
    /// Repetition levels; empty if no row has more than one value.
    pub repetition: Vec<i16>,
}

/// A number type that a column can hold.
pub(super) trait Number: Sized {
    fn values(numbers: impl Iterator<Item = Self>) -> Values;
}

impl Number for u64 {
    fn values(numbers: impl Iterator<Item = u64>) -> Values {
        Values::Int64(numbers.map(|number| number as i64).collect())
    }
}

impl Number for i64 {
    fn values(numbers: impl Iterator<Item = i64>) -> Values {
        Values::Int64(numbers.collect())
    }
}

impl Number for f64 {
    fn values(numbers: impl Iterator<Item = f64>) -> Values {
        Values::Double(numbers.collect())
    }
}

impl Number for u32 {
    fn values(numbers: impl Iterator<Item = u32>) -> Values {
        Values::Int32(numbers.map(|number| number as i32).collect())
    }
}

/// Converts a number for the file's columns of signed type that hold unsigned numbers (nanoseconds, bytes), limited
/// to 2⁶³ − 1.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Makes a column without absent values.
pub(super) fn numbers<N: Number>(numbers: impl Iterator<Item = N>) -> Leaf {
    Leaf { values: N::values(numbers), definition: Vec::new(), repetition: Vec::new() }
}

/// Makes a column that may have absent values.
pub(super) fn optional<N: Number>(rows: impl Iterator<Item = Option<N>>) -> Leaf {
    let mut definition = Vec::new();
    let values = N::values(rows.inspect(|row| definition.push(i16::from(row.is_some()))).flatten());
    Leaf { values, definition, repetition: Vec::new() }
}

/// Makes a column of names: members of a closed set, given by number.
pub(super) fn names(set: &[&'static str], rows: impl Iterator<Item = u8>) -> Leaf {
    Leaf { values: Values::Texts(members(set, rows)), definition: Vec::new(), repetition: Vec::new() }
}

/// Makes a column of names that may be absent.
pub(super) fn optional_names(set: &[&'static str], rows: impl Iterator<Item = Option<u8>>) -> Leaf {
    let mut definition = Vec::new();
    let present = rows.inspect(|row| definition.push(i16::from(row.is_some()))).flatten();
    let values = Values::Texts(members(set, present));
    Leaf { values, definition, repetition: Vec::new() }
}

fn members(set: &[&'static str], numbers: impl Iterator<Item = u8>) -> Texts {
    let distinct = set.iter().map(|name| Bytes::from_static(name.as_bytes()).into()).collect();
    Texts { distinct, numbers: numbers.map(u32::from).collect() }
}

pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Leaf {
    Leaf { values: Values::Texts(texts.map(ByteArray::from).collect()), definition: Vec::new(), repetition: Vec::new() }
}

/// Makes a column of texts that may be absent.
pub(super) fn optional_texts<'a>(rows: impl Iterator<Item = Option<&'a str>>) -> Leaf {
    let mut definition = Vec::new();
    let present = rows.inspect(|row| definition.push(i16::from(row.is_some()))).flatten();
    let values = Values::Texts(present.map(ByteArray::from).collect());
    Leaf { values, definition, repetition: Vec::new() }
}

/// Makes a column of lists of text.
pub(super) fn lists<'a>(rows: impl Iterator<Item = impl ExactSizeIterator<Item = &'a str>>) -> Leaf {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        if row.len() == 0 {
            definition.push(0);
            repetition.push(0);
        }
        for (at, item) in row.enumerate() {
            values.push(ByteArray::from(item));
            definition.push(1);
            repetition.push(i16::from(at > 0));
        }
    }
    Leaf { values: Values::Texts(values.into_iter().collect()), definition, repetition }
}

/// Makes a column of names with values: two leaves.
pub(super) fn maps<'a>(rows: impl Iterator<Item = &'a Vec<(String, String)>> + Clone) -> [Leaf; 2] {
    let names = rows.clone().map(|row| row.iter().map(|(name, _)| name.as_str()));
    [lists(names), lists(rows.map(|row| row.iter().map(|(_, value)| value.as_str())))]
}
