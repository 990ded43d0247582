//! Recording sessions: a client asks a server to trace the work it does for that client, and fetches the events.
//!
//! Events stay in the server's memory up to a limit, and are lost (and counted) beyond it: tracing must never slow down the data
//! path or fill a disk. A session lasts as long as the connection that started it.
//!
//! A session is private: its number is random and valid only on connections with the credential that started it. Each credential
//! may have a limited number of sessions, fewer than the total, and some are reserved for the store's own credential.
//!
//! All sessions share a memory budget. Half of it is reserved in equal parts for the maximum number of sessions, so that each can
//! store something whatever the others do. Of the other half, a session may take as much as it leaves free.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::trust::CredentialId;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use thalweg_base::random;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{Event, HostId, IdSpace, Loss, Role, Sink, Time, TraceHandle};

/// Events per chunk of memory.
const CHUNK_EVENTS: usize = 1024;

/// Memory shared by recording sessions.
#[derive(Debug)]
pub struct Budget {
    most_bytes: u64,
    /// Servers that share it.
    servers: AtomicU64,
    /// Used from the half reserved per session.
    own_bytes: AtomicU64,
    /// Used from the half shared by all.
    shared_bytes: AtomicU64,
}

/// A session's part of a budget.
#[derive(Debug, Default)]
struct Taken {
    own_bytes: u64,
    shared_bytes: u64,
}

impl Budget {
    /// Makes a budget of this many bytes.
    pub fn new(most_bytes: u64) -> Budget {
        Budget { most_bytes, servers: AtomicU64::new(0), own_bytes: AtomicU64::new(0), shared_bytes: AtomicU64::new(0) }
    }

    /// Returns the budget of this process's servers.
    pub fn of_process() -> Arc<Budget> {
        static ALL: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(limits::RECORDING_BYTES)));
        Arc::clone(&ALL)
    }

    /// Returns the bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.own_bytes.load(Ordering::Relaxed) + self.shared_bytes.load(Ordering::Relaxed)
    }

    /// Allocates bytes for a session; returns whether it may have them.
    fn take(&self, bytes: u64, taken: &mut Taken) -> bool {
        let half = self.most_bytes / 2;
        let set_aside = half / (self.servers.load(Ordering::Relaxed).max(1) * limits::SESSIONS as u64);
        let add = |to: &AtomicU64, most_then: u64| {
            let fits = |used: u64| used.checked_add(bytes).filter(|then| *then <= most_then);
            to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
        };
        if taken.own_bytes + bytes <= set_aside && add(&self.own_bytes, half) {
            taken.own_bytes += bytes;
            return true;
        }
        let may_have = half.checked_sub(taken.shared_bytes + bytes).is_some_and(|left_then| add(&self.shared_bytes, left_then));
        taken.shared_bytes += if may_have { bytes } else { 0 };
        may_have
    }

    /// Returns bytes to the budget, shared ones first.
    fn give_back(&self, bytes: u64, taken: &mut Taken) {
        let shared = bytes.min(taken.shared_bytes);
        let own = (bytes - shared).min(taken.own_bytes);
        self.shared_bytes.fetch_sub(shared, Ordering::Relaxed);
        self.own_bytes.fetch_sub(own, Ordering::Relaxed);
        (taken.shared_bytes, taken.own_bytes) = (taken.shared_bytes - shared, taken.own_bytes - own);
    }
}

/// Sessions of one server.
pub(crate) struct Sessions {
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_number: HashMap<u32, Arc<RecordingSession>>,
    /// Number of sessions ever started.
    begun: u64,
}

/// A recording session.
pub(crate) struct RecordingSession {
    buffer: Arc<EventBuffer>,
    /// The credential that started it.
    of: CredentialId,
    /// Whether that is the store's own.
    is_stores: bool,
    pub trace: TraceHandle,
    pub begun: Time,
    /// Number of requests in progress.
    busy: Mutex<usize>,
    idle: Condvar,
}

/// A session's events that are not fetched yet.
struct EventBuffer {
    budget: Arc<Budget>,
    events: Mutex<Events>,
}

#[derive(Default)]
struct Events {
    /// In order; none empty, all but the last full.
    chunks: VecDeque<Vec<Event>>,
    count: usize,
    taken: Taken,
    loss: Loss,
}

impl Sink for EventBuffer {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut events = self.events.lock();
        for event in batch.drain(..) {
            let bytes = memory_of(&event);
            if events.count < limits::SESSION_EVENTS && self.budget.take(bytes, &mut events.taken) {
                events.push(event);
            } else {
                events.loss.count(&event);
            }
        }
    }
}

impl EventBuffer {
    /// Takes the next events; returns them, whether there are more, and the number lost that no mark counts.
    fn page(&self) -> (Vec<Event>, bool, u64) {
        let mut events = self.events.lock();
        let mut page = Vec::new();
        while page.len() + CHUNK_EVENTS <= limits::FETCH_EVENTS
            && let Some(chunk) = events.chunks.pop_front()
        {
            page.extend(chunk);
        }
        let bytes = page.iter().map(memory_of).sum();
        events.count -= page.len();
        self.budget.give_back(bytes, &mut events.taken);
        let more = events.count > 0;
        if !more {
            page.append(&mut events.loss.take_marks());
        }
        (page, more, std::mem::take(&mut events.loss.elsewhere))
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        self.budget.give_back(u64::MAX, &mut self.events.lock().taken);
    }
}

impl Events {
    fn push(&mut self, event: Event) {
        match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK_EVENTS) {
            Some(chunk) => chunk.push(event),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK_EVENTS);
                chunk.push(event);
                self.chunks.push_back(chunk);
            }
        }
        self.count += 1;
    }
}

/// Returns the memory of an event, including its strings.
fn memory_of(event: &Event) -> u64 {
    let texts = match event {
        Event::Track(track) => track.name.len(),
        Event::Object(object) => {
            object.name.len() + object.attributes.iter().map(|(k, v)| k.len() + v.len() + 2 * size_of::<String>()).sum::<usize>()
        }
        Event::Host(host) => host.name.len() + host.node.len() + host.clock.len() + host.kernel.len(),
        _ => 0,
    };
    (size_of::<Event>() + texts) as u64
}

impl Sessions {
    /// Makes an empty table whose events use this budget.
    pub(super) fn new(budget: Arc<Budget>) -> Sessions {
        budget.servers.fetch_add(1, Ordering::Relaxed);
        Sessions { budget, inner: Mutex::default() }
    }

    /// Starts a session for a credential; returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`].
    pub(super) fn start(&self, (of, is_stores): (CredentialId, bool), host: HostId, space: IdSpace) -> Result<u32> {
        let mut inner = self.inner.lock();
        let theirs = inner.by_number.values().filter(|session| session.of == of).count();
        let too_many = |most: usize, whose: &str| {
            let problem = format!("{most} recordings {whose} are being made here already: wait until one has ended");
            Err(Error::new(ErrorKind::TooMany, problem))
        };
        if theirs >= limits::SESSIONS_OF_CREDENTIAL {
            return too_many(limits::SESSIONS_OF_CREDENTIAL, "with this credential");
        }
        let others = inner.by_number.values().filter(|session| !session.is_stores).count();
        if !is_stores && others >= limits::SESSIONS_OF_OTHERS {
            return too_many(limits::SESSIONS_OF_OTHERS, "with credentials like this one");
        }
        if inner.by_number.len() >= limits::SESSIONS {
            return too_many(limits::SESSIONS, "of all");
        }
        let buffer = Arc::new(EventBuffer { budget: Arc::clone(&self.budget), events: Mutex::default() });
        let trace = TraceHandle::on(buffer.clone(), host, Role::Server, space);
        let session = RecordingSession { buffer, of, is_stores, trace, begun: Time::now(), busy: Mutex::new(0), idle: Condvar::new() };
        let number = loop {
            let number = u32::from_le_bytes(random::bytes());
            if number != 0 && !inner.by_number.contains_key(&number) {
                break number;
            }
        };
        inner.begun += 1;
        inner.by_number.insert(number, Arc::new(session));
        Ok(number)
    }

    /// Returns how many were started since this server started.
    pub(super) fn begun(&self) -> u64 {
        self.inner.lock().begun
    }

    /// Returns the session, if it belongs to this credential and has not ended.
    pub(super) fn get(&self, of: CredentialId, number: u32) -> Option<Arc<RecordingSession>> {
        self.inner.lock().by_number.get(&number).filter(|session| session.of == of).cloned()
    }

    /// Ends a session, if it belongs to this credential.
    pub(super) fn stop(&self, of: CredentialId, number: u32) {
        let mut inner = self.inner.lock();
        if inner.by_number.get(&number).is_some_and(|session| session.of == of) {
            inner.by_number.remove(&number);
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.budget.servers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RecordingSession {
    /// Marks a request of the session as in progress until the guard is dropped.
    pub(super) fn working(self: &Arc<Self>) -> Working {
        *self.busy.lock() += 1;
        Working(Arc::clone(self))
    }

    /// Takes the next events; returns them, whether there are more, and how many were lost. Waits until no request is in
    /// progress: a reply can reach its client before the server has recorded sending it.
    pub(super) fn fetch(&self) -> (Vec<Event>, bool, u64) {
        let deadline = Instant::now() + limits::SESSION_QUIET;
        let mut busy = self.busy.lock();
        while *busy > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.idle.wait_for(&mut busy, left);
        }
        drop(busy);
        crate::transport::flush_counters();
        self.buffer.page()
    }
}

/// See [`RecordingSession::working`].
pub(crate) struct Working(Arc<RecordingSession>);

impl Drop for Working {
    fn drop(&mut self) {
        let mut busy = self.0.busy.lock();
        *busy -= 1;
        if *busy == 0 {
            self.0.idle.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(Arc::new(Budget::new(1 << 20)))
    }

    /// This credential number has the store's own credential.
    const STORES: u8 = 9;

    fn begin(sessions: &Sessions, of: u8) -> Result<u32> {
        sessions.start((CredentialId([of; 16]), of == STORES), HostId(1), IdSpace(1))
    }

    #[test]
    fn a_session_is_neither_found_nor_ended_with_another_credential_than_its_makers() {
        let (sessions, ana, bob) = (sessions(), CredentialId([1; 16]), CredentialId([2; 16]));
        let number = begin(&sessions, 1).unwrap();
        assert!(sessions.get(bob, number).is_none());
        sessions.stop(bob, number);
        assert!(sessions.get(ana, number).is_some(), "it goes on");
        sessions.stop(ana, number);
        assert!(sessions.get(ana, number).is_none());
    }

    #[test]
    fn the_number_of_a_session_says_nothing_of_the_next_one() {
        let sessions = sessions();
        let numbers: Vec<u32> = (0..8).map(|_| begin(&sessions, 1).unwrap()).collect();
        assert!(numbers.windows(2).any(|pair| pair[0].abs_diff(pair[1]) > 1 << 16), "{numbers:?}");
    }

    #[test]
    fn one_credential_never_takes_all_sessions() {
        let sessions = sessions();
        (0..limits::SESSIONS_OF_CREDENTIAL).for_each(|_| _ = begin(&sessions, 1).unwrap());
        let refused = begin(&sessions, 1).unwrap_err();
        assert!(refused.kind() == ErrorKind::TooMany && refused.message().contains("with this credential"), "{refused}");
        begin(&sessions, 2).unwrap();
    }

    #[test]
    fn other_credentials_together_leave_sessions_to_the_stores_own() {
        let sessions = sessions();
        let others = (1..STORES).flat_map(|of| [of; limits::SESSIONS_OF_CREDENTIAL]);
        let begun = others.filter(|of| begin(&sessions, *of).is_ok()).count();
        assert_eq!(begun, limits::SESSIONS_OF_OTHERS);
        assert!((begun..limits::SESSIONS).all(|_| begin(&sessions, STORES).is_ok()));
        assert_eq!(begin(&sessions, STORES).unwrap_err().kind(), ErrorKind::TooMany);
    }
}
