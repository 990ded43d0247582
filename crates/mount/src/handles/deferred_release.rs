//! Tells the service what was closed when nothing else is asked of it.
//!
//! The service hears of closed files with the next request. If there is none for a while, the bytes of a file whose last name went while it
//! was open would stay where they are, and the size of a file that was written would not be known: so a thread says it, [`AFTER`] the first
//! close that was not said yet. It sleeps as long as nothing is closed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a close waits for a request that takes it along.
const AFTER: Duration = Duration::from_millis(100);

/// What is closed and not told yet.
#[derive(Debug, Default)]
pub struct Closes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    first: Option<Instant>,
    ended: bool,
}

impl Closes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file was closed.
    pub fn closed(&self) {
        let mut state = self.state();
        if state.first.is_none() {
            state.first = Some(Instant::now());
            self.changed.notify_all();
        }
    }

    /// There will be no more.
    pub fn finish(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Calls `tell` for what was closed, until [`Closes::finish`].
    pub fn watch(&self, mut tell: impl FnMut()) {
        let mut state = self.state();
        while !state.ended {
            let due = state.first.map(|first| (first + AFTER).saturating_duration_since(Instant::now()));
            state = match due {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if !left.is_zero() => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                Some(_) => {
                    state.first = None;
                    drop(state);
                    tell();
                    self.state()
                }
            };
        }
    }
}
