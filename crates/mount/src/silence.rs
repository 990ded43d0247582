//! Servers that do not answer.
//!
//! A program that asks for the attributes of ten thousand files, one after the other, would wait as many timeouts when a server of them
//! is silent, and a second or two for each when it refuses. So for a little while after one, the sizes of files on that server are
//! errors at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_store::client::walk::WalkEntry;
use thalweg_store::{Error, ErrorKind};

/// How long a server that was silent is not asked for sizes.
const AFTER_SILENCE: Duration = Duration::from_secs(5);
/// How long one that refused.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Servers that did not answer lately.
#[derive(Default)]
pub struct Silence {
    any: AtomicBool,
    /// Until when, and why.
    servers: Mutex<HashMap<String, (Instant, Error)>>,
}

impl Silence {
    /// A server's answer was waited for in vain, or refused; any other error says nothing.
    pub fn heard(&self, error: &Error) {
        let pause = match error.kind() {
            ErrorKind::TimedOut => AFTER_SILENCE,
            ErrorKind::Refused | ErrorKind::Reset => AFTER_REFUSAL,
            _ => return,
        };
        let Some(server) = error.server() else { return };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(server.to_owned(), (Instant::now() + pause, error.clone()));
        self.any.store(true, Ordering::Release);
    }

    /// The same, by an entry of a walk.
    pub fn heard_of(&self, entry: &WalkEntry) {
        if let Some(Err(error)) = &entry.size {
            self.heard(error);
        }
    }

    /// Whether there is any such server.
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether one of these servers is not to be asked now.
    ///
    /// # Errors
    /// What it said, or did not say, when it was.
    pub fn check<S: AsRef<str>>(&self, of: impl IntoIterator<Item = S>) -> Result<(), Error> {
        self.check_at(Instant::now(), of)
    }

    fn check_at<S: AsRef<str>>(&self, now: Instant, of: impl IntoIterator<Item = S>) -> Result<(), Error> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, (until, _)| now < *until);
        self.any.store(!servers.is_empty(), Ordering::Release);
        match of.into_iter().find_map(|name| servers.get(name.as_ref()).map(|(_, error)| error.clone())) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_left_alone_for_a_while_and_no_other() {
        let silence = Silence::default();
        assert!(silence.check(["io0"]).is_ok());
        silence.heard(&Error::new(ErrorKind::NotFound, "not there").at_server("io0"));
        assert!(silence.check(["io0"]).is_ok(), "that was an answer");
        silence.heard(&Error::new(ErrorKind::TimedOut, "silent").at_server("io0"));
        silence.heard(&Error::new(ErrorKind::Refused, "not there").at_server("io1"));
        assert!(silence.check(["io2", "io0"]).is_err() && silence.check(["io1"]).is_err());
        assert!(silence.check(["io2"]).is_ok());
        assert!(silence.check_at(Instant::now() + AFTER_REFUSAL, ["io1"]).is_ok(), "it may be back");
        assert!(silence.check(["io0"]).is_err() && silence.is_any());
        assert!(silence.check_at(Instant::now() + AFTER_SILENCE, ["io0"]).is_ok(), "the pause has passed");
        assert!(!silence.is_any(), "and it is forgotten");
    }
}
