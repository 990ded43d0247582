//! Output of a capture: rows of the trace, in batches.

use std::sync::Arc;
use thalweg_trace::{
    Counter, CounterName, CounterOf, Event, Host, HostId, IdSpace, Mark, MarkKind, Object, ObjectId, ObjectKind, RequestId, Role, Sink,
    Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind,
};

/// Events buffered before they are passed to the sink.
const BATCH: usize = 1024;

/// The sink, and the remaining identifiers.
pub(super) struct Out {
    sink: Arc<dyn Sink>,
    batch: Vec<Event>,
    host: HostId,
    space: u64,
    next: u64,
}

/// Converts an instant of the capture's clock, which in the trace is its host's.
fn time(ns: i64) -> Time {
    Time::from_monotonic_ns(ns)
}

/// A span's fields other than its times.
#[derive(Clone, Copy, Default)]
pub(super) struct About {
    pub object: Option<ObjectId>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: Option<u64>,
    pub result: Option<i64>,
    pub request: Option<RequestId>,
    pub count: u32,
}

impl Out {
    pub(super) fn new(sink: Arc<dyn Sink>, host: HostId, space: IdSpace) -> Out {
        Out { sink, batch: Vec::with_capacity(BATCH), host, space: u64::from(space.0) << 40, next: 1 }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.space | (self.next - 1)
    }

    fn push(&mut self, event: Event) {
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    /// Passes on the buffered events.
    pub(super) fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.sink.take(&mut self.batch);
        }
    }

    pub(super) fn host(&mut self, host: Host) {
        self.push(Event::Host(host));
    }

    pub(super) fn connection_track(&mut self, name: &str) -> TrackId {
        let track = TrackId::new(self.fresh()).expect("identifiers begin at 1");
        let row =
            Track { track, host: self.host, kind: TrackKind::Connection, role: Role::Client, pid: None, tid: None, name: name.to_owned() };
        self.push(Event::Track(row));
        track
    }

    pub(super) fn object(&mut self, kind: ObjectKind, name: String, attributes: &[(&str, String)]) -> ObjectId {
        let object = ObjectId::new(self.fresh()).expect("identifiers begin at 1");
        let attributes = attributes.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        self.push(Event::Object(Object { object, host: self.host, kind, name, attributes }));
        object
    }

    pub(super) fn request(&mut self) -> RequestId {
        RequestId::new(self.fresh()).expect("identifiers begin at 1")
    }

    pub(super) fn span(&mut self, track: TrackId, kind: SpanKind, from_ns: i64, to_ns: i64, about: About) {
        let span = SpanId::new(self.fresh()).expect("identifiers begin at 1");
        let start = time(from_ns);
        self.push(Event::Span(Span {
            count: about.count.max(1),
            object: about.object,
            offset_bytes: about.offset_bytes,
            size_bytes: about.size_bytes,
            result: about.result,
            request: about.request,
            ..Span::bare(span, track, kind, start, time(to_ns).since(start))
        }));
    }

    pub(super) fn mark(&mut self, track: TrackId, kind: MarkKind, at_ns: i64, object: ObjectId, value: Option<i64>) {
        self.push(Event::Mark(Mark { track, kind, at: time(at_ns), object: Some(object), value }));
    }

    pub(super) fn counter(&mut self, object: ObjectId, name: CounterName, at_ns: i64, value: i64) {
        self.push(Event::Counter(Counter { of: CounterOf::Object(object), name, at: time(at_ns), value }));
    }
}
