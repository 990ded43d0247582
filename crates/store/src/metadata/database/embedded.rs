//! The default database: one directory, one process, no service to run.
//!
//! A transaction changes layers of ordered maps in memory and is one record in an append-only log
//! ([`super::log`]); it is *Returned* when the record is written. Concurrent transactions share a
//! write: whoever comes first writes what all have prepared by then (group commit). When the log is
//! long, a thread puts the layer that holds its changes into a redb file with one durable commit,
//! together with the last sequence number it contains, and the segment goes. Reads see layers over
//! the redb file as of that commit. *Synced* is one `fdatasync` of the live segments, shared by all
//! who wait for one.
//!
//! So redb only ever makes durable commits, off the path of requests, and never repairs anything after
//! a kill. The alternative, redb's non-durable transactions for each batch with the log beside them,
//! keeps no layers in memory, but each batch rewrites a path of pages per table and every durable
//! commit stops the writers for as long as the disk takes.
//!
//! What bounds memory: a layer holds at most [`Options::segment_bytes`] of log, and at most
//! [`SEGMENTS_BEHIND`] times that when checkpoints cannot keep up, after which writers wait.

use super::layers::{Layer, Stack, Working};
use super::log::{self, DATABASE_FILE, Segment};
use super::redb_file::{self, Redb, Snapshot, guarded, put_into, redb_error};
use super::replay::{Replayed, replay};
use crate::metadata::database::{Database, DatabaseError, Stage, Transaction, Verdict, View, Watch};
use crate::sync::poisoning::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::sync::{Condvar, Finally, Mutex, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_trace::TrackId;

pub(crate) use super::replay::Recovery;

/// Past this many segments of log, writers wait for the checkpoint.
const SEGMENTS_BEHIND: u64 = 4;

/// How it is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Log length at which a checkpoint begins.
    pub segment_bytes: u64,
    /// redb's page cache.
    pub cache_bytes: usize,
    /// Where the log is damaged: go on without what cannot be applied, and put it aside, instead of refusing.
    pub drop_damaged: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: 16 << 20, cache_bytes: 64 << 20, drop_damaged: false }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Embedded {
    shared: Arc<Shared>,
    checkpointer: Mutex<Option<std::thread::JoinHandle<()>>>,
    recovery: Recovery,
}

struct Shared {
    directory: PathBuf,
    redb: Redb,
    identity: u64,
    options: Options,
    state: RwLock<State>,
    turn: Mutex<Turn>,
    turned: Condvar,
    syncing: Mutex<Syncing>,
    synced: Condvar,
    work: Mutex<Work>,
    worked: Condvar,
    /// Last sequence number written to the log.
    logged: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The layers, newest last, and what is to be written next.
struct State {
    base: Arc<Snapshot>,
    /// What the checkpoint is putting into redb, and its last sequence number.
    frozen: Option<(Arc<Layer>, u64)>,
    /// In the log.
    logged: Layer,
    /// Being written to the log by the leader.
    writing: Layer,
    /// Waits for the next leader.
    pending: Layer,
    records: Vec<u8>,
    batch: Arc<Batch>,
    next_sequence: u64,
    /// Live segments, the one that is written last.
    segments: Vec<Segment>,
    /// Why nothing can be written any more.
    broken: Option<DatabaseError>,
}

/// Transactions that are written together, and what became of them.
#[derive(Debug, Default)]
struct Batch {
    outcome: OnceLock<(Result<(), DatabaseError>, Option<TrackId>)>,
}

/// Who writes the log.
#[derive(Debug, Default)]
struct Turn {
    leading: bool,
}

#[derive(Debug, Default)]
struct Syncing {
    leading: bool,
    leader: Option<TrackId>,
    sequence: u64,
}

/// The checkpointer's orders.
#[derive(Debug, Default)]
struct Work {
    checkpoint: bool,
    stop: bool,
    failed: Option<DatabaseError>,
}

impl Embedded {
    /// Whether there is a database in `directory`.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(DATABASE_FILE).exists()
    }

    /// Opens the database in `directory`, or makes one there. Answers when everything that was
    /// returned before a kill, or synced before a power loss, is there again and is in the redb file.
    pub(crate) fn open(directory: &Path, options: Options) -> Result<Embedded, DatabaseError> {
        std::fs::create_dir_all(directory).map_err(|e| DatabaseError::io(directory, "cannot create", &e))?;
        let path = directory.join(DATABASE_FILE);
        refuse_a_log_without_its_database(directory, &path)?;
        let (redb, identity, applied) = redb_file::open(&path, options.cache_bytes)?;
        let mut layer = Layer::default();
        let found = replay(directory, identity, applied, options.drop_damaged, &mut layer)?;
        if found.last > applied {
            guarded(&path, || put_into(&redb, &layer, found.last).map_err(|e| redb_error(&path, &e)))?;
        }
        let segment = Segment::create(directory, identity, found.last + 1)?;
        let reached = found.last;
        let recovery = clear_away(directory, found, &segment)?;
        let base = guarded(&path, || Snapshot::of(&redb, &path).map_err(|e| redb_error(&path, &e)))?;
        let base = Arc::new(base);
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            redb,
            identity,
            options,
            state: RwLock::new(State {
                base,
                frozen: None,
                logged: Layer::default(),
                writing: Layer::default(),
                pending: Layer::default(),
                records: Vec::new(),
                batch: Arc::default(),
                next_sequence: reached + 1,
                segments: vec![segment],
                broken: None,
            }),
            turn: Mutex::default(),
            turned: Condvar::new(),
            syncing: Mutex::new(Syncing { sequence: reached, ..Syncing::default() }),
            synced: Condvar::new(),
            work: Mutex::default(),
            worked: Condvar::new(),
            logged: AtomicU64::new(reached),
        });
        let theirs = Arc::clone(&shared);
        let checkpointer = std::thread::Builder::new()
            .name("metadata checkpoint".into())
            .spawn(move || theirs.checkpoints())
            .map_err(|e| DatabaseError::io(directory, "cannot start the checkpoint's thread", &e))?;
        Ok(Embedded { shared, checkpointer: Mutex::new(Some(checkpointer)), recovery })
    }

    /// What was found in the log when it was opened.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Puts everything into the redb file and empties the log. Answers when that is done.
    pub(crate) fn checkpoint(&self) -> Result<(), DatabaseError> {
        let shared = &self.shared;
        let target = shared.logged.load(Ordering::Acquire);
        loop {
            let rotated = shared.exclusively(|| {
                if shared.read_state().frozen.is_some() {
                    return Ok(false);
                }
                shared.rotate().map(|()| true)
            })?;
            shared.wait_for_checkpoint()?;
            if rotated {
                debug_assert!(shared.logged.load(Ordering::Acquire) >= target);
                return Ok(());
            }
        }
    }
}

/// Without its file a new database would begin here, and the log would be another's.
fn refuse_a_log_without_its_database(directory: &Path, path: &Path) -> Result<(), DatabaseError> {
    let there = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
    if there || log::segments(directory)?.is_empty() {
        return Ok(());
    }
    Err(DatabaseError::new(path, "missing or empty, and a log is beside it: put it back with a copy of all of the directory's files"))
}

/// The segments that were there before `live` go, or are put aside, now that all that was read in them is in the redb file.
fn clear_away(directory: &Path, found: Replayed, live: &Segment) -> Result<Recovery, DatabaseError> {
    let mut recovery = found.recovery;
    for path in &found.dropped {
        recovery.aside.push(log::put_aside(path)?);
    }
    for path in found.applied.iter().filter(|path| **path != live.path) {
        std::fs::remove_file(path).map_err(|e| DatabaseError::io(path, "cannot remove", &e))?;
    }
    crate::durable::sync_directory(directory).map_err(|e| DatabaseError::io(directory, "cannot sync", &e))?;
    Ok(recovery)
}

impl Drop for Embedded {
    /// Leaves the files as a kill would, but for a checkpoint that is under way.
    fn drop(&mut self) {
        let mut work = self.shared.work.lock();
        work.stop = true;
        self.shared.worked.notify_all();
        drop(work);
        if let Some(thread) = self.checkpointer.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Database for Embedded {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let state = self.shared.read_state();
        let mut layers = vec![&state.logged];
        layers.extend(state.frozen.as_ref().map(|(layer, _)| &**layer));
        work(&Stack { layers, base: &*state.base })
    }

    fn write(
        &self,
        watch: &mut dyn Watch,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        self.shared.wait_while_far_behind()?;
        let batch = {
            let mut guard = self.shared.write_state();
            let state = &mut *guard;
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            let mut layers = vec![&state.pending, &state.writing, &state.logged];
            layers.extend(state.frozen.as_ref().map(|(layer, _)| &**layer));
            let mut working = Working::over(Stack { layers, base: &*state.base });
            let verdict = work(&mut working)?;
            let mut own = working.own;
            if verdict == Verdict::Commit && !own.is_empty() {
                log::encode(&mut state.records, state.next_sequence, &own);
                state.next_sequence += 1;
                own.settle_onto(&mut state.pending);
            } else if state.records.is_empty() && state.writing.is_empty() {
                return Ok(());
            }
            // Having changed nothing, it may still have seen what is not yet in the log.
            Arc::clone(&state.batch)
        };
        self.shared.commit(&batch, watch)
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.shared.sync(watch)
    }

    fn synced(&self) -> u64 {
        self.shared.syncing.lock().sequence
    }

    fn close(&self) -> Result<(), DatabaseError> {
        self.checkpoint()
    }
}

impl Shared {
    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a panic of one who was changing it, it may be half-changed: then it is broken.
    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.broken.get_or_insert_with(|| self.cut_short());
            state
        })
    }

    fn cut_short(&self) -> DatabaseError {
        DatabaseError::new(
            &self.directory,
            "a transaction ended in a panic, a bug, and nothing is written any more: start the service again",
        )
    }

    /// Waits until `batch` is in the log, or writes it there.
    fn commit(&self, batch: &Batch, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        let mut waiting = false;
        let mut turn = self.turn.lock();
        let (result, leader) = loop {
            if let Some(outcome) = batch.outcome.get() {
                break outcome.clone();
            }
            if !turn.leading {
                if let Some(broken) = &self.read_state().broken {
                    // A leader that failed or panicked may have taken our records with it.
                    break (Err(broken.clone()), None);
                }
                turn.leading = true;
                drop(turn);
                if std::mem::take(&mut waiting) {
                    watch.end(Stage::Wait(None));
                }
                let leading = self.leading();
                self.write_batch(watch);
                drop(leading);
                turn = self.turn.lock();
                continue;
            }
            if !std::mem::replace(&mut waiting, true) {
                watch.begin();
            }
            self.turned.wait(&mut turn);
        };
        drop(turn);
        if waiting {
            watch.end(Stage::Wait(leader));
        }
        result
    }

    /// Runs `work` while nobody writes the log.
    fn exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut turn = self.turn.lock();
        while turn.leading {
            self.turned.wait(&mut turn);
        }
        turn.leading = true;
        drop(turn);
        let _leading = self.leading();
        work()
    }

    /// The turn to write the log, which was taken: passes it on when dropped.
    fn leading(&self) -> Finally<impl FnMut()> {
        Finally(|| {
            if std::thread::panicking() {
                self.write_state().broken.get_or_insert_with(|| self.cut_short());
            }
            self.turn.lock().leading = false;
            self.turned.notify_all();
        })
    }

    /// Writes what is pending, as the leader.
    fn write_batch(&self, watch: &mut dyn Watch) {
        let (records, batch, segment, last) = {
            let mut state = self.write_state();
            let state = &mut *state;
            state.writing = std::mem::take(&mut state.pending);
            let segment = state.segments.last().expect("there is always a segment").clone();
            (std::mem::take(&mut state.records), std::mem::take(&mut state.batch), segment, state.next_sequence - 1)
        };
        let written = if records.is_empty() {
            Ok(())
        } else {
            watch.begin();
            let written = segment.append(&records);
            watch.end(Stage::LogWrite(records.len() as u64));
            written
        };
        let mut guard = self.write_state();
        let state = &mut *guard;
        match written {
            Ok(()) => {
                state.segments.last_mut().expect("there is always a segment").bytes += records.len() as u64;
                let mut writing = std::mem::take(&mut state.writing);
                writing.settle_onto(&mut state.logged);
                self.logged.store(last, Ordering::Release);
                let long = state.segments.last().expect("there is always a segment").bytes >= self.options.segment_bytes;
                let _ = batch.outcome.set((Ok(()), watch.track()));
                let rotate = long && state.frozen.is_none();
                drop(guard);
                if rotate && let Err(e) = self.rotate() {
                    self.work.lock().failed = Some(e);
                }
            }
            Err(failure) => {
                // Those who came after saw what now has not happened: it has not happened for them either.
                state.writing = Layer::default();
                state.pending = Layer::default();
                state.records.clear();
                state.next_sequence = self.logged.load(Ordering::Acquire) + 1;
                let later = std::mem::take(&mut state.batch);
                for batch in [batch, later] {
                    let _ = batch.outcome.set((Err(failure.error.clone()), watch.track()));
                }
                if !failure.cut_back {
                    state.broken = Some(failure.error);
                }
            }
        }
    }

    /// Begins a new segment and hands the layer of the old ones to the checkpointer. Only by whoever has the turn to write the log,
    /// and while nothing is frozen.
    fn rotate(&self) -> Result<(), DatabaseError> {
        let segment = {
            let state = self.read_state();
            if state.logged.is_empty() {
                return Ok(());
            }
            state.segments.last().expect("there is always a segment").clone()
        };
        // So that nothing but damage makes a segment fall short of its successor.
        if let Err(e) = segment.sync() {
            self.write_state().broken = Some(e.clone());
            return Err(e);
        }
        let last = self.logged.load(Ordering::Acquire);
        let next = Segment::create(&self.directory, self.identity, last + 1)?;
        let mut state = self.write_state();
        state.segments.push(next);
        state.frozen = Some((Arc::new(std::mem::take(&mut state.logged)), last));
        self.work.lock().checkpoint = true;
        self.worked.notify_all();
        Ok(())
    }

    /// The checkpointer's thread.
    fn checkpoints(&self) {
        loop {
            let mut work = self.work.lock();
            while !work.checkpoint && !work.stop {
                self.worked.wait(&mut work);
            }
            if work.stop {
                return;
            }
            drop(work);
            let done = catch_unwind(AssertUnwindSafe(|| self.put_frozen())).unwrap_or_else(|panic| {
                let problem = format!("a checkpoint ended in a panic ({}): start the service again", panic_text(&*panic));
                let error = DatabaseError::new(&self.directory.join(DATABASE_FILE), problem);
                self.write_state().broken = Some(error.clone());
                Err(error)
            });
            let mut work = self.work.lock();
            work.checkpoint = false;
            work.failed = done.err();
            self.worked.notify_all();
        }
    }

    fn put_frozen(&self) -> Result<(), DatabaseError> {
        let Some((layer, last)) = self.read_state().frozen.clone() else { return Ok(()) };
        let path = self.directory.join(DATABASE_FILE);
        let base = put_into(&self.redb, &layer, last).and_then(|()| Snapshot::of(&self.redb, &path)).map_err(|e| redb_error(&path, &e))?;
        let mut state = self.write_state();
        state.base = Arc::new(base);
        state.frozen = None;
        let live = state.segments.len() - 1;
        let old: Vec<Segment> = state.segments.drain(..live).collect();
        drop(state);
        for segment in old {
            std::fs::remove_file(&segment.path).map_err(|e| DatabaseError::io(&segment.path, "cannot remove", &e))?;
        }
        Ok(())
    }

    /// Waits until no checkpoint is under way; its error, if it failed.
    fn wait_for_checkpoint(&self) -> Result<(), DatabaseError> {
        let mut work = self.work.lock();
        while work.checkpoint && !work.stop {
            self.worked.wait(&mut work);
        }
        work.failed.clone().map_or(Ok(()), Err)
    }

    /// Keeps the log bounded when checkpoints do not keep up, and tries a failed one again.
    fn wait_while_far_behind(&self) -> Result<(), DatabaseError> {
        let bytes = {
            let state = self.read_state();
            state.segments.last().map_or(0, |s| s.bytes)
        };
        if bytes < self.options.segment_bytes.saturating_mul(SEGMENTS_BEHIND) {
            return Ok(());
        }
        let mut work = self.work.lock();
        if work.failed.is_some() {
            work.checkpoint = true;
            self.worked.notify_all();
        }
        drop(work);
        self.wait_for_checkpoint()
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        let target = self.logged.load(Ordering::Acquire);
        let mut waiting = false;
        let mut leader = None;
        let mut syncing = self.syncing.lock();
        while syncing.sequence < target {
            if syncing.leading {
                leader = syncing.leader;
                if !std::mem::replace(&mut waiting, true) {
                    watch.begin();
                }
                self.synced.wait(&mut syncing);
                continue;
            }
            syncing.leading = true;
            syncing.leader = watch.track();
            drop(syncing);
            let leading = Finally(|| {
                self.syncing.lock().leading = false;
                self.synced.notify_all();
            });
            if std::mem::take(&mut waiting) {
                watch.end(Stage::Wait(leader));
            }
            let (reached, result) = self.sync_segments(watch);
            if result.is_ok() {
                let mut syncing = self.syncing.lock();
                syncing.sequence = syncing.sequence.max(reached);
            }
            drop(leading);
            result?;
            syncing = self.syncing.lock();
        }
        drop(syncing);
        if waiting {
            watch.end(Stage::Wait(leader));
        }
        Ok(())
    }

    /// `fdatasync` of every live segment. What is not in one of them is in redb, durably.
    fn sync_segments(&self, watch: &mut dyn Watch) -> (u64, Result<(), DatabaseError>) {
        let (segments, reached) = {
            let state = self.read_state();
            if let Some(broken) = &state.broken {
                return (0, Err(broken.clone()));
            }
            (state.segments.clone(), self.logged.load(Ordering::Acquire))
        };
        watch.begin();
        let result = segments.iter().try_for_each(Segment::sync);
        watch.end(Stage::LogSync);
        if let Err(e) = &result {
            // After a failed sync the kernel may drop what it could not write: a later one that
            // succeeds would say nothing about it.
            self.write_state().broken = Some(e.clone());
        }
        (reached, result)
    }
}
