//! Reads dictionary-encoded text as dictionary indices.
//!
//! The parquet crate's reader yields a text for each row that shares the dictionary's bytes; the reference counting
//! took a quarter of the time to read spans, whose kinds nearly all come from one dictionary. Here the indices are
//! read straight from the pages: runs of one number, and bit-packed numbers (Parquet's RLE and bit-packing hybrid).

use super::leaf::Texts;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

/// Reads a column with exactly one text per row, and returns the number of texts. `None` if it is not fully
/// dictionary-encoded; nothing is read then.
pub(super) fn read(mut pages: Box<dyn PageReader>, rows: usize, texts: &mut Texts) -> Result<Option<usize>, ParquetError> {
    texts.clear();
    while let Some(page) = pages.get_next_page()? {
        let (bytes, count, encoding) = match page {
            Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY, .. } => {
                texts.distinct = plain(&buf, num_values as usize)?;
                continue;
            }
            Page::DataPage { buf, num_values, encoding, .. } => (buf, num_values, encoding),
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len: 0, rep_levels_byte_len: 0, .. } => {
                (buf, num_values, encoding)
            }
            _ => return Ok(None),
        };
        if !matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) {
            return Ok(None);
        }
        let count = (count as usize).min(rows - texts.numbers.len());
        if count > 0 {
            let (&width, packed) = bytes.split_first().ok_or_else(cut_short)?;
            numbers(packed, width, count, &mut texts.numbers).ok_or_else(cut_short)?;
        }
    }
    if texts.numbers.iter().max().is_some_and(|&most| most as usize >= texts.distinct.len()) {
        return Err(ParquetError::General("a text's index is not in its dictionary".to_owned()));
    }
    Ok(Some(texts.numbers.len()))
}

fn cut_short() -> ParquetError {
    ParquetError::General("a page is cut short".to_owned())
}

/// Splits a dictionary into its texts, each stored as a length and bytes.
fn plain(bytes: &Bytes, count: usize) -> Result<Vec<ByteArray>, ParquetError> {
    let (mut texts, mut at) = (Vec::new(), 0_usize);
    for _ in 0..count {
        let length = bytes.get(at..at + 4).and_then(|length| <[u8; 4]>::try_from(length).ok()).ok_or_else(cut_short)?;
        let end = (at + 4).checked_add(u32::from_le_bytes(length) as usize).filter(|end| *end <= bytes.len()).ok_or_else(cut_short)?;
        texts.push(ByteArray::from(bytes.slice(at + 4..end)));
        at = end;
    }
    Ok(texts)
}

/// Appends `count` numbers of `width` bits; `None` if there are fewer.
fn numbers(mut bytes: &[u8], width: u8, count: usize, to: &mut Vec<u32>) -> Option<()> {
    if width > 32 {
        return None;
    }
    let end = to.len() + count;
    while to.len() < end {
        let header = varint(&mut bytes)?;
        let left = end - to.len();
        let many = usize::try_from(header >> 1).ok().filter(|many| *many > 0)?;
        if header & 1 == 0 {
            let (value, rest) = bytes.split_at_checked(usize::from(width.div_ceil(8)))?;
            let value = value.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
            to.resize(to.len() + many.min(left), value);
            bytes = rest;
        } else {
            // The last group is padded; the bytes of its padding may be missing.
            let (packed, rest) = bytes.split_at(many.saturating_mul(usize::from(width)).min(bytes.len()));
            let wanted = many.saturating_mul(8).min(left);
            if packed.len() < (wanted * usize::from(width)).div_ceil(8) {
                return None;
            }
            unpack(packed, width, wanted, to);
            bytes = rest;
        }
    }
    Some(())
}

/// Appends bit-packed numbers, lowest bits first.
fn unpack(packed: &[u8], width: u8, count: usize, to: &mut Vec<u32>) {
    let mask = (1_u64 << width) - 1;
    let (mut held, mut bits, mut bytes) = (0_u64, 0_u8, packed.iter());
    to.extend((0..count).map(|_| {
        while bits < width {
            held |= u64::from(bytes.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        let number = (held & mask) as u32;
        held >>= width;
        bits -= width;
        number
    }));
}

/// Reads a number of seven bits per byte, lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], width: u8, count: usize) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        numbers(bytes, width, count, &mut found).map(|()| found)
    }

    #[test]
    fn runs_and_packed_numbers_follow_each_other() {
        // Four times 5; then a group of eight three-bit numbers, 0 to 7, as in Parquet's own description; then 2.
        let bytes = [4 << 1, 5, 1 << 1 | 1, 0b1000_1000, 0b1100_0110, 0b1111_1010, 1 << 1, 2];
        assert_eq!(read(&bytes, 3, 13), Some(vec![5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7, 2]));
        assert_eq!(read(&bytes, 3, 6), Some(vec![5, 5, 5, 5, 0, 1]), "what fills up the last group is none");
        assert_eq!(read(&bytes, 3, 14), None);
        assert_eq!(read(&bytes[..4], 3, 12), None);
        assert_eq!(read(&[8 << 1], 0, 8), Some(vec![0; 8]), "one text needs no bits");
    }

    #[test]
    fn what_is_damaged_ends_without_a_panic() {
        assert_eq!(read(&[0, 1], 8, 1), None, "a run of nothing");
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 8, 1), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2], 8, 10), None);
        assert_eq!(read(&[2, 1], 33, 1), None);
        assert!(plain(&Bytes::from_static(&[9, 0, 0, 0, b'a']), 1).is_err());
        assert!(plain(&Bytes::from_static(&[1, 0, 0, 0, b'a', 0xff, 0xff, 0xff, 0xff]), 2).is_err());
        let texts = plain(&Bytes::from_static(&[1, 0, 0, 0, b'a', 0, 0, 0, 0]), 2).expect("two texts");
        assert_eq!(texts.iter().map(|text| text.data().to_vec()).collect::<Vec<_>>(), [b"a".to_vec(), Vec::new()]);
    }
}
