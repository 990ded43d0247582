//! The I/O servers that remember how far the metadata's log has come, so that an older copy of it that is put back is noticed.
//!
//! A change that was synced is sent to them before the sync is answered, and they put it on stable storage. They ask for it themselves
//! ([`thalweg_io`]), each over a connection of its own, and their next question is the answer: so what a client says to a
//! server is never taken for the service's word.
//!
//! A sync waits until three of the servers that have asked have it, or all where there are fewer: enough that one is there at the next start,
//! and the busiest disk of a large store does not slow every sync down. The others have it a moment later. Nobody waits for a server that is
//! away: names can be changed while servers are down. One that does not answer in time is not waited for again until it does. After a
//! start the first sync waits until a server is there.

use crate::database::{Stage, Watch};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;

/// See the module.
#[derive(Default)]
pub(crate) struct Witnesses {
    state: Mutex<State>,
    /// There is another change to witness: servers' questions wait for that.
    wanted: Condvar,
    /// A server has asked, or gone: syncs wait for that.
    asked: Condvar,
    /// Up to this change, the service has only kept its own books: there is nothing to lose.
    quiet: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The last change that is to be witnessed.
    wanted: u64,
    /// By connection.
    asking: HashMap<u64, Asking>,
    next: u64,
    /// Nobody was there for as long as a sync waits; until somebody comes.
    is_alone: bool,
    stopping: bool,
}

struct Asking {
    server: String,
    /// The last change that it has witnessed.
    has: u64,
    /// The last revocation of credentials that it knows of.
    revision: u64,
    /// It was waited for in vain.
    is_late: bool,
}

impl State {
    /// Whether enough servers have it, each over one of its connections: a stranger who calls himself by its name delays nobody.
    fn has_witnessed(&self, change: u64) -> bool {
        let mut servers: HashMap<&str, u64> = HashMap::new();
        for asking in self.asking.values().filter(|asking| !asking.is_late) {
            let has = servers.entry(&asking.server).or_default();
            *has = asking.has.max(*has);
        }
        let enough = servers.len().min(limits::WITNESSES);
        if enough == 0 { self.is_alone } else { servers.values().filter(|has| **has >= change).count() >= enough }
    }
}

impl Witnesses {
    /// A server asks for the first time on its connection.
    pub(crate) fn enter(&self, server: &str) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        state.asking.insert(number, Asking { server: server.to_owned(), has: 0, revision: 0, is_late: false });
        state.is_alone = false;
        number
    }

    /// Its connection has ended.
    pub(crate) fn leave(&self, number: u64) {
        self.state.lock().asking.remove(&number);
        self.asked.notify_all();
    }

    /// It has witnessed a change, and knows of this revocation: which change is the last that it is to witness now, as soon as that is another
    /// or there is news besides.
    pub(crate) fn next(&self, number: u64, has: u64, revision: u64, is_news: impl Fn() -> bool) -> u64 {
        let until = Instant::now() + limits::WITNESS_WAIT;
        let mut state = self.state.lock();
        if let Some(asking) = state.asking.get_mut(&number) {
            (asking.has, asking.revision, asking.is_late) = (has, revision, false);
        }
        self.asked.notify_all();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.wanted > has || state.stopping || left.is_zero() || is_news() {
                return state.wanted;
            }
            self.wanted.wait_for(&mut state, left);
        }
    }

    /// Has a change witnessed that is on stable storage.
    pub(crate) fn report(&self, change: u64, watch: &mut dyn Watch) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(change);
        // Change 0: the database does not number them.
        if change == 0 || state.has_witnessed(change) {
            return;
        }
        self.wanted.notify_all();
        watch.begin();
        let until = Instant::now() + limits::WITNESS_PATIENCE;
        while !state.has_witnessed(change) && !state.stopping {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.asking.values_mut().filter(|asking| asking.has < change).for_each(|asking| asking.is_late = true);
                state.is_alone = state.asking.values().all(|asking| asking.is_late);
                break;
            }
            self.asked.wait_for(&mut state, left);
        }
        drop(state);
        watch.end(Stage::LogSync);
    }

    /// Has a revocation known by all servers that are in touch; those that are not after a while.
    pub(crate) fn wait_for_revision(&self, revision: u64, patience: Duration) -> Vec<String> {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        self.wanted.notify_all();
        loop {
            let behind: Vec<String> = state.asking.values().filter(|a| a.revision < revision).map(|a| a.server.clone()).collect();
            let left = until.saturating_duration_since(Instant::now());
            if behind.is_empty() || left.is_zero() || state.stopping {
                return behind;
            }
            self.asked.wait_for(&mut state, left);
        }
    }

    /// Waits until these servers have asked, for a moment.
    pub(crate) fn wait_for(&self, servers: &[String], patience: Duration) {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        while !servers.iter().all(|server| state.asking.values().any(|asking| asking.server == *server)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.stopping {
                return;
            }
            self.asked.wait_for(&mut state, left);
        }
    }

    /// Up to here, nothing was done that a client has asked for.
    pub(crate) fn is_quiet_until(&self, change: u64) {
        self.quiet.store(change, Ordering::Release);
    }

    /// Whether a client may have done something, when the log has come to this change.
    pub(crate) fn matters(&self, change: u64) -> bool {
        change > self.quiet.load(Ordering::Acquire)
    }

    /// Nobody waits here any longer.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wanted.notify_all();
        self.asked.notify_all();
    }
}
