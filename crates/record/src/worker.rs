//! A recorder's thread between `begin` and `finish`: it works in rounds with a pause in between, and its final
//! summary is the recorder's.

use crate::{Finished, RecordError};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running worker thread.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<Stop>,
    name: &'static str,
    thread: JoinHandle<Finished>,
}

/// Returns the calling thread's CPU time.
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Asks a worker to end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Asks the worker to end.
    fn ask(&self) {
        let _held = self.lock.lock();
        self.asked.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until asked to end, at most this long; returns whether it was asked.
    pub(crate) fn wait(&self, pause: Duration) -> bool {
        let mut held = self.lock.lock();
        if !self.asked.load(Ordering::Acquire) {
            self.changed.wait_for(&mut held, pause);
        }
        self.asked.load(Ordering::Acquire)
    }
}

impl Worker {
    /// Starts a thread of this name; `work` returns soon after [`Stop::wait`] returns true.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn start(name: &'static str, work: impl FnOnce(&Stop) -> Finished + Send + 'static) -> Result<Worker, RecordError> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&theirs));
        let thread = thread.map_err(|error| RecordError::Failed(format!("a thread cannot be started: {error}")))?;
        Ok(Worker { stop, name, thread })
    }

    /// Ends the worker and returns its summary.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) fn finish(self) -> Result<Finished, RecordError> {
        self.stop.ask();
        self.thread.join().map_err(|_| RecordError::Failed(format!("the recorder's thread `{}` panicked", self.name)))
    }

    /// Ends a worker that may not have begun, or has ended already: the summary is then empty.
    ///
    /// # Errors
    /// As [`Worker::finish`].
    pub(crate) fn finish_any(worker: &mut Option<Worker>) -> Result<Finished, RecordError> {
        worker.take().map_or_else(|| Ok(Finished::default()), Worker::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_ends_when_asked_and_not_before() {
        let rounds = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let theirs = Arc::clone(&rounds);
        let worker = Worker::start("rounds", move |stop| {
            while !stop.wait(Duration::from_micros(10)) {
                theirs.fetch_add(1, Ordering::Relaxed);
            }
            Finished { dropped_events: 3, ..Finished::default() }
        });
        let mut worker = Some(worker.expect("started"));
        while rounds.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        assert_eq!(Worker::finish_any(&mut worker).expect("ended").dropped_events, 3);
        assert_eq!(Worker::finish_any(&mut worker).expect("nothing"), Finished::default());
    }

    #[test]
    fn a_worker_that_panicked_is_an_error_with_its_name() {
        let worker = Worker::start("unlucky", |_| std::panic::resume_unwind(Box::new(()))).expect("started");
        assert!(worker.finish().expect_err("panicked").to_string().contains("unlucky"));
    }
}
