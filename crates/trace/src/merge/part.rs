//! A recording to be merged.

use crate::{Source, Time};

/// One recording to merge, and its name.
pub struct Part<'a> {
    /// Its name in messages (its path).
    pub name: String,
    /// The recording.
    pub source: &'a dyn Source,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a recording was placed on the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockFrom {
    /// It is the reference.
    Reference,
    /// The same boot of a machine that is on the axis. The offset comes from its time namespace.
    SameBoot,
    /// Bytes of shared connections.
    Connections {
        /// Number of connections.
        connections: usize,
        /// Bytes went one way only, so the error is an assumption.
        one_way: bool,
        /// Bounds dropped because they contradicted the others.
        contradictions: usize,
    },
    /// Wall clocks, since there is no shared connection.
    WallClock,
}

/// Returns the end of an unfinished recording: that of its last span.
pub(super) fn last_instant(source: &dyn Source) -> Time {
    let last = source.spans_backward().next().and_then(Result::ok).and_then(|batch| batch.end_ns.first().copied());
    last.map_or(source.meta().start, Time::from_monotonic_ns)
}
