//! Turns for work that many threads request simultaneously, so that it does not occupy all CPUs.
//!
//! A hundred clients that list a large directory are a hundred threads with a millisecond of work each. If all of them run, a client that
//! creates a file waits for a share of the CPUs. So directories are read in turns: by half as many threads as CPUs at a time, in order of
//! arrival, for a short slice each.

use crate::database::{Stage, Watch};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use thalweg_base::sync::Mutex;

/// The threads that work, and those that wait.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    busy: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    is_called: AtomicBool,
}

/// A turn, which ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Turns {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Turns::new(processors.div_ceil(2))
    }
}

impl Turns {
    /// Allows `most` turns at a time.
    pub(super) fn new(most: usize) -> Turns {
        Turns { most: most.max(1), state: Mutex::default() }
    }

    /// Waits for a turn.
    pub(super) fn take(&self, watch: &mut dyn Watch) -> Turn<'_> {
        let waiter = {
            let mut state = self.state.lock();
            if state.busy < self.most {
                state.busy += 1;
                return Turn(self);
            }
            let waiter = Arc::new(Waiter { thread: std::thread::current(), is_called: AtomicBool::new(false) });
            state.waiting.push_back(Arc::clone(&waiter));
            waiter
        };
        watch.begin();
        while !waiter.is_called.load(Ordering::Acquire) {
            std::thread::park();
        }
        watch.end(Stage::Wait(None));
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state.lock();
            let next = state.waiting.pop_front();
            if next.is_none() {
                state.busy -= 1;
            }
            next
        };
        if let Some(next) = next {
            next.is_called.store(true, Ordering::Release);
            next.thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Unwatched;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn never_more_at_a_time_and_everybody_comes() {
        let (turns, working, worked) = (Turns::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = turns.take(&mut Unwatched);
                        assert!(working.fetch_add(1, Ordering::SeqCst) < 3);
                        std::thread::yield_now();
                        working.fetch_sub(1, Ordering::SeqCst);
                        worked.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(worked.load(Ordering::SeqCst), 16 * 200);
        assert_eq!(turns.state.lock().busy, 0);
    }

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let (turns, order) = (Turns::new(1), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let first = turns.take(&mut Unwatched);
            for number in 0..8 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.take(&mut Unwatched);
                    order.lock().push(number);
                });
                while turns.state.lock().waiting.len() <= number {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock(), (0..8).collect::<Vec<_>>());
    }
}
