//! The time after a start in which clients of an earlier start report their open files and their locks.
//!
//! Open files are known in memory only, so a killed service has forgotten them. Its clients notice, reconnect and report them
//! ([`Operation::Reopen`](thalweg_wire::protocol::metadata::Operation::Reopen)); a client with open files checks every
//! [`limits::KEPT_ALIVE`](thalweg_wire::limits::KEPT_ALIVE) whether its service has been restarted, even if its program is idle. Until all
//! have had time to report, *not known to be open* does not mean *not open*, and these decisions are deferred:
//!
//! | decision | meanwhile |
//! |---|---|
//! | the bytes of a file without names are removed | they are kept |
//! | an expired lot without open files is reclaimed | the request for its space waits |
//! | a file that is not open gets another layout | the request waits |
//! | a file without names is opened by its number | it is allowed |
//! | a lock or a turn is given to another client | the request waits, if a client with locks has not returned |
//! | a draft counts as abandoned | it counts as being written, for [`limits::DRAFT_RECOVERIES`](thalweg_wire::limits::DRAFT_RECOVERIES)
//! times as long |
//!
//! A service that is stopped in an orderly way while no file is open records this, and the next start does not wait; nor does the first
//! start of a store. Locks have their own rows, which determine the wait for them.
//!
//! Sizes need no such time: a file's row shows that it is open for writing, and stays so if a writer does not return.

use crate::database::{Table, Unwatched, read, write};
use crate::inode::number_at;
use crate::namespace::Namespace;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::Result;

/// In [`Table::State`]: the epoch, u64 LE, of a start that was stopped in an orderly way while no file was open.
const IDLE: &[u8] = b"openings.none";

/// Returns how long clients of earlier starts have to report in this start.
///
/// # Errors
/// An error of the database.
pub(crate) fn length(namespace: &Namespace, usual: Duration) -> Result<Duration> {
    let epoch = namespace.service_start().epoch;
    let idle = read(&**namespace.database(), |view| number_at(view, IDLE))?.map(u64::from_le_bytes);
    // Only of the start just before this one: another in between may have been killed.
    let has_none = epoch <= 1 || idle.is_some_and(|idle| idle + 1 == epoch);
    Ok(if has_none { Duration::ZERO } else { usual })
}

/// Records that this start stops in an orderly way, with no open file.
///
/// # Errors
/// An error of the database.
pub(crate) fn is_idle(namespace: &Namespace) -> Result<()> {
    let epoch = namespace.service_start().epoch;
    write(&**namespace.database(), &mut Unwatched, |t| {
        t.put(Table::State, IDLE, epoch.to_le_bytes().to_vec());
        Ok(())
    })
}

/// The recovery of a start.
#[derive(Debug)]
pub(crate) struct Recovery {
    begun: Instant,
    length: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    is_stopping: bool,
}

impl Recovery {
    /// Starts the recovery now.
    pub(crate) fn begin(length: Duration) -> Recovery {
        Recovery { begun: Instant::now(), length, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns whether all clients have had time to report.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over || Instant::now() >= self.ends_after(1)
    }

    /// Returns when this multiple of its length will have passed.
    pub(crate) fn ends_after(&self, times: u32) -> Instant {
        self.begun + self.length.saturating_mul(times)
    }

    /// Waits for its end, until `deadline` at most. Returns whether it is over; it is not if the service stops meanwhile.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        loop {
            let (now, ends) = (Instant::now(), self.ends_after(1));
            if state.is_over || now >= ends {
                return true;
            }
            if state.is_stopping || now >= deadline {
                return false;
            }
            self.changed.wait_until(&mut state, ends.min(deadline));
        }
    }

    /// Ends all waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Ends the recovery.
    #[cfg(test)]
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn who_waits_for_its_end_waits_until_then_or_until_a_deadline_or_the_services_end() {
        let recovery = Recovery::begin(HOUR);
        assert!(!recovery.is_over() && !recovery.wait(Instant::now()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| recovery.wait(Instant::now() + HOUR));
            recovery.end();
            assert!(waits.join().unwrap());
        });
        assert!(recovery.is_over() && Recovery::begin(Duration::ZERO).is_over());
        let stopped = Recovery::begin(HOUR);
        stopped.stop();
        assert!(!stopped.wait(Instant::now() + HOUR) && !stopped.is_over(), "nothing is decided because the service stops");
    }
}
