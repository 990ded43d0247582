//! Deferred release: reports closed files to the service when no other request does.
//!
//! Closed files are reported with the next request. Without one for a while, the bytes of a file removed while open would stay, and the
//! size of a written file would stay unknown: so a thread reports them [`AFTER`] the first unreported close. The thread sleeps while no
//! file is closed.

use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};

/// How long a close waits for a request that reports it.
const AFTER: Duration = Duration::from_millis(100);

/// State of closed files that were not reported yet.
#[derive(Debug, Default)]
pub(crate) struct DeferredReleases {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    first: Option<Instant>,
    ended: bool,
}

impl DeferredReleases {
    /// Records that a file was closed.
    pub(crate) fn note(&self) {
        let mut state = self.state.lock();
        if state.first.is_none() {
            state.first = Some(Instant::now());
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub(crate) fn finish(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Calls `report` for closed files until [`DeferredReleases::finish`].
    pub(crate) fn run(&self, mut report: impl FnMut()) {
        let mut state = self.state.lock();
        while !state.ended {
            let due = state.first.map(|first| (first + AFTER).saturating_duration_since(Instant::now()));
            match due {
                None => self.changed.wait(&mut state),
                Some(left) if !left.is_zero() => drop(self.changed.wait_for(&mut state, left)),
                Some(_) => {
                    state.first = None;
                    MutexGuard::unlocked(&mut state, &mut report);
                }
            }
        }
    }
}
