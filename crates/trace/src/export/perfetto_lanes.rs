//! Assigns each span a lane of its track. Perfetto nests the slices of a lane, so a lane accepts a span only beside
//! the others or inside its own parent; spans that merely overlap go to further lanes. An RPC that a thread only
//! observed, or queued, never goes to the first lane, which remains the thread's own time.

use crate::{Span, SpanKind};
use std::collections::HashMap;

/// Assigns lanes to spans in order of descending end and, at one end, ascending start.
#[derive(Default)]
pub(super) struct Lanes {
    tracks: HashMap<u64, Vec<Vec<Open>>>,
}

/// A span whose start is still ahead, walking backward.
struct Open {
    span: u64,
    start_ns: i64,
}

impl Lanes {
    /// Returns the lane (from 0) and the depth in it.
    pub(super) fn place(&mut self, span: &Span) -> (usize, usize) {
        let lanes = self.tracks.entry(span.track.number()).or_default();
        let (start_ns, end_ns) = (span.start.ns(), span.end().ns());
        let first = usize::from(matches!(span.kind, SpanKind::RpcCall | SpanKind::RpcQueue));
        let parent = span.parent.map(|parent| parent.number());
        for lane in first.. {
            if lanes.len() <= lane {
                lanes.resize_with(lane + 1, Vec::new);
            }
            let open = &mut lanes[lane];
            while open.last().is_some_and(|above| above.start_ns >= end_ns) {
                open.pop();
            }
            let fits = open.last().is_none_or(|above| Some(above.span) == parent && above.start_ns <= start_ns);
            if fits {
                open.push(Open { span: span.span.number(), start_ns });
                return (lane, open.len() - 1);
            }
        }
        unreachable!("an empty lane takes any span")
    }
}
