//! The service is to know what is open here, however idle the program is: a thread looks once in a while whether the connections live on which
//! something is open, from the first file that is opened to the client's end.
//!
//! Without it a service that was killed and started again would hear of a file that is open and not used only when it is used again, and would have
//! taken it for closed by then ([`limits::RECOVERY`]). One thread for a client sleeps nearly all of the time; to be woken by
//! the end of a connection instead would take one for each connection, or a second way to wait for all that is sent on them.

use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;

/// See the module.
#[derive(Default)]
pub(super) struct Keeping {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    /// Nothing was opened so far.
    #[default]
    Idle,
    Running,
    Ended,
}

impl Keeping {
    /// Begins to call `keep` once in a while for what `keeping` is a part of, unless that goes on already. Where no thread can be started, the next that
    /// opens something tries again.
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

    /// The client ends.
    pub(super) fn end(&self) {
        *self.state.lock() = State::Ended;
        self.changed.notify_all();
    }

    /// Waits for the next time. Whether there is one.
    fn waits(&self) -> bool {
        let mut state = self.state.lock();
        if *state != State::Ended {
            self.changed.wait_for(&mut state, limits::KEPT_ALIVE);
        }
        *state != State::Ended
    }
}
