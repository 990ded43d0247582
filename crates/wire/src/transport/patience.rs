//! An operation waits for silent servers once.
//!
//! What a program sees as one call may take several steps: bytes are flushed, then synced, then a name is; what reading ahead did not
//! get is asked for again; a connection that others use is waited for. If each step waited for a silent server as long as the first,
//! the call would take two or three timeouts. So a thread says when it begins an operation ([`Operation`]), and from then on:
//!
//! - a server that was silent for a whole timeout, which ended since, fails at once, until it answers somebody ([`Silence`]);
//! - other servers have a fiftieth of the timeout: the operation has failed already, and what is left of it is tidying up.
//!
//! The next operation asks afresh, so that a server that is back is used again at once.

use crate::error::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// What is left of a timeout for an operation that has waited for one in vain.
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

/// The thread's operation, until this is dropped. Within another one it is a part of that.
#[derive(Debug)]
pub struct Operation {
    is_outer: bool,
}

impl Operation {
    /// Begins one, for somebody who may leave while it is under way; or goes on with one that began at `at`.
    pub fn begin(at: Instant, is_left: Arc<AtomicBool>) -> Operation {
        NOW.with_borrow_mut(|now| {
            let is_outer = now.is_none();
            now.get_or_insert_with(|| Begun { at, gave_up: false, is_left });
            Operation { is_outer }
        })
    }

    /// The thread's operation, if there is one, has met with this error where no call of it reported one: if a server was silent, it has given one
    /// up.
    pub fn met(error: &Error) {
        met(error);
    }

    /// Whether it has given up a server.
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

/// How long this thread may wait for a server that is given up after `timeout`.
pub(crate) fn left(timeout: Duration) -> Duration {
    if NOW.with_borrow(|now| now.as_ref().is_some_and(|begun| begun.gave_up)) { timeout / REST } else { timeout }
}

/// Whether nobody waits for this thread's operation any more.
pub fn is_left() -> bool {
    NOW.with_borrow(|now| now.as_ref().is_some_and(|begun| begun.is_left.load(Ordering::Acquire)))
}

/// This thread's operation has met with an error; if a server was silent, it has given up one.
pub fn met(error: &Error) {
    if error.kind() == ErrorKind::TimedOut {
        NOW.with_borrow_mut(|now| now.as_mut().map(|begun| begun.gave_up = true));
    }
}

/// Whether one server is silent.
#[derive(Debug, Default)]
pub struct Silence {
    any: AtomicBool,
    /// When it was last given up, and why, if it has not answered since.
    last: Mutex<Option<(Instant, Error)>>,
}

impl Silence {
    /// It was asked, and this came of it.
    pub fn asked<T>(&self, result: &Result<T>) {
        match result {
            Err(error) if error.kind() == ErrorKind::TimedOut => self.gave_up(error),
            Err(error) if error.breaks_connection() => {}
            _ => self.answered(),
        }
    }

    /// It was given up.
    pub fn gave_up(&self, error: &Error) {
        met(error);
        *self.last.lock() = Some((Instant::now(), error.clone()));
        self.any.store(true, Ordering::Release);
    }

    /// It has answered.
    pub fn answered(&self) {
        if self.any.load(Ordering::Acquire) {
            self.any.store(false, Ordering::Release);
            *self.last.lock() = None;
        }
    }

    /// Whether this thread's operation need not ask it.
    ///
    /// # Errors
    /// It was given up since the operation began: why.
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
