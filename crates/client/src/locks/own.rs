//! Locks of a client with a read-only credential: kept here, among its own programs, and unknown to the service.
//!
//! Programs lock files they only read: SQLite does, and mail readers. If the service held those locks, readers would block writers; if it
//! refused them, the programs would not run. So they exclude each other on one mount, as usual, and wait for a writer's lock elsewhere;
//! but no writer waits for a reader, which may read data while it is being changed.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;
use thalweg_wire::locks::table::{Outcome, Table, Ticket};
use thalweg_wire::protocol::locks::{HeldLock, LockRange, LockRequest};
use thalweg_wire::{Error, ErrorKind, Result};

/// This client's number in its own table.
const HERE: u64 = 1;
/// Polling interval of a waiter.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The table of a read-only client's locks; see the module documentation.
#[derive(Default)]
pub(super) struct OwnLocks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    table: Table,
    granted: HashSet<u64>,
    next: u64,
}

impl State {
    fn note(&mut self, granted: Vec<Ticket>) {
        self.granted.extend(granted.into_iter().map(|ticket| ticket.number));
    }
}

impl OwnLocks {
    /// Acquires a lock, waiting until `is_ended` returns true; `None`: does not wait.
    ///
    /// # Errors
    /// As [`Table::lock`]; [`ErrorKind::Cancelled`].
    pub(super) fn lock(&self, request: &LockRequest, is_ended: Option<&dyn Fn() -> bool>) -> Result<()> {
        let (mut state, mut granted) = (self.state.lock(), Vec::new());
        state.next += 1;
        let number = state.next;
        let outcome = state.table.lock(HERE, request, is_ended.map(|_| number), Instant::now(), &mut granted);
        state.note(granted);
        self.changed.notify_all();
        let (Some(is_ended), Outcome::Queued) = (is_ended, outcome?) else { return Ok(()) };
        loop {
            if state.granted.remove(&number) {
                return Ok(());
            }
            let (now, mut granted) = (Instant::now(), Vec::new());
            if is_ended() {
                state.table.cancel(Ticket { client: HERE, number }, now, &mut granted);
                state.note(granted);
                self.changed.notify_all();
                return Err(Error::new(ErrorKind::Cancelled, "the wait for the lock was cancelled"));
            }
            state.table.time_passed(HERE, now, &mut granted);
            if !granted.is_empty() {
                state.note(granted);
                self.changed.notify_all();
                continue;
            }
            self.changed.wait_for(&mut state, POLL_INTERVAL.min(limits::LOCK_COURTESY));
        }
    }

    /// Releases an owner's locks on a range.
    ///
    /// # Errors
    /// As [`Table::unlock`].
    pub(super) fn unlock(&self, range: &LockRange) -> Result<()> {
        let (mut state, mut granted) = (self.state.lock(), Vec::new());
        let done = state.table.unlock(HERE, range, Instant::now(), &mut granted);
        state.note(granted);
        self.changed.notify_all();
        done
    }

    /// Returns a conflicting lock of this client, if any.
    pub(super) fn test(&self, request: &LockRequest) -> Option<HeldLock> {
        self.state.lock().table.test(HERE, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::locks::{LockKind, LockSpace};
    use thalweg_wire::protocol::metadata::FileId;

    fn asks(owner: u64, kind: LockKind) -> LockRequest {
        LockRequest { range: LockRange::whole(FileId(7), LockSpace::Record, owner), kind, pid: 1 }
    }

    #[test]
    fn programs_of_one_reading_client_exclude_each_other_and_wait_until_they_are_granted_or_ended() {
        let locks = OwnLocks::default();
        locks.lock(&asks(1, LockKind::Shared), None).unwrap();
        locks.lock(&asks(2, LockKind::Shared), None).unwrap();
        assert_eq!(locks.lock(&asks(3, LockKind::Exclusive), None).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(locks.test(&asks(3, LockKind::Exclusive)).is_some());
        let ended = std::sync::atomic::AtomicBool::new(false);
        let is_ended = || ended.load(std::sync::atomic::Ordering::SeqCst);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| locks.lock(&asks(3, LockKind::Exclusive), Some(&|| false)));
            let waiting = scope.spawn(|| locks.lock(&asks(4, LockKind::Exclusive), Some(&is_ended)));
            ended.store(true, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
            for owner in [1, 2] {
                locks.unlock(&asks(owner, LockKind::Shared).range).unwrap();
            }
            waits.join().unwrap().unwrap();
        });
        locks.unlock(&asks(3, LockKind::Exclusive).range).unwrap();
        assert!(locks.test(&asks(1, LockKind::Exclusive)).is_none());
    }
}
