//! Panics in a request: a bug, or unforeseen damage on disk. The panic stays confined to the request if possible: the request is
//! answered, its connection closed and its resources released. If it may have left the service half-changed, the service refuses
//! all further requests, and its owner stops it.

use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::OnceLock;
use thalweg_base::sync::{Mutex, panic_text};

/// Whether a service still answers requests.
#[derive(Default)]
pub(super) struct Failure {
    reason: OnceLock<Error>,
    notify: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Failure {
    /// Returns why the service answers no more requests, if so.
    pub(super) fn reason(&self) -> Option<&Error> {
        self.reason.get()
    }

    /// Returns the reason as an error, if there is one.
    pub(super) fn check(&self) -> Result<()> {
        self.reason().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Calls `notify` when the service stops answering requests; immediately if it has already.
    pub(super) fn notify(&self, notify: Box<dyn FnOnce() + Send>) {
        let mut notify_once = self.notify.lock();
        match self.reason() {
            Some(_) => notify(),
            None => *notify_once = Some(notify),
        }
    }

    /// Handles a panic in a request; returns the error for its client.
    pub(super) fn panicked(&self, server: &str, panic: &(dyn Any + Send), stops: bool) -> Error {
        let bug = format!("a request ended in a panic, a bug or damage on disk ({})", panic_text(panic));
        if !stops {
            return Error::new(ErrorKind::Io, format!("{bug}: it may have been carried out in part")).at_server(server);
        }
        let problem = format!("{bug}, and may have been carried out in part: the service stops; start it again");
        let reason = self.reason.get_or_init(|| Error::new(ErrorKind::Io, problem).at_server(server)).clone();
        if let Some(notify) = self.notify.lock().take() {
            notify();
        }
        reason
    }
}
