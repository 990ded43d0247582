//! Extents: parts of a file collected by write-behind, while they are filled and after they are sent.

use crate::files::budget::Lent;
use crate::files::engine::memory::RequestMemory;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use thalweg_base::ranges::{self, overlap};

/// Bound: separate pieces in an extent; one with more is sent.
const PIECES: usize = 128;

/// An aligned part of the file that is being filled.
pub(super) struct Extent {
    pub start: u64,
    pub memory: Arc<RequestMemory>,
    /// Ranges written, in order, with gaps between.
    pub pieces: Vec<Range<u64>>,
    pub since: Instant,
}

/// An extent that was sent.
pub(super) struct SentExtent {
    pub number: u64,
    pub start: u64,
    pub pieces: Vec<Range<u64>>,
    pub memory: Arc<RequestMemory>,
    pub has_left: bool,
    /// Accounting for memory that the caller supplied.
    pub _lent: Option<Lent>,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    /// Copies in bytes that lie within the extent.
    pub(super) fn fill(&mut self, bytes: &[u8], offset: u64) {
        let at = (offset - self.start) as usize;
        // SAFETY: only the holder of the state's lock can reach an extent that is being filled.
        unsafe { self.memory.part_mut(at..at + bytes.len()) }.copy_from_slice(bytes);
        ranges::add(&mut self.pieces, offset..offset + bytes.len() as u64);
    }

    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() > PIECES || matches!(&self.pieces[..], [one] if one.start == self.start && one.end == self.end())
    }
}

impl SentExtent {
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.pieces.iter().any(|piece| !overlap(piece, range).is_empty())
    }
}
