//! The client's end of locks and turns.
//!
//! One connection is the client's life: short questions go over it, one after the other, and when it breaks it is made again
//! by the next that needs it, or by a thread that is there as long as anything is held or waited for. That thread asks over a
//! second connection which waiting requests have been granted, and so notices at once when the service goes: what is held
//! must be claimed within the service's grace when it is back. What cannot be had again is *lost*: [`LockClient::check`]
//! and the next lock on that file say so, until its owner has freed it.
//!
//! A client with a read credential blocks no other client: the client keeps its own locks ([`crate::locks::own`]).
//!
//! A mirror of what is held is kept here, to claim from. Freeing changes the mirror first: whatever becomes of the question,
//! it is not claimed again.

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

/// How long a question for grants is left open.
const GRANTS_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts to find the service again.
const AGAIN: Duration = Duration::from_millis(100);
/// Locks in one message of claims.
const CLAIMS: usize = 4096;

/// Whether a lock that somebody else holds is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'a> {
    /// No: [`ErrorKind::WouldBlock`].
    No,
    /// Until this is fired: [`ErrorKind::Cancelled`].
    Until(&'a Cancel),
}

/// Ends somebody's waiting. Clones are the same.
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
    /// One that has not been fired.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// All that wait with it, now or later, stop waiting.
    pub fn fire(&self) {
        let wake = {
            let mut shared = self.shared.lock();
            shared.fired = true;
            std::mem::take(&mut shared.wake)
        };
        for inner in wake {
            // A caller that looked before and does not wait yet holds the state.
            drop(inner.state.lock());
            inner.changed.notify_all();
        }
    }

    /// Whether it has been fired.
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

/// Locks and turns at one metadata service. Clones are one client; when the last is dropped, all its locks are free.
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
    /// Those of a client that may only read.
    own: OwnLocks,
}

#[derive(Default)]
struct State {
    held: HashMap<(FileId, LockSpace), Ranges>,
    waiting: HashMap<u64, Waiting>,
    /// Owners that held locks of these files which could not be had again.
    lost: HashSet<(FileId, u64)>,
    /// Grows when the life is a new one: what waited on the old one asks again.
    generation: u64,
    listens: bool,
    /// The connection over which is listened, to end it.
    listening: Option<TcpStream>,
    ended: bool,
}

struct Waiting {
    request: LockRequest,
    granted: bool,
}

/// Ends the client when the last handle goes.
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
    /// A client of the metadata service at `HOST:PORT`; nothing is connected before the first lock.
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

    /// The client's number, as in [`HeldLock::client`].
    pub fn number(&self) -> u64 {
        self.inner.client
    }

    /// Asks for a lock. It replaces what its owner held of the range.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] and [`ErrorKind::Cancelled`] as `wait` says; [`ErrorKind::Deadlock`] for a record lock that
    /// would wait for itself; [`ErrorKind::Restarted`] when locks of this file were lost; [`ErrorKind::TooMany`]; the
    /// connection's.
    pub fn lock(&self, tracer: &mut Tracer, request: &LockRequest, wait: Wait<'_>) -> Result<()> {
        if self.inner.only_reads()? {
            return self.lock_own(tracer, request, wait);
        }
        self.lock_by(tracer, request, wait, None)
    }

    /// The same among all clients. `until`: then it is waited for no longer.
    fn lock_by(&self, tracer: &mut Tracer, request: &LockRequest, wait: Wait<'_>, until: Option<Instant>) -> Result<()> {
        self.check(request.range.file)?;
        let inner = &self.inner;
        let Wait::Until(cancel) = wait else {
            return match inner.ask_for(tracer, LockOperation::Lock { request: *request, ticket: None }, Some(request))?.0 {
                LockReply::Done => inner.listen(),
                other => Err(inner.strange(&other)),
            };
        };
        let ticket = inner.next.fetch_add(1, Ordering::Relaxed);
        cancel.wakes(inner);
        inner.state.lock().waiting.insert(ticket, Waiting { request: *request, granted: false });
        let done = inner.listen().and_then(|()| inner.wait_for(tracer, ticket, request, (cancel, until)));
        inner.state.lock().waiting.remove(&ticket);
        done
    }

    /// Frees what its owner holds of a range. A service that is away is no error: the locks end with the connection.
    ///
    /// # Errors
    /// [`ErrorKind::Restarted`] when what was held of the file was lost before; [`ErrorKind::TooMany`] when a lock would be
    /// divided and there are too many.
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

    /// Frees all that an owner holds of a file, in both spaces of programs.
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

    /// Who is in the way of a lock, if anybody.
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
            other => Err(self.inner.strange(&other)),
        }
    }

    /// Whether locks of this file were lost, without asking anybody.
    ///
    /// # Errors
    /// [`ErrorKind::Restarted`] if so, until their owners have freed them.
    pub fn check(&self, file: FileId) -> Result<()> {
        let state = self.inner.state.lock();
        if !state.lost.is_empty() && state.lost.iter().any(|(of, _)| *of == file) {
            return Err(lost_error());
        }
        Ok(())
    }

    /// A lock of a client that may only read: among its own programs, once nobody else has one in the way.
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
                    Some(cancel) if cancel.is_fired() => Error::new(ErrorKind::Cancelled, "waiting for the lock was ended"),
                    Some(_) => {
                        let waiting = tracer.begin();
                        std::thread::sleep(AGAIN);
                        tracer.end(waiting, SpanKind::WaitLock, SpanFields::default());
                        continue;
                    }
                },
                Ok(other) => inner.strange(&other),
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
    fn strange(&self, reply: &dyn std::fmt::Debug) -> Error {
        unexpected(reply).at_server(&self.address)
    }

    /// Notes what is held now.
    fn note(&self, request: &LockRequest) {
        let place = (request.range.file, request.range.space);
        self.state.lock().held.entry(place).or_default().set(&as_held(self.client, request), true);
    }

    /// Notes that nothing is held of a range. Whether something was.
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

    /// Reports to the service what is free. If it is away, it knows by that.
    fn freed(&self, tracer: &mut Tracer, operation: LockOperation) -> Result<()> {
        let mut life = self.life.lock();
        let Some(connection) = life.as_mut().filter(|c| !c.is_broken()) else { return Ok(()) };
        let reply = self.silence.check().and_then(|()| call(connection, tracer, operation));
        self.silence.asked(&reply);
        match reply {
            Ok(LockReply::Done) => Ok(()),
            Ok(other) => Err(self.strange(&other)),
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

    /// One question on the life, and which life that was. Every one of them may be asked twice. What is held by the answer
    /// is noted before the life can be another, which would not claim it.
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
        Err(Error::new(ErrorKind::Reset, "the connection breaks again and again").at_server(&self.address))
    }

    /// Makes the life, unless it is there, and claims what is held.
    fn living<'a>(&self, life: &'a mut Option<Connection>) -> Result<&'a mut Connection> {
        // Nothing is awaited on an idle connection: what can be read is its end.
        if life.as_mut().is_some_and(|c| c.is_broken() || c.is_readable()) {
            *life = None;
        }
        if life.is_none() {
            let mut connection = Connection::connect(&self.address, &self.options)?;
            let off = &mut Tracer::off();
            if self.only_reads()? {
                // It holds nothing, and only asks.
                return Ok(life.insert(connection));
            }
            match call(&mut connection, off, LockOperation::Hello { client: self.client })? {
                LockReply::Done => {}
                other => return Err(self.strange(&other)),
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
                    other => return Err(self.strange(&other)),
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

    /// Asks for a lock, and again whenever the life is a new one, until it is granted.
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
                other => return Err(self.strange(&other)),
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

    /// Stops waiting. A lock that was granted meanwhile is held.
    fn give_up(&self, tracer: &mut Tracer, ticket: u64, request: &LockRequest) -> Result<()> {
        match self.ask_for(tracer, LockOperation::Cancel { ticket, request: *request }, Some(request)) {
            Ok((LockReply::Cancelled { granted: true }, _)) => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "waiting for the lock was ended")),
        }
    }

    /// Whether the client's credential is for reading.
    fn only_reads(&self) -> Result<bool> {
        self.options.only_reads()
    }

    /// Starts the thread that listens for grants, unless it runs.
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

    /// The thread: asks for grants while something is held or waited for.
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
                // The error goes to the caller that asks for a lock; here it is only tried again.
                self.changed.wait_while_for(&mut state, |state| !state.ended, AGAIN);
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

    /// One question for grants, over a connection that is made if it is not there.
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
                // On a younger life those who wait ask again.
                if self.state.lock().generation == generation {
                    tickets.iter().for_each(|ticket| self.granted(*ticket));
                    self.changed.notify_all();
                }
                Ok(())
            }
            other => Err(self.strange(&other)),
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
