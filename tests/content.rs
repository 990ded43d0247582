//! Contents of test files. The tests of all crates share this file.
//!
//! Tests are not optimised, and generating each byte would take longer than the tests themselves.

use std::sync::OnceLock;

/// The length of the common block of random bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// The interval at which a unique number replaces the bytes.
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

/// Returns bytes that no other file (seed) or offset shares: a repeated random block, in which each 512 bytes start with a unique number. A
/// shift by less than a block shows in the block's bytes, and a move by whole blocks, or into another file, in the numbers.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    static BLOCK: OnceLock<Vec<u8>> = OnceLock::new();
    let block = BLOCK.get_or_init(|| {
        let mut state = state_of(7);
        (0..BLOCK_BYTES / 8).flat_map(|_| next(&mut state).to_le_bytes()).collect()
    });
    // The start within the block differs too, so that short files differ.
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
