//! Servers that have not answered for a whole timeout.
//!
//! A program that asks for the attributes of ten thousand files, one after the other, would wait as many timeouts when a server of them
//! is silent. So for a little while after one, the sizes of files on that server are errors at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_store::client::walk::WalkEntry;
use thalweg_store::{Error, ErrorKind};

/// How long a server that was silent is not asked for sizes, at most.
const PAUSE: Duration = Duration::from_secs(5);

/// Servers that were silent lately.
#[derive(Default)]
pub struct Silence {
    any: AtomicBool,
    servers: Mutex<HashMap<String, (Instant, Error)>>,
}

impl Silence {
    /// A server's answer was waited for in vain; any other error says nothing.
    pub fn heard(&self, error: &Error) {
        let (ErrorKind::TimedOut, Some(server)) = (error.kind(), error.server()) else { return };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(server.to_owned(), (Instant::now(), error.clone()));
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

    /// Whether one of these servers was silent within a pause of `timeout` at most.
    ///
    /// # Errors
    /// What it was asked in vain.
    pub fn check<S: AsRef<str>>(&self, timeout: Duration, of: impl IntoIterator<Item = S>) -> Result<(), Error> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let pause = PAUSE.min(timeout);
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, (since, _)| since.elapsed() < pause);
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
    fn a_server_that_was_silent_is_left_alone_for_a_while_and_no_other() {
        let silence = Silence::default();
        let minute = Duration::from_secs(60);
        assert!(silence.check(minute, ["io0"]).is_ok());
        silence.heard(&Error::new(ErrorKind::Refused, "not there").at_server("io0"));
        assert!(silence.check(minute, ["io0"]).is_ok(), "one that refuses costs no time");
        silence.heard(&Error::new(ErrorKind::TimedOut, "silent").at_server("io0"));
        assert!(silence.check(minute, ["io1", "io0"]).is_err());
        assert!(silence.check(minute, ["io1"]).is_ok());
        assert!(silence.check(Duration::ZERO, ["io0"]).is_ok(), "the pause has passed");
        assert!(silence.check(minute, ["io0"]).is_ok(), "and it is forgotten");
    }
}
