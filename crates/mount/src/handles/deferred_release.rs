//! Deferred release: notifying the service of closed files when no other request does.
//!
//! The service learns of closed files with the next request. If there is none for a while, the bytes of a file whose last name was removed
//! while it was open would stay, and the size of a file that was written would not be known: so a thread notifies it, [`AFTER`] the first
//! close that it was not notified of. The thread sleeps as long as nothing is closed.

use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};

/// How long a close waits for a request that takes it along.
const AFTER: Duration = Duration::from_millis(100);

/// What is closed and not reported yet.
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
    /// A file was closed.
    pub(crate) fn note(&self) {
        let mut state = self.state.lock();
        if state.first.is_none() {
            state.first = Some(Instant::now());
            self.changed.notify_all();
        }
    }

    /// There will be no more.
    pub(crate) fn finish(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Calls `report` for what was closed, until [`DeferredReleases::finish`].
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
