//! Finds where a source has data, as the copy proceeds.
//!
//! A source of known size is handed out in parts, each with ranges of data; everything between ranges is holes. The source's file system
//! or the store's targets report the ranges, a bounded number per query. Bytes written meanwhile may or may not be copied, as in a copy
//! without holes.

use super::ends::{From, OpenSource};
use super::job::Sparse;
use crate::files::engine::flow::Source;
use std::collections::{VecDeque, vec_deque};
use std::ops::Range;
use thalweg_base::{ranges, sparse};
use thalweg_trace::Tracer;
use thalweg_wire::Result;

/// Maximum extent of one part.
#[derive(Clone, Copy)]
pub(super) struct PartLimits {
    /// Bytes of data.
    pub data_bytes: u64,
    /// Bytes from its first to its last byte.
    pub span_bytes: u64,
}

/// Maximum ranges per part.
const RANGES: usize = 1024;

/// The data of a source of known size that is not handed out yet.
pub(super) struct DataMap {
    known: VecDeque<Range<u64>>,
    known_to: u64,
    /// Treat the whole source as data.
    is_dense: bool,
}

impl DataMap {
    /// Starts with no ranges known.
    pub(super) fn new(sparse: Sparse) -> DataMap {
        DataMap { known: VecDeque::new(), known_to: 0, is_dense: sparse == Sparse::Never }
    }

    /// Makes the first query, from offset 0, and returns the ranges known so far.
    pub(super) fn begin(&mut self, source: &OpenSource, tracer: &mut Tracer) -> Result<vec_deque::Iter<'_, Range<u64>>> {
        let size_bytes = source.size_bytes.unwrap_or(0);
        if self.known_to == 0 && size_bytes > 0 {
            self.ask(source, size_bytes, tracer)?;
        }
        Ok(self.known.iter())
    }

    /// Returns the ranges of the next part of a source of `size_bytes`; empty: no data left.
    pub(super) fn next(
        &mut self,
        source: &OpenSource,
        size_bytes: u64,
        limits: PartLimits,
        tracer: &mut Tracer,
    ) -> Result<Vec<Range<u64>>> {
        let (mut part, mut left): (Vec<Range<u64>>, u64) = (Vec::new(), limits.data_bytes);
        while left > 0 && part.len() < RANGES {
            let Some(range) = self.known.pop_front() else {
                if self.known_to >= size_bytes {
                    break;
                }
                self.ask(source, size_bytes, tracer)?;
                continue;
            };
            let span_end = part.first().unwrap_or(&range).start.saturating_add(limits.span_bytes);
            let end = range.end.min(span_end).min(range.start.saturating_add(left));
            if end < range.end {
                self.known.push_front(end.max(range.start)..range.end);
            }
            if end <= range.start {
                break;
            }
            left -= end - range.start;
            // Rejoin a range that was split at the end of a reply.
            ranges::append(&mut part, range.start..end);
        }
        Ok(part)
    }

    fn ask(&mut self, source: &OpenSource, size_bytes: u64, tracer: &mut Tracer) -> Result<()> {
        let range = self.known_to..size_bytes;
        let (found, known_to) = match (&source.end, self.is_dense) {
            (From::Local(local), false) => local.data_map(range)?,
            (From::Store(end), false) => end.store.data.data_map(tracer, &end.handle, range)?,
            _ => (vec![range], size_bytes),
        };
        self.known_to = known_to;
        self.known.extend(found);
        Ok(())
    }
}

/// Returns the data ranges of a small source whose bytes are all in `memory`; queries the source only where the bytes may be a hole.
pub(super) fn of_small(source: &OpenSource, memory: &[u8], sparse: Sparse, tracer: &mut Tracer) -> Result<Vec<Range<u64>>> {
    let size_bytes = memory.len() as u64;
    small(memory, sparse, || {
        let mut map = DataMap::new(sparse);
        let limits = PartLimits { data_bytes: u64::MAX, span_bytes: u64::MAX };
        map.next(source, size_bytes, limits, tracer)
    })
}

/// Does what [`of_small`] does, with `ask` as the query.
pub(super) fn small(memory: &[u8], sparse: Sparse, ask: impl FnOnce() -> Result<Vec<Range<u64>>>) -> Result<Vec<Range<u64>>> {
    let all = 0..memory.len() as u64;
    match sparse {
        Sparse::Always => Ok(sparse::without_zeros(memory, 0)),
        Sparse::Auto if sparse::has_zero_block(memory, 0) => ask(),
        Sparse::Auto | Sparse::Never if memory.is_empty() => Ok(Vec::new()),
        Sparse::Auto | Sparse::Never => Ok(vec![all]),
    }
}

/// Reads ranges of a source into memory whose first byte is offset `base`.
pub(super) fn read_ranges(source: &dyn Source, memory: &mut [u8], base: u64, ranges: &[Range<u64>]) -> Result<()> {
    ranges.iter().try_for_each(|range| source.read(&mut memory[(range.start - base) as usize..(range.end - base) as usize], range.start))
}
