//! Keeps the service informed of open files while the program is idle: from the first opened file to the client's end, a thread
//! periodically checks that connections with open files are alive.
//!
//! Otherwise a service that was killed and restarted would not learn of an idle open file before its next use, and would have taken it for
//! closed by then ([`limits::RECOVERY`]). One thread per client sleeps nearly all the time; waiting for a connection's end instead would
//! take a thread per connection, or a second way to wait for its data.

use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;

/// The keep-alive thread; see the module documentation.
#[derive(Default)]
pub(super) struct Keeping {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    /// No file was opened so far.
    #[default]
    Idle,
    Running,
    Ended,
}

impl Keeping {
    /// Starts calling `keep` periodically on `of`, which contains this, unless already started. If the thread cannot be started, the next
    /// opened file tries again.
    pub(super) fn begin<T: Send + Sync + 'static>(&self, of: &Arc<T>, keeping: fn(&T) -> &Keeping, keep: fn(&T)) {
        let mut state = self.state.lock();
        if *state != State::Idle {
            return;
        }
        let theirs = Arc::clone(of);
        let run = move || {
            while keeping(&theirs).waits() {
                keep(&theirs);
            }
        };
        if std::thread::Builder::new().name("metadata client".into()).spawn(run).is_ok() {
            *state = State::Running;
        }
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        *self.state.lock() = State::Ended;
        self.changed.notify_all();
    }

    /// Waits one interval; returns whether to continue.
    fn waits(&self) -> bool {
        let mut state = self.state.lock();
        if *state != State::Ended {
            self.changed.wait_for(&mut state, limits::KEPT_ALIVE);
        }
        *state != State::Ended
    }
}
