//! A recording that is merged.

use crate::{Source, Time};

/// One recording to merge, with what to call it.
pub struct Part<'a> {
    /// How messages name it (its path).
    pub name: String,
    /// Itself.
    pub source: &'a dyn Source,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a recording came onto the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockFrom {
    /// It is the reference.
    Reference,
    /// It was made in one boot of a machine that is on the axis. The offset is what its time namespace adds.
    SameBoot,
    /// By the bytes of connections.
    Connections {
        /// How many connections.
        connections: usize,
        /// Bytes went one way only, so the error is an assumption.
        one_way: bool,
        /// Bounds dropped because they contradicted the others.
        contradictions: usize,
    },
    /// By wall clocks: no common connection.
    WallClock,
}

/// Where a recording that was never finished ends: with its last span.
pub(super) fn last_instant(source: &dyn Source) -> Time {
    let last = source.spans_backward().next().and_then(Result::ok).and_then(|batch| batch.end_ns.first().copied());
    last.map_or(source.meta().start, Time::from_monotonic_ns)
}
