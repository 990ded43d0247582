//! Append turns: the one lock the client takes on its own, held for one write and waited for no longer than its timeout.

use super::{Cancel, Inner, LockClient, Wait};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::locks::{LockKind, LockOperation, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::{Error, ErrorKind, Result};

impl LockClient {
    /// Runs `work`, which finds the file's end and writes there, while no other client appends to the file or truncates it. A turn lost
    /// meanwhile (the service went away, or the turn expired) is not an error: `work` never overwrites what others append
    /// ([`thalweg_wire::protocol::io::IoRequest::Append`]).
    ///
    /// # Errors
    /// `work`'s; [`ErrorKind::TimedOut`] when the turn was not granted within the timeout; the connection's.
    pub fn append<T>(&self, tracer: &mut Tracer, file: FileId, work: impl FnOnce(&mut Tracer) -> Result<T>) -> Result<T> {
        let owner = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let range = LockRange::whole(file, LockSpace::Append, owner);
        let request = LockRequest { range, kind: LockKind::Exclusive, pid: std::process::id() };
        let until = Instant::now().checked_add(self.inner.options.timeout);
        self.lock_by(tracer, &request, Wait::Until(&Cancel::new()), until)?;
        let turn = OwnTurn { inner: &self.inner, range };
        let done = work(tracer);
        turn.end(tracer);
        done
    }
}

impl Inner {
    /// Returns the reason a wait for a lock failed.
    pub(super) fn why_not(&self, cancel: &Cancel, error: Error) -> Error {
        if cancel.is_fired() || error.kind() != ErrorKind::Cancelled {
            return error;
        }
        let seconds = self.options.timeout.as_secs_f64();
        let problem = format!("no turn to append within {seconds} s: another client is appending to the file, or has stalled; try again");
        Error::new(ErrorKind::TimedOut, problem).at_server(&self.address)
    }
}

/// A turn that is released even on a panic.
struct OwnTurn<'a> {
    inner: &'a Arc<Inner>,
    range: LockRange,
}

impl OwnTurn<'_> {
    /// Releases the turn, if still held. An unreachable service has dropped it anyway.
    fn end(self, tracer: &mut Tracer) {
        let (inner, range) = (self.inner, self.range);
        std::mem::forget(self);
        if inner.forget(&range) {
            let _ = inner.freed(tracer, LockOperation::Unlock { range });
        }
    }
}

impl Drop for OwnTurn<'_> {
    fn drop(&mut self) {
        if self.inner.forget(&self.range) {
            let _ = self.inner.freed(&mut Tracer::off(), LockOperation::Unlock { range: self.range });
        }
    }
}
