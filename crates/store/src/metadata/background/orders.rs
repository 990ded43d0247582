//! When a worker works: a round when it is notified, and again after a pause while something is left.

use crate::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a worker was notified of, and how far it has come.
pub(crate) struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    look: bool,
    stop: bool,
    begun: u64,
    ended: u64,
}

impl Orders {
    /// There is something to look at: what an earlier start left.
    pub(crate) fn new() -> Orders {
        Orders { state: Mutex::new(State { look: true, ..State::default() }), changed: Condvar::new() }
    }

    /// There may be something to do.
    pub(crate) fn look(&self) {
        self.state.lock().look = true;
        self.changed.notify_all();
    }

    /// The worker ends as soon as it can.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stop
    }

    /// Rounds that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.state.lock().ended
    }

    /// Waits for the end of a round past so many, until then at most; whether there was one.
    pub(crate) fn wait_for_round(&self, ended: u64, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.ended <= ended {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }

    /// Waits for that moment, or for the worker's end.
    pub(crate) fn wait_until(&self, moment: Instant) {
        let mut state = self.state.lock();
        while !state.stop && Instant::now() < moment {
            self.changed.wait_until(&mut state, moment);
        }
    }

    /// Has a round that begins from now on, and returns when it has ended.
    #[cfg(test)]
    pub(crate) fn have_round(&self) {
        let mut state = self.state.lock();
        state.look = true;
        let goal = state.begun + 1;
        self.changed.notify_all();
        while state.ended < goal {
            self.changed.wait(&mut state);
        }
    }

    /// The worker's life. Before each round others have `gather` to say what they want done with it; `round` says whether something is left
    /// that only time can mend, which is looked at again after `pause`.
    pub(crate) fn work(&self, pause: Duration, gather: Duration, mut round: impl FnMut() -> bool) {
        let mut left = false;
        loop {
            let mut state = self.state.lock();
            let pause_ends = Instant::now() + pause;
            while !(state.look || state.stop || left && Instant::now() >= pause_ends) {
                if left {
                    self.changed.wait_until(&mut state, pause_ends);
                } else {
                    self.changed.wait(&mut state);
                }
            }
            self.changed.wait_while_for(&mut state, |state| !state.stop, gather);
            if state.stop {
                return;
            }
            state.look = false;
            state.begun += 1;
            drop(state);
            left = round();
            self.state.lock().ended += 1;
            self.changed.notify_all();
        }
    }
}
