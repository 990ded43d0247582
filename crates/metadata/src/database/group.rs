//! Group commit: concurrent transactions are written together. The first to arrive becomes the *leader* and writes all that are prepared by
//! then; the others wait, and one whose transaction was not included leads next. Syncs are shared likewise.
//!
//! This module decides who writes; the database decides what is written, and where ([`Writer`]).

#[cfg(all(test, feature = "shuttle"))]
mod checked;

use super::{Batch, DatabaseError, Stage, Watch};
use thalweg_base::sync::{Condvar, Finally, Mutex};
use thalweg_trace::TrackId;

/// The database, as its leader uses it.
pub(super) trait Writer {
    /// Writes what is pending, and reports the outcome to its batch.
    fn write_batch(&self, watch: &mut dyn Watch);
    /// Returns the error after which nothing is written.
    fn broken(&self) -> Option<DatabaseError>;
    /// Marks the database broken after a leader's panic.
    fn breaks(&self);
}

/// The turn to write.
#[derive(Debug, Default)]
pub(super) struct Turn {
    leading: Mutex<bool>,
    turned: Condvar,
}

impl Turn {
    /// Waits until `batch` is written, or writes it.
    pub(super) fn commit(&self, writer: &dyn Writer, batch: &Batch, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        let mut waiting = false;
        let mut leading = self.leading.lock();
        let (result, leader) = loop {
            if let Some(outcome) = batch.outcome.get() {
                break outcome.clone();
            }
            if !*leading {
                if let Some(broken) = writer.broken() {
                    // A leader that failed or panicked may have taken this batch with it.
                    break (Err(broken), None);
                }
                *leading = true;
                drop(leading);
                if std::mem::take(&mut waiting) {
                    watch.end(Stage::Wait(None));
                }
                let turn = self.taken(writer);
                writer.write_batch(watch);
                drop(turn);
                leading = self.leading.lock();
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

    /// Runs `work` while no thread writes.
    pub(super) fn exclusively<T>(&self, writer: &dyn Writer, work: impl FnOnce() -> T) -> T {
        let mut leading = self.leading.lock();
        while *leading {
            self.turned.wait(&mut leading);
        }
        *leading = true;
        drop(leading);
        let _turn = self.taken(writer);
        work()
    }

    /// Wraps the turn, which the caller has taken: passes it on when dropped.
    fn taken<'a>(&'a self, writer: &'a dyn Writer) -> Finally<impl FnMut() + 'a> {
        Finally(|| {
            if std::thread::panicking() {
                writer.breaks();
            }
            *self.leading.lock() = false;
            self.turned.notify_all();
        })
    }
}

/// The number up to which data is on stable storage, and the turn to sync more.
#[derive(Debug)]
pub(super) struct Syncs {
    state: Mutex<Syncing>,
    synced: Condvar,
}

#[derive(Debug)]
struct Syncing {
    leading: bool,
    leader: Option<TrackId>,
    reached: u64,
}

impl Syncs {
    /// Starts with everything up to this number on stable storage.
    pub(super) fn from(reached: u64) -> Syncs {
        Syncs { state: Mutex::new(Syncing { leading: false, leader: None, reached }), synced: Condvar::new() }
    }

    /// Returns the number up to which everything is on stable storage.
    pub(super) fn reached(&self) -> u64 {
        self.state.lock().reached
    }

    /// Records that everything up to this number is on stable storage.
    pub(super) fn reaches(&self, number: u64) {
        let mut state = self.state.lock();
        state.reached = state.reached.max(number);
    }

    /// Waits until everything up to `target` is on stable storage, or calls `put`, which syncs and returns the number reached.
    pub(super) fn sync(
        &self,
        target: u64,
        watch: &mut dyn Watch,
        mut put: impl FnMut(&mut dyn Watch) -> Result<u64, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let (mut waiting, mut leader) = (false, None);
        let mut state = self.state.lock();
        while state.reached < target {
            if state.leading {
                leader = state.leader;
                if !std::mem::replace(&mut waiting, true) {
                    watch.begin();
                }
                self.synced.wait(&mut state);
                continue;
            }
            state.leading = true;
            state.leader = watch.track();
            drop(state);
            let leading = Finally(|| {
                self.state.lock().leading = false;
                self.synced.notify_all();
            });
            if std::mem::take(&mut waiting) {
                watch.end(Stage::Wait(leader));
            }
            let put = put(watch).map(|reached| self.reaches(reached));
            drop(leading);
            put?;
            state = self.state.lock();
        }
        drop(state);
        if waiting {
            watch.end(Stage::Wait(leader));
        }
        Ok(())
    }
}
