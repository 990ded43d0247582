//! Limits the time an operation waits for silent servers to about one timeout.
//!
//! One call of a program may take several steps: bytes are flushed, then synced, then a name is changed; a failed read-ahead is
//! repeated; a shared connection is waited for. If every step waited a full timeout for a silent server, the call would take two
//! or three. A thread therefore marks the beginning of an operation ([`Operation`]); after that:
//!
//! - a server whose silence exceeded a timeout since then fails immediately, until it answers anyone ([`Silence`]);
//! - other servers get a fiftieth of the timeout: the operation has already failed, and the rest is clean-up.
//!
//! The next operation asks afresh, so that a recovered server is used again immediately.

use crate::error::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// Divisor of the timeout once the operation has timed out on a server.
const REST: u32 = 50;

thread_local! {
    static NOW: RefCell<Option<Begun>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct Begun {
    at: Instant,
    gave_up: bool,
    is_left: Arc<AtomicBool>,
}

/// The thread's current operation, ended by drop. A nested operation is part of the outer one.
#[derive(Debug)]
pub struct Operation {
    is_outer: bool,
}

impl Operation {
    /// Begins an operation that its caller may abandon (`is_left`), or continues one that began at `at`.
    pub fn begin(at: Instant, is_left: Arc<AtomicBool>) -> Operation {
        NOW.with_borrow_mut(|now| {
            let is_outer = now.is_none();
            now.get_or_insert_with(|| Begun { at, gave_up: false, is_left });
            Operation { is_outer }
        })
    }

    /// Notes an error for the thread's operation, if any, that no call reported. A timeout counts as having given up a server.
    pub fn met(error: &Error) {
        met(error);
    }

    /// Whether the operation has given up a server.
    pub fn gave_up(&self) -> bool {
        NOW.with_borrow(|now| now.as_ref().is_some_and(|begun| begun.gave_up))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_outer {
            NOW.take();
        }
    }
}

/// Returns how long this thread may wait for a server whose full timeout is `timeout`.
pub(crate) fn left(timeout: Duration) -> Duration {
    if NOW.with_borrow(|now| now.as_ref().is_some_and(|begun| begun.gave_up)) { timeout / REST } else { timeout }
}

/// Whether the caller has abandoned this thread's operation.
pub fn is_left() -> bool {
    NOW.with_borrow(|now| now.as_ref().is_some_and(|begun| begun.is_left.load(Ordering::Acquire)))
}

/// Notes an error for this thread's operation; a timeout counts as having given up a server.
pub fn met(error: &Error) {
    if error.kind() == ErrorKind::TimedOut {
        NOW.with_borrow_mut(|now| now.as_mut().map(|begun| begun.gave_up = true));
    }
}

/// Whether one server is silent.
#[derive(Debug, Default)]
pub struct Silence {
    any: AtomicBool,
    /// The last timeout, if the server has not answered since.
    last: Mutex<Option<(Instant, Error)>>,
}

impl Silence {
    /// Records the result of a request to the server.
    pub fn asked<T>(&self, result: &Result<T>) {
        match result {
            Err(error) if error.kind() == ErrorKind::TimedOut => self.gave_up(error),
            Err(error) if error.breaks_connection() => {}
            _ => self.answered(),
        }
    }

    /// Records a timeout.
    pub fn gave_up(&self, error: &Error) {
        met(error);
        *self.last.lock() = Some((Instant::now(), error.clone()));
        self.any.store(true, Ordering::Release);
    }

    /// Records an answer.
    pub fn answered(&self) {
        if self.any.load(Ordering::Acquire) {
            self.any.store(false, Ordering::Release);
            *self.last.lock() = None;
        }
    }

    /// Checks whether this thread's operation should still ask the server.
    ///
    /// # Errors
    /// The timeout, if it was since the operation began.
    pub fn check(&self) -> Result<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(begun) = NOW.with_borrow(|now| now.as_ref().map(|begun| begun.at)) else { return Ok(()) };
        match &*self.last.lock() {
            Some((at, error)) if *at >= begun => {
                met(error);
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_waits_once_and_the_next_asks_afresh() {
        let (silence, other) = (Silence::default(), Silence::default());
        let timed_out: Result<()> = Err(Error::new(ErrorKind::TimedOut, "silent").at_server("io0"));
        let timeout = Duration::from_secs(30);
        {
            let _operation = Operation::begin(Instant::now(), Arc::default());
            assert!(silence.check().is_ok() && left(timeout) == timeout);
            silence.asked(&timed_out);
            drop(Operation::begin(Instant::now(), Arc::default()));
            assert_eq!(silence.check().unwrap_err().server(), Some("io0"));
            assert!(other.check().is_ok() && left(timeout) < timeout / 10);
            silence.asked(&Ok(()));
            assert!(silence.check().is_ok(), "it has answered somebody");
        }
        silence.asked(&timed_out);
        assert!(silence.check().is_ok(), "outside of an operation everything is asked");
        let _next = Operation::begin(Instant::now(), Arc::default());
        assert!(silence.check().is_ok() && left(timeout) == timeout);
    }

    #[test]
    fn who_waited_meanwhile_for_a_server_that_another_gave_up_waits_no_more() {
        let silence = Silence::default();
        let _operation = Operation::begin(Instant::now(), Arc::default());
        std::thread::scope(|scope| {
            scope.spawn(|| silence.gave_up(&Error::new(ErrorKind::TimedOut, "silent")));
        });
        assert!(silence.check().is_err());
        assert!(left(Duration::from_secs(30)) < Duration::from_secs(1), "and for nobody else for long");
    }
}
