//! A recorder's own thread, between `begin` and `finish`: it works in rounds with a pause between them, and what it says at its end
//! is what the recorder says.

use crate::{Finished, RecordError};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread at work.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<Stop>,
    name: &'static str,
    thread: JoinHandle<Finished>,
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Says to a worker that it is to end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Asks it to end.
    fn ask(&self) {
        let _held = self.lock.lock();
        self.asked.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until asked, at most this long; whether it was.
    pub(crate) fn wait(&self, pause: Duration) -> bool {
        let mut held = self.lock.lock();
        if !self.asked.load(Ordering::Acquire) {
            self.changed.wait_for(&mut held, pause);
        }
        self.asked.load(Ordering::Acquire)
    }
}

impl Worker {
    /// Starts a thread of this name; `work` returns soon after [`Stop::wait`] has said that it is to.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(crate) fn start(name: &'static str, work: impl FnOnce(&Stop) -> Finished + Send + 'static) -> Result<Worker, RecordError> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&theirs));
        let thread = thread.map_err(|error| RecordError::Failed(format!("a thread cannot be started: {error}")))?;
        Ok(Worker { stop, name, thread })
    }

    /// Has it end; what it says.
    ///
    /// # Errors
    /// It has panicked.
    pub(crate) fn finish(self) -> Result<Finished, RecordError> {
        self.stop.ask();
        self.thread.join().map_err(|_| RecordError::Failed(format!("the recorder's thread `{}` has panicked", self.name)))
    }

    /// The same for a recorder that may not have begun, or has ended before: then there is nothing to say.
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
