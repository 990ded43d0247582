//! What one connection moves, and how.

use crate::variant::Variant;

/// A contiguous part of a file.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    pub offset: u64,
    pub length: usize,
}

impl Unit {
    /// The unit in parts of at most `bytes`.
    pub fn parts(self, bytes: usize) -> impl Iterator<Item = Unit> {
        (0..self.length)
            .step_by(bytes)
            .map(move |start| Unit { offset: self.offset + start as u64, length: bytes.min(self.length - start) })
    }
}

/// How one connection works.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub variant: Variant,
    /// What an end that holds the bytes moves in one call. Small parts stay in a core's cache while they are read,
    /// checksummed and sent; large ones are fewer calls and larger pages of the page cache.
    pub part_bytes: usize,
}
