//! Files whose bytes are certain: calls that never blocked are merged, under the file at which their thread was last seen.
//!
//! A stretch in which the thread was seen at its file says so (its span has a result). Bytes of a stretch without a sighting belong to the
//! same file if the thread was seen there before and was seen there next: otherwise it may have read others meanwhile. Older recordings do
//! not show this.

use crate::observe::index::NONE;
use crate::observe::span::LiveSpan;
use foldhash::HashMap;
use thalweg_trace::SpanKind;

/// A thread's accesses to files in one direction, seen backward.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// The file at which it was seen next.
    object: u32,
    /// Bytes before that, in stretches under this file's name without a sighting.
    bytes: u64,
}

/// Bytes by the file that they certainly belong to.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    next: HashMap<(u32, bool), Next>,
    /// By file, and whether they were written.
    sure: HashMap<(u32, bool), u64>,
    /// By file: number of closes, if each call was recorded.
    closed: HashMap<u32, u64>,
}

impl Sightings {
    /// Adds a span; those of one thread come by descending end.
    #[inline]
    pub(crate) fn note(&mut self, span: &LiveSpan) {
        let out = match span.kind {
            SpanKind::FileRead => false,
            SpanKind::FileWrite => true,
            SpanKind::FileClose if span.object != NONE => {
                *self.closed.entry(span.object).or_default() += u64::from(span.count);
                return;
            }
            _ => return,
        };
        let next = self.next.entry((span.track, out)).or_insert(Next { object: span.object, bytes: 0 });
        if span.result > 0 {
            let before = if next.object == span.object { next.bytes } else { 0 };
            *self.sure.entry((span.object, out)).or_default() += before + span.bytes();
            *next = Next { object: span.object, bytes: 0 };
        } else if next.object == span.object {
            next.bytes += span.bytes();
        }
    }

    /// The file closed most often, its number of closes, and that of all files.
    pub(crate) fn closed_most(&self) -> Option<(usize, u64, u64)> {
        let (&object, &times) = self.closed.iter().max_by_key(|(object, times)| (**times, **object))?;
        Some((object as usize, times, self.closed.values().sum()))
    }

    /// Bytes certainly read from a file, or written to it (`out`); `None` if the recording does not show this for any file.
    pub(crate) fn sure(&self, object: usize, out: bool) -> Option<u64> {
        (!self.sure.is_empty()).then(|| self.sure.get(&(object as u32, out)).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::End;

    fn read(object: u32, size_bytes: u64, seen: bool) -> LiveSpan {
        LiveSpan {
            start: 0,
            end: 0,
            id: 1,
            parent: 0,
            request: 0,
            cpu_ns: 0,
            runqueue_ns: 0,
            offset_bytes: 0,
            size_bytes,
            track: 3,
            object,
            connection: NONE,
            side: End::Client,
            waker: NONE,
            device: NONE,
            result: i32::from(seen),
            count: 1,
            kind: SpanKind::FileRead,
            context: 0,
        }
    }

    #[test]
    fn bytes_between_two_sightings_of_one_file_are_of_that_file_and_others_are_of_nobodys() {
        let mut sightings = Sightings::default();
        let (one, other) = (1, 2);
        // Backward: the last is noted first.
        for (object, bytes, seen) in [(other, 7, true), (one, 1_000, false), (one, 20, true), (one, 300, false), (one, 4_000, true)] {
            sightings.note(&read(object, bytes, seen));
        }
        assert_eq!((sightings.sure(1, false), sightings.sure(2, false), sightings.sure(1, true)), (Some(4_320), Some(7), Some(0)));
        assert_eq!(Sightings::default().sure(1, false), None);
    }
}
