//! The database on a PostgreSQL server: where a site outgrows one machine, with the replication and the failover that PostgreSQL brings.
//!
//! One service at a time is active ([`lease`]), and it alone changes the database. So transactions are ordered here, over what is
//! known here of the tables ([`cache`]) and what the server has besides ([`rows`]); the server sees their outcomes. Concurrent transactions
//! share one transaction there, which is one round trip: `SERIALIZABLE`, and held against the epoch of the active service, so that nothing
//! comes from a service that another one has taken over from ([`schema`], [`link`]). A transaction whose rows are known here costs that
//! round trip; what is not known is one more for each range of keys. Running each transaction at the server, with its reads, was rejected: each
//! name of a path and each inode would be a round trip.
//!
//! *Returned* is a commit with `synchronous_commit = off`; *Synced* is a commit after it that is put on stable storage, and so all before it,
//! on synchronous standbys too where PostgreSQL has such. Returned changes are kept here until they are safe there, and sent again if
//! PostgreSQL crashes: it takes the end of both, the service and PostgreSQL, to lose one.
//!
//! Locks are taken in this order: `turn` (never while another is held), `gate`, `link`; `state`, `link`.

mod cache;
mod lease;
mod link;
mod options;
mod rows;
mod schema;
mod server;
mod standby;

use self::cache::Cache;
use self::lease::Lease;
use self::link::{Change, Link, NotApplied, PAUSE, lost};
pub(crate) use self::options::{CACHE_BYTES, Options};
use self::rows::Rows;
pub(crate) use self::server::Server;
use self::server::Trouble;
pub(crate) use self::standby::stand_by;
use super::layers::{Layer, Stack, Working};
use super::{Database, DatabaseError, Stage, Transaction, Unwatched, Verdict, View, Watch};
use crate::sync::{Condvar, Finally, Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use thalweg_trace::TrackId;

/// Changes that are kept are put on stable storage when there are more bytes of them.
const KEPT_BYTES: u64 = 16 << 20;

/// See the module.
pub(crate) struct Postgresql {
    shared: Arc<Shared>,
    incarnation: String,
    beats: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    lease: Arc<Lease>,
    rows: Rows,
    /// Held by those who read, and by who changes the database: a read sees one state of it.
    gate: RwLock<()>,
    state: Mutex<State>,
    turn: Mutex<bool>,
    turned: Condvar,
    link: Arc<Mutex<Link>>,
    syncing: Mutex<Syncing>,
    synced: Condvar,
}

/// What is to be changed next.
#[derive(Default)]
struct State {
    /// Is being sent by the leader.
    writing: Layer,
    /// Waits for the next leader.
    pending: Layer,
    batch: Arc<Batch>,
}

/// Transactions that are one at the server, and what became of them.
#[derive(Debug, Default)]
struct Batch {
    outcome: OnceLock<(Result<(), DatabaseError>, Option<TrackId>)>,
}

#[derive(Default)]
struct Syncing {
    leading: bool,
    leader: Option<TrackId>,
    change: u64,
}

impl std::fmt::Debug for Postgresql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgresql").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

impl Postgresql {
    /// Whether [`Postgresql::open`] would find what it needs, as far as can be seen without a change.
    ///
    /// # Errors
    /// Its errors.
    pub(crate) fn look(server: &Server, options: &Options) -> Result<(), DatabaseError> {
        lease::look(server, options).map(drop)
    }

    /// Opens the database of a store, as its active service.
    ///
    /// # Errors
    /// One sentence that says what is wrong with it; nothing is changed then.
    pub(crate) fn open(server: Server, options: &Options) -> Result<Postgresql, DatabaseError> {
        let taken = lease::take(&server, options)?;
        let server = Arc::new(server);
        let lease = Arc::new(Lease::new(Arc::clone(&server), taken.epoch, taken.session, taken.sent));
        let link = Arc::new(Mutex::new(Link::new(Arc::clone(&server), options.store, taken.epoch, taken.change)));
        let shared = Arc::new(Shared {
            rows: Rows {
                server: Arc::clone(&server),
                store: options.store,
                epoch: taken.epoch,
                lease: Arc::clone(&lease),
                link: Arc::clone(&link),
                cache: Cache::new(options.cache_bytes),
                readers: Mutex::default(),
                committed: AtomicU64::new(taken.change),
            },
            server,
            lease,
            gate: RwLock::default(),
            state: Mutex::default(),
            turn: Mutex::default(),
            turned: Condvar::new(),
            link,
            syncing: Mutex::new(Syncing { change: taken.change, ..Syncing::default() }),
            synced: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let beats = std::thread::Builder::new()
            .name("metadata lease".into())
            .spawn(move || theirs.beats())
            .map_err(|e| DatabaseError::io(shared.server.shown(), "cannot start the lease's thread", &e))?;
        Ok(Postgresql { shared, incarnation: taken.incarnation, beats: Mutex::new(Some(beats)) })
    }
}

#[cfg(test)]
impl Postgresql {
    /// Questions for rows, and changes, that were sent to the server.
    pub(crate) fn round_trips(&self) -> u64 {
        self.shared.server.round_trips()
    }
}

impl Drop for Postgresql {
    /// Leaves the database as a kill would.
    fn drop(&mut self) {
        self.shared.lease.stop();
        if let Some(thread) = self.beats.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Database for Postgresql {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let _gate = self.shared.gate.read();
        self.shared.lease.check()?;
        work(&Stack { layers: Vec::new(), base: &self.shared.rows })
    }

    fn write(
        &self,
        watch: &mut dyn Watch,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        self.shared.lease.check()?;
        let batch = {
            let mut guard = self.shared.state.lock();
            let state = &mut *guard;
            let mut working = Working::over(Stack { layers: vec![&state.pending, &state.writing], base: &self.shared.rows });
            let verdict = work(&mut working)?;
            let mut own = working.own;
            if verdict == Verdict::Commit && !own.is_empty() {
                own.settle_onto(&mut state.pending);
            } else if state.pending.is_empty() && state.writing.is_empty() {
                return Ok(());
            }
            // Having changed nothing, it may still have seen what is not yet at the server.
            Arc::clone(&state.batch)
        };
        self.shared.commit(&batch, watch)
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.shared.sync(watch)
    }

    fn synced(&self) -> u64 {
        self.shared.syncing.lock().change
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
        let closed = self.sync(&mut Unwatched);
        self.shared.lease.stop();
        closed
    }
}

impl Shared {
    /// Waits until `batch` is at the server, or sends it there.
    fn commit(&self, batch: &Batch, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        let mut waiting = false;
        let mut leading = self.turn.lock();
        let (result, leader) = loop {
            if let Some(outcome) = batch.outcome.get() {
                break outcome.clone();
            }
            if !*leading {
                if let Some(ended) = self.lease.ended() {
                    // A leader that failed may have taken our changes with it.
                    break (Err(ended.clone()), None);
                }
                *leading = true;
                drop(leading);
                if std::mem::take(&mut waiting) {
                    watch.end(Stage::Wait(None));
                }
                let turn = Finally(|| {
                    if std::thread::panicking() {
                        self.lease.end(self.server.error("a transaction ended in a panic, a bug: start the service again"));
                    }
                    *self.turn.lock() = false;
                    self.turned.notify_all();
                });
                self.send(watch);
                drop(turn);
                leading = self.turn.lock();
                continue;
            }
            if !std::mem::replace(&mut waiting, true) {
                watch.begin();
            }
            self.turned.wait(&mut leading);
        };
        drop(leading);
        if waiting {
            watch.end(Stage::Wait(leader));
        }
        result
    }

    /// Sends what is pending, as the leader.
    fn send(&self, watch: &mut dyn Watch) {
        let number = self.rows.committed.load(Ordering::Acquire) + 1;
        let (change, batch) = {
            let mut state = self.state.lock();
            state.writing = std::mem::take(&mut state.pending);
            (Change::new(number, &state.writing), std::mem::take(&mut state.batch))
        };
        let is_empty = self.state.lock().writing.is_empty();
        let gate = self.gate.write();
        let mut applied = Ok(());
        let mut kept_bytes = 0;
        if !is_empty {
            let bytes = change.bytes;
            watch.begin();
            let mut link = self.link.lock();
            applied = link.apply(change);
            kept_bytes = link.kept_bytes();
            drop(link);
            watch.end(Stage::LogWrite(bytes));
        }
        let mut state = self.state.lock();
        match applied {
            Ok(()) => {
                let writing = std::mem::take(&mut state.writing);
                if !is_empty {
                    self.rows.cache.apply(&writing);
                    self.rows.committed.store(number, Ordering::Release);
                }
                let _ = batch.outcome.set((Ok(()), watch.track()));
            }
            Err(NotApplied { error, clean }) => {
                if !clean {
                    self.lease.end(error.clone());
                }
                // Those who came after saw what now has not happened: it has not happened for them either.
                state.writing = Layer::default();
                state.pending = Layer::default();
                let later = std::mem::take(&mut state.batch);
                for batch in [batch, later] {
                    let _ = batch.outcome.set((Err(error.clone()), watch.track()));
                }
            }
        }
        drop(state);
        drop(gate);
        if kept_bytes > KEPT_BYTES {
            // So that what is kept is bounded; who needs it synced says so.
            let _ = self.make_safe(&mut Unwatched);
        }
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.lease.check()?;
        let target = self.rows.committed.load(Ordering::Acquire);
        let (mut waiting, mut leader) = (false, None);
        let mut syncing = self.syncing.lock();
        while syncing.change < target {
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
            let made = self.make_safe(watch);
            drop(leading);
            made?;
            syncing = self.syncing.lock();
        }
        drop(syncing);
        if waiting {
            watch.end(Stage::Wait(leader));
        }
        Ok(())
    }

    /// Puts all that the database has on stable storage there. Waits for a server that is away.
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

    /// One beat. A durable one makes safe what the database had before.
    fn beat(&self, durable: bool) -> Result<(), Trouble> {
        let target = self.rows.committed.load(Ordering::Acquire);
        if self.lease.beat(durable)? < target {
            // PostgreSQL crashed, and lost what is still known here: the next beat comes after that.
            self.link.lock().repair().map_err(|failed| Trouble::Refused(failed.error))?;
            return Err(Trouble::Again);
        }
        if durable {
            self.link.lock().is_safe(target);
            let mut syncing = self.syncing.lock();
            syncing.change = syncing.change.max(target);
        }
        Ok(())
    }

    /// The lease's thread: signs of life, until the service stops or another one has taken over.
    fn beats(&self) {
        while self.lease.wait_for_next() {
            let has_unsafe = self.link.lock().kept_bytes() > 0;
            match self.beat(has_unsafe) {
                Err(Trouble::Fenced) => self.lease.end(self.lease.taken_over()),
                Err(Trouble::Refused(error)) if !error.full => self.lease.end(error),
                // Those who need it wait for it, as long as is worth it.
                Ok(()) | Err(_) => {}
            }
        }
    }
}
