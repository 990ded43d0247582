//! A panic in a request is a bug, or damage that nobody foresaw; and its own affair as far as that can be: it is answered, its connection is closed, and everything it held
//! goes back. Where it may have left the service half-changed, the service answers nothing more, and its owner stops it.

use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::OnceLock;
use thalweg_base::sync::{Mutex, panic_text};

/// Whether a service goes on.
#[derive(Default)]
pub(super) struct Failure {
    reason: OnceLock<Error>,
    notify: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Failure {
    /// Why the service answers nothing more.
    pub(super) fn reason(&self) -> Option<&Error> {
        self.reason.get()
    }

    /// The reason as an error, if there is one.
    pub(super) fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Calls `notify` when the service answers nothing more: at once, if that is so already.
    pub(super) fn notify(&self, notify: Box<dyn FnOnce() + Send>) {
        let mut notify_once = self.notify.lock();
        match self.reason() {
            Some(_) => notify(),
            None => *notify_once = Some(notify),
        }
    }

    /// A request panicked. Returns the answer to its client.
    pub(super) fn panicked(&self, server: &str, panic: &(dyn Any + Send), stops: bool) -> Error {
        let bug = format!("a request ended in a panic, a bug or damage on disk ({})", panic_text(panic));
        if !stops {
            return Error::new(ErrorKind::Io, format!("{bug}: what it was to do may be done in part")).at_server(server);
        }
        let problem = format!("{bug}, and what it was to do may be done in part: the service stops; start it again");
        let reason = self.reason.get_or_init(|| Error::new(ErrorKind::Io, problem).at_server(server)).clone();
        if let Some(notify) = self.notify.lock().take() {
            notify();
        }
        reason
    }
}
