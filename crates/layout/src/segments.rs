//! Iterators that cut byte ranges into contiguous pieces, without allocation.
//!
//! By the rank contract, the bytes of one datafile inside a logical range are one physical range. Everything about one datafile
//! therefore starts from a physical range: [`FlowBuffers`] cuts it by length, [`Segments`] where the logical offset jumps.
//! [`Pieces`] covers all datafiles in logical order. Neighbours that are contiguous on both sides are always merged.

use std::ops::Range;

use crate::{Distribution, MAX_OFFSET, Piece};

/// The pieces of a logical range over all datafiles, in logical order. Made by [`crate::Layout::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'a, D: ?Sized> {
    distribution: &'a D,
    end: u64,
    /// The next piece, not yet merged with its successors.
    next: Option<Piece>,
}

impl<'a, D: Distribution + ?Sized> Pieces<'a, D> {
    /// Cuts the range `logical` into pieces.
    pub fn new(distribution: &'a D, logical: Range<u64>) -> Pieces<'a, D> {
        let mut pieces = Pieces { distribution, end: logical.end.min(MAX_OFFSET), next: None };
        pieces.next = pieces.piece_at(logical.start);
        pieces
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Option<Piece> {
        let left = self.end.checked_sub(logical).filter(|&left| left > 0)?;
        let piece = self.distribution.piece_at(logical);
        Some(Piece { length: piece.length.min(left), ..piece })
    }
}

impl<D: Distribution + ?Sized> Iterator for Pieces<'_, D> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let mut piece = self.next?;
        loop {
            self.next = self.piece_at(piece.logical_offset + piece.length);
            match self.next {
                Some(next) if next.datafile == piece.datafile && next.physical_offset == piece.physical_offset + piece.length => {
                    piece.length += next.length;
                }
                _ => return Some(piece),
            }
        }
    }
}

/// The pieces of one datafile's physical range, each contiguous in the file too, in order. Made by [`FlowBuffer::pieces`].
#[derive(Debug, Clone)]
pub struct Segments<'a, D: ?Sized> {
    distribution: &'a D,
    datafile: u32,
    end: u64,
    /// The next piece, not yet merged with its successors.
    next: Option<Piece>,
}

impl<'a, D: Distribution + ?Sized> Segments<'a, D> {
    /// Cuts the range `physical` of `datafile` into pieces. Omits bytes past the largest logical offset.
    pub fn new(distribution: &'a D, datafile: u32, physical: Range<u64>) -> Segments<'a, D> {
        let mut segments = Segments { distribution, datafile, end: physical.end.min(MAX_OFFSET), next: None };
        segments.next = segments.piece_at(physical.start);
        segments
    }

    #[inline]
    fn piece_at(&self, physical: u64) -> Option<Piece> {
        let left = self.end.checked_sub(physical).filter(|&left| left > 0)?;
        let logical = self.distribution.physical_to_logical(self.datafile, physical)?;
        let piece = self.distribution.piece_at(logical);
        Some(Piece { length: piece.length.min(left), ..piece })
    }
}

impl<D: Distribution + ?Sized> Iterator for Segments<'_, D> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let mut piece = self.next?;
        loop {
            self.next = self.piece_at(piece.physical_offset + piece.length);
            match self.next {
                Some(next) if next.logical_offset == piece.logical_offset + piece.length => piece.length += next.length,
                _ => return Some(piece),
            }
        }
    }
}

/// Physically contiguous bytes of one datafile: a flow's unit on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowBuffer {
    /// Index of the datafile.
    pub datafile: u32,
    /// Offset in the datafile, in bytes.
    pub physical_offset: u64,
    /// Length in bytes, never 0.
    pub length: u64,
}

impl FlowBuffer {
    /// Returns the pieces of the buffer within the file. A piece's offset in the buffer is its physical offset minus the
    /// buffer's; its offset in the request's memory is its logical offset minus the request's.
    pub fn pieces<D: Distribution + ?Sized>(self, distribution: &D) -> Segments<'_, D> {
        Segments::new(distribution, self.datafile, self.physical_offset..self.physical_offset + self.length)
    }
}

/// The flow buffers of one datafile's physical range, all of full length but the last. Made by [`crate::Layout::flow_buffers`].
#[derive(Debug, Clone)]
pub struct FlowBuffers {
    datafile: u32,
    physical: Range<u64>,
    buffer_bytes: u64,
}

impl FlowBuffers {
    /// Cuts the range `physical` of `datafile` into buffers of at most `buffer_bytes` bytes (at least 1).
    pub fn new(datafile: u32, physical: Range<u64>, buffer_bytes: u64) -> FlowBuffers {
        let end = physical.end.min(MAX_OFFSET);
        FlowBuffers { datafile, physical: physical.start.min(end)..end, buffer_bytes: buffer_bytes.max(1) }
    }
}

impl Iterator for FlowBuffers {
    type Item = FlowBuffer;

    #[inline]
    fn next(&mut self) -> Option<FlowBuffer> {
        let left = self.physical.end - self.physical.start;
        if left == 0 {
            return None;
        }
        let buffer = FlowBuffer { datafile: self.datafile, physical_offset: self.physical.start, length: left.min(self.buffer_bytes) };
        self.physical.start += buffer.length;
        Some(buffer)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from((self.physical.end - self.physical.start).div_ceil(self.buffer_bytes));
        (left.unwrap_or(usize::MAX), left.ok())
    }
}
