//! The requests of a copy: threads that each take the next part of the source and move it, in a loop.

use super::around;
use super::control::Control;
use super::ends::{From, OpenSource, StoreEnd, To};
use super::holes::{self, DataMap, PartLimits};
use super::job::{Chosen, Sparse};
use crate::files::engine::flow::{Endpoint, Sink, Source};
use crate::files::{RequestMemory, StoreFile};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_base::ranges;
use thalweg_base::sparse;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{Maker, SpanFields, SpanId, SpanKind, TraceHandle, Tracer, TrackId};
use thalweg_wire::{Error, ErrorKind, Result};

/// State shared by the requests of a copy.
pub(super) struct Requests<'a> {
    pub source: &'a OpenSource,
    pub sink: &'a To,
    pub chosen: Chosen,
    pub control: &'a Control,
    pub trace: TraceHandle,
    sparse: Sparse,
    /// Damaged ranges that were left out; `None`: damage ends the copy.
    damaged: Option<Mutex<Vec<Range<u64>>>>,
    reading: Mutex<Reading>,
    writing: Mutex<Writing>,
    /// Signalled when the turn to write passes to another request.
    turn: Condvar,
    stopping: AtomicBool,
    running: Mutex<Running>,
    /// Signalled when a request's thread has ended.
    ended: Condvar,
}

/// How much of the source has been handed out.
struct Reading {
    /// Data left of a source of known size.
    data: DataMap,
    offset: u64,
    sequence: u64,
    at_end: bool,
    last: Option<TrackId>,
}

/// The turn to write to a pipe.
struct Writing {
    sequence: u64,
    last: Option<TrackId>,
}

#[derive(Default)]
struct Running {
    threads: u32,
    error: Option<Error>,
    last: Option<TrackId>,
}

/// A part of the source.
struct Part {
    sequence: u64,
    /// First byte of its first range.
    base: u64,
    /// Data ranges in order; at least one, before damaged ones are left out.
    ranges: Vec<Range<u64>>,
}

impl Part {
    fn offset(&self) -> u64 {
        self.base
    }

    fn data_bytes(&self) -> u64 {
        ranges::length(&self.ranges)
    }
}

impl<'a> Requests<'a> {
    pub(super) fn new(
        (source, sink): (&'a OpenSource, &'a To),
        (data, sparse): (DataMap, Sparse),
        (chosen, skip_damaged): (Chosen, bool),
        control: &'a Control,
        trace: TraceHandle,
    ) -> Requests<'a> {
        Requests {
            source,
            sink,
            chosen,
            control,
            trace,
            sparse,
            damaged: skip_damaged.then(Mutex::default),
            reading: Mutex::new(Reading { data, offset: 0, sequence: 0, at_end: false, last: None }),
            writing: Mutex::new(Writing { sequence: 0, last: None }),
            turn: Condvar::new(),
            stopping: AtomicBool::new(false),
            running: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Runs all requests and returns the source's size in bytes. `tick` is called ten times a second on the calling thread and returns
    /// whether to stop.
    pub(super) fn run(&self, tracer: &mut Tracer, tick: &dyn Fn() -> bool) -> Result<u64> {
        std::thread::scope(|scope| -> Result<()> {
            let mut started = 0_u32;
            // Recorded as one wait, however often this thread wakes.
            let mut waiting = None;
            loop {
                let wanted = self.control.requests.load(Ordering::Relaxed).max(1);
                while self.running.lock().threads < wanted && !self.is_stopping() && !self.is_at_end() {
                    let (number, maker) = (started, tracer.maker());
                    self.running.lock().threads += 1;
                    let thread = std::thread::Builder::new().name(format!("request {number}"));
                    if let Err(e) = thread.spawn_scoped(scope, move || self.thread(number, maker)) {
                        self.running.lock().threads -= 1;
                        self.stop(Some(Error::system("starting a thread", e)));
                        break;
                    }
                    started += 1;
                }
                waiting.get_or_insert_with(|| tracer.begin());
                let mut running = self.running.lock();
                self.ended.wait_while_for(&mut running, |r| r.threads > 0, std::time::Duration::from_millis(100));
                let (over, waker_track) = (running.threads == 0, running.last);
                drop(running);
                if tick() {
                    self.stop(Some(Error::new(ErrorKind::Cancelled, "stopped on request")));
                }
                if over && (self.is_stopping() || self.reading.lock().at_end) {
                    if let Some(waiting) = waiting.take() {
                        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, ..SpanFields::default() });
                    }
                    return Ok(());
                }
            }
        })?;
        match self.running.lock().error.take() {
            Some(error) => Err(error),
            None => Ok(self.reading.lock().offset),
        }
    }

    /// Completes the sink after everything was written, including a trailing hole of an output.
    pub(super) fn finish(&self, size_bytes: u64) -> Result<()> {
        if let To::Output(output) = self.sink { output.finish(size_bytes) } else { Ok(()) }
    }

    /// Whether the source is exhausted; false while a reader holds the lock. A read from a pipe may block forever, and must not block the
    /// supervising thread.
    fn is_at_end(&self) -> bool {
        self.reading.try_lock().is_some_and(|reading| reading.at_end)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn stop(&self, error: Option<Error>) {
        let mut running = self.running.lock();
        let first = running.error.is_none();
        if let Some(error) = error {
            running.error.get_or_insert(error);
        }
        drop(running);
        self.stopping.store(true, Ordering::SeqCst);
        self.turn.notify_all();
        if first {
            for end in [if let From::Store(end) = &self.source.end { Some(end) } else { None }, self.store_sink()].into_iter().flatten() {
                end.cancel();
            }
        }
    }

    fn store_sink(&self) -> Option<&StoreEnd> {
        if let To::Store(end) = self.sink { Some(end) } else { None }
    }

    /// Whether the calling thread exceeds the number of requests; if so, it is no longer counted and must end.
    fn is_surplus(&self) -> bool {
        let mut running = self.running.lock();
        let surplus = running.threads > self.control.requests.load(Ordering::Relaxed).max(1);
        running.threads -= u32::from(surplus);
        surplus
    }

    fn thread(&self, number: u32, maker: Option<Maker>) {
        let mut tracer = self.trace.thread_made_by(&format!("request {number}"), maker);
        let (mut memory, mut is_counted) = (None, true);
        loop {
            if self.is_stopping() {
                break;
            }
            match self.one(&mut tracer, &mut memory) {
                Ok(true) if self.is_surplus() => {
                    is_counted = false;
                    break;
                }
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.stop(Some(error));
                    break;
                }
            }
        }
        let track = tracer.track();
        drop(tracer);
        let mut running = self.running.lock();
        running.threads -= u32::from(is_counted);
        running.last = track;
        self.ended.notify_all();
    }

    /// Moves one part; `false`: the source is exhausted.
    fn one(&self, tracer: &mut Tracer, memory: &mut Option<Arc<RequestMemory>>) -> Result<bool> {
        let whole = tracer.begin();
        let span = whole.id();
        let part = if self.chosen.direct { self.next_part(tracer, None)? } else { self.buffered_read(tracer, memory, span)? };
        let Some(part) = part else { return Ok(false) };
        let about = SpanFields {
            object: self.source.object,
            offset_bytes: Some(part.offset()),
            size_bytes: Some(part.data_bytes()),
            ..SpanFields::default()
        };
        if self.chosen.direct {
            self.direct(tracer, &part, span)?;
        } else {
            let memory = memory.as_ref().expect("it has been read into");
            self.buffered_write(tracer, memory, part, span)?;
        }
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(true)
    }

    fn moved(&self) -> &Arc<AtomicU64> {
        &self.control.moved_bytes
    }

    fn buffer_bytes(&self) -> u64 {
        self.control.buffer_bytes.load(Ordering::Relaxed).clamp(1, thalweg_wire::limits::PAYLOAD_BYTES)
    }

    /// Takes the next part of a source of known size, or reads a pipe into `fill` in turn.
    fn next_part(&self, tracer: &mut Tracer, fill: Option<(&RequestMemory, Option<SpanId>)>) -> Result<Option<Part>> {
        let mut reading = match self.reading.try_lock() {
            Some(reading) => reading,
            None => {
                let waiting = tracer.begin();
                let reading = self.reading.lock();
                let about = SpanFields { waker_track: reading.last, parent: fill.and_then(|f| f.1), ..SpanFields::default() };
                tracer.end(waiting, SpanKind::WaitLock, about);
                reading
            }
        };
        if reading.at_end {
            return Ok(None);
        }
        let (sequence, offset) = (reading.sequence, reading.offset);
        let ranges = match (self.source.size_bytes, fill) {
            (Some(size), _) => {
                let data_bytes = self.chosen.request_bytes;
                // A request's memory also holds the gaps between its ranges.
                let limits = PartLimits { data_bytes, span_bytes: if self.chosen.direct { u64::MAX } else { data_bytes } };
                let ranges = reading.data.next(self.source, size, limits, tracer)?;
                reading.offset = ranges.last().map_or(size, |range| range.end);
                reading.at_end = reading.offset >= size;
                let holes = reading.offset - offset - ranges::length(&ranges);
                self.control.hole_bytes.fetch_add(holes, Ordering::Relaxed);
                ranges
            }
            (None, Some((memory, parent))) => {
                // SAFETY: the request's memory is this thread's until it is lent to a flow.
                let bytes = unsafe { memory.part_mut(0..memory.len()) };
                let filling = tracer.begin();
                let From::Stream(stream) = &self.source.end else {
                    return Err(Error::new(ErrorKind::Invalid, "the source's size is unknown: a bug"));
                };
                let length = stream.fill(bytes, &|| self.is_stopping())?;
                let about = SpanFields {
                    object: self.source.object,
                    parent,
                    offset_bytes: Some(offset),
                    size_bytes: Some(length),
                    ..SpanFields::default()
                };
                tracer.end(filling, SpanKind::FileRead, about);
                reading.offset += length;
                reading.at_end = length < self.chosen.request_bytes;
                (length > 0).then(|| offset..offset + length).into_iter().collect()
            }
            (None, None) => return Err(Error::new(ErrorKind::Invalid, "a pipe has no offsets: a bug")),
        };
        reading.sequence += 1;
        reading.last = tracer.track();
        Ok(ranges.first().map(|first| first.start).map(|base| Part { sequence, base, ranges }))
    }

    /// Moves a part on the direct path, with the connections' threads.
    fn direct(&self, tracer: &mut Tracer, part: &Part, span: Option<SpanId>) -> Result<()> {
        let (end, endpoint) = match (&self.source.end, self.sink) {
            (From::Local(source), To::Store(end)) => (end, Endpoint::FromSource(Arc::clone(source) as Arc<dyn Source>)),
            (From::Memory(source), To::Store(end)) => (end, Endpoint::FromSource(Arc::clone(source) as Arc<dyn Source>)),
            (From::Store(end), To::Local(sink)) => (end, Endpoint::ToSink(Arc::clone(sink) as Arc<dyn Sink>)),
            (From::Store(end), To::Null(sink)) => (end, Endpoint::ToSink(Arc::clone(sink) as Arc<dyn Sink>)),
            _ => return Err(Error::new(ErrorKind::Invalid, "these ends have no direct data path: a bug")),
        };
        let flow = end.flow(endpoint, &part.ranges, self.buffer_bytes(), span, self.moved(), tracer)?;
        if let From::Local(source) = &self.source.end {
            part.ranges.iter().for_each(|range| source.read_ahead(range.start, range.end - range.start));
        }
        flow.wait(tracer)
    }

    /// Reads the next part into memory.
    fn buffered_read(&self, tracer: &mut Tracer, memory: &mut Option<Arc<RequestMemory>>, span: Option<SpanId>) -> Result<Option<Part>> {
        let wanted = self.chosen.request_bytes.min(self.source.size_bytes.unwrap_or(u64::MAX)) as usize;
        let memory = memory.get_or_insert_with(|| Arc::new(RequestMemory::new(wanted)));
        let Some(part) = self.next_part(tracer, Some((memory, span)))? else { return Ok(None) };
        let source: &dyn Source = match &self.source.end {
            From::Stream(_) => return Ok(Some(part)),
            From::Store(end) => {
                // Bytes count when they reach the sink; these are only halfway.
                let moved = if self.store_sink().is_some() { &Arc::default() } else { self.moved() };
                let endpoint = Endpoint::ToMemory(Arc::clone(memory), part.offset());
                let read = end.flow(endpoint, &part.ranges, self.buffer_bytes(), span, moved, tracer)?.wait(tracer);
                return match (read, &self.damaged) {
                    (Err(error), Some(damaged)) if error.kind() == ErrorKind::Damaged => {
                        // SAFETY: the flow has ended: the memory is this thread's.
                        let bytes = unsafe { memory.part_mut(0..memory.len()) };
                        self.around_damage(tracer, end, bytes, part, damaged).map(Some)
                    }
                    (read, _) => read.map(|()| Some(part)),
                };
            }
            From::Local(source) => &**source,
            From::Memory(source) => &**source,
        };
        let reading = tracer.begin();
        // SAFETY: the request's memory is this thread's until it is lent to a flow.
        holes::read_ranges(source, unsafe { memory.part_mut(0..memory.len()) }, part.offset(), &part.ranges)?;
        let about = SpanFields {
            object: self.source.object,
            parent: span,
            offset_bytes: Some(part.offset()),
            size_bytes: Some(part.data_bytes()),
            ..SpanFields::default()
        };
        tracer.end(reading, SpanKind::FileRead, about);
        Ok(Some(part))
    }

    /// Reads a part again in ever smaller pieces; leaves out those that are damaged.
    fn around_damage(
        &self,
        tracer: &mut Tracer,
        end: &StoreEnd,
        memory: &mut [u8],
        mut part: Part,
        damaged: &Mutex<Vec<Range<u64>>>,
    ) -> Result<Part> {
        let file = StoreFile::new(Arc::clone(&end.store.data), (*end.handle).clone());
        let (base, mut intact) = (part.base, Vec::new());
        for range in std::mem::take(&mut part.ranges) {
            let bytes = &mut memory[(range.start - base) as usize..(range.end - base) as usize];
            around::read(tracer, &file, range, bytes, &|| self.is_stopping(), &mut |range, is_intact| {
                if is_intact {
                    return ranges::append(&mut intact, range);
                }
                ranges::add(&mut damaged.lock(), range.clone());
                match self.sparse {
                    // A pipe has no holes.
                    Sparse::Never => ranges::append(&mut intact, range),
                    Sparse::Auto | Sparse::Always => _ = self.control.hole_bytes.fetch_add(range.end - range.start, Ordering::Relaxed),
                }
            })?;
        }
        part.ranges = intact;
        Ok(part)
    }

    /// Returns the damaged ranges that were left out.
    pub(super) fn damaged(&self) -> Vec<Range<u64>> {
        self.damaged.as_ref().map_or_else(Vec::new, |damaged| damaged.lock().clone())
    }

    /// Returns the ranges of a part in memory to write, without blocks of zeros if those become holes.
    fn written(&self, memory: &RequestMemory, part: &Part) -> Vec<Range<u64>> {
        if self.sparse != Sparse::Always {
            return part.ranges.clone();
        }
        // SAFETY: the flow that filled it has ended: the memory is this thread's.
        let bytes = unsafe { memory.part(0..memory.len()) };
        let within = |range: &Range<u64>| {
            let (from, to) = ((range.start - part.offset()) as usize, (range.end - part.offset()) as usize);
            sparse::without_zeros(&bytes[from..to], range.start)
        };
        let ranges: Vec<Range<u64>> = part.ranges.iter().flat_map(within).collect();
        self.control.hole_bytes.fetch_add(part.data_bytes() - ranges::length(&ranges), Ordering::Relaxed);
        ranges
    }

    /// Writes a part in memory to the sink.
    fn buffered_write(&self, tracer: &mut Tracer, memory: &Arc<RequestMemory>, part: Part, span: Option<SpanId>) -> Result<()> {
        let (base, ranges) = (part.offset(), self.written(memory, &part));
        let size_bytes = Some(ranges::length(&ranges));
        let about = SpanFields { parent: span, offset_bytes: Some(base), size_bytes, ..SpanFields::default() };
        // SAFETY: the flow that filled it has ended, and the next one has not begun: the memory is this thread's.
        let bytes = |range: &Range<u64>| unsafe { memory.part((range.start - base) as usize..(range.end - base) as usize) };
        match self.sink {
            To::Store(_) if ranges.is_empty() => Ok(()),
            To::Store(end) => {
                let endpoint = Endpoint::FromMemory(Arc::clone(memory), base);
                end.flow(endpoint, &ranges, self.buffer_bytes(), span, self.moved(), tracer)?.wait(tracer)
            }
            To::Null(_) => Ok(()),
            To::Local(sink) => {
                let writing = tracer.begin();
                ranges.iter().try_for_each(|range| sink.write(bytes(range), range.start))?;
                tracer.end(writing, SpanKind::FileWrite, SpanFields { object: sink.object(), ..about });
                Ok(())
            }
            To::Output(output) => {
                self.wait_for_turn(tracer, part.sequence, span)?;
                let writing = tracer.begin();
                let mut turn = self.writing.lock();
                ranges.iter().try_for_each(|range| output.write(bytes(range), range.start))?;
                tracer.end(writing, SpanKind::FileWrite, about);
                turn.sequence = part.sequence + 1;
                turn.last = tracer.track();
                self.turn.notify_all();
                Ok(())
            }
        }
    }

    fn wait_for_turn(&self, tracer: &mut Tracer, sequence: u64, parent: Option<SpanId>) -> Result<()> {
        let waiting = tracer.begin();
        let mut turn = self.writing.lock();
        let mut waited = false;
        while turn.sequence != sequence {
            if self.is_stopping() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
            waited = true;
            // With a timeout: the thread that stops the copy does not hold this lock.
            self.turn.wait_for(&mut turn, std::time::Duration::from_millis(100));
        }
        let waker_track = turn.last;
        drop(turn);
        if waited {
            tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, parent, ..SpanFields::default() });
        }
        Ok(())
    }
}
