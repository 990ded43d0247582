//! The time after a start in which clients of before say what they have open and what they have locked.
//!
//! What clients have open is known in memory alone, so that a service that was killed has forgotten it. Its clients notice, connect again and say
//! so ([`Operation::Reopen`](thalweg_wire::protocol::metadata::Operation::Reopen)); one that has files open looks every
//! [`limits::KEPT_ALIVE`](thalweg_wire::limits::KEPT_ALIVE) whether its service is still the same, however idle its program is. Until
//! all could say so, *not known to be open* does not mean *not open*, and nothing is decided from it:
//!
//! | decision | until then |
//! |---|---|
//! | the bytes of a file without names go | they stay |
//! | a lot whose time is over goes, if none of its files is open | who needs the room waits |
//! | a file that nobody has open gets another layout | who asks for it waits |
//! | a file without names is opened by its number | it may be |
//! | a lock or a turn is given to somebody else | who asks waits, if a client that had some has not come back |
//! | a draft counts as abandoned | it is being written, for [`limits::DRAFT_RECOVERIES`](thalweg_wire::limits::DRAFT_RECOVERIES) times as long |
//!
//! A service that was stopped in good order while nothing was open says so for the next start, which then has nothing to wait for; nor has the
//! first start of a store. Locks are waited for as their own rows say.
//!
//! Sizes need no such time: that a file is open for writing is in its row, and a writer that did not come back leaves it so.

use crate::database::{Table, Unwatched, read, write};
use crate::inode::number_at;
use crate::namespace::Namespace;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::Result;

/// In [`Table::State`]: the epoch, u64 LE, of a start that was stopped in good order while nothing was open.
const IDLE: &[u8] = b"openings.none";

/// How long clients of before have in this start.
///
/// # Errors
/// The database's.
pub(crate) fn length(namespace: &Namespace, usual: Duration) -> Result<Duration> {
    let epoch = namespace.service_start().epoch;
    let idle = read(&**namespace.database(), |view| number_at(view, IDLE))?.map(u64::from_le_bytes);
    // Of the start just before this one: another that came in between may have been killed.
    let has_none = epoch <= 1 || idle.is_some_and(|idle| idle + 1 == epoch);
    Ok(if has_none { Duration::ZERO } else { usual })
}

/// This start stops in good order, and nothing is open.
///
/// # Errors
/// The database's.
pub(crate) fn is_idle(namespace: &Namespace) -> Result<()> {
    let epoch = namespace.service_start().epoch;
    write(&**namespace.database(), &mut Unwatched, |t| {
        t.put(Table::State, IDLE, epoch.to_le_bytes().to_vec());
        Ok(())
    })
}

/// See the module.
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
    /// Begins now.
    pub(crate) fn begin(length: Duration) -> Recovery {
        Recovery { begun: Instant::now(), length, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether all that had something open could say so.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over || Instant::now() >= self.ends_after(1)
    }

    /// When so many times its length will have passed.
    pub(crate) fn ends_after(&self, times: u32) -> Instant {
        self.begun + self.length.saturating_mul(times)
    }

    /// Waits for its end, until then at most. Whether it is over: a service that stops meanwhile decides nothing.
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

    /// Nobody waits any longer.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Its time has passed.
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
