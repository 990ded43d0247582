//! Holes of local files: parts that were never written, and read as 0.
//!
//! A file system reports its own holes (`SEEK_DATA`, `SEEK_HOLE`). One that does not support holes reports only data, and so does this
//! module if the calls fail: a missed hole costs time and space, never bytes.

use crate::ranges;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;

/// The unit of zero detection: the block size of most file systems.
pub const BLOCK_BYTES: usize = 4096;

/// Returns up to `most` (at least 1) parts of a range of a file that are not holes, and the offset up to which the list is complete. Moves
/// the descriptor's position.
pub fn data_of(file: impl AsFd, range: Range<u64>, most: usize) -> rustix::io::Result<(Vec<Range<u64>>, u64)> {
    let mut data = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if data.len() >= most {
            return Ok((data, at));
        }
        let start = match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole up to the end.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(e) => return Err(e),
        };
        if start >= range.end {
            break;
        }
        let end = match seek(&file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(range.end),
            // The file was truncated in the meantime, or the file system does not support the call.
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => range.end,
            Err(e) => return Err(e),
        };
        if end <= start {
            // A hole was punched between the two calls.
            at = start + 1;
            continue;
        }
        data.push(start..end);
        at = end;
    }
    Ok((data, range.end))
}

/// Returns the parts of `bytes`, which begin at offset `base` of a file, that are not all-zero blocks of the file.
pub fn without_zeros(bytes: &[u8], base: u64) -> Vec<Range<u64>> {
    let mut data: Vec<Range<u64>> = Vec::new();
    for (start, block) in blocks(bytes, base) {
        if is_zero(block) {
            continue;
        }
        ranges::append(&mut data, start..start + block.len() as u64);
    }
    data
}

/// Returns whether one of the file's blocks in `bytes` is all zeros.
pub fn has_zero_block(bytes: &[u8], base: u64) -> bool {
    blocks(bytes, base).any(|(_, block)| is_zero(block))
}

/// Splits bytes at the file's block boundaries; the first and last pieces may be partial.
fn blocks(bytes: &[u8], base: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let first = (BLOCK_BYTES - (base % BLOCK_BYTES as u64) as usize) % BLOCK_BYTES;
    let (before, aligned) = bytes.split_at(first.min(bytes.len()));
    let whole = aligned.chunks(BLOCK_BYTES).scan(base + before.len() as u64, |at, block| {
        let start = *at;
        *at += block.len() as u64;
        Some((start, block))
    });
    std::iter::once((base, before)).filter(|(_, before)| !before.is_empty()).chain(whole)
}

fn is_zero(block: &[u8]) -> bool {
    // Compares the block with itself shifted by one byte: the C library's comparison runs at memory speed.
    block.first() == Some(&0) && block[1..] == block[..block.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out_and_nothing_else_wherever_the_bytes_begin() {
        for base in [0, 1, 4095, 4096, 10_000] {
            let mut bytes = vec![0; 5 * BLOCK_BYTES + 17];
            for at in [0, 9000, 9001, bytes.len() - 1] {
                bytes[at] = 1;
            }
            let data = without_zeros(&bytes, base);
            let kept: u64 = ranges::length(&data);
            assert!(kept <= 3 * BLOCK_BYTES as u64, "{base}: {data:?}");
            for (at, byte) in (base..).zip(&bytes) {
                assert!(*byte == 0 || data.iter().any(|part| part.contains(&at)), "{base}: byte {at} is lost: {data:?}");
            }
            assert!(data.windows(2).all(|two| two[0].end < two[1].start), "{data:?}");
        }
        assert!(without_zeros(&[], 7).is_empty());
        assert!(!has_zero_block(&[1; 9000], 3) && has_zero_block(&[1, 0], 4095));
    }

    #[test]
    fn the_data_of_a_file_is_found_in_steps_as_in_one() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        for at in [1 << 20, 5 << 20, 40 << 20] {
            file.write_all_at(&[7; 4096], at).unwrap();
        }
        let (all, known_to) = data_of(&file, 0..64 << 20, 100).unwrap();
        assert_eq!(known_to, 64 << 20);
        assert!(ranges::length(&all) < 1 << 20, "{all:?}");
        let (mut steps, mut at) = (Vec::new(), 0);
        while at < 64 << 20 {
            let (found, known_to) = data_of(&file, at..64 << 20, 1).unwrap();
            assert!(known_to > at);
            steps.extend(found);
            at = known_to;
        }
        assert_eq!(steps, all);
    }
}
