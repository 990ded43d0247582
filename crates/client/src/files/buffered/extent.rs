//! Pieces of a file that are written behind: while they are being filled, and when they have left.

use super::window::overlap;
use crate::files::budget::Lent;
use crate::files::engine::memory::RequestMemory;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Separate pieces in an extent; with more it is sent.
const PIECES: usize = 128;

/// An aligned piece of the file that is being filled.
pub(super) struct Extent {
    pub start: u64,
    pub memory: Arc<RequestMemory>,
    /// What was written, in order, with gaps between.
    pub pieces: Vec<Range<u64>>,
    pub since: Instant,
}

/// An extent that has left.
pub(super) struct SentExtent {
    pub number: u64,
    pub start: u64,
    pub pieces: Vec<Range<u64>>,
    pub memory: Arc<RequestMemory>,
    pub has_left: bool,
    /// Memory that was given, and is not the budget's own.
    pub _lent: Option<Lent>,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }

    /// Takes bytes that lie within it.
    pub(super) fn fill(&mut self, bytes: &[u8], offset: u64) {
        let at = (offset - self.start) as usize;
        // SAFETY: an extent that is being filled is known to the holder of the state's lock alone.
        unsafe { self.memory.part_mut(at..at + bytes.len()) }.copy_from_slice(bytes);
        add(&mut self.pieces, offset..offset + bytes.len() as u64);
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

/// Adds a range to a list of ranges in order, merging those that touch.
fn add(pieces: &mut Vec<Range<u64>>, range: Range<u64>) {
    let from = pieces.partition_point(|piece| piece.end < range.start);
    let to = pieces.partition_point(|piece| piece.start <= range.end);
    let merged = match pieces[from..to] {
        [] => range,
        ref touched => range.start.min(touched[0].start)..range.end.max(touched[touched.len() - 1].end),
    };
    pieces.splice(from..to, [merged]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut pieces = Vec::new();
        for range in [10..20, 30..40, 0..5, 20..25, 26..27, 24..31, 5..10] {
            add(&mut pieces, range);
        }
        assert_eq!(pieces, std::slice::from_ref(&(0..40)));
        add(&mut pieces, 50..60);
        add(&mut pieces, 45..48);
        assert_eq!(pieces, [0..40, 45..48, 50..60]);
        add(&mut pieces, 47..52);
        assert_eq!(pieces, [0..40, 45..60]);
    }
}
