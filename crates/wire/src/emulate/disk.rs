//! An emulated disk.

use super::pacer::{Pacer, sleep_until};
use std::ops::Range;
use thalweg_base::sync::Mutex;
use thalweg_trace::{Event, ObjectId, Role, Span, SpanId, SpanKind, Time, TraceHandle, TrackId, WakerContext};

/// Recordings in which a disk keeps a track. The oldest is dropped first; if it is still running, the disk gets another track.
const RECORDINGS: usize = 16;

/// A disk with a given rate. Requests run one after another, in the order in which they arrive.
pub struct Disk {
    name: String,
    text: String,
    seek_ns: u64,
    state: Mutex<State>,
}

struct State {
    pacer: Pacer,
    /// File and byte at which the last request ended.
    at: Option<(u64, u64)>,
    /// The disk's track and object in each recording.
    recorded: Vec<(u32, TrackId, ObjectId)>,
}

/// One read or write.
#[derive(Clone, Copy, Debug)]
pub struct DiskRequest {
    /// `disk.read` or `disk.write`.
    pub kind: SpanKind,
    /// Any number unique to the file.
    pub file: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// When the request was issued.
    pub asked: Time,
}

/// Where to record: the recording's handle, its number in this process, and the track that issued the request.
pub(crate) type Recorded<'a> = (&'a TraceHandle, u32, Option<TrackId>);

impl Disk {
    /// Returns an idle disk, `name`d for recordings; `text` describes it.
    pub fn new(name: impl Into<String>, text: impl Into<String>, bytes_per_s: u64, seek_ns: u64) -> Disk {
        let state = State { pacer: Pacer::new(Some(bytes_per_s)), at: None, recorded: Vec::new() };
        Disk { name: name.into(), text: text.into(), seek_ns, state: Mutex::new(state) }
    }

    /// Returns the disk's name in recordings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Queues a request without sleeping; returns when the disk starts and finishes it, ns.
    fn queue(&self, work: &DiskRequest) -> Range<u64> {
        let mut state = self.state.lock();
        let continues = state.at == Some((work.file, work.offset));
        state.at = Some((work.file, work.offset.saturating_add(work.bytes)));
        let seek_ns = if continues { 0 } else { self.seek_ns };
        state.pacer.take(work.asked.ns().max(0) as u64, seek_ns, work.bytes)
    }

    /// Runs the request: sleeps until the disk has finished it.
    pub fn work(&self, work: &DiskRequest, recorded: Option<Recorded<'_>>) {
        if work.bytes == 0 {
            return;
        }
        let busy = self.queue(work);
        sleep_until(busy.end);
        if let Some(recorded) = recorded {
            self.record(work, &busy, recorded);
        }
    }

    fn record(&self, work: &DiskRequest, busy: &Range<u64>, (trace, number, by): Recorded<'_>) {
        let Some((track, object)) = self.in_recording(trace, number) else { return };
        let Some(span) = SpanId::new(trace.fresh()) else { return };
        trace.event(Event::Span(Span {
            span,
            track,
            kind: work.kind,
            start: Time::from_monotonic_ns(busy.start as i64),
            duration_ns: busy.end - busy.start,
            count: 1,
            object: Some(object),
            offset_bytes: Some(work.offset),
            size_bytes: Some(work.bytes),
            result: None,
            parent: None,
            request: None,
            waker_track: by,
            waker_context: by.map(|_| WakerContext::Task),
            cpu_ns: None,
            runqueue_ns: None,
            stack: None,
        }));
    }

    /// Returns the disk's track and object in a recording, made at its first request there.
    fn in_recording(&self, trace: &TraceHandle, number: u32) -> Option<(TrackId, ObjectId)> {
        let mut state = self.state.lock();
        if let Some((_, track, object)) = state.recorded.iter().find(|(of, ..)| *of == number) {
            return Some((*track, *object));
        }
        let (track, object) = trace.device(Role::None, &self.name, &[("emulated", self.text.clone())])?;
        if state.recorded.len() >= RECORDINGS {
            state.recorded.remove(0);
        }
        state.recorded.push((number, track, object));
        Some((track, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_trace::{HostId, IdSpace, Memory, Sink};

    fn work(file: u64, offset: u64, bytes: u64, asked_ns: i64) -> DiskRequest {
        DiskRequest { kind: SpanKind::DiskWrite, file, offset, bytes, asked: Time::from_monotonic_ns(asked_ns) }
    }

    #[test]
    fn a_request_that_goes_on_where_the_last_one_ended_does_not_seek() {
        let disk = Disk::new("emulated disk", "disk 1 GB/s", 1_000_000_000, 5_000);
        assert_eq!(disk.queue(&work(1, 0, 100, 0)), 0..5_100);
        assert_eq!(disk.queue(&work(1, 100, 100, 0)), 5_100..5_200);
        assert_eq!(disk.queue(&work(2, 200, 100, 0)), 5_200..10_300, "another file");
        assert_eq!(disk.queue(&work(2, 0, 100, 20_000)), 20_000..25_100, "the same file, elsewhere");
    }

    #[test]
    fn its_time_is_recorded_on_a_track_of_its_own_that_is_marked() {
        let sink = Arc::new(Memory::new(100));
        let trace = TraceHandle::on(Arc::clone(&sink) as Arc<dyn Sink>, HostId(0), Role::Server, IdSpace(1));
        let disk = Disk::new("emulated disk 3", "disk 1 GiB/s", 1 << 30, 0);
        for offset in [0, 1 << 20] {
            disk.work(&DiskRequest { asked: Time::now(), ..work(1, offset, 1 << 20, 0) }, Some((&trace, 4, None)));
        }
        let events = sink.drain().0;
        let tracks = events.iter().filter(|e| matches!(e, Event::Track(t) if t.name == "emulated disk 3")).count();
        let marked = |e: &Event| matches!(e, Event::Object(o) if o.attributes == [("emulated".to_owned(), "disk 1 GiB/s".to_owned())]);
        assert_eq!((tracks, events.iter().filter(|e| marked(e)).count()), (1, 1));
        let busy: u64 = events.iter().map(|e| if let Event::Span(s) = e { s.duration_ns } else { 0 }).sum();
        assert!(busy.abs_diff(2 * 976_562) < 10, "{busy}");
    }
}
