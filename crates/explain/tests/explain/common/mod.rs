//! A small language for recordings made by hand. Times are in microseconds.
#![allow(dead_code)]

use thalweg_explain::{Explanation, Options, explain};
use thalweg_trace::*;

/// A recording being written.
pub struct Tale {
    next: u64,
    events: Vec<Event>,
    pub meta: Meta,
}

/// A span being written; recorded by [`Tale::end`] or on the next call.
pub struct Line<'a> {
    tale: &'a mut Tale,
    span: Span,
}

pub const US: u64 = 1000;

impl Tale {
    /// From 0 to `end_us`, on one machine of `cpus` with two hosts on one clock.
    pub fn new(end_us: u64, cpus: u32) -> Tale {
        let host = |n: u16, name: &str| {
            Event::Host(Host {
                host: HostId(n),
                name: name.into(),
                node: name.into(),
                clock: "monotonic:x".into(),
                kernel: "k".into(),
                cpus,
            })
        };
        let meta = Meta {
            format: FORMAT_VERSION,
            command: vec!["copy".into()],
            recorder: "hand".into(),
            start: Time::from_monotonic_ns(0),
            end: Some(Time::from_monotonic_ns((end_us * US) as i64)),
            exit_code: Some(0),
            dropped_events: 0,
            attributes: Vec::new(),
        };
        Tale { next: 0, events: vec![host(0, "here"), host(1, "there")], meta }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn track(&mut self, role: Role, name: &str) -> TrackId {
        let track = TrackId::new(self.fresh()).unwrap();
        let (host, pid) = if role == Role::Server { (HostId(1), 200) } else { (HostId(0), 100) };
        let row = Track { track, host, kind: TrackKind::Thread, role, pid: Some(pid), tid: Some(1000), name: name.into() };
        self.events.push(Event::Track(row));
        track
    }

    /// A thread of a process, on the machine of its end.
    pub fn thread(&mut self, role: Role, name: &str, pid: u32, tid: u32) -> TrackId {
        let track = TrackId::new(self.fresh()).unwrap();
        let host = if role == Role::Server { HostId(1) } else { HostId(0) };
        let row = Track { track, host, kind: TrackKind::Thread, role, pid: Some(pid), tid: Some(tid), name: name.into() };
        self.events.push(Event::Track(row));
        track
    }

    /// A device: its track.
    pub fn device(&mut self, name: &str) -> TrackId {
        let track = TrackId::new(self.fresh()).unwrap();
        let row = Track { track, host: HostId(0), kind: TrackKind::Device, role: Role::Kernel, pid: None, tid: None, name: name.into() };
        self.events.push(Event::Track(row));
        self.object(ObjectKind::Device, name, &[]);
        track
    }

    /// Both ends of a connection, distinguished.
    pub fn two_ends(&mut self, name: &str) -> (ObjectId, ObjectId) {
        let client = self.object(ObjectKind::Connection, name, &[("end", "client")]);
        (client, self.object(ObjectKind::Connection, name, &[("end", "server")]))
    }

    fn mark(&mut self, track: TrackId, kind: MarkKind, at_us: u64, value: Option<i64>) {
        let at = Time::from_monotonic_ns((at_us * US) as i64);
        self.events.push(Event::Mark(Mark { track, kind, at, object: None, value }));
    }

    /// Notes that a thread is made by another.
    pub fn made(&mut self, track: TrackId, at_us: u64, by: TrackId) {
        self.mark(track, MarkKind::ThreadStart, at_us, Some(by.number() as i64));
    }

    /// Notes that a thread is recorded from here on.
    pub fn seen(&mut self, track: TrackId, at_us: u64) {
        self.mark(track, MarkKind::ThreadSeen, at_us, None);
    }

    /// Notes the end of a thread.
    pub fn ended(&mut self, track: TrackId, at_us: u64) {
        self.mark(track, MarkKind::ThreadExit, at_us, None);
    }

    /// A value of one of TCP's counters.
    pub fn counter(&mut self, of: ObjectId, name: CounterName, at_us: u64, value: i64) {
        let at = Time::from_monotonic_ns((at_us * US) as i64);
        self.events.push(Event::Counter(Counter { of: CounterOf::Object(of), name, at, value }));
    }

    /// A wait as a kernel records it: entirely off the processor.
    pub fn wait(&mut self, track: TrackId, kind: SpanKind, from_us: u64, to_us: u64) -> Line<'_> {
        self.span(track, kind, from_us, to_us).blocked()
    }

    pub fn client(&mut self, name: &str) -> TrackId {
        self.track(Role::Client, name)
    }

    pub fn server(&mut self, name: &str) -> TrackId {
        self.track(Role::Server, name)
    }

    pub fn object(&mut self, kind: ObjectKind, name: &str, attributes: &[(&str, &str)]) -> ObjectId {
        let object = ObjectId::new(self.fresh()).unwrap();
        let attributes = attributes.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        self.events.push(Event::Object(Object { object, host: HostId(0), kind, name: name.into(), attributes }));
        object
    }

    /// Both rows of a connection: the client's and the server's.
    pub fn connection(&mut self, name: &str) -> (ObjectId, ObjectId) {
        (self.object(ObjectKind::Connection, name, &[]), self.object(ObjectKind::Connection, name, &[]))
    }

    pub fn file(&mut self, name: &str) -> ObjectId {
        self.object(ObjectKind::File, name, &[])
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// A span that ran all of its time, unless changed.
    pub fn span(&mut self, track: TrackId, kind: SpanKind, from_us: u64, to_us: u64) -> Line<'_> {
        let span = SpanId::new(self.fresh()).unwrap();
        let duration_ns = (to_us - from_us) * US;
        let span = Span {
            cpu_ns: Some(duration_ns),
            runqueue_ns: Some(0),
            ..Span::bare(span, track, kind, Time::from_monotonic_ns((from_us * US) as i64), duration_ns)
        };
        Line { tale: self, span }
    }

    pub fn source(&self) -> MemorySource {
        MemorySource::from_events(self.meta.clone(), self.events.clone())
    }

    pub fn explain(&self) -> Explanation {
        let explanation = explain(&self.source(), &Options::default()).expect("explains");
        check(&explanation);
        explanation
    }
}

impl Line<'_> {
    pub fn ran(mut self, us: u64) -> Self {
        self.span.cpu_ns = Some(us * US);
        self
    }
    /// Makes it blocked all of its time.
    pub fn blocked(self) -> Self {
        self.ran(0)
    }
    pub fn runnable(mut self, us: u64) -> Self {
        self.span.runqueue_ns = Some(us * US);
        self
    }
    /// Makes it observed: nothing is known of its thread.
    pub fn observed(mut self) -> Self {
        (self.span.cpu_ns, self.span.runqueue_ns) = (None, None);
        self
    }
    pub fn on(mut self, object: ObjectId) -> Self {
        self.span.object = Some(object);
        self
    }
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.span.size_bytes = Some(bytes);
        self
    }
    pub fn offset(mut self, bytes: u64) -> Self {
        self.span.offset_bytes = Some(bytes);
        self
    }
    pub fn woken_in(mut self, context: WakerContext) -> Self {
        self.span.waker_context = Some(context);
        self
    }
    pub fn request(mut self, number: u64) -> Self {
        self.span.request = RequestId::new(number);
        self
    }
    pub fn woken_by(mut self, track: TrackId) -> Self {
        self.span.waker_track = Some(track);
        self.span.waker_context = Some(WakerContext::Task);
        self
    }
    fn ended(mut self, by: Option<TrackId>, context: WakerContext) -> Self {
        (self.span.waker_track, self.span.waker_context) = (by, Some(context));
        self
    }
    pub fn by_device(self, device: TrackId) -> Self {
        self.ended(Some(device), WakerContext::Hardirq)
    }
    pub fn by_packet(self) -> Self {
        self.ended(None, WakerContext::Softirq)
    }
    pub fn by_timer(self) -> Self {
        self.ended(None, WakerContext::Timer)
    }
    /// Sets, for a run queue, the holder of the processor.
    pub fn held_by(mut self, track: TrackId) -> Self {
        self.span.waker_track = Some(track);
        self
    }
    pub fn result(mut self, result: i64) -> Self {
        self.span.result = Some(result);
        self
    }
    pub fn within(mut self, parent: SpanId) -> Self {
        self.span.parent = Some(parent);
        self
    }
    pub fn id(&self) -> SpanId {
        self.span.span
    }
    pub fn count(mut self, count: u32) -> Self {
        self.span.count = count;
        self
    }
    pub fn end(self) {
        self.tale.events.push(Event::Span(self.span));
    }
}

/// Checks invariants of every explanation.
pub fn check(e: &Explanation) {
    let shares: f64 = e.critical_path.iter().map(|c| c.share).sum();
    assert!((shares - 1.0).abs() <= 0.001, "shares sum to {shares}");
    let seconds: f64 = e.critical_path.iter().map(|c| c.seconds).sum();
    assert!((seconds - e.wall_s).abs() <= 1e-6 * e.wall_s.max(1e-3), "seconds sum to {seconds} of {}", e.wall_s);
    assert!(e.path.first().is_some_and(|s| s.start_s.abs() < 1e-9));
    assert!(e.path.last().is_some_and(|s| (s.end_s - e.wall_s).abs() < 1e-9));
    assert!(e.path.windows(2).all(|w| (w[0].end_s - w[1].start_s).abs() < 1e-9), "segments touch");
    for segment in &e.path {
        assert_eq!(e.critical_path[segment.charge].cause, segment.cause);
    }
    assert!(e.critical_path.iter().all(|c| c.slack_s <= c.seconds + 1e-9 && c.slack_s >= 0.0));
}

/// Milliseconds charged to a cause.
pub fn charged_ms(e: &Explanation, cause: &str) -> f64 {
    1e3 * e.critical_path.iter().filter(|c| c.cause.name() == cause).map(|c| c.seconds).sum::<f64>()
}

/// Asserts that this many milliseconds were charged to a cause.
#[track_caller]
pub fn assert_charged(e: &Explanation, cause: &str, ms: f64) {
    let is = charged_ms(e, cause);
    assert!((is - ms).abs() < 0.0005, "{cause}: {is} ms, expected {ms} ms; all: {:#?}", e.critical_path);
}

/// The place of a cause's largest charge.
#[allow(dead_code)]
pub fn place_of<'a>(e: &'a Explanation, cause: &str) -> &'a str {
    &e.critical_path.iter().find(|c| c.cause.name() == cause).unwrap_or_else(|| panic!("no {cause} in {:#?}", e.critical_path)).place
}
