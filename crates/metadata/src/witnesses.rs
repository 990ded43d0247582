//! The I/O servers that remember the log's progress, so that an older copy of the metadata is detected.
//!
//! A synced change is sent to them before the sync is answered, and they put it on stable storage. Each server requests it itself
//! ([`thalweg_io`]) over its own connection, and its next request is the acknowledgement: so a client cannot pose as the service towards a
//! server.
//!
//! A sync waits for three of the requesting servers, or all if there are fewer: enough that one responds at the next start, without the
//! busiest disk of a large store delaying every sync. The others follow shortly. Unreachable servers are not waited for: metadata can be
//! changed while servers are down. A server that does not answer in time is not waited for until it does. After a start the first sync
//! waits for a server to connect.

use crate::database::{Stage, Watch};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;

/// The witnesses and their progress.
#[derive(Default)]
pub(crate) struct Witnesses {
    state: Mutex<State>,
    /// Signals a new change to witness to the servers' requests.
    wanted: Condvar,
    /// Signals to syncs that a server has sent a request or disconnected.
    asked: Condvar,
    /// Up to this change the service has only made its own changes, so there is nothing to lose.
    quiet: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The last change to be witnessed.
    wanted: u64,
    /// By connection.
    asking: HashMap<u64, Asking>,
    next: u64,
    /// A sync has timed out without any server; until one connects.
    is_alone: bool,
    stopping: bool,
}

struct Asking {
    server: String,
    /// The last change that it has witnessed.
    has: u64,
    /// The last revocation of credentials that it knows.
    revision: u64,
    /// A wait for it has timed out.
    is_late: bool,
}

impl State {
    /// Returns whether enough servers have witnessed a change, each over one of its connections: an impostor with a server's name delays
    /// nothing.
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
    /// Registers a server's connection at its first request.
    pub(crate) fn enter(&self, server: &str) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        state.asking.insert(number, Asking { server: server.to_owned(), has: 0, revision: 0, is_late: false });
        state.is_alone = false;
        number
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&self, number: u64) {
        self.state.lock().asking.remove(&number);
        self.asked.notify_all();
    }

    /// Records what a server has witnessed, and its last revocation; waits for a further change or other news, and returns the last change
    /// to witness.
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

    /// Has a change that is on stable storage witnessed.
    pub(crate) fn report(&self, change: u64, watch: &mut dyn Watch) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(change);
        // Change 0: the database does not number changes.
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

    /// Waits until all connected servers know a revocation; returns those that do not after `patience`.
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

    /// Waits up to `patience` until these servers have sent a request.
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

    /// Records that up to this change no client's request changed anything.
    pub(crate) fn is_quiet_until(&self, change: u64) {
        self.quiet.store(change, Ordering::Release);
    }

    /// Returns whether clients may have changed something up to this change.
    pub(crate) fn matters(&self, change: u64) -> bool {
        change > self.quiet.load(Ordering::Acquire)
    }

    /// Ends all waits.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wanted.notify_all();
        self.asked.notify_all();
    }
}
