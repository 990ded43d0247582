//! The database on a PostgreSQL server, for sites that need more than one machine, with PostgreSQL's replication and failover.
//!
//! One service at a time is active ([`lease`]), and it alone changes the database. So transactions are ordered here, over the cached part
//! of the tables ([`cache`]) and the rest at the server ([`rows`]); the server sees only their outcomes. Concurrent transactions form one
//! row that is appended to the table `log` in one round trip ([`link`]). When the log is long, its rows are written into the tables in the
//! background ([`checkpoints`]); until then they are layers here, on top of the tables ([`super::layers`]). A transaction over cached rows
//! costs one round trip, and one more for each range of keys that is not cached.
//!
//! Rejected: running each transaction at the server with its reads, which costs a round trip for each name of a path and each inode.
//! Rejected too: writing each group's outcome into the tables directly. A file is three rows in two tables with an index each, which takes
//! the server three times as long as a row of the log; and with the log its directory's row is written once per group, not once per file.
//!
//! *Returned* is a commit with `synchronous_commit = off`. *Synced* is a later commit that is put on stable storage together with all
//! before it, on synchronous standbys too if PostgreSQL has any. Returned changes are kept here until they are on stable storage, and sent
//! again if PostgreSQL crashes: one is lost only if the service and PostgreSQL both end.
//!
//! Lock order: `turn` (never while holding another), `state`, `link`; `work` alone.

mod ahead;
mod cache;
mod checkpoints;
mod lease;
mod link;
mod moment;
mod options;
pub mod password;
mod rebuild;
mod rows;
mod schema;
mod server;
mod standby;
mod tail;

use self::ahead::Ahead;
use self::cache::Cache;
use self::lease::Lease;
use self::link::{Change, Link, NotApplied, PAUSE, lost};
pub use self::moment::stopped;
pub use self::options::{CACHE_BYTES, Options, SEGMENT_BYTES};
pub use self::rebuild::rebuild;
use self::rows::Rows;
pub use self::server::Server;
use self::server::Trouble;
pub use self::standby::stand_by;
use super::group::{Syncs, Turn, Writer};
use super::layers::{Layer, Stack, Working};
use super::{Batch, Database, DatabaseError, Moment, Ordered, Stage, Transaction, Unwatched, Verdict, View, Watch, log};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_base::sync::{Condvar, Mutex, RwLock};

/// Kept changes are put on stable storage when they exceed this many bytes.
const KEPT_BYTES: u64 = 16 << 20;

/// The database on a PostgreSQL server.
pub struct Postgresql {
    shared: Arc<Shared>,
    incarnation: String,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    lease: Arc<Lease>,
    rows: Rows,
    state: RwLock<State>,
    turn: Turn,
    syncs: Syncs,
    link: Arc<Mutex<Link>>,
    work: Mutex<Checkpointer>,
    worked: Condvar,
    segment_bytes: u64,
}

/// Instructions to the checkpointer.
#[derive(Debug, Default)]
struct Checkpointer {
    checkpoint: bool,
    stop: bool,
    failed: Option<DatabaseError>,
}

/// The layers over the tables, newest last, and the next batch for the log.
struct State {
    /// The layer being written into the tables, and the number of its last change.
    frozen: Option<(Arc<Layer>, u64)>,
    /// Appended to the log.
    logged: Layer,
    /// Bytes of log of the changes in `logged`.
    logged_bytes: u64,
    /// Being sent by the leader.
    writing: Layer,
    /// Waiting for the next leader.
    pending: Layer,
    records: Vec<u8>,
    batch: Arc<Batch>,
    /// The number of the change that `pending` will become.
    next: u64,
}

impl State {
    /// Returns the layers that transactions see.
    fn newest(&self) -> Vec<&Layer> {
        [&self.pending, &self.writing].into_iter().chain(self.returned()).collect()
    }

    /// Returns the layers that readers see: changes not in the log yet would be lost with a killed service.
    fn returned(&self) -> Vec<&Layer> {
        std::iter::once(&self.logged).chain(self.frozen.as_ref().map(|(layer, _)| &**layer)).collect()
    }
}

impl std::fmt::Debug for Postgresql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgresql").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

/// Opens the database of a store; see [`Postgresql::open`].
///
/// # Errors
/// Those of [`Postgresql::open`].
pub fn open(server: Server, options: &Options) -> Result<Arc<dyn Database>, DatabaseError> {
    Ok(Arc::new(Postgresql::open(server, options)?))
}

/// Checks what [`open`] needs, as far as possible without a change.
///
/// # Errors
/// Those of [`Postgresql::open`].
pub fn check(server: &Server, options: &Options) -> Result<(), DatabaseError> {
    lease::inspect(server, options).map(drop)
}

impl Postgresql {
    /// Opens the database of a store, as its active service.
    ///
    /// # Errors
    /// One sentence with the problem; the database is unchanged.
    pub fn open(server: Server, options: &Options) -> Result<Postgresql, DatabaseError> {
        let taken = lease::take(&server, options)?;
        let server = Arc::new(server);
        let lease = Arc::new(Lease::new(Arc::clone(&server), taken.epoch, taken.session, taken.sent));
        let link = Arc::new(Mutex::new(Link::new(Arc::clone(&server), options.store, taken.epoch, taken.change)));
        let shared = Arc::new(Shared {
            rows: Rows {
                server: Arc::clone(&server),
                epoch: taken.epoch,
                lease: Arc::clone(&lease),
                link: Arc::clone(&link),
                cache: Cache::new(options.cache_bytes),
                readers: Mutex::default(),
                ahead: Ahead::default(),
                changes: Mutex::default(),
                committed: AtomicU64::new(taken.change),
            },
            server,
            lease,
            state: RwLock::new(State {
                frozen: None,
                logged: taken.tail.layer,
                logged_bytes: taken.tail.bytes,
                writing: Layer::default(),
                pending: Layer::default(),
                records: Vec::new(),
                batch: Arc::default(),
                next: taken.change + 1,
            }),
            turn: Turn::default(),
            syncs: Syncs::from(taken.change),
            link,
            work: Mutex::default(),
            worked: Condvar::new(),
            segment_bytes: options.segment_bytes,
        });
        let opened = Postgresql { shared, incarnation: taken.incarnation, threads: Mutex::default() };
        opened.begin("metadata lease", Shared::beats)?;
        opened.begin("metadata checkpoint", Shared::checkpoints)?;
        opened.begin("metadata reading ahead", Shared::reads_ahead)?;
        Ok(opened)
    }

    fn begin(&self, name: &str, work: impl Fn(&Shared) + Send + 'static) -> Result<(), DatabaseError> {
        let shared = Arc::clone(&self.shared);
        let begun = std::thread::Builder::new().name(name.into()).spawn(move || work(&shared));
        let problem = "cannot start one of the database's threads";
        self.threads.lock().push(begun.map_err(|e| DatabaseError::io(self.shared.server.shown(), problem, &e))?);
        Ok(())
    }
}

#[cfg(test)]
impl Postgresql {
    /// Returns the number of requests for rows and of changes sent to the server.
    pub(crate) fn round_trips(&self) -> u64 {
        self.shared.server.round_trips()
    }
}

impl Drop for Postgresql {
    /// Leaves the database as a kill would, except for a checkpoint in progress.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

impl Database for Postgresql {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        self.shared.lease.check()?;
        let state = self.shared.state.read();
        work(&Stack { layers: state.returned(), base: &self.shared.rows })
    }

    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError> {
        self.shared.lease.check()?;
        self.shared.wait_while_far_behind()?;
        let mut guard = self.shared.state.write();
        let state = &mut *guard;
        let mut working = Working::over(Stack { layers: state.newest(), base: &self.shared.rows });
        let verdict = work(&mut working)?;
        let mut own = working.own;
        if verdict == Verdict::Commit && !own.is_empty() {
            log::encode(&mut state.records, state.next, &own);
            own.settle_onto(&mut state.pending);
        } else if state.pending.is_empty() && state.writing.is_empty() {
            return Ok(Ordered::default());
        }
        // A transaction without changes may still have read what is not yet at the server.
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
        self.shared.lease.check()?;
        let taken = moment::take(&self.shared.rows)?;
        self.shared.sync(&mut Unwatched)?;
        Ok(taken)
    }

    fn is_usable(&self) -> Result<(), DatabaseError> {
        self.shared.lease.check()
    }

    fn ended(&self) -> Option<DatabaseError> {
        self.shared.lease.ended().cloned()
    }

    fn on_end(&self, notify: Box<dyn FnOnce() + Send>) {
        self.shared.lease.on_end(notify);
    }

    fn boot_id(&self) -> Option<String> {
        Some(self.incarnation.clone())
    }

    fn close(&self) -> Result<(), DatabaseError> {
        let closed = self.sync(&mut Unwatched).and_then(|()| self.checkpoint());
        self.shared.stop();
        closed
    }
}

impl Writer for Shared {
    fn write_batch(&self, watch: &mut dyn Watch) {
        let (number, records, batch) = {
            let mut state = self.state.write();
            state.writing = std::mem::take(&mut state.pending);
            let records = std::mem::take(&mut state.records);
            let number = state.next;
            state.next += u64::from(!records.is_empty());
            (number, records, std::mem::take(&mut state.batch))
        };
        let (bytes, mut applied, mut kept_bytes) = (records.len() as u64, Ok(()), 0);
        if !records.is_empty() {
            watch.begin();
            let mut link = self.link.lock();
            applied = link.append(Change { number, records });
            kept_bytes = link.kept_bytes();
            drop(link);
            watch.end(Stage::LogWrite(bytes));
        }
        let mut guard = self.state.write();
        let state = &mut *guard;
        match applied {
            Ok(()) => {
                let mut writing = std::mem::take(&mut state.writing);
                writing.settle_onto(&mut state.logged);
                state.logged_bytes += bytes;
                if bytes > 0 {
                    self.rows.committed.store(number, Ordering::Release);
                }
                batch.ends(Ok(()), watch.track());
                self.freeze_if_long(state);
            }
            Err(NotApplied { error, clean }) => {
                if !clean {
                    self.lease.end(error.clone());
                }
                // Later transactions read changes that failed, so they fail too.
                (state.writing, state.pending) = (Layer::default(), Layer::default());
                state.records.clear();
                state.next = number;
                for batch in [batch, std::mem::take(&mut state.batch)] {
                    batch.ends(Err(error.clone()), watch.track());
                }
            }
        }
        drop(guard);
        if kept_bytes > KEPT_BYTES {
            // Bounds the kept changes; a caller that needs them synced gets the error itself.
            let _ = self.make_safe(&mut Unwatched);
        }
    }

    fn broken(&self) -> Option<DatabaseError> {
        self.lease.ended().cloned()
    }

    fn breaks(&self) {
        self.lease.end(self.server.error("a transaction panicked, which is a bug: start the service again"));
    }
}

impl Shared {
    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.lease.check()?;
        // (One beat reports its own progress.)
        self.syncs.sync(self.rows.committed.load(Ordering::Acquire), watch, |watch| self.make_safe(watch).map(|()| self.syncs.reached()))
    }

    /// Runs the read-ahead thread.
    fn reads_ahead(&self) {
        while let Some((table, from)) = self.rows.ahead.next() {
            self.rows.fetch_early(table, &from);
        }
    }

    /// Stops beats, checkpoints and read-ahead.
    fn stop(&self) {
        self.lease.stop();
        self.rows.ahead.stop();
        self.work.lock().stop = true;
        self.worked.notify_all();
    }

    /// Puts everything in the database on stable storage. Waits for an unreachable server.
    fn make_safe(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        let began = Instant::now();
        loop {
            watch.begin();
            let beaten = self.beat(true);
            watch.end(Stage::LogSync);
            let said = match beaten {
                Ok(()) => return Ok(()),
                Err(Trouble::Again) => continue,
                Err(Trouble::Refused(error)) => return Err(error),
                Err(Trouble::Fenced) => {
                    self.lease.end(self.lease.taken_over());
                    return Err(self.lease.taken_over());
                }
                Err(Trouble::ReadOnly) => "it has become read-only".to_owned(),
                Err(Trouble::Lost(said)) => said,
            };
            if began.elapsed() >= self.server.patience {
                return Err(lost(&self.server, began.elapsed(), &said));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends one beat. A durable one puts earlier changes on stable storage.
    fn beat(&self, durable: bool) -> Result<(), Trouble> {
        let target = self.rows.committed.load(Ordering::Acquire);
        if self.lease.beat(durable)? < target {
            // PostgreSQL crashed and lost changes that are kept here: sends them again before the next beat.
            self.link.lock().repair().map_err(|failed| Trouble::Refused(failed.error))?;
            return Err(Trouble::Again);
        }
        if durable {
            self.link.lock().is_safe(target);
            self.syncs.reaches(target);
        }
        Ok(())
    }

    /// Runs the lease's thread: beats until the service stops or is superseded.
    fn beats(&self) {
        while self.lease.wait_for_next() {
            let has_unsafe = self.link.lock().kept_bytes() > 0;
            match self.beat(has_unsafe) {
                Err(Trouble::Fenced) => self.lease.end(self.lease.taken_over()),
                Err(Trouble::Refused(error)) if !error.full => self.lease.end(error),
                // Callers that need the beat wait for it, up to their own timeout.
                Ok(()) | Err(_) => {}
            }
        }
    }
}
