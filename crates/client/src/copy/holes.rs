//! Where a source has bytes, asked for as the copy comes to them.
//!
//! A source of known size is given out in parts: each has ranges of data, and what is between parts and ranges is holes. The source's file
//! system, or the store's targets, say where they are, a bounded number of ranges at a time. What is written meanwhile is copied or not,
//! as in a copy without holes.

use super::ends::{From, OpenSource};
use super::job::Sparse;
use crate::files::engine::flow::Source;
use std::collections::{VecDeque, vec_deque};
use std::ops::Range;
use thalweg_base::{ranges, sparse};
use thalweg_trace::Tracer;
use thalweg_wire::Result;

/// How much of a source one part has at most.
#[derive(Clone, Copy)]
pub(super) struct PartLimits {
    /// Bytes of data.
    pub data_bytes: u64,
    /// From its first byte to its last.
    pub span_bytes: u64,
}

/// Ranges of one part at most.
const RANGES: usize = 1024;

/// The data of a source of known size that is still to be given out.
pub(super) struct DataMap {
    known: VecDeque<Range<u64>>,
    known_to: u64,
    /// Everything is taken for data.
    is_dense: bool,
}

impl DataMap {
    /// Nothing is known yet.
    pub(super) fn new(sparse: Sparse) -> DataMap {
        DataMap { known: VecDeque::new(), known_to: 0, is_dense: sparse == Sparse::Never }
    }

    /// Asks once, from the beginning; what is known then.
    pub(super) fn begin(&mut self, source: &OpenSource, tracer: &mut Tracer) -> Result<vec_deque::Iter<'_, Range<u64>>> {
        let size_bytes = source.size_bytes.unwrap_or(0);
        if self.known_to == 0 && size_bytes > 0 {
            self.ask(source, size_bytes, tracer)?;
        }
        Ok(self.known.iter())
    }

    /// The ranges of the next part of a source of `size_bytes`; none: there is no more data.
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
            // One that was cut where a reply ended is one again.
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

/// The data of a small source, whose bytes are all in `memory`; the source is asked only where there may be a hole.
pub(super) fn of_small(source: &OpenSource, memory: &[u8], sparse: Sparse, tracer: &mut Tracer) -> Result<Vec<Range<u64>>> {
    let size_bytes = memory.len() as u64;
    small(memory, sparse, || {
        let mut map = DataMap::new(sparse);
        let limits = PartLimits { data_bytes: u64::MAX, span_bytes: u64::MAX };
        map.next(source, size_bytes, limits, tracer)
    })
}

/// The same, with another way to ask.
pub(super) fn small(memory: &[u8], sparse: Sparse, ask: impl FnOnce() -> Result<Vec<Range<u64>>>) -> Result<Vec<Range<u64>>> {
    let all = 0..memory.len() as u64;
    match sparse {
        Sparse::Always => Ok(sparse::without_zeros(memory, 0)),
        Sparse::Auto if sparse::has_zero_block(memory, 0) => ask(),
        Sparse::Auto | Sparse::Never if memory.is_empty() => Ok(Vec::new()),
        Sparse::Auto | Sparse::Never => Ok(vec![all]),
    }
}

/// Fetches ranges of a source into memory that begins at offset `base`.
pub(super) fn read_ranges(source: &dyn Source, memory: &mut [u8], base: u64, ranges: &[Range<u64>]) -> Result<()> {
    ranges.iter().try_for_each(|range| source.read(&mut memory[(range.start - base) as usize..(range.end - base) as usize], range.start))
}
