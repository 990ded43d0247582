//! Files that have lost acknowledged bytes through this mount.
//!
//! The metadata service is notified of a loss before the program that flushes or syncs is answered. Where it cannot be, what it is to be notified of
//! stays here, the file cannot be opened through this mount, and a thread tries again every [`AGAIN`], until the mount ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_client::Unreported;
use thalweg_client::wire::protocol::metadata::FileId;

/// How long after an attempt the next one is made.
const AGAIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unreported: BTreeMap<FileId, Unreported>,
    /// All that have lost bytes, as far as they are not known to be mended.
    lost: BTreeSet<FileId>,
    /// Something was lost since the last sync of the whole mount.
    is_unsynced: bool,
    ended: bool,
}

impl Losses {
    /// A file has lost bytes.
    pub(crate) fn note(&self, file: FileId) {
        let mut state = self.state.lock();
        state.lost.insert(file);
        state.is_unsynced = true;
    }

    /// The service could not be notified of this.
    pub(crate) fn keep(&self, file: FileId, unreported: Unreported) {
        self.state.lock().unreported.insert(file, unreported);
        self.changed.notify_all();
    }

    /// The service knows; `is_whole`: nothing of the file is lost any more.
    pub(crate) fn reported(&self, file: FileId, is_whole: bool) {
        let mut state = self.state.lock();
        state.unreported.remove(&file);
        if is_whole {
            state.lost.remove(&file);
        }
    }

    /// What the service is still to be notified of for a file.
    pub(crate) fn unreported(&self, file: FileId) -> Option<Unreported> {
        let state = self.state.lock();
        state.unreported.get(&file).cloned()
    }

    /// The files of which it is to be notified.
    pub(crate) fn files_unreported(&self) -> Vec<FileId> {
        self.state.lock().unreported.keys().copied().collect()
    }

    /// The files that have lost bytes.
    pub(crate) fn files_lost(&self) -> Vec<FileId> {
        self.state.lock().lost.iter().copied().collect()
    }

    /// Whether something was lost since this was asked last.
    pub(crate) fn take_unsynced(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_unsynced)
    }

    /// There will be no more.
    pub(crate) fn finish(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Calls `report` for what is to be reported, until [`Losses::finish`].
    pub(crate) fn run(&self, mut report: impl FnMut()) {
        loop {
            let mut state = self.state.lock();
            let due = Instant::now() + AGAIN;
            while !state.ended && (state.unreported.is_empty() || Instant::now() < due) {
                if state.unreported.is_empty() {
                    self.changed.wait(&mut state);
                } else {
                    self.changed.wait_until(&mut state, due);
                }
            }
            if state.ended {
                return;
            }
            drop(state);
            report();
        }
    }
}
