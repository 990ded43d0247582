//! Bytes for files of tests. The tests of all crates share this file.
//!
//! Tests are not optimised, and a generator that makes each byte would take longer than what they test.

use std::sync::OnceLock;

/// Random bytes, the same for all.
const BLOCK_BYTES: usize = 1 << 20;
/// A number of its own stands at the beginning of each so many bytes.
const STAMPED_BYTES: usize = 512;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn state_of(seed: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Bytes that no two files (seeds) or places share: a random block again and again, in which every 512 bytes begin with a number that is
/// theirs. What is moved by less than a block is seen by the block's bytes, and what is moved by whole blocks, or into another file, by the
/// numbers.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    let block = BLOCK.get_or_init(|| {
        let mut state = state_of(7);
        (0..BLOCK_BYTES / 8).flat_map(|_| next(&mut state).to_le_bytes()).collect()
    });
    // Where it begins in the block differs too, so that short files are not alike.
    let mut state = state_of(seed);
    let mut at = next(&mut state) as usize % BLOCK_BYTES;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let end = BLOCK_BYTES.min(at + length - bytes.len());
        bytes.extend_from_slice(&block[at..end]);
        at = 0;
    }
    for piece in bytes.chunks_mut(STAMPED_BYTES) {
        let stamp = next(&mut state).to_le_bytes();
        let size = stamp.len().min(piece.len());
        piece[..size].copy_from_slice(&stamp[..size]);
    }
    bytes
}
