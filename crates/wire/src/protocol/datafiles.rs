//! Datafiles, their sizes, and a compact encoding of long lists.
//!
//! A glimpse asks for thousands of datafiles in one message, and both ends process the list, so the encoding exploits similar
//! neighbours: each number is sent as its zigzag difference from the previous one, in varints of seven bits per byte. Files of a
//! directory are mostly created one after another, and the datafiles of a file are adjacent: three bytes each, where the plain
//! form takes eight to ten, and one or two more for a lot. A non-sparse, quiet datafile's size is sent without its allocated
//! bytes.
//!
//! The list is one byte string in the body; bytes are checked as they are read, and allocations never exceed what the bytes can
//! fill.

use super::numbers::{FileId, LotId, TargetId};
use serde::{Deserialize, Serialize};

/// The part of a file on one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatafileId {
    /// The file.
    pub file: FileId,
    /// Index among the file's datafiles.
    pub index: u32,
    /// The target that holds it.
    pub target: TargetId,
    /// The lot whose share on that target the datafile uses.
    pub lot: Option<LotId>,
}

/// A datafile's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatafileSize {
    /// End of its last byte.
    pub size_bytes: u64,
    /// Space allocated on its target.
    pub allocated_bytes: u64,
    /// Whether the datafile has been unchanged for at least one second by the server's clock; false if it changed or this is unknown.
    pub quiet: bool,
}

/// Appends a varint of seven bits per byte, lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a varint off `bytes`. `None`: truncated or more than 64 bits.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Returns the zigzag-encoded difference: small if the numbers are close, whichever is larger.
fn difference(from: u64, to: u64) -> u64 {
    let signed = to.wrapping_sub(from) as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn add(from: u64, difference: u64) -> u64 {
    from.wrapping_add((difference >> 1) ^ (difference & 1).wrapping_neg())
}

/// For `#[serde(with)]`: datafiles.
pub(super) mod packed_datafiles {
    use super::*;

    /// Minimum bytes per datafile.
    const LEAST: usize = 3;

    pub(crate) fn serialize<S: serde::Serializer>(list: &[DatafileId], to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(list.len() * (LEAST + 1) + 8);
        let mut last = DatafileId { file: FileId(0), index: 0, target: TargetId(0), lot: None };
        for id in list {
            put(&mut bytes, difference(last.file.0, id.file.0));
            put(&mut bytes, difference(last.index.into(), id.index.into()) << 1 | u64::from(id.lot.is_some()));
            put(&mut bytes, difference(last.target.0.into(), id.target.0.into()));
            id.lot.iter().for_each(|lot| put(&mut bytes, lot.0.into()));
            last = *id;
        }
        to.serialize_bytes(&bytes)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<DatafileId>, D::Error> {
        from.deserialize_bytes(Bytes(|mut bytes: &[u8]| {
            let mut list = Vec::with_capacity(bytes.len() / LEAST);
            let (mut file, mut index, mut target) = (0, 0_u32, 0_u32);
            while !bytes.is_empty() {
                file = add(file, take(&mut bytes)?);
                let next = take(&mut bytes)?;
                index = u32::try_from(add(index.into(), next >> 1)).ok()?;
                target = u32::try_from(add(target.into(), take(&mut bytes)?)).ok()?;
                let lot = if next & 1 == 1 { Some(LotId(u32::try_from(take(&mut bytes)?).ok()?)) } else { None };
                list.push(DatafileId { file: FileId(file), index, target: TargetId(target), lot });
            }
            Some(list)
        }))
    }
}

/// For `#[serde(with)]`: sizes, all below 2^63.
pub(super) mod packed_sizes {
    use super::*;

    /// Returns the allocation of a datafile without holes on most file systems: whole blocks.
    fn usual(size_bytes: u64) -> u64 {
        size_bytes.next_multiple_of(4096)
    }

    pub(crate) fn serialize<S: serde::Serializer>(list: &[DatafileSize], to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(list.len() * 4);
        for size in list {
            if size.size_bytes >> 63 != 0 {
                return Err(serde::ser::Error::custom("a datafile of 2^63 bytes or more"));
            }
            let is_dense = size.allocated_bytes == usual(size.size_bytes);
            put(&mut bytes, size.size_bytes << 1 | u64::from(is_dense && size.quiet));
            if !(is_dense && size.quiet) {
                put(&mut bytes, u64::from(is_dense) << 1 | u64::from(size.quiet));
                if !is_dense {
                    put(&mut bytes, size.allocated_bytes);
                }
            }
        }
        to.serialize_bytes(&bytes)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<DatafileSize>, D::Error> {
        from.deserialize_bytes(Bytes(|mut bytes: &[u8]| {
            let mut list = Vec::with_capacity(bytes.len().min(crate::limits::BATCH));
            while !bytes.is_empty() {
                let first = take(&mut bytes)?;
                let size_bytes = first >> 1;
                let flags = if first & 1 == 1 { 3 } else { take(&mut bytes)? };
                let allocated_bytes = if flags & 2 == 2 { usual(size_bytes) } else { take(&mut bytes)? };
                list.push(DatafileSize { size_bytes, allocated_bytes, quiet: flags & 1 == 1 });
            }
            Some(list)
        }))
    }
}

/// Decodes a byte string with a function that returns `None` for invalid bytes.
struct Bytes<F>(F);

impl<T, F: FnOnce(&[u8]) -> Option<T>> serde::de::Visitor<'_> for Bytes<F> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a packed list")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<T, E> {
        (self.0)(bytes).ok_or_else(|| E::custom("a packed list that is truncated or has a number that is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::io::{IoReply, IoRequest};
    use super::*;
    use proptest::prelude::*;

    fn id(file: u64, index: u32, target: u32) -> DatafileId {
        DatafileId { file: FileId(file), index, target: TargetId(target), lot: None }
    }

    proptest! {
        #[test]
        fn lists_come_back_as_they_were(
            ids in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<Option<u32>>()), 0..50),
            sizes in prop::collection::vec((0..1_u64 << 63, any::<u64>(), any::<bool>(), any::<bool>()), 0..50),
        ) {
            let datafiles: Vec<_> = ids.into_iter().map(|(f, i, t, lot)| DatafileId { lot: lot.map(LotId), ..id(f, i, t) }).collect();
            let asked = IoRequest::Glimpse { datafiles };
            prop_assert_eq!(postcard::from_bytes::<IoRequest>(&postcard::to_allocvec(&asked).unwrap()).unwrap(), asked);
            let size = |(size_bytes, allocated, dense, quiet): (u64, u64, bool, bool)| DatafileSize {
                size_bytes,
                allocated_bytes: if dense { size_bytes.next_multiple_of(4096) } else { allocated },
                quiet,
            };
            let reported = IoReply::Sizes(sizes.into_iter().map(size).collect());
            prop_assert_eq!(postcard::from_bytes::<IoReply>(&postcard::to_allocvec(&reported).unwrap()).unwrap(), reported);
        }

        #[test]
        fn bytes_that_are_no_list_are_an_error_or_a_list_that_they_could_fill(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = &bytes[..bytes.len().min(127)];
            let mut body = vec![4, bytes.len() as u8];
            body.extend_from_slice(bytes);
            if let Ok(IoRequest::Glimpse { datafiles }) = postcard::from_bytes(&body) {
                prop_assert!(datafiles.len() * 3 <= bytes.len());
            }
        }
    }

    #[test]
    fn a_question_about_4096_datafiles_takes_at_most_4_bytes_for_each_and_so_does_its_answer() {
        let first = 3 << 40 | 123_456;
        // Eight of each file's 32 datafiles are on this server; one in four single-datafile files is; names are ordered
        // differently from numbers.
        let striped: Vec<_> = (0..512_u64).flat_map(|f| (0..8).map(move |i| id(first + f, 8 + i, (8 + i + f as u32 * 5) % 32))).collect();
        let single: Vec<_> = (0..4096_u64).map(|f| id(first + f * 4 + f % 3, 0, f as u32 % 2)).collect();
        let mixed: Vec<_> = (0..1024_u64).flat_map(|f| (0..4).map(move |i| id(first + f * 7919 % 100_000, i, i))).collect();
        for list in [striped, single, mixed] {
            let bytes = postcard::to_allocvec(&IoRequest::Glimpse { datafiles: list.clone() }).unwrap();
            assert!(bytes.len() <= 4 * list.len() + 16, "{} bytes for {} datafiles", bytes.len(), list.len());
        }
        for size_bytes in [0, 4096, 65_536, 1 << 20] {
            let size = DatafileSize { size_bytes, allocated_bytes: size_bytes, quiet: true };
            let bytes = postcard::to_allocvec(&IoReply::Sizes(vec![size; 4096])).unwrap();
            assert!(bytes.len() <= 4 * 4096 + 16, "{} bytes for datafiles of {size_bytes}", bytes.len());
        }
    }
}
