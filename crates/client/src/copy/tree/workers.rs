//! The workers: each takes the next batch of the walk, loads it and stores it.

use super::batch::{Batch, EntryKind, SMALL_BYTES, State, parent, shown};
use super::ends::{TreeSink, TreeSource};
use super::job::{Context, TreeOutcome};
use super::privileges::{LeftOut, Privileges};
use crate::copy::holes;
use crate::stages::Stage;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::ranges;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_trace::{Maker, ObjectId, ObjectKind, SpanFields, SpanId, SpanKind, Tracer, TrackId};
use thalweg_wire::{Error, ErrorKind, Result};

/// State shared by the workers.
struct Shared<'a> {
    context: Context<'a>,
    privileges: Privileges,
    source: &'a dyn TreeSource,
    sink: &'a dyn TreeSink,
    /// Object of the tree in the recording.
    object: Option<ObjectId>,
    /// The walk, with the number of batches with directories taken from it; locked while the walk advances.
    walk: Mutex<Walked>,
    gate: Gate,
    outcome: Mutex<TreeOutcome>,
    /// Directories that could not be made; their contents are skipped.
    missing: Mutex<HashSet<Vec<u8>>>,
    stopping: AtomicBool,
    error: Mutex<Option<Error>>,
    running: Mutex<Running>,
    /// Signalled when a worker has ended.
    ended: Condvar,
}

/// Counts of workers: those that take batches, and those that have not ended.
#[derive(Default)]
struct Running {
    taking: u32,
    threads: u32,
    /// Track of the worker that ended last.
    last: Option<TrackId>,
}

/// Interval at which the number of workers is adjusted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Walked {
    with_directories: u64,
    ended: bool,
    /// Track that advanced the walk last; others may have waited for it.
    last: Option<TrackId>,
}

/// Orders batches: a batch waits until the directories of earlier batches exist.
#[derive(Default)]
struct Gate {
    made: Mutex<Opened>,
    more: Condvar,
}

/// Number of batches whose directories exist, and the track that raised it last.
#[derive(Clone, Copy, Default)]
struct Opened {
    number: u64,
    by: Option<TrackId>,
}

impl Gate {
    /// Waits until `many` batches have made their directories, or the copy stops.
    fn wait(&self, many: u64, stopping: &AtomicBool, tracer: &mut Tracer, parent: Option<SpanId>) {
        let mut made = self.made.lock();
        if made.number >= many {
            return;
        }
        let waiting = tracer.begin();
        while made.number < many && !stopping.load(Ordering::SeqCst) {
            self.more.wait(&mut made);
        }
        let waker_track = made.by;
        drop(made);
        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, parent, ..SpanFields::default() });
    }

    /// Records that the directories of batch `number` exist.
    fn open(&self, number: u64, by: Option<TrackId>) {
        let mut made = self.made.lock();
        *made = Opened { number: made.number.max(number), by };
        self.more.notify_all();
    }
}

/// Runs the copy with the job's number of workers.
pub(super) fn run(context: Context<'_>, tracer: &mut Tracer, source: &dyn TreeSource, sink: &dyn TreeSink) -> Result<TreeOutcome> {
    let privileges = Privileges::new(context.job.preserve, context.job.privileges, sink.keeps_owners());
    sink.begin(tracer)?;
    let object = context.trace.object(ObjectKind::File, &source.name(), &[("to", sink.name())]);
    let shared = Shared {
        context,
        privileges,
        source,
        sink,
        object,
        walk: Mutex::default(),
        gate: Gate::default(),
        outcome: Mutex::default(),
        missing: Mutex::default(),
        stopping: AtomicBool::new(false),
        error: Mutex::default(),
        running: Mutex::default(),
        ended: Condvar::new(),
    };
    let control = &context.job.control;
    // A controller may have set it before.
    let _ = control.workers.compare_exchange(0, context.job.workers.max(1), Ordering::Relaxed, Ordering::Relaxed);
    // Recorded as one wait, for the worker that ends last.
    let mut waiting = None;
    let started = std::thread::scope(|scope| {
        let (shared, mut number) = (&shared, 0);
        loop {
            let wanted = control.workers.load(Ordering::Relaxed).max(1);
            while shared.is_short_of(wanted) {
                let maker = tracer.maker();
                let work = move || shared.work(number, maker);
                if let Err(e) = std::thread::Builder::new().name(format!("worker {number}")).spawn_scoped(scope, work) {
                    let mut running = shared.running.lock();
                    (running.taking, running.threads) = (running.taking - 1, running.threads - 1);
                    // Fewer workers are acceptable, but not zero.
                    if number == 0 {
                        return Err(Error::system("starting a thread", e));
                    }
                    control.workers.fetch_min(running.taking.max(1), Ordering::Relaxed);
                    break;
                }
                number += 1;
            }
            waiting.get_or_insert_with(|| tracer.begin());
            let mut running = shared.running.lock();
            shared.ended.wait_while_for(&mut running, |running| running.threads > 0, POLL_INTERVAL);
            if running.threads == 0 {
                return Ok(());
            }
        }
    });
    started?;
    if let Some(waiting) = waiting.take() {
        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track: shared.running.lock().last, ..SpanFields::default() });
    }
    if let Some(error) = shared.error.lock().take() {
        return Err(error);
    }
    sink.finish(tracer, &mut |path, error| shared.failed(path, error))?;
    let outcome = *shared.outcome.lock();
    Ok(outcome)
}

impl Shared<'_> {
    fn failed(&self, path: &[u8], error: &Error) {
        self.outcome.lock().failed += 1;
        self.context.observer.failed(path, error);
    }

    fn stop(&self, error: Error) {
        self.error.lock().get_or_insert(error);
        self.stopping.store(true, Ordering::SeqCst);
        // Under the lock, so that a waiter that checks now does not miss the notification.
        drop(self.gate.made.lock());
        self.gate.more.notify_all();
    }

    /// Whether another worker is wanted; if so, it is counted and the caller must start it.
    fn is_short_of(&self, wanted: u32) -> bool {
        let walked = self.walk.try_lock().is_some_and(|walk| walk.ended) || self.stopping.load(Ordering::SeqCst);
        let mut running = self.running.lock();
        let is_short = running.taking < wanted && !walked;
        (running.taking, running.threads) = (running.taking + u32::from(is_short), running.threads + u32::from(is_short));
        is_short
    }

    /// Whether the calling worker is surplus; if so, it is no longer counted among those that take batches.
    fn is_surplus(&self) -> bool {
        let mut running = self.running.lock();
        let is_surplus = running.taking > self.context.job.control.workers.load(Ordering::Relaxed).max(1);
        running.taking -= u32::from(is_surplus);
        is_surplus
    }

    fn work(&self, number: u32, maker: Option<Maker>) {
        let mut tracer = self.context.trace.thread_made_by(&format!("worker {number}"), maker);
        let (mut batch, mut takes) = (Batch::default(), true);
        while takes {
            let begun = Instant::now();
            match self.one(&mut tracer, &mut batch) {
                Ok(true) => takes = !self.is_surplus(),
                Ok(false) => break,
                Err(error) => {
                    self.stop(error);
                    break;
                }
            }
            self.context.job.control.stages.add(Stage::Batches, begun);
        }
        let track = tracer.track();
        drop(tracer);
        let mut running = self.running.lock();
        running.threads -= 1;
        running.taking -= u32::from(takes);
        running.last = track;
        self.ended.notify_all();
    }

    /// Locks the walk, recording the wait for other workers.
    fn walk(&self, tracer: &mut Tracer) -> MutexGuard<'_, Walked> {
        match self.walk.try_lock() {
            Some(walk) => walk,
            None => {
                let waiting = tracer.begin();
                let walk = self.walk.lock();
                tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track: walk.last, ..SpanFields::default() });
                walk
            }
        }
    }

    /// Copies one batch; `false`: none left.
    fn one(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        let (after, opens) = {
            let mut walk = self.walk(tracer);
            if walk.ended || self.stopping.load(Ordering::SeqCst) {
                return Ok(false);
            }
            self.context.check()?;
            walk.ended = !self.source.next(tracer, batch)?;
            walk.last = tracer.track();
            let after = walk.with_directories;
            walk.with_directories += u64::from(batch.has_directories);
            (after, batch.has_directories.then_some(walk.with_directories))
        };
        self.context.observer.found(batch.size_bytes);
        if batch.entries.is_empty() && batch.unread.is_empty() {
            return Ok(true);
        }
        let request = tracer.begin();
        let mut put = || -> Result<()> {
            let found_bytes = batch.size_bytes;
            self.source.load(tracer, batch, request.id())?;
            self.leave_out(batch);
            // The size of a source without one is only known now.
            self.context.observer.found(batch.size_bytes.saturating_sub(found_bytes));
            self.find_holes(tracer, batch);
            self.gate.wait(after, &self.stopping, tracer, request.id());
            if self.stopping.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
            self.context.check()?;
            self.skip_missing(batch);
            let track = tracer.track();
            let mut made = |batch: &mut Batch| {
                if let Some(number) = opens {
                    self.note_missing(batch);
                    self.gate.open(number, track);
                }
            };
            self.sink.put(tracer, batch, self.source, request.id(), &mut made)
        };
        let done = put();
        let size_bytes = Some(batch.size_bytes);
        let count = Some(batch.entries.len() as u32);
        tracer.end(request, SpanKind::AppRequest, SpanFields { object: self.object, size_bytes, count, ..SpanFields::default() });
        self.account(batch);
        done.map(|()| true)
    }

    /// Leaves out privileged entries and bits, and counts them.
    fn leave_out(&self, batch: &mut Batch) {
        let mut now = LeftOut::default();
        for entry in batch.entries.iter_mut().filter(|entry| entry.is_open()) {
            if let EntryKind::Node(node) = &entry.item.kind
                && self.privileges.leaves_out(node)
            {
                entry.state = State::LeftOut;
                now.devices += 1;
                continue;
            }
            let kept = &mut entry.item.kept;
            let mode = self.privileges.of_mode(kept.mode, entry.item.kind == EntryKind::Directory);
            now.set_id_bits += u64::from(mode != kept.mode);
            now.owners += u64::from(self.privileges.loses_owner(kept.uid));
            kept.mode = mode;
        }
        let all = &mut self.outcome.lock().left_out;
        all.devices += now.devices;
        all.set_id_bits += now.set_id_bits;
        all.owners += now.owners;
    }

    /// Finds the holes of the small files. A file without a block of zeros has none, so the source is not asked.
    fn find_holes(&self, tracer: &mut Tracer, batch: &mut Batch) {
        for entry in &mut batch.entries {
            let State::Loaded(range) = &entry.state else { continue };
            let bytes = &batch.memory[range.clone()];
            let size_bytes = bytes.len() as u64;
            match holes::small(bytes, self.context.job.sparse, || self.source.data_map(tracer, &entry.item, size_bytes)) {
                Ok(data) => {
                    entry.hole_bytes = size_bytes.saturating_sub(ranges::length(&data));
                    entry.data = (entry.hole_bytes > 0).then_some(data);
                }
                Err(error) => entry.state = State::Failed(of_entry(error, &entry.item.path)),
            }
        }
    }

    /// Notes directories of this batch that could not be made.
    fn note_missing(&self, batch: &mut Batch) {
        let failed =
            batch.entries.iter().filter(|entry| entry.item.kind == EntryKind::Directory && matches!(entry.state, State::Failed(_)));
        self.missing.lock().extend(failed.map(|entry| entry.item.path.clone()));
        self.skip_missing(batch);
    }

    /// Skips entries whose directory could not be made.
    fn skip_missing(&self, batch: &mut Batch) {
        let missing = self.missing.lock();
        if missing.is_empty() {
            return;
        }
        for entry in &mut batch.entries {
            let mut above = parent(&entry.item.path);
            while !above.is_empty() {
                if missing.contains(above) {
                    entry.state = State::Skipped;
                    break;
                }
                above = parent(above);
            }
        }
    }

    /// Reports failed entries and counts the others.
    fn account(&self, batch: &mut Batch) {
        let mut counted = TreeOutcome::default();
        for (path, error) in batch.unread.drain(..) {
            counted.unread += 1;
            self.context.observer.failed(&path, &error);
        }
        let (mut small_bytes, mut small_holes) = (0, 0);
        for entry in &batch.entries {
            match (&entry.state, &entry.item.kind) {
                (State::Failed(error), _) => {
                    counted.failed += 1;
                    self.context.observer.failed(&entry.item.path, error);
                }
                (State::Skipped, _) => counted.failed += 1,
                (State::Done, EntryKind::Directory) => counted.directories += 1,
                (State::Done, EntryKind::Node(_)) => counted.others += 1,
                (State::Done, EntryKind::File(size)) => {
                    counted.files += 1;
                    counted.size_bytes += size;
                    counted.modified += u64::from(entry.modified);
                    if !entry.damaged.is_empty() {
                        counted.damaged += 1;
                        self.context.observer.damaged(&entry.item.path, &entry.damaged);
                    }
                    counted.hole_bytes += entry.hole_bytes;
                    if *size <= SMALL_BYTES {
                        small_bytes += *size - entry.hole_bytes;
                        small_holes += entry.hole_bytes;
                    }
                }
                // The copy stopped before this entry.
                (State::Found | State::Loaded(_), _) => {}
                // Counted when it was left out.
                (State::LeftOut, _) => {}
            }
        }
        self.context.observer.holes(small_holes);
        self.context.moved(small_bytes);
        let mut outcome = self.outcome.lock();
        outcome.files += counted.files;
        outcome.size_bytes += counted.size_bytes;
        outcome.hole_bytes += counted.hole_bytes;
        outcome.directories += counted.directories;
        outcome.others += counted.others;
        outcome.failed += counted.failed;
        outcome.unread += counted.unread;
        outcome.modified += counted.modified;
        outcome.damaged += counted.damaged;
    }
}

/// Returns an error for reporting an entry, without the path if the error has it too.
pub(super) fn of_entry(error: Error, path: &[u8]) -> Error {
    let named = error.file().is_some_and(|file| file.ends_with(&shown(path)));
    if !named {
        return error;
    }
    let plain = Error::new(error.kind(), error.message().to_owned());
    match error.server() {
        Some(server) => plain.at_server(server.to_owned()),
        None => plain,
    }
}
