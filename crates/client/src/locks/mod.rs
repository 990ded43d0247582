//! The client's side of locks and append turns.
//!
//! One connection, the *life*, represents the client: calls go over it one after the other. When it breaks, the next call that needs it
//! reconnects, or a thread that runs while locks are held or waited for. Over a second connection, that thread asks which waiting requests
//! have been granted, and so notices immediately when the service goes away: held locks must be reclaimed within the service's grace
//! period once it is back. A lock that cannot be reclaimed is *lost*: [`LockClient::check`] and the next lock on that file report so,
//! until its owner has released it.
//!
//! A client with a read-only credential blocks no other client: it keeps its own locks ([`crate::locks::own`]).
//!
//! Held locks are mirrored here, to reclaim them. A release updates the mirror first, so that a lock whose release fails is not reclaimed.

mod own;
mod turn;

use crate::locks::own::OwnLocks;
use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{SpanFields, SpanKind, Tracer};
use thalweg_wire::locks::ranges::Ranges;
use thalweg_wire::locks::table::as_held;
use thalweg_wire::patience::Silence;
use thalweg_wire::protocol::common::random_u64;
use thalweg_wire::protocol::locks::{HeldLock, LockKind, LockOperation, LockRange, LockReply, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::{FileId, MetadataReply, MetadataRequest, Operation};
use thalweg_wire::{Connect, Connection, Kind, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// How long a query for grants stays open.
const GRANTS_WAIT: Duration = Duration::from_secs(5);
/// Interval between attempts to reconnect to the service.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Locks reclaimed per message.
const CLAIMS: usize = 4096;

/// Whether to wait for a lock held by another owner.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// Fail with [`ErrorKind::WouldBlock`].
    No,
    /// Wait until this is fired: [`ErrorKind::Cancelled`].
    Until(&'a Cancel),
}

/// Cancels waits. Clones share their state.
#[derive(Clone, Default)]
pub struct Cancel {
    shared: Arc<Mutex<CancelState>>,
}

#[derive(Default)]
struct CancelState {
    fired: bool,
    wake: Vec<Arc<Inner>>,
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cancel").field("fired", &self.is_fired()).finish_non_exhaustive()
    }
}

impl Cancel {
    /// Creates a cancel that is not fired.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends all current and future waits that use this cancel.
    pub fn fire(&self) {
        let wake = {
            let mut shared = self.shared.lock();
            shared.fired = true;
            std::mem::take(&mut shared.wake)
        };
        for inner in wake {
            // A caller that has checked but does not wait yet holds this lock.
            drop(inner.state.lock());
            inner.changed.notify_all();
        }
    }

    /// Whether it was fired.
    pub fn is_fired(&self) -> bool {
        self.shared.lock().fired
    }

    fn wakes(&self, inner: &Arc<Inner>) {
        let mut shared = self.shared.lock();
        if !shared.wake.iter().any(|other| Arc::ptr_eq(other, inner)) {
            shared.wake.push(Arc::clone(inner));
        }
    }
}

/// Locks and append turns at one metadata service. Clones are the same client; dropping the last one releases all its locks.
#[derive(Clone)]
pub struct LockClient {
    inner: Arc<Inner>,
    _end: Arc<End>,
}

struct Inner {
    address: String,
    options: Connect,
    client: u64,
    life: Mutex<Option<Connection>>,
    silence: Silence,
    state: Mutex<State>,
    changed: Condvar,
    next: AtomicU64,
    /// The locks of a client with a read-only credential.
    own: OwnLocks,
}

#[derive(Default)]
struct State {
    held: HashMap<(FileId, LockSpace), Ranges>,
    waiting: HashMap<u64, Waiting>,
    /// Files and owners whose locks were lost.
    lost: HashSet<(FileId, u64)>,
    /// Incremented when the life is replaced: waiters on the old one ask again.
    generation: u64,
    listens: bool,
    /// The grant thread's connection, for shutting it down.
    listening: Option<TcpStream>,
    ended: bool,
}

struct Waiting {
    request: LockRequest,
    granted: bool,
}

/// Ends the client when the last handle is dropped.
struct End(Arc<Inner>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.ended = true;
        if let Some(stream) = state.listening.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.0.changed.notify_all();
        *self.0.life.lock() = None;
    }
}

impl std::fmt::Debug for LockClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockClient").field("client", &self.inner.client).finish_non_exhaustive()
    }
}

impl LockClient {
    /// Creates a client of the metadata service at `HOST:PORT`, without connecting.
    pub fn new(address: &str, options: &Connect) -> LockClient {
        let inner = Arc::new(Inner {
            address: address.to_owned(),
            options: options.clone(),
            client: random_u64() | 1,
            life: Mutex::default(),
            silence: Silence::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            next: AtomicU64::new(1),
            own: OwnLocks::default(),
        });
        LockClient { _end: Arc::new(End(Arc::clone(&inner))), inner }
    }

    /// Returns the client's number, as in [`HeldLock::client`].
    pub fn number(&self) -> u64 {
        self.inner.client
    }

    /// Acquires a lock. It replaces the locks its owner holds on the range.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] and [`ErrorKind::Cancelled`] according to `wait`; [`ErrorKind::Deadlock`] for a record lock that would
    /// wait for itself; [`ErrorKind::Restarted`] when locks of this file were lost; [`ErrorKind::TooMany`]; the connection's.
    pub fn lock(&self, tracer: &mut Tracer, request: &LockRequest, wait: Wait<'_>) -> Result<()> {
        if self.inner.only_reads()? {
            return self.lock_own(tracer, request, wait);
        }
        self.lock_by(tracer, request, wait, None)
    }

    /// Acquires a lock among all clients, waiting until `until` at most.
    fn lock_by(&self, tracer: &mut Tracer, request: &LockRequest, wait: Wait<'_>, until: Option<Instant>) -> Result<()> {
        self.check(request.range.file)?;
        let inner = &self.inner;
        let Wait::Until(cancel) = wait else {
            return match inner.ask_for(tracer, LockOperation::Lock { request: *request, ticket: None }, Some(request))?.0 {
                LockReply::Done => inner.listen(),
                other => Err(inner.unexpected(&other)),
            };
        };
        let ticket = inner.next.fetch_add(1, Ordering::Relaxed);
        cancel.wakes(inner);
        inner.state.lock().waiting.insert(ticket, Waiting { request: *request, granted: false });
        let done = inner.listen().and_then(|()| inner.wait_for(tracer, ticket, request, (cancel, until)));
        inner.state.lock().waiting.remove(&ticket);
        done
    }

    /// Releases its owner's locks on a range. An unreachable service is not an error: the locks end with the connection.
    ///
    /// # Errors
    /// [`ErrorKind::Restarted`] when locks held on the file had been lost; [`ErrorKind::TooMany`] when a lock would be split and the limit
    /// is reached.
    pub fn unlock(&self, tracer: &mut Tracer, range: &LockRange) -> Result<()> {
        let inner = &self.inner;
        if inner.only_reads()? {
            return inner.own.unlock(range);
        }
        let lost = {
            let mut state = inner.state.lock();
            let all = (range.start, range.end) == (0, u64::MAX);
            let of = (range.file, range.owner);
            if all { state.lost.remove(&of) } else { state.lost.contains(&of) }
        };
        if inner.forget(range) {
            inner.freed(tracer, LockOperation::Unlock { range: *range })?;
        }
        if lost { Err(lost_error()) } else { Ok(()) }
    }

    /// Releases all locks of an owner on a file, in both lock spaces of programs (record and `flock`).
    ///
    /// # Errors
    /// As [`LockClient::unlock`], without [`ErrorKind::Restarted`].
    pub fn unlock_all(&self, tracer: &mut Tracer, file: FileId, owner: u64) -> Result<()> {
        let inner = &self.inner;
        let spaces = [LockSpace::Flock, LockSpace::Record];
        if inner.only_reads()? {
            return spaces.iter().try_for_each(|space| inner.own.unlock(&LockRange::whole(file, *space, owner)));
        }
        inner.state.lock().lost.remove(&(file, owner));
        let held = spaces.map(|space| inner.forget(&LockRange::whole(file, space, owner)));
        if held.contains(&true) { inner.freed(tracer, LockOperation::UnlockAll { file, owner }) } else { Ok(()) }
    }

    /// Returns a lock that conflicts with the request, if any.
    ///
    /// # Errors
    /// [`ErrorKind::Restarted`] when locks of this file were lost; the connection's.
    pub fn test(&self, tracer: &mut Tracer, request: &LockRequest) -> Result<Option<HeldLock>> {
        self.check(request.range.file)?;
        if let Some(own) = self.inner.own.test(request) {
            return Ok(Some(HeldLock { client: self.inner.client, ..own }));
        }
        match self.inner.ask(tracer, LockOperation::Test { request: *request })? {
            LockReply::Held(held) => Ok(held),
            other => Err(self.inner.unexpected(&other)),
        }
    }

    /// Checks whether locks of this file were lost, without a call to the service.
    ///
    /// # Errors
    /// [`ErrorKind::Restarted`] if so, until their owners have released them.
    pub fn check(&self, file: FileId) -> Result<()> {
        let state = self.inner.state.lock();
        if !state.lost.is_empty() && state.lost.iter().any(|(of, _)| *of == file) {
            return Err(lost_error());
        }
        Ok(())
    }

    /// Acquires a lock of a client with a read-only credential: among its own programs, once no other client holds a conflicting lock.
    fn lock_own(&self, tracer: &mut Tracer, request: &LockRequest, wait: Wait<'_>) -> Result<()> {
        let inner = &self.inner;
        let cancel = match wait {
            Wait::No => None,
            Wait::Until(cancel) => Some(cancel),
        };
        let is_ended = || cancel.is_some_and(Cancel::is_fired);
        inner.own.lock(request, cancel.is_some().then_some(&is_ended as &dyn Fn() -> bool))?;
        loop {
            let refused = match inner.ask(tracer, LockOperation::Test { request: *request }) {
                Ok(LockReply::Held(None)) => return Ok(()),
                Ok(LockReply::Held(Some(by))) => match cancel {
                    None => Error::new(ErrorKind::WouldBlock, format!("process {} of another client holds a lock there", by.pid)),
                    Some(cancel) if cancel.is_fired() => Error::new(ErrorKind::Cancelled, "the wait for the lock was cancelled"),
                    Some(_) => {
                        let waiting = tracer.begin();
                        std::thread::sleep(RETRY_INTERVAL);
                        tracer.end(waiting, SpanKind::WaitLock, SpanFields::default());
                        continue;
                    }
                },
                Ok(other) => inner.unexpected(&other),
                Err(error) => error,
            };
            let _ = inner.own.unlock(&request.range);
            return Err(refused);
        }
    }
}

fn lost_error() -> Error {
    Error::new(ErrorKind::Restarted, "locks of this file were lost while the metadata service was away: close it and lock it again")
}

impl Inner {
    fn unexpected(&self, reply: &dyn std::fmt::Debug) -> Error {
        unexpected(reply).at_server(&self.address)
    }

    /// Mirrors a lock that is held now.
    fn note(&self, request: &LockRequest) {
        let place = (request.range.file, request.range.space);
        self.state.lock().held.entry(place).or_default().set(&as_held(self.client, request), true);
    }

    /// Removes a range from the mirror; returns whether a lock was held on it.
    fn forget(&self, range: &LockRange) -> bool {
        let mut state = self.state.lock();
        let place = (range.file, range.space);
        let Some(ranges) = state.held.get_mut(&place) else { return false };
        let overlaps = |h: &HeldLock| h.owner == range.owner && h.start <= range.end && range.start <= h.end;
        if !ranges.iter().any(overlaps) {
            return false;
        }
        let nothing =
            HeldLock { client: self.client, owner: range.owner, pid: 0, kind: LockKind::Shared, start: range.start, end: range.end };
        ranges.set(&nothing, false);
        if ranges.is_empty() {
            state.held.remove(&place);
        }
        true
    }

    /// Reports a release to the service. If the service is unreachable, it learns of it from the lost connection.
    fn freed(&self, tracer: &mut Tracer, operation: LockOperation) -> Result<()> {
        let mut life = self.life.lock();
        let Some(connection) = life.as_mut().filter(|c| !c.is_broken()) else { return Ok(()) };
        let reply = self.silence.check().and_then(|()| call(connection, tracer, operation));
        self.silence.asked(&reply);
        match reply {
            Ok(LockReply::Done) => Ok(()),
            Ok(other) => Err(self.unexpected(&other)),
            Err(error) if error.breaks_connection() => {
                *life = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&self, tracer: &mut Tracer, operation: LockOperation) -> Result<LockReply> {
        Ok(self.ask_for(tracer, operation, None)?.0)
    }

    /// Makes one call on the life; returns the generation of that life with the reply. Every lock operation is idempotent. A lock acquired
    /// by the reply is mirrored before the life can be replaced, since a new life would not reclaim it otherwise.
    fn ask_for(&self, tracer: &mut Tracer, operation: LockOperation, held: Option<&LockRequest>) -> Result<(LockReply, u64)> {
        let mut life = self.life.lock();
        self.silence.check()?;
        for attempt in 0..2 {
            let living = self.living(&mut life);
            self.silence.asked(&living);
            let reply = call(living?, tracer, operation.clone());
            self.silence.asked(&reply);
            match reply {
                Ok(reply) => {
                    if matches!(reply, LockReply::Done | LockReply::Cancelled { granted: true }) {
                        held.iter().for_each(|request| self.note(request));
                    }
                    return Ok((reply, self.state.lock().generation));
                }
                Err(error) if error.breaks_connection() => {
                    *life = None;
                    if attempt > 0 || error.kind() != ErrorKind::Reset {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Reset, "the connection was lost repeatedly").at_server(&self.address))
    }

    /// Connects the life if necessary, and reclaims held locks.
    fn living<'a>(&self, life: &'a mut Option<Connection>) -> Result<&'a mut Connection> {
        // No data is expected on an idle connection: if it is readable, the peer closed it.
        if life.as_mut().is_some_and(|c| c.is_broken() || c.is_readable()) {
            *life = None;
        }
        if life.is_none() {
            let mut connection = Connection::connect(&self.address, &self.options)?;
            let off = &mut Tracer::off();
            if self.only_reads()? {
                // It holds no locks at the service, and only queries.
                return Ok(life.insert(connection));
            }
            match call(&mut connection, off, LockOperation::Hello { client: self.client })? {
                LockReply::Done => {}
                other => return Err(self.unexpected(&other)),
            }
            let held: Vec<LockRequest> = {
                let state = self.state.lock();
                let of_place = |((file, space), ranges): (&(FileId, LockSpace), &Ranges)| {
                    let request = |h: &HeldLock| LockRequest {
                        range: LockRange { file: *file, space: *space, owner: h.owner, start: h.start, end: h.end },
                        kind: h.kind,
                        pid: h.pid,
                    };
                    ranges.iter().map(request).collect::<Vec<_>>()
                };
                state.held.iter().flat_map(of_place).collect()
            };
            let mut pages: Vec<&[LockRequest]> = held.chunks(CLAIMS).collect();
            pages.extend(held.is_empty().then_some(&[][..]));
            let last = pages.len() - 1;
            for (i, page) in pages.into_iter().enumerate() {
                match call(&mut connection, off, LockOperation::Claim { locks: page.to_vec(), last: i == last })? {
                    LockReply::Refused(refused) => refused.iter().for_each(|range| self.lose(range)),
                    other => return Err(self.unexpected(&other)),
                }
            }
            *life = Some(connection);
            self.state.lock().generation += 1;
            self.changed.notify_all();
        }
        life.as_mut().ok_or_else(|| Error::new(ErrorKind::Reset, "not connected"))
    }

    fn lose(&self, range: &LockRange) {
        self.forget(range);
        if range.space != LockSpace::Append {
            self.state.lock().lost.insert((range.file, range.owner));
        }
    }

    /// Requests a lock until it is granted, again after each reconnect.
    fn wait_for(
        self: &Arc<Self>,
        tracer: &mut Tracer,
        ticket: u64,
        request: &LockRequest,
        (cancel, until): (&Cancel, Option<Instant>),
    ) -> Result<()> {
        loop {
            let operation = LockOperation::Lock { request: *request, ticket: Some(ticket) };
            let (reply, generation) = self.ask_for(tracer, operation, Some(request))?;
            match reply {
                LockReply::Done => return Ok(()),
                LockReply::Queued => {}
                other => return Err(self.unexpected(&other)),
            }
            let waiting = tracer.begin();
            let mut state = self.state.lock();
            let granted = loop {
                if state.waiting.get(&ticket).is_some_and(|w| w.granted) {
                    break Some(true);
                }
                if cancel.is_fired() {
                    break Some(false);
                }
                if state.generation != generation {
                    break None;
                }
                match until.map(|until| until.saturating_duration_since(Instant::now())) {
                    None => self.changed.wait(&mut state),
                    Some(Duration::ZERO) => break Some(false),
                    Some(left) => _ = self.changed.wait_for(&mut state, left),
                }
            };
            drop(state);
            tracer.end(waiting, SpanKind::WaitLock, SpanFields::default());
            match granted {
                Some(true) => return Ok(()),
                Some(false) => return self.give_up(tracer, ticket, request).map_err(|error| self.why_not(cancel, error)),
                None => {}
            }
        }
    }

    /// Gives up waiting. If the lock was granted meanwhile, it is held.
    fn give_up(&self, tracer: &mut Tracer, ticket: u64, request: &LockRequest) -> Result<()> {
        match self.ask_for(tracer, LockOperation::Cancel { ticket, request: *request }, Some(request)) {
            Ok((LockReply::Cancelled { granted: true }, _)) => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "the wait for the lock was cancelled")),
        }
    }

    /// Whether the client's credential is read-only.
    fn only_reads(&self) -> Result<bool> {
        self.options.only_reads()
    }

    /// Starts the grant thread, unless it runs.
    fn listen(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state.lock();
        if !state.listens {
            let inner = Arc::clone(self);
            std::thread::Builder::new()
                .name("locks".into())
                .spawn(move || inner.run())
                .map_err(|e| Error::system("starting a thread", e))?;
            state.listens = true;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The grant thread: queries grants while locks are held or waited for.
    fn run(&self) {
        let mut connection: Option<Connection> = None;
        loop {
            let mut state = self.state.lock();
            while !state.ended && state.held.is_empty() && state.waiting.is_empty() {
                self.changed.wait(&mut state);
            }
            if state.ended {
                return;
            }
            drop(state);
            if let Err(_away) = self.hear(&mut connection) {
                connection = None;
                let mut state = self.state.lock();
                // The caller that requests a lock gets the error; here, only retry.
                self.changed.wait_while_for(&mut state, |state| !state.ended, RETRY_INTERVAL);
            }
        }
    }

    fn granted(&self, ticket: u64) {
        let request = self.state.lock().waiting.get(&ticket).map(|waiting| waiting.request);
        let Some(request) = request else { return };
        self.note(&request);
        if let Some(waiting) = self.state.lock().waiting.get_mut(&ticket) {
            waiting.granted = true;
        }
    }

    /// Makes one query for grants, connecting if necessary.
    fn hear(&self, slot: &mut Option<Connection>) -> Result<()> {
        if slot.is_none() {
            self.living(&mut self.life.lock()).map(drop)?;
            let made = Connection::connect(&self.address, &self.options)?;
            let mut state = self.state.lock();
            if state.ended {
                return Ok(());
            }
            state.listening = made.stream().try_clone().ok();
            drop(state);
            *slot = Some(made);
        }
        let Some(connection) = slot.as_mut() else { return Ok(()) };
        let wait_ms = GRANTS_WAIT.min(self.options.timeout / 2).as_millis() as u32;
        let operation = LockOperation::Grants { client: self.client, wait_ms };
        let generation = self.state.lock().generation;
        match call(connection, &mut Tracer::off(), operation)? {
            LockReply::Tickets(tickets) if tickets.is_empty() => Ok(()),
            LockReply::Tickets(tickets) => {
                let _life = self.life.lock();
                // After a reconnect, waiters ask again themselves.
                if self.state.lock().generation == generation {
                    tickets.iter().for_each(|ticket| self.granted(*ticket));
                    self.changed.notify_all();
                }
                Ok(())
            }
            other => Err(self.unexpected(&other)),
        }
    }
}

fn call(connection: &mut Connection, tracer: &mut Tracer, operation: LockOperation) -> Result<LockReply> {
    let request = MetadataRequest::of(Operation::Lock(operation));
    match connection.call(tracer, Kind::Metadata, &request)? {
        MetadataReply::Lock(reply) => Ok(reply),
        other => Err(unexpected(&other as &dyn std::fmt::Debug)),
    }
}
