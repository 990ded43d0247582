//! The interface for reading a recording, wherever it is stored.

use crate::{Clock, Counter, CounterName, Host, Mark, Meta, Object, ObjectId, RequestId, Sample, SourceError, Span, SpanId, SpanKind};
use crate::{Stack, Time, Track, TrackId, WakerContext};

/// Marks an absent value in a column of a [`SpanBatch`].
pub const ABSENT: u64 = u64::MAX;

/// Marks an absent value in the column `result` of a [`SpanBatch`].
pub const ABSENT_RESULT: i64 = i64::MIN;

/// Marks an absent value in the column `waker_context` of a [`SpanBatch`].
pub const ABSENT_CONTEXT: u8 = u8::MAX;

/// Spans, column by column, on the **reference host's** time axis. Absent identifiers are 0; absent numbers are
/// [`ABSENT`].
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
    /// [`ABSENT_RESULT`]: absent.
    pub result: Vec<i64>,
    pub parent: Vec<u64>,
    pub request: Vec<u64>,
    pub waker_track: Vec<u64>,
    /// Number of the [`crate::WakerContext`]; [`ABSENT_CONTEXT`]: absent.
    pub waker_context: Vec<u8>,
    pub cpu_ns: Vec<u64>,
    pub runqueue_ns: Vec<u64>,
    /// 0: absent.
    pub stack: Vec<u32>,
}

impl SpanBatch {
    /// Returns the number of spans.
    pub fn len(&self) -> usize {
        self.span.len()
    }
    /// Whether it holds no spans.
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// Adds a span with this start and end on the reference axis.
    pub fn push(&mut self, span: &Span, start_ns: i64, end_ns: i64) {
        self.span.push(span.span.number());
        self.track.push(span.track.number());
        self.kind.push(span.kind);
        self.start_ns.push(start_ns);
        self.end_ns.push(end_ns);
        self.count.push(span.count);
        self.object.push(span.object.map_or(0, ObjectId::number));
        self.offset_bytes.push(span.offset_bytes.unwrap_or(ABSENT));
        self.size_bytes.push(span.size_bytes.unwrap_or(ABSENT));
        self.result.push(span.result.unwrap_or(ABSENT_RESULT));
        self.parent.push(span.parent.map_or(0, SpanId::number));
        self.request.push(span.request.map_or(0, RequestId::number));
        self.waker_track.push(span.waker_track.map_or(0, TrackId::number));
        self.waker_context.push(span.waker_context.map_or(ABSENT_CONTEXT, |c| c as u8));
        self.cpu_ns.push(span.cpu_ns.unwrap_or(ABSENT));
        self.runqueue_ns.push(span.runqueue_ns.unwrap_or(ABSENT));
        self.stack.push(span.stack.unwrap_or(0));
    }

    /// Returns the signal that stopped the thread for the whole of a row's span, if one did: a `wait.other` with −(signal) as its result.
    pub fn stopped_by(&self, row: usize) -> Option<i64> {
        let result = self.result[row];
        (self.kind[row] == SpanKind::WaitOther && result < 0 && result != ABSENT_RESULT).then(|| -result)
    }

    /// Returns the span in row `row`, with times on the reference axis; `None` if its identifiers are 0.
    pub fn row(&self, row: usize) -> Option<Span> {
        let known = |number: u64| (number != ABSENT).then_some(number);
        let start = Time::from_monotonic_ns(self.start_ns[row]);
        Some(Span {
            span: SpanId::new(self.span[row])?,
            track: TrackId::new(self.track[row])?,
            kind: self.kind[row],
            start,
            duration_ns: Time::from_monotonic_ns(self.end_ns[row]).since(start),
            count: self.count[row],
            object: ObjectId::new(self.object[row]),
            offset_bytes: known(self.offset_bytes[row]),
            size_bytes: known(self.size_bytes[row]),
            result: (self.result[row] != ABSENT_RESULT).then_some(self.result[row]),
            parent: SpanId::new(self.parent[row]),
            request: RequestId::new(self.request[row]),
            waker_track: TrackId::new(self.waker_track[row]),
            waker_context: WakerContext::ALL.get(usize::from(self.waker_context[row])).copied(),
            cpu_ns: known(self.cpu_ns[row]),
            runqueue_ns: known(self.runqueue_ns[row]),
            stack: Some(self.stack[row]).filter(|stack| *stack != 0),
        })
    }
}

/// A recording for reading. The small tables are in memory; spans come in batches, backward in time, so that a
/// recording larger than memory can be walked. Times of spans, marks, counters and samples are on the reference
/// host's axis. Threads may share a recording.
pub trait Source: Sync {
    /// Returns the metadata.
    fn meta(&self) -> &Meta;
    /// Returns the hosts, by number.
    fn hosts(&self) -> &[Host];
    /// Returns the clock pieces.
    fn clocks(&self) -> &[Clock];
    /// Returns the tracks.
    fn tracks(&self) -> &[Track];
    /// Returns the objects.
    fn objects(&self) -> &[Object];
    /// Yields spans of all hosts in order of **descending end** on the reference axis (ties: descending span number),
    /// in batches of bounded size.
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a>;
    /// Returns the marks in order of time.
    fn marks(&self) -> Result<Vec<Mark>, SourceError>;
    /// Returns the values of one counter, in order of time.
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError>;
    /// Returns the values of all counters, those of each in order of time. Cheaper than [`Source::counters`] for every name.
    fn every_counter(&self) -> Result<Vec<Counter>, SourceError> {
        let values = CounterName::ALL.iter().map(|name| self.counters(*name));
        Ok(values.collect::<Result<Vec<_>, _>>()?.concat())
    }
    /// Returns the samples in order of time.
    fn samples(&self) -> Result<Vec<Sample>, SourceError>;
    /// Returns the stacks, by number.
    fn stacks(&self) -> Result<Vec<Stack>, SourceError>;
}
