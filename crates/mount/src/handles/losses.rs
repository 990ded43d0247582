//! Files that have lost acknowledged bytes through this mount.
//!
//! A loss is reported to the metadata service before the program's flush or sync returns. If that fails, the report is kept, the file
//! cannot be opened through this mount, and a thread retries every [`RETRY_INTERVAL`] until the mount ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_client::Unreported;
use thalweg_client::wire::protocol::metadata::FileId;

/// Interval between attempts to report.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Losses through this mount; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unreported: BTreeMap<FileId, Unreported>,
    /// Files with lost bytes that are not known to be repaired.
    lost: BTreeSet<FileId>,
    /// Whether a loss occurred since the last sync of the whole mount.
    is_unsynced: bool,
    ended: bool,
}

impl Losses {
    /// Records that a file has lost bytes.
    pub(crate) fn note(&self, file: FileId) {
        let mut state = self.state.lock();
        state.lost.insert(file);
        state.is_unsynced = true;
    }

    /// Keeps a report that could not be delivered.
    pub(crate) fn keep(&self, file: FileId, unreported: Unreported) {
        self.state.lock().unreported.insert(file, unreported);
        self.changed.notify_all();
    }

    /// Records that a loss was reported; `is_whole`: no bytes of the file are lost any more.
    pub(crate) fn reported(&self, file: FileId, is_whole: bool) {
        let mut state = self.state.lock();
        state.unreported.remove(&file);
        if is_whole {
            state.lost.remove(&file);
        }
    }

    /// Returns the pending report for a file.
    pub(crate) fn unreported(&self, file: FileId) -> Option<Unreported> {
        let state = self.state.lock();
        state.unreported.get(&file).cloned()
    }

    /// Returns the files with pending reports.
    pub(crate) fn files_unreported(&self) -> Vec<FileId> {
        self.state.lock().unreported.keys().copied().collect()
    }

    /// Returns the files with lost bytes.
    pub(crate) fn files_lost(&self) -> Vec<FileId> {
        self.state.lock().lost.iter().copied().collect()
    }

    /// Whether a loss occurred since the last call.
    pub(crate) fn take_unsynced(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_unsynced)
    }

    /// Ends the thread.
    pub(crate) fn finish(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Calls `report` for pending reports until [`Losses::finish`].
    pub(crate) fn run(&self, mut report: impl FnMut()) {
        loop {
            let mut state = self.state.lock();
            let due = Instant::now() + RETRY_INTERVAL;
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
