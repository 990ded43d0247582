//! The default database: a directory used by one process, without a server.
//!
//! A transaction changes layers of ordered maps in memory and is one record in an append-only log ([`super::log`]); it is *Returned* when
//! the record is written. Concurrent transactions share a write: the first to arrive writes all that are prepared by then (group commit).
//! When the log is long, a thread commits the layer with its changes to a redb file, durably and with the last sequence number it contains,
//! and the segment is deleted. Reads see layers over the redb file as of that commit. *Synced* is one `fdatasync` of the live segments,
//! shared by all waiting callers.
//!
//! So redb only makes durable commits, outside the path of requests, and never needs repair after a kill. Rejected: non-durable redb
//! transactions for each batch with the log beside them. That keeps no layers in memory, but each batch rewrites a path of pages per table,
//! and every durable commit stops the writers for as long as the disk takes.
//!
//! Memory is bounded: a layer holds at most [`Options::segment_bytes`] of log, or [`SEGMENTS_BEHIND`] times that when checkpoints cannot
//! keep up, after which writers wait.

mod checkpoints;
mod moment;
mod offline;
mod rebuild;

use super::group::{Syncs, Turn, Writer};
use super::layers::{Layer, Stack, Working};
use super::log::{self, DATABASE_FILE, Segment};
use super::redb_file::{self, Redb, Snapshot, guarded, put_into, redb_error};
use super::replay::{clear_away, outcome_of, refuse_a_log_without_its_database, replay};
use super::reserve::{Reserve, STEP_BYTES, makes_something};
use super::{Batch, Ordered};
use crate::database::{Database, DatabaseError, Moment, Stage, Transaction, Verdict, View, Watch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::private;
use thalweg_base::sync::poisoning::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use thalweg_base::sync::{Condvar, Mutex};

pub use self::offline::stopped;
pub use self::rebuild::rebuild;
pub use super::replay::Recovery;

/// Bound: segments of log beyond which writers wait for the checkpoint.
const SEGMENTS_BEHIND: u64 = 4;

/// Options of the database.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Log length that triggers a checkpoint.
    pub segment_bytes: u64,
    /// Size of redb's page cache.
    pub cache_bytes: usize,
    /// If the log is damaged, continue without what cannot be applied and set it aside, instead of refusing to open.
    pub drop_damaged: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: 16 << 20, cache_bytes: 64 << 20, drop_damaged: false }
    }
}

/// The embedded database.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    checkpointer: Mutex<Option<std::thread::JoinHandle<()>>>,
    recovery: Recovery,
}

struct Shared {
    directory: PathBuf,
    reserve: Arc<Reserve>,
    redb: Redb,
    identity: u64,
    options: Options,
    state: RwLock<State>,
    turn: Turn,
    syncs: Syncs,
    work: Mutex<Checkpointer>,
    worked: Condvar,
    /// The last sequence number written to the log.
    logged: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The layers, newest last, and the next batch.
struct State {
    base: Arc<Snapshot>,
    /// The layer being checkpointed into redb, and its last sequence number.
    frozen: Option<(Arc<Layer>, u64)>,
    /// Written to the log.
    logged: Layer,
    /// Being written to the log by the leader.
    writing: Layer,
    /// Waiting for the next leader.
    pending: Layer,
    records: Vec<u8>,
    batch: Arc<Batch>,
    next_sequence: u64,
    /// Live segments; the last one is being written.
    segments: Vec<Segment>,
    /// The pending layer contains a transaction that needs space.
    pending_makes: bool,
    /// The error after which nothing more can be written.
    broken: Option<DatabaseError>,
}

/// Instructions to the checkpointer.
#[derive(Debug, Default)]
struct Checkpointer {
    checkpoint: bool,
    stop: bool,
    failed: Option<DatabaseError>,
}

impl Embedded {
    /// Removes other users' permissions from the database in `directory`, which an earlier release left open. Returns a sentence on what
    /// was done.
    pub fn close_to_others(directory: &Path) -> Option<String> {
        private::close(directory, log::is_of_database)
    }

    /// Returns whether `directory` holds a database.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(DATABASE_FILE).exists()
    }

    /// Opens the database in `directory`, or creates one. On return, everything returned before a kill or synced before a power loss is
    /// restored and in the redb file. On a full disk, whatever does not fit stays in the log, and reserve space used by the start is
    /// reclaimed afterwards.
    pub fn open(directory: &Path, options: Options) -> Result<Embedded, DatabaseError> {
        private::make_directory(directory).map_err(|e| DatabaseError::io(directory, "cannot create", &e))?;
        let reserve = Arc::new(Reserve::of(directory));
        let before = reserve.bytes();
        let mut opened = Embedded::open_in(directory, options, &reserve, false);
        if opened.as_ref().is_err_and(|error| error.full) {
            opened = Embedded::open_in(directory, options, &reserve, true);
        }
        while opened.as_ref().is_err_and(|error| error.full) && reserve.give_up() {
            opened = Embedded::open_in(directory, options, &reserve, true);
        }
        reserve.take_back(before);
        let embedded = opened.map_err(|error| match error.full {
            true => {
                let problem = format!("{}: the disk is full, and there is no reserve to start with: free 1 MiB on it", error.problem);
                DatabaseError { problem, ..error }
            }
            false => error,
        })?;
        reserve.hold();
        Ok(embedded)
    }

    fn open_in(directory: &Path, options: Options, reserve: &Arc<Reserve>, is_full: bool) -> Result<Embedded, DatabaseError> {
        let path = directory.join(DATABASE_FILE);
        refuse_a_log_without_its_database(directory, &path)?;
        let (redb, identity, applied) = redb_file::open(&path, options.cache_bytes)?;
        let mut layer = Layer::default();
        let mut found = replay(directory, identity, applied, options.drop_damaged, &mut layer)?;
        // On a full disk the log must not take the space that the reserve released. (A segment with dropped parts cannot be set aside while
        // the rest of it is needed.)
        let may_stay = is_full && found.dropped.is_empty();
        if found.last > applied && !(may_stay && reserve.check_room(2 * log::bytes_of(&found.applied) + STEP_BYTES).is_err()) {
            guarded(&path, || put_into(&redb, &layer, found.last).map_err(|e| redb_error(&path, &e)))?;
            layer = Layer::default();
        }
        let stays = if layer.is_empty() { Vec::new() } else { std::mem::take(&mut found.applied) };
        let reached = found.last;
        let segments = live_segments(directory, identity, stays, reached, is_full.then_some(reserve))?;
        let recovery = clear_away(directory, found, segments.last().expect("there is always a segment"))?;
        let base = guarded(&path, || Snapshot::of(&redb, &path).map_err(|e| redb_error(&path, &e)))?;
        let base = Arc::new(base);
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            reserve: Arc::clone(reserve),
            redb,
            identity,
            options,
            state: RwLock::new(State {
                base,
                frozen: None,
                logged: layer,
                writing: Layer::default(),
                pending: Layer::default(),
                records: Vec::new(),
                batch: Arc::default(),
                next_sequence: reached + 1,
                segments,
                pending_makes: false,
                broken: None,
            }),
            turn: Turn::default(),
            syncs: Syncs::from(reached),
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

    /// Returns what opening found in the log.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns a warning if the disk is full.
    pub fn full_disk(&self) -> Option<String> {
        let says = "is full: until there is room, files can only be read and removed";
        (!self.shared.reserve.hold()).then(|| format!("metadata disk of {} {says}", self.shared.directory.display()))
    }

    /// Writes everything into the redb file and empties the log.
    pub(crate) fn checkpoint(&self) -> Result<(), DatabaseError> {
        let shared = &self.shared;
        let target = shared.logged.load(Ordering::Acquire);
        loop {
            let rotated = shared.turn.exclusively(&**shared, || {
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

/// Returns the live segments of a database being opened: those whose records stay in the log, and the one being written. On a full disk the
/// last one is replaced by a short one that is extended, so that the log does not grow with each start.
fn live_segments(
    directory: &Path,
    identity: u64,
    stays: Vec<PathBuf>,
    reached: u64,
    lends: Option<&Arc<Reserve>>,
) -> Result<Vec<Segment>, DatabaseError> {
    let mut segments: Vec<Segment> = stays.into_iter().map(Segment::reopen).collect::<Result<_, _>>()?;
    segments.iter().try_for_each(Segment::sync)?;
    let mut live = None;
    if let (Some(reserve), Some(last)) = (lends, segments.last().filter(|last| last.bytes <= STEP_BYTES))
        && let Some((first, layer)) = outcome_of(&last.path, identity)?
    {
        live = Segment::join(directory, identity, (first, reached), &layer, reserve)?;
    }
    let live = match live {
        Some(joined) => joined,
        None => Segment::create(directory, identity, reached + 1, lends.map(|reserve| &**reserve))?,
    };
    segments.retain(|old| old.path != live.path);
    segments.push(live);
    Ok(segments)
}

impl Drop for Embedded {
    /// Leaves the files as a kill would, except for a checkpoint in progress.
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

    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError> {
        self.shared.wait_while_far_behind()?;
        let has_room = self.shared.reserve.hold();
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
            let makes = makes_something(&own);
            if makes && !has_room {
                return Err(self.shared.reserve.refusal());
            }
            state.pending_makes |= makes;
            log::encode(&mut state.records, state.next_sequence, &own);
            state.next_sequence += 1;
            own.settle_onto(&mut state.pending);
        } else if state.records.is_empty() && state.writing.is_empty() {
            return Ok(Ordered::default());
        }
        // A transaction without changes may still have read what is not yet in the log.
        Ok(Ordered(Some(Arc::clone(&state.batch))))
    }

    fn settle(&self, ordered: &Ordered, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        ordered.0.as_ref().map_or(Ok(()), |batch| self.shared.turn.commit(&*self.shared, batch, watch))
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.shared.sync(watch)
    }

    fn synced(&self) -> u64 {
        self.shared.syncs.reached()
    }

    fn moment(&self) -> Result<Moment, DatabaseError> {
        self.shared.moment()
    }

    fn close(&self) -> Result<(), DatabaseError> {
        match self.checkpoint() {
            // The log keeps it, as after a kill.
            Err(error) if error.full => self.shared.sync(&mut crate::database::Unwatched),
            done => done,
        }
    }
}

impl Writer for Shared {
    fn write_batch(&self, watch: &mut dyn Watch) {
        let (records, makes, batch, segment, last) = {
            let mut state = self.write_state();
            let state = &mut *state;
            state.writing = std::mem::take(&mut state.pending);
            let segment = state.segments.last().expect("there is always a segment").clone();
            let makes = std::mem::take(&mut state.pending_makes);
            (std::mem::take(&mut state.records), makes, std::mem::take(&mut state.batch), segment, state.next_sequence - 1)
        };
        let written = if records.is_empty() {
            Ok(())
        } else {
            watch.begin();
            let mut written = segment.append(&records);
            while let Err(failure) = &written {
                // From here on there is room for removals.
                let has_given = failure.error.full && failure.cut_back && self.reserve.lend(&segment.file, segment.bytes);
                if !has_given || makes {
                    break;
                }
                written = segment.append(&records);
            }
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
                batch.ends(Ok(()), watch.track());
                let rotate = long && state.frozen.is_none();
                drop(guard);
                if rotate && let Err(e) = self.rotate() {
                    self.work.lock().failed = Some(e);
                }
            }
            Err(failure) => {
                // Later transactions read changes that failed, so they fail too.
                state.writing = Layer::default();
                state.pending = Layer::default();
                state.pending_makes = false;
                state.records.clear();
                state.next_sequence = self.logged.load(Ordering::Acquire) + 1;
                let later = std::mem::take(&mut state.batch);
                for batch in [batch, later] {
                    batch.ends(Err(failure.error.clone()), watch.track());
                }
                if !failure.cut_back {
                    state.broken = Some(failure.error);
                }
            }
        }
    }

    fn broken(&self) -> Option<DatabaseError> {
        self.read_state().broken.clone()
    }

    fn breaks(&self) {
        self.write_state().broken.get_or_insert_with(|| self.cut_short());
    }
}

impl Shared {
    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic may have left the state half-changed; then it is marked broken.
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
            "a transaction panicked, which is a bug, and the service writes nothing any more: start it again",
        )
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.syncs.sync(self.logged.load(Ordering::Acquire), watch, |watch| self.sync_segments(watch))
    }

    /// `fdatasync`s every live segment. Everything else is in redb, durably.
    fn sync_segments(&self, watch: &mut dyn Watch) -> Result<u64, DatabaseError> {
        let (segments, reached) = {
            let state = self.read_state();
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            (state.segments.clone(), self.logged.load(Ordering::Acquire))
        };
        watch.begin();
        let result = segments.iter().try_for_each(Segment::sync);
        watch.end(Stage::LogSync);
        if let Err(e) = &result {
            // After a failed sync the kernel may drop the unwritten data: a later successful sync would prove nothing about it.
            self.write_state().broken = Some(e.clone());
        }
        result.map(|()| reached)
    }
}
