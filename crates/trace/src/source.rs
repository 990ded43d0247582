//! How everything else reads a recording, wherever it is kept.

use crate::{Clock, Counter, CounterName, Host, Mark, Meta, Object, Sample, SpanKind, Stack, Track};

/// Absent, in a column of a [`SpanBatch`].
pub const ABSENT: u64 = u64::MAX;

/// Spans, column by column, on the **reference host's** time axis. Absent identifiers are 0; absent
/// numbers are [`ABSENT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SpanBatch {
    pub span: Vec<u64>,
    pub track: Vec<u64>,
    pub kind: Vec<SpanKind>,
    pub start_ns: Vec<i64>,
    pub end_ns: Vec<i64>,
    pub count: Vec<u32>,
    pub object: Vec<u64>,
    pub offset_bytes: Vec<u64>,
    pub size_bytes: Vec<u64>,
    /// `i64::MIN`: absent.
    pub result: Vec<i64>,
    pub parent: Vec<u64>,
    pub request: Vec<u64>,
    pub waker_track: Vec<u64>,
    /// Number of the [`crate::WakerContext`]; 255: absent.
    pub waker_context: Vec<u8>,
    pub cpu_ns: Vec<u64>,
    pub runqueue_ns: Vec<u64>,
}

impl SpanBatch {
    /// How many spans it holds.
    pub fn len(&self) -> usize {
        self.span.len()
    }
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }
}

/// A recording, for reading. The small tables are in memory; spans come in batches, backward in time,
/// so that a recording larger than memory can be walked.
pub trait Source {
    /// What is said once.
    fn meta(&self) -> &Meta;
    /// Hosts, by number.
    fn hosts(&self) -> &[Host];
    /// Clock pieces.
    fn clocks(&self) -> &[Clock];
    /// Tracks.
    fn tracks(&self) -> &[Track];
    /// Objects.
    fn objects(&self) -> &[Object];
    /// Spans of all hosts in order of **descending end** on the reference axis (ties: descending
    /// span number), in batches of bounded size.
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, crate::SourceError>> + 'a>;
    /// Marks in order of time.
    fn marks(&self) -> Result<Vec<Mark>, crate::SourceError>;
    /// Values of one counter, in order of time.
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, crate::SourceError>;
    /// Samples in order of time.
    fn samples(&self) -> Result<Vec<Sample>, crate::SourceError>;
    /// Stacks, by number.
    fn stacks(&self) -> Result<Vec<Stack>, crate::SourceError>;
}

/// A recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct SourceError {
    /// The file or directory.
    pub path: std::path::PathBuf,
    /// What was found, what was expected, and what to do.
    pub problem: String,
}
