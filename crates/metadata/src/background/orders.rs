//! When a worker runs: a round on notification, and again after a pause while work is left.

use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};

/// A worker's notifications and progress.
pub(crate) struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    notified: bool,
    stop: bool,
    /// Number of callers waiting for the end of a round.
    waiting: usize,
    begun: u64,
    ended: u64,
    /// Progress counter: grows with each completed item and at each round's end.
    steps: u64,
}

impl Orders {
    /// Starts notified, to process what an earlier start left.
    pub(crate) fn new() -> Orders {
        Orders { state: Mutex::new(State { notified: true, ..State::default() }), changed: Condvar::new() }
    }

    /// Notifies the worker.
    pub(crate) fn notify(&self) {
        self.state.lock().notified = true;
        self.changed.notify_all();
    }

    /// Asks the worker to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stop
    }

    /// Returns the progress counter.
    pub(crate) fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Counts a completed item that callers may wait for.
    pub(crate) fn step(&self) {
        self.state.lock().steps += 1;
        self.changed.notify_all();
    }

    /// Waits until the progress counter exceeds `steps`, the worker ends, or `deadline`.
    pub(crate) fn wait_for_step(&self, steps: u64, deadline: Instant) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.steps <= steps && !state.stop && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.waiting -= 1;
    }

    /// Requests a round that starts from now on, and returns when it has ended.
    #[cfg(test)]
    pub(crate) fn have_round(&self) {
        let mut state = self.state.lock();
        state.notified = true;
        state.waiting += 1;
        let goal = state.begun + 1;
        self.changed.notify_all();
        while state.ended < goal {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Runs the worker. Before each round it waits `gather` for further notifications, repeatedly while they arrive, for at most `most` or
    /// until a caller waits. `round` returns whether work is left for a retry, which follows after `pause`.
    pub(crate) fn work(&self, pause: Duration, (gather, most): (Duration, Duration), mut round: impl FnMut() -> bool) {
        let mut left = false;
        loop {
            let mut state = self.state.lock();
            let pause_ends = Instant::now() + pause;
            while !(state.notified || state.stop || left && Instant::now() >= pause_ends) {
                if left {
                    self.changed.wait_until(&mut state, pause_ends);
                } else {
                    self.changed.wait(&mut state);
                }
            }
            let begins_by = Instant::now() + most;
            loop {
                state.notified = false;
                self.changed.wait_while_for(&mut state, |state| !state.stop && state.waiting == 0, gather);
                if !state.notified || state.waiting > 0 || Instant::now() >= begins_by {
                    break;
                }
            }
            if state.stop {
                return;
            }
            state.notified = false;
            state.begun += 1;
            drop(state);
            left = round();
            let mut state = self.state.lock();
            state.ended += 1;
            state.steps += 1;
            drop(state);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const GATHER: Duration = Duration::from_millis(200);

    /// Starts a worker that reports its rounds.
    fn at_work(most: Duration) -> (Arc<Orders>, std::sync::mpsc::Receiver<()>, std::thread::JoinHandle<()>) {
        let (orders, (began, rounds)) = (Arc::new(Orders::new()), channel());
        let theirs = Arc::clone(&orders);
        let worker = std::thread::spawn(move || theirs.work(Duration::ZERO, (GATHER, most), || began.send(()).is_err()));
        rounds.recv().unwrap();
        (orders, rounds, worker)
    }

    #[test]
    fn a_round_waits_while_more_comes_and_not_for_longer_than_is_allowed() {
        let most = 2 * GATHER;
        let (orders, rounds, worker) = at_work(most);
        let begun = Instant::now();
        let (mut last, mut longest) = (begun, Duration::ZERO);
        while rounds.try_recv().is_err() {
            orders.notify();
            longest = longest.max(last.elapsed());
            last = Instant::now();
            std::thread::sleep(GATHER / 100);
            assert!(begun.elapsed() < 60 * most, "no round");
        }
        // (On a busy machine this thread may itself have been suspended for longer than `GATHER`.)
        assert!(begun.elapsed() >= most || longest >= GATHER, "more came: {:?}", begun.elapsed());
        orders.stop();
        worker.join().unwrap();
    }

    #[test]
    fn nobody_who_waits_for_a_round_waits_for_what_else_may_come() {
        let hour = Duration::from_secs(3600);
        let (orders, _rounds, worker) = at_work(hour);
        orders.notify();
        std::thread::sleep(GATHER / 4);
        orders.wait_for_step(1, Instant::now() + hour);
        assert!(orders.steps() > 1, "a second round");
        orders.stop();
        worker.join().unwrap();
    }
}
