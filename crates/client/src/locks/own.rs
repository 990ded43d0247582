//! Locks of a client that may only read: kept here, among its own programs, and unknown to the service.
//!
//! Programs that read lock what they read: SQLite does, and so do mail readers. If those locks stood at the service, a reader would keep writers
//! waiting; if they were refused, the programs would not run. So they exclude each other on one mount, as everywhere, and a lock that a writer
//! elsewhere holds is waited for; but no writer waits for a reader, who may read what is being changed.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;
use thalweg_wire::locks::table::{Outcome, Table, Ticket};
use thalweg_wire::protocol::locks::{HeldLock, LockRange, LockRequest};
use thalweg_wire::{Error, ErrorKind, Result};

/// What this client is called in its own table.
const HERE: u64 = 1;
/// How often who waits looks whether that was ended.
const LOOK: Duration = Duration::from_millis(20);

/// See the module.
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
    /// Asks for a lock; `is_ended`: it is waited for, until that holds.
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
                return Err(Error::new(ErrorKind::Cancelled, "waiting for the lock was ended"));
            }
            state.table.time_passed(HERE, now, &mut granted);
            if !granted.is_empty() {
                state.note(granted);
                self.changed.notify_all();
                continue;
            }
            self.changed.wait_for(&mut state, LOOK.min(limits::LOCK_COURTESY));
        }
    }

    /// Frees what an owner holds of a range.
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

    /// Which of them is in the way of a lock.
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
