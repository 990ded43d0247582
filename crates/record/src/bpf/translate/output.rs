//! The translator's output: events of one host, with identifiers of one space.

use crate::kernel::clock::time;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, HostId, IdSpace, Mark, MarkKind, Object, ObjectId, ObjectKind};
use thalweg_trace::{Role, Sample, Span, SpanId, SpanKind, Track, TrackId, TrackKind, WakerContext};

/// Events not yet passed on.
#[derive(Debug)]
pub(crate) struct Output {
    host: HostId,
    space: IdSpace,
    next: u64,
    /// In order of creation.
    pub events: Vec<Event>,
}

/// A span under construction, with defaults.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct NewSpan {
    pub track: TrackId,
    pub kind: SpanKind,
    pub start_ns: u64,
    pub end_ns: u64,
    pub count: u32,
    pub object: Option<ObjectId>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: Option<u64>,
    pub result: Option<i64>,
    pub parent: Option<SpanId>,
    pub waker_track: Option<TrackId>,
    pub waker_context: Option<WakerContext>,
    pub cpu_ns: Option<u64>,
    pub runqueue_ns: Option<u64>,
}

impl NewSpan {
    /// Creates a span with only its track, kind and interval.
    pub(crate) fn new(track: TrackId, kind: SpanKind, start_ns: u64, end_ns: u64) -> NewSpan {
        NewSpan {
            track,
            kind,
            start_ns,
            end_ns,
            count: 1,
            object: None,
            offset_bytes: None,
            size_bytes: None,
            result: None,
            parent: None,
            waker_track: None,
            waker_context: None,
            cpu_ns: None,
            runqueue_ns: None,
        }
    }
}

impl Output {
    /// Creates an empty output.
    pub(crate) fn new(host: HostId, space: IdSpace) -> Output {
        Output { host, space, next: 1, events: Vec::new() }
    }

    fn id(&mut self) -> u64 {
        let id = u64::from(self.space.0) << 40 | self.next;
        self.next += 1;
        id
    }

    /// Reserves an identifier for a track that may be recorded later.
    pub(crate) fn track_id(&mut self) -> TrackId {
        loop {
            if let Some(id) = TrackId::new(self.id()) {
                return id;
            }
        }
    }

    /// Reserves an identifier for an object that may be recorded later.
    pub(crate) fn object_id(&mut self) -> ObjectId {
        loop {
            if let Some(id) = ObjectId::new(self.id()) {
                return id;
            }
        }
    }

    /// Reserves an identifier for a span that is recorded later.
    pub(crate) fn span_id(&mut self) -> SpanId {
        loop {
            if let Some(id) = SpanId::new(self.id()) {
                return id;
            }
        }
    }

    /// Records a track.
    pub(crate) fn track(&mut self, track: TrackId, kind: TrackKind, role: Role, process: Option<(u32, u32)>, name: &str) {
        let (pid, tid) = (process.map(|p| p.0), process.map(|p| p.1));
        self.events.push(Event::Track(Track { track, host: self.host, kind, role, pid, tid, name: name.to_owned() }));
    }

    /// Records an object.
    pub(crate) fn object(&mut self, object: ObjectId, kind: ObjectKind, name: &str, attributes: &[(&str, &str)]) {
        let attributes = attributes.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        self.events.push(Event::Object(Object { object, host: self.host, kind, name: name.to_owned(), attributes }));
    }

    /// Records a span; one that would end before it starts is given zero length.
    pub(crate) fn span(&mut self, new: NewSpan) -> SpanId {
        let id = self.span_id();
        self.span_with(id, new);
        id
    }

    /// Records a span under a reserved identifier.
    pub(crate) fn span_with(&mut self, span: SpanId, new: NewSpan) {
        self.events.push(Event::Span(Span {
            span,
            track: new.track,
            kind: new.kind,
            start: time(new.start_ns),
            duration_ns: new.end_ns.saturating_sub(new.start_ns),
            count: new.count.max(1),
            object: new.object,
            offset_bytes: new.offset_bytes,
            size_bytes: new.size_bytes,
            result: new.result,
            parent: new.parent,
            request: None,
            waker_track: new.waker_track,
            waker_context: new.waker_context,
            cpu_ns: new.cpu_ns,
            runqueue_ns: new.runqueue_ns,
            stack: None,
        }));
    }

    /// Records an instant.
    pub(crate) fn mark(&mut self, track: TrackId, kind: MarkKind, at_ns: u64, object: Option<ObjectId>, value: Option<i64>) {
        self.events.push(Event::Mark(Mark { track, kind, at: time(at_ns), object, value }));
    }

    /// Records a counter's value.
    pub(crate) fn counter(&mut self, of: CounterOf, name: CounterName, at_ns: u64, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.events.push(Event::Counter(Counter { of, name, at: time(at_ns), value }));
    }

    /// Records a sample; `stack` is the function in which it found the thread.
    pub(crate) fn sample(&mut self, at_ns: u64, cpu: u16, track: TrackId, (class, stack): (u16, Option<u32>), weight_ns: u64) {
        let (host, cpu) = (self.host, u32::from(cpu));
        self.events.push(Event::Sample(Sample { at: time(at_ns), host, cpu, track: Some(track), class, stack, weight_ns }));
    }
}
