//! A circuit breaker for I/O servers that do not answer.
//!
//! A program that stats ten thousand files one after the other would wait for as many timeouts if one of their servers is silent, and a
//! second or two for each if it refuses connections. So for a short while after a failure, requests for sizes of files on that server fail
//! immediately.
//!
//! One system call can cause several kernel requests: a read that fails is retried page by page. So a thread's request right after one
//! that has timed out counts as part of the same call, and does not wait for that server again ([`TimedOutCalls`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_client::walk::WalkEntry;
use thalweg_client::wire::Operation;
use thalweg_client::wire::{Error, ErrorKind};

/// How long a server that was silent is not asked for sizes.
const AFTER_SILENCE: Duration = Duration::from_secs(5);
/// How long a server that refused a connection is not asked for sizes.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Servers that failed recently.
#[derive(Default)]
pub(crate) struct CircuitBreaker {
    any: AtomicBool,
    /// By server: end of the pause, and the error.
    servers: Mutex<HashMap<String, (Instant, Error)>>,
}

impl CircuitBreaker {
    /// Records a timeout or refused connection; other errors are ignored.
    pub(crate) fn failed(&self, error: &Error) {
        Operation::met(error);
        let pause = match error.kind() {
            ErrorKind::TimedOut => AFTER_SILENCE,
            ErrorKind::Refused | ErrorKind::Reset => AFTER_REFUSAL,
            _ => return,
        };
        let Some(server) = error.server() else { return };
        let mut servers = self.servers.lock();
        servers.insert(server.to_owned(), (Instant::now() + pause, error.clone()));
        self.any.store(true, Ordering::Release);
    }

    /// Records the failure of a walk's entry, as [`CircuitBreaker::failed`].
    pub(crate) fn failed_entry(&self, entry: &WalkEntry) {
        if let Some(Err(error)) = &entry.size {
            self.failed(error);
        }
    }

    /// Whether any server is paused.
    pub(crate) fn is_tripped(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Checks that none of these servers is paused.
    ///
    /// # Errors
    /// The error that caused the pause.
    pub(crate) fn check<S: AsRef<str>>(&self, of: impl IntoIterator<Item = S>) -> Result<(), Error> {
        self.check_at(Instant::now(), of)
    }

    fn check_at<S: AsRef<str>>(&self, now: Instant, of: impl IntoIterator<Item = S>) -> Result<(), Error> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut servers = self.servers.lock();
        servers.retain(|_, (until, _)| now < *until);
        self.any.store(!servers.is_empty(), Ordering::Release);
        match of.into_iter().find_map(|name| servers.get(name.as_ref()).map(|(_, error)| error.clone())) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Maximum interval between a thread's requests that belong to one call.
const SAME_CALL: Duration = Duration::from_millis(500);

/// Programs' calls that have just given up a server.
#[derive(Default)]
pub(crate) struct TimedOutCalls {
    any: AtomicBool,
    /// By thread: when the call began, and when it gave up.
    threads: Mutex<HashMap<u32, (Instant, Instant)>>,
}

impl TimedOutCalls {
    /// Registers a thread's request; returns when the call that it belongs to began.
    pub(crate) fn begin(&self, thread: u32) -> Instant {
        let now = Instant::now();
        if !self.any.load(Ordering::Acquire) {
            return now;
        }
        let mut threads = self.threads.lock();
        threads.retain(|_, (_, gave_up)| now.saturating_duration_since(*gave_up) < SAME_CALL);
        self.any.store(!threads.is_empty(), Ordering::Release);
        threads.get(&thread).map_or(now, |(began, _)| *began)
    }

    /// Records that a thread's request gave up a server. If that took no time, the request was part of a known call.
    pub(crate) fn gave_up(&self, thread: u32, began: Instant) {
        let mut threads = self.threads.lock();
        if threads.get(&thread).is_none_or(|(before, _)| *before != began) {
            threads.insert(thread, (began, Instant::now()));
            self.any.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_asks_just_after_it_gave_up_is_a_part_of_the_same_call_and_nothing_else_is() {
        let calls = TimedOutCalls::default();
        let began = calls.begin(7);
        calls.gave_up(7, began);
        assert_eq!(calls.begin(7), began);
        assert!(calls.begin(8) > began, "another thread");
        let given_up = calls.threads.lock()[&7];
        calls.gave_up(7, began);
        assert_eq!(calls.threads.lock()[&7], given_up, "asking again and again does not make the call longer");
        calls.threads.lock().insert(7, (began, Instant::now() - SAME_CALL));
        assert!(calls.begin(7) > began, "the interval has passed");
    }

    #[test]
    fn a_server_that_does_not_answer_is_left_alone_for_a_while_and_no_other() {
        let breaker = CircuitBreaker::default();
        assert!(breaker.check(["io0"]).is_ok());
        breaker.failed(&Error::new(ErrorKind::NotFound, "not there").at_server("io0"));
        assert!(breaker.check(["io0"]).is_ok(), "that was an answer");
        breaker.failed(&Error::new(ErrorKind::TimedOut, "silent").at_server("io0"));
        breaker.failed(&Error::new(ErrorKind::Refused, "not there").at_server("io1"));
        assert!(breaker.check(["io2", "io0"]).is_err() && breaker.check(["io1"]).is_err());
        assert!(breaker.check(["io2"]).is_ok());
        assert!(breaker.check_at(Instant::now() + AFTER_REFUSAL, ["io1"]).is_ok(), "it may be back");
        assert!(breaker.check(["io0"]).is_err() && breaker.is_tripped());
        assert!(breaker.check_at(Instant::now() + AFTER_SILENCE, ["io0"]).is_ok(), "the pause has passed");
        assert!(!breaker.is_tripped(), "the entry was removed");
    }
}
