//! Self-tracing for a thread: makes spans with the CPU time and run-queue time of each, at the cost of two clock
//! reads, and passes them on in batches.
//!
//! The thread's CPU time comes from its `CLOCK_THREAD_CPUTIME_ID`, a system call: it is read if 20 µs or more have
//! passed since the last reading; a thread is assumed to have run through shorter intervals. Its run-queue time comes
//! from `/proc/thread-self/schedstat`, which costs a microsecond; it is read only at the end of a span in which the
//! thread was off the CPU for more than [`OFF_CPU_WORTH_ASKING_NS`]: otherwise there is nothing to divide.
//!
//! The interval between two spans is taken as running, and is normally a microsecond; but a thread can be preempted
//! there too. So an interval between spans longer than [`UNCOVERED_NS`] becomes a span of its own (`app.other`),
//! divided like any other.

use crate::{
    Event, Mark, MarkKind, ObjectId, RequestId, Role, Sink, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind, WakerContext,
};
use crate::{HostId, IdSpace};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Off-CPU time in a span below which the run-queue time is not read.
pub(crate) const OFF_CPU_WORTH_ASKING_NS: u64 = 20_000;

/// Interval between a thread's spans above which it becomes a span.
pub(crate) const UNCOVERED_NS: u64 = 20_000;

/// Events buffered before they are passed to the sink.
const BATCH: usize = 256;

/// One recording's writer on one host: the events' destination, and the identifiers available to it.
#[derive(Clone)]
pub struct TraceHandle {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    sink: Arc<dyn Sink>,
    host: HostId,
    role: Role,
    space: IdSpace,
    next: AtomicU64,
}

impl std::fmt::Debug for TraceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_on() { "TraceHandle::on" } else { "TraceHandle::off" })
    }
}

impl TraceHandle {
    /// Creates a handle that records nothing.
    pub const fn off() -> TraceHandle {
        TraceHandle { inner: None }
    }

    /// Creates a handle that sends events to `sink`, from tracks on `host`, with identifiers of `space`.
    pub fn on(sink: Arc<dyn Sink>, host: HostId, role: Role, space: IdSpace) -> TraceHandle {
        TraceHandle { inner: Some(Arc::new(Inner { sink, host, role, space, next: AtomicU64::new(1) })) }
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.inner.is_some()
    }

    /// Returns a new identifier of this writer; 0 when off.
    pub fn fresh(&self) -> u64 {
        self.fresh_block(1)
    }

    fn fresh_block(&self, many: u64) -> u64 {
        self.inner.as_ref().map_or(0, |i| (u64::from(i.space.0) << 40) | i.next.fetch_add(many, Ordering::Relaxed))
    }

    /// Passes on one event immediately (hosts, clocks, counters, marks).
    pub fn event(&self, event: Event) {
        if let Some(inner) = &self.inner {
            inner.sink.take(&mut vec![event]);
        }
    }

    /// Passes on a batch; `batch` is empty afterwards.
    pub fn events(&self, batch: &mut Vec<Event>) {
        match &self.inner {
            Some(inner) if !batch.is_empty() => inner.sink.take(batch),
            _ => batch.clear(),
        }
    }

    /// Adds a named object; `None` when off.
    pub fn object(&self, kind: crate::ObjectKind, name: &str, attributes: &[(&str, String)]) -> Option<ObjectId> {
        let inner = self.inner.as_ref()?;
        let object = ObjectId::new(self.fresh())?;
        let attributes = attributes.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        self.event(Event::Object(crate::Object { object, host: inner.host, kind, name: name.to_owned(), attributes }));
        Some(object)
    }

    /// Adds a named device: its track, and the object of the same name; `None` when off.
    pub fn device(&self, role: Role, name: &str, attributes: &[(&str, String)]) -> Option<(TrackId, ObjectId)> {
        let host = self.inner.as_ref()?.host;
        let track = TrackId::new(self.fresh())?;
        self.event(Event::Track(Track { track, host, kind: TrackKind::Device, role, pid: None, tid: None, name: name.to_owned() }));
        Some((track, self.object(crate::ObjectKind::Device, name, attributes)?))
    }

    /// Creates a tracer for the calling thread. The tracer must stay on that thread.
    pub fn thread(&self, name: &str) -> Tracer {
        let Some(inner) = &self.inner else { return Tracer { on: None } };
        let track = TrackId::new(self.fresh()).expect("fresh identifiers start at 1");
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        self.event(Event::Track(Track {
            track,
            host: inner.host,
            kind: TrackKind::Thread,
            role: inner.role,
            pid: Some(std::process::id()),
            tid: Some(tid),
            name: name.to_owned(),
        }));
        Tracer { on: Some(Box::new(On::new(self.clone(), track))) }
    }

    /// Creates a tracer for a thread that another one has made ([`Tracer::maker`]): no earlier time is charged to it.
    pub fn thread_made_by(&self, name: &str, maker: Option<Maker>) -> Tracer {
        let tracer = self.thread(name);
        if let (Some(track), Some(Maker { track: by, at })) = (tracer.track(), maker) {
            let value = i64::try_from(by.number()).ok();
            self.event(Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at, object: None, value }));
        }
        tracer
    }
}

/// The thread that makes another one, and when.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    track: TrackId,
    at: Time,
}

/// Makes the spans of one thread. Not `Sync`, and valid only on the thread that created it.
pub struct Tracer {
    on: Option<Box<On>>,
}

struct On {
    handle: TraceHandle,
    track: TrackId,
    batch: Vec<Event>,
    next_span: u64,
    last_span: u64,
    schedstat: Option<OwnedFd>,
    runqueue_seen_ns: u64,
    /// When this thread's last span began or ended, and its CPU time then.
    covered_until: Time,
    covered_cpu_ns: u64,
}

/// A span that has begun. Dropping it unfinished records nothing.
#[derive(Debug)]
#[must_use = "a span is recorded when it is ended"]
pub struct OpenSpan {
    id: Option<SpanId>,
    start: Time,
    cpu_start_ns: u64,
    runqueue_start_ns: u64,
}

impl OpenSpan {
    /// Returns the span's number, for its children's `parent`; `None` when recording is off.
    pub fn id(&self) -> Option<SpanId> {
        self.id
    }
    /// Returns the start of the span.
    pub fn start(&self) -> Time {
        self.start
    }
}

/// The facts of a span known at its end, besides its times.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct SpanFields {
    pub count: Option<u32>,
    pub object: Option<ObjectId>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: Option<u64>,
    pub result: Option<i64>,
    pub parent: Option<SpanId>,
    pub request: Option<RequestId>,
    pub waker_track: Option<TrackId>,
}

impl On {
    fn new(handle: TraceHandle, track: TrackId) -> On {
        use rustix::fs::{Mode as Permissions, OFlags, open};
        let schedstat = open("/proc/thread-self/schedstat", OFlags::RDONLY | OFlags::CLOEXEC, Permissions::empty()).ok();
        let mut on = On {
            handle,
            track,
            batch: Vec::with_capacity(BATCH),
            next_span: 0,
            last_span: 0,
            schedstat,
            runqueue_seen_ns: 0,
            covered_until: Time::now(),
            covered_cpu_ns: thread_cpu_ns(),
        };
        on.runqueue_seen_ns = on.runqueue_total_ns().unwrap_or(0);
        on
    }

    fn fresh_span(&mut self) -> SpanId {
        if self.next_span == self.last_span {
            self.next_span = self.handle.fresh_block(1024);
            self.last_span = self.next_span + 1024;
        }
        self.next_span += 1;
        SpanId::new(self.next_span - 1).expect("fresh identifiers start at 1")
    }

    fn runqueue_total_ns(&self) -> Option<u64> {
        let mut text = [0_u8; 96];
        let n = rustix::io::pread(self.schedstat.as_ref()?, &mut text, 0).ok()?;
        std::str::from_utf8(&text[..n]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// Updates the run-queue time if the thread was off the CPU long enough for it to matter.
    fn ask_runqueue(&mut self, off_cpu_ns: u64) {
        if off_cpu_ns > OFF_CPU_WORTH_ASKING_NS
            && let Some(total) = self.runqueue_total_ns()
        {
            self.runqueue_seen_ns = total;
        }
    }

    /// Returns the run-queue time since it was `start_ns`, as last read; `None` if the kernel does not provide it.
    fn runqueue_since(&self, start_ns: u64, off_cpu_ns: u64) -> Option<u64> {
        self.schedstat.as_ref().map(|_| self.runqueue_seen_ns.saturating_sub(start_ns).min(off_cpu_ns))
    }

    /// Returns the thread's CPU time now. The thread is assumed to have run since the last reading unless that is
    /// long ago: a reading costs a system call, too much for most spans.
    fn cpu_at(&self, now: Time) -> u64 {
        let since_ns = now.since(self.covered_until);
        if since_ns > UNCOVERED_NS { thread_cpu_ns() } else { self.covered_cpu_ns + since_ns }
    }

    /// Makes a span of the time since the last span began or ended, if it is long.
    fn cover(&mut self, now: Time, cpu_now_ns: u64) {
        let duration_ns = now.since(self.covered_until);
        if duration_ns > UNCOVERED_NS {
            let cpu_ns = cpu_now_ns.saturating_sub(self.covered_cpu_ns).min(duration_ns);
            let runqueue_start_ns = self.runqueue_seen_ns;
            self.ask_runqueue(duration_ns - cpu_ns);
            let runqueue_ns = self.runqueue_since(runqueue_start_ns, duration_ns - cpu_ns);
            let span = self.fresh_span();
            self.push(span, SpanKind::AppOther, self.covered_until, duration_ns, SpanFields::default(), Some(cpu_ns), runqueue_ns);
        }
        (self.covered_until, self.covered_cpu_ns) = (now, cpu_now_ns);
    }
}

/// Reads the calling thread's accumulated CPU time.
fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Tracer {
    /// Creates a tracer that records nothing.
    pub const fn off() -> Tracer {
        Tracer { on: None }
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Returns the thread's track.
    pub fn track(&self) -> Option<TrackId> {
        self.on.as_ref().map(|on| on.track)
    }

    /// Returns the data that a thread about to be made needs; `None` when off.
    pub fn maker(&self) -> Option<Maker> {
        self.track().map(|track| Maker { track, at: Time::now() })
    }

    /// Begins a span now.
    pub fn begin(&mut self) -> OpenSpan {
        let Some(on) = &mut self.on else {
            return OpenSpan { id: None, start: Time::from_monotonic_ns(0), cpu_start_ns: 0, runqueue_start_ns: 0 };
        };
        let start = Time::now();
        let cpu_start_ns = on.cpu_at(start);
        on.cover(start, cpu_start_ns);
        OpenSpan { id: Some(on.fresh_span()), start, cpu_start_ns, runqueue_start_ns: on.runqueue_seen_ns }
    }

    /// Ends a span on this thread now, with its CPU and run-queue time.
    pub fn end(&mut self, open: OpenSpan, kind: SpanKind, fields: SpanFields) {
        let (Some(on), Some(span)) = (&mut self.on, open.id) else { return };
        let now = Time::now();
        let cpu_now_ns = on.cpu_at(now);
        let duration_ns = now.since(open.start);
        let cpu_ns = cpu_now_ns.saturating_sub(open.cpu_start_ns).min(duration_ns);
        let has_parts = on.covered_until > open.start;
        if has_parts {
            on.cover(now, cpu_now_ns);
        } else {
            on.ask_runqueue(duration_ns - cpu_ns);
            (on.covered_until, on.covered_cpu_ns) = (now, cpu_now_ns);
        }
        let runqueue_ns = on.runqueue_since(open.runqueue_start_ns, duration_ns - cpu_ns);
        on.push(span, kind, open.start, duration_ns, fields, Some(cpu_ns), runqueue_ns);
        self.flush_if_full();
    }

    /// Records a span that this thread only observed (an RPC from post to completion): without CPU time.
    pub fn observed(&mut self, open: OpenSpan, kind: SpanKind, fields: SpanFields) {
        let (Some(on), Some(span)) = (&mut self.on, open.id) else { return };
        let duration_ns = Time::now().since(open.start);
        on.push(span, kind, open.start, duration_ns, fields, None, None);
        self.flush_if_full();
    }

    /// Records a counter's value now, on this thread's track.
    pub fn counter(&mut self, name: crate::CounterName, value: i64) {
        if let Some(on) = &mut self.on {
            on.batch.push(Event::Counter(crate::Counter { of: crate::CounterOf::Track(on.track), name, at: Time::now(), value }));
            self.flush_if_full();
        }
    }

    /// Passes on the buffered events. Also done on drop.
    pub fn flush(&mut self) {
        if let Some(on) = &mut self.on
            && let Some(inner) = &on.handle.inner
            && !on.batch.is_empty()
        {
            inner.sink.take(&mut on.batch);
        }
    }

    fn flush_if_full(&mut self) {
        if self.on.as_ref().is_some_and(|on| on.batch.len() >= BATCH) {
            self.flush();
        }
    }
}

impl On {
    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        span: SpanId,
        kind: SpanKind,
        start: Time,
        duration_ns: u64,
        fields: SpanFields,
        cpu_ns: Option<u64>,
        runqueue_ns: Option<u64>,
    ) {
        self.batch.push(Event::Span(Span {
            span,
            track: self.track,
            kind,
            start,
            duration_ns,
            count: fields.count.unwrap_or(1),
            object: fields.object,
            offset_bytes: fields.offset_bytes,
            size_bytes: fields.size_bytes,
            result: fields.result,
            parent: fields.parent,
            request: fields.request,
            waker_track: fields.waker_track,
            waker_context: fields.waker_track.map(|_| WakerContext::Task),
            cpu_ns,
            runqueue_ns,
            stack: None,
        }));
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    fn spin(cpu_ns: u64) {
        let start = thread_cpu_ns();
        while thread_cpu_ns() < start + cpu_ns {}
    }

    /// Returns the spans that `work` records on a thread of its own.
    fn spans_of(work: impl FnOnce(&mut Tracer) + Send) -> Vec<Span> {
        let sink = Arc::new(Memory::new(1000));
        let handle = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        std::thread::scope(|scope| {
            scope.spawn(|| work(&mut handle.thread("test")));
        });
        let events = sink.drain().0;
        events.into_iter().filter_map(|e| if let Event::Span(s) = e { Some(s) } else { None }).collect()
    }

    #[test]
    fn a_thread_begins_when_its_maker_made_it() {
        let sink = Arc::new(Memory::new(1000));
        let handle = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
        let main = handle.thread("main");
        let (before, maker, after) = (Time::now(), main.maker(), Time::now());
        let made = std::thread::scope(|scope| scope.spawn(|| handle.thread_made_by("made", maker).track()).join()).unwrap();
        assert!(TraceHandle::off().thread_made_by("made", TraceHandle::off().thread("main").maker()).track().is_none());
        let events = sink.drain().0;
        let marks: Vec<Mark> = events.into_iter().filter_map(|e| if let Event::Mark(mark) = e { Some(mark) } else { None }).collect();
        let [mark] = &marks[..] else { panic!("{marks:?}") };
        assert_eq!((mark.kind, Some(mark.track), mark.value), (MarkKind::ThreadStart, made, main.track().map(|t| t.number() as i64)));
        assert!(before <= mark.at && mark.at <= after);
    }

    #[test]
    fn what_lies_between_spans_is_covered_when_it_is_long() {
        let spans = spans_of(|tracer| {
            let whole = tracer.begin();
            spin(200_000);
            let part = tracer.begin();
            tracer.end(part, SpanKind::FileRead, SpanFields::default());
            spin(200_000);
            tracer.end(whole, SpanKind::AppRequest, SpanFields::default());
        });
        let kinds: Vec<_> = spans.iter().map(|s| s.kind).collect();
        let found = |kind| kinds.iter().filter(|k| **k == kind).count();
        assert_eq!((found(SpanKind::AppRequest), found(SpanKind::FileRead)), (1, 1), "{kinds:?}");
        assert!(found(SpanKind::AppOther) >= 2, "before and after the part: {kinds:?}");
        let whole = spans.iter().find(|s| s.kind == SpanKind::AppRequest).unwrap();
        let inside: u64 = spans.iter().filter(|s| s.span != whole.span && s.start >= whole.start).map(|s| s.duration_ns).sum();
        assert!(whole.duration_ns - inside <= 2 * UNCOVERED_NS + whole.duration_ns / 10, "{inside} of {}", whole.duration_ns);
        for span in &spans {
            let divided = span.cpu_ns.unwrap() + span.runqueue_ns.unwrap_or(0);
            assert!(divided <= span.duration_ns, "{span:?}");
        }
    }

    #[test]
    fn short_intervals_between_spans_make_no_span() {
        let spans = spans_of(|tracer| {
            for _ in 0..5 {
                let span = tracer.begin();
                tracer.end(span, SpanKind::FileRead, SpanFields::default());
            }
        });
        // A thread can be preempted anywhere; a span for each interval would be a bug.
        assert!(spans.len() < 10, "{}", spans.len());
    }
}
