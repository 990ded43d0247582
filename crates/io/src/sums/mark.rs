//! The encoding of marks and sums, in an attribute and in a file.
//!
//! ```text
//! attribute  0        1      2            4     8     12
//!            +--------+------+------------+-----+-----+------------
//!            | format | mark | last block | run | CRC | sums
//!            +--------+------+------------+-----+-----+------------
//! file       0        8        12         16     20  24    32     40    60    64
//!            +--------+--------+----------+------+---+-----+------+-----+-----+------------
//!            |THALWSUM| format | block    | mark | 0 | run | size | 0   | CRC | sums
//!            +--------+--------+----------+------+---+-----+------+-----+-----+------------
//! ```
//!
//! Numbers are little-endian; sums have 32 bits. `mark`: 0 dirty, 1 clean. `last block`: how many bytes of the last block the
//! datafile has, 0 for all; `size`: that of the datafile; both only if it is clean. The CRC of an attribute is of everything else in
//! it, that of a file of what is before it.

use super::block::{BLOCK, count};
use thalweg_bulk::crc32c;

/// Version of both encodings.
const FORMAT: u8 = 1;
const MAGIC: &[u8; 8] = b"THALWSUM";
/// Bytes before the sums in a file.
pub(super) const FILE_HEADER: usize = 64;
/// Bytes before the sums in an attribute.
const ATTRIBUTE_HEADER: usize = 12;
/// Blocks whose sums go into an attribute. Bound: 60 bytes of value fit into an ext4 inode of 256 bytes; more would take a block.
pub(super) const ATTRIBUTE_BLOCKS: u64 = 12;
/// Maximum bytes of an attribute.
pub(super) const ATTRIBUTE_BYTES: usize = ATTRIBUTE_HEADER + 4 * ATTRIBUTE_BLOCKS as usize;

/// The state of a datafile's sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Written by this run of a server; 0: by none that can be trusted.
    Dirty(u64),
    /// On stable storage, as is a datafile of this size.
    Clean(u64),
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the part of a run's number that an attribute has room for; never 0 for a run.
fn short(run: u64) -> u32 {
    if run == 0 { 0 } else { (run as u32) | 1 }
}

/// Decodes sums.
pub(super) fn sums(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| word(four, 0)).collect()
}

/// Encodes sums.
pub(super) fn bytes(sums: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 4 * sums.len()];
    for (four, sum) in bytes.chunks_exact_mut(4).zip(sums) {
        four.copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Encodes an attribute; `None` if it cannot hold this many sums.
pub(super) fn attribute(mark: Mark, sums: &[u32]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(ATTRIBUTE_BYTES);
    let (kind, last, run) = match mark {
        Mark::Dirty(run) => (0, 0, short(run)),
        Mark::Clean(size) if count(size) != sums.len() as u64 => return None,
        Mark::Clean(size) => (1, (size % BLOCK) as u16, 0),
    };
    value.extend([FORMAT, kind]);
    value.extend(last.to_le_bytes());
    value.extend(run.to_le_bytes());
    value.extend([0; 4]);
    value.extend(bytes(sums));
    let crc = attribute_crc(&value);
    value[8..12].copy_from_slice(&crc.to_le_bytes());
    (value.len() <= ATTRIBUTE_BYTES).then_some(value)
}

fn attribute_crc(value: &[u8]) -> u32 {
    let mut crc = thalweg_bulk::Crc32c::default();
    crc.update(&value[..8]);
    crc.update(&value[ATTRIBUTE_HEADER..]);
    crc.finish()
}

/// Decodes an attribute; `None`: damaged. `run`: this run of the server.
pub(super) fn read_attribute(value: &[u8], run: u64) -> Option<(Mark, Vec<u32>)> {
    let is_whole = value.len() >= ATTRIBUTE_HEADER && value.len() <= ATTRIBUTE_BYTES && value.len().is_multiple_of(4);
    if !is_whole || word(value, 8) != attribute_crc(value) || value[0] != FORMAT {
        return None;
    }
    let sums = sums(&value[ATTRIBUTE_HEADER..]);
    let last = u64::from(u16::from_le_bytes([value[2], value[3]]));
    let size = match last {
        0 => sums.len() as u64 * BLOCK,
        last => (sums.len() as u64).checked_sub(1)? * BLOCK + last,
    };
    match value[1] {
        0 if word(value, 4) != 0 && word(value, 4) == short(run) => Some((Mark::Dirty(run), sums)),
        0 => Some((Mark::Dirty(0), sums)),
        1 if last < BLOCK => Some((Mark::Clean(size), sums)),
        _ => None,
    }
}

/// Encodes the header of a file.
pub(super) fn header(mark: Mark) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    let (kind, run, size) = match mark {
        Mark::Dirty(run) => (0_u32, run, 0),
        Mark::Clean(size) => (1, 0, size),
    };
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&u32::from(FORMAT).to_le_bytes());
    header[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
    header[16..20].copy_from_slice(&kind.to_le_bytes());
    header[24..32].copy_from_slice(&run.to_le_bytes());
    header[32..40].copy_from_slice(&size.to_le_bytes());
    let crc = crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Decodes the header of a file; `None`: damaged.
pub(super) fn read_header(header: &[u8; FILE_HEADER]) -> Option<Mark> {
    let is_ours = header[..8] == *MAGIC && word(header, 8) == u32::from(FORMAT) && word(header, 12) == BLOCK as u32;
    if !is_ours || word(header, 60) != crc32c(&header[..60]) {
        return None;
    }
    match word(header, 16) {
        0 => Some(Mark::Dirty(long(header, 24))),
        1 => Some(Mark::Clean(long(header, 32))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_every_changed_byte_or_cut_is_noticed() {
        let run = 0xdead_beef_0000_0001;
        let cases = [
            (Mark::Dirty(run), vec![]),
            (Mark::Dirty(0), vec![7, 0, u32::MAX]),
            (Mark::Clean(0), vec![]),
            (Mark::Clean(1), vec![9]),
            (Mark::Clean(12 * BLOCK), vec![1; 12]),
            (Mark::Clean(11 * BLOCK + 4095), vec![1; 12]),
        ];
        for (mark, sums) in cases {
            let value = attribute(mark, &sums).unwrap();
            assert_eq!(read_attribute(&value, run), Some((mark, sums.clone())));
            for at in 0..value.len() {
                for bit in 0..8 {
                    let mut changed = value.clone();
                    changed[at] ^= 1 << bit;
                    assert_eq!(read_attribute(&changed, run), None, "byte {at} of {mark:?}");
                }
                assert_eq!(read_attribute(&value[..at], run), None, "cut at {at}");
            }
            let header = header(mark);
            assert_eq!(read_header(&header), Some(mark));
            for at in 0..header.len() {
                let mut changed = header;
                changed[at] ^= 1;
                assert_eq!(read_header(&changed), None);
            }
        }
        assert_eq!(attribute(Mark::Dirty(run), &[1; 13]), None, "too many");
        let others = attribute(Mark::Dirty(5), &[1]).unwrap();
        assert_eq!(read_attribute(&others, run), Some((Mark::Dirty(0), vec![1])), "another run's");
    }
}
