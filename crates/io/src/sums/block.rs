//! The arithmetic of blocks and their sums.

use std::ops::Range;
use thalweg_bulk::{BLOCK_BYTES, crc32c, crc32c_of_blocks};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// The CRC-32C of a block of zeros.
const ZEROS: u32 = 0x98F9_4189;

/// What is XORed onto the sum of a damaged block that has to be changed: it stays damaged.
const STILL_DAMAGED: u32 = 0x5A5A_A5A5;

/// A block's bytes.
pub(super) type Block = [u8; BLOCK_BYTES];

/// Returns the stored sum of a block with this CRC-32C.
pub(super) fn stored(crc: u32) -> u32 {
    crc ^ ZEROS
}

/// Returns the stored sum of a block.
pub(super) fn sum_of(block: &Block) -> u32 {
    stored(crc32c(block))
}

/// Returns a sum for a block that was damaged before part of it was replaced, and is not to be taken for a good one.
pub(super) fn still_damaged(sum: u32) -> u32 {
    sum ^ STILL_DAMAGED
}

/// Returns how many blocks a datafile of this size has.
pub(super) fn count(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(BLOCK)
}

/// The blocks that a range of bytes touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// First byte of the range.
    pub(super) from: u64,
    /// Its end.
    pub(super) to: u64,
}

impl Blocks {
    pub(crate) fn of(offset: u64, length: u64) -> Blocks {
        Blocks { from: offset, to: offset + length }
    }

    /// Numbers of all blocks touched.
    pub(super) fn touched(self) -> Range<u64> {
        if self.from == self.to { self.from / BLOCK..self.from / BLOCK } else { self.from / BLOCK..count(self.to) }
    }

    /// Numbers of the blocks that lie wholly in the range.
    pub(super) fn whole(self) -> Range<u64> {
        let first = count(self.from);
        first..(self.to / BLOCK).max(first)
    }

    /// Numbers of the blocks touched but not wholly in the range: at most two.
    pub(super) fn edges(self) -> impl Iterator<Item = u64> {
        let (touched, whole) = (self.touched(), self.whole());
        let last = touched.end.wrapping_sub(1);
        let first = (!touched.is_empty() && !whole.contains(&touched.start)).then_some(touched.start);
        let second = (!touched.is_empty() && last != touched.start && !whole.contains(&last)).then_some(last);
        first.into_iter().chain(second)
    }

    /// The part of a block that is in the range: within the block, and within the range.
    pub(super) fn overlap(self, block: u64) -> (Range<usize>, Range<usize>) {
        let base = block * BLOCK;
        let (from, to) = (self.from.max(base), self.to.min(base + BLOCK));
        ((from - base) as usize..(to - base) as usize, (from - self.from) as usize..(to - self.from) as usize)
    }
}

/// Checksums computed while a payload was verified: its CRC-32C, and that of each block that lies wholly in it.
#[derive(Default)]
pub(crate) struct BlockSums {
    pub(crate) whole: u32,
    /// CRC-32C of each whole block, not yet as stored.
    pub(super) blocks: Vec<u32>,
}

impl BlockSums {
    /// Computes them for bytes at an offset of a datafile.
    pub(crate) fn compute(&mut self, bytes: &[u8], offset: u64) {
        self.blocks.clear();
        let before = (offset.next_multiple_of(BLOCK) - offset) as usize;
        self.whole = crc32c_of_blocks(bytes, before, &mut self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_has_sum_0() {
        assert_eq!(sum_of(&[0; BLOCK_BYTES]), 0);
        assert_ne!(still_damaged(0), 0);
    }

    #[test]
    fn every_block_touched_is_whole_or_an_edge() {
        for from in [0, 1, 4095, 4096, 4097, 12_288] {
            for length in [0, 1, 2, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 20_000] {
                let blocks = Blocks::of(from, length);
                let mut all: Vec<u64> = blocks.edges().chain(blocks.whole()).collect();
                all.sort_unstable();
                let expected: Vec<u64> = (0..20).filter(|b| length > 0 && from < (b + 1) * BLOCK && from + length > b * BLOCK).collect();
                assert_eq!(all, expected, "{length} bytes at {from}");
                assert_eq!(blocks.touched().collect::<Vec<_>>(), expected);
                let bytes: usize = expected.iter().map(|b| blocks.overlap(*b).0.len()).sum();
                assert_eq!(bytes as u64, length);
            }
        }
    }
}
