//! The connections over which calls go, and what is open on each.

use super::keeping::Keeping;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Fair, Held, Mutex};
use thalweg_trace::Tracer;
use thalweg_wire::emulate::Emulation;
use thalweg_wire::limits;
use thalweg_wire::patience::Silence;
use thalweg_wire::protocol::common::{ServiceStart, random_u64};
use thalweg_wire::protocol::metadata::{Closed, End, FileId, MetadataReply, MetadataRequest, Operation, Place, RequestNumber, StoreMap};
use thalweg_wire::{Connect, Connection, Kind};
use thalweg_wire::{Error, ErrorKind, Result};

/// Connections to the service; calls beyond them wait for one.
pub const CONNECTIONS: usize = 4;

/// Closed files are reported with the next request, or at once when there are this many.
const CLOSED_AT_ONCE: usize = 256;

/// What is asked by who only reports what it has closed: of all questions the one with the smallest answer. (Who is who is 100 bytes for each
/// server of the store.)
pub fn nothing_more() -> Operation {
    Operation::Stat { places: vec![Place::of(FileId::ROOT)], sizes: false }
}

/// What clones of a client and its open files have in common; its end reports what they have closed.
pub(super) struct Inner {
    calls: Arc<Calls>,
}

/// Calls, and the connections that they go over.
pub(super) struct Calls {
    pub(super) address: String,
    /// The one of several services that was active when this client last connected.
    pub(super) active: Mutex<String>,
    /// The start of the service that this client has met last.
    service: Mutex<ServiceStart>,
    pub(super) slots: Vec<Fair<Slot>>,
    pub(super) next: AtomicUsize,
    pub(super) map: Mutex<Arc<StoreMap>>,
    pub(super) options: Mutex<Connect>,
    pub(super) node: String,
    /// The machine start under which something was changed and not synced since.
    pub(super) unsynced: Mutex<Option<String>>,
    /// The devices that the store pretends to have.
    pub(super) emulated: Option<Emulation>,
    /// All calls go over the first connection.
    pub(super) one_connection: AtomicBool,
    /// Files opened by path ([`Names`]), oldest first.
    pub(super) kept: Mutex<VecDeque<Kept>>,
    silence: Silence,
    /// By which the service knows requests that are sent again.
    client: u64,
    /// The thread that sees to it that the service knows what is open.
    keeping: Keeping,
}

/// A file that is open on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) id: FileId,
    /// Which connection.
    pub(super) slot: usize,
    /// It may be written.
    pub(super) write: bool,
}

impl Kept {
    /// How it ends if nobody says so.
    pub(super) fn end(&self) -> End {
        if self.write { End::Unknown } else { End::Read }
    }
}

/// One connection, and what is open on it.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) connection: Option<Connection>,
    pub(super) open: HashMap<FileId, Uses>,
    pub(super) closed: Vec<Closed>,
    /// Its place among the slots.
    line: u8,
    /// Of the last request that was sent with one.
    number: u64,
}

/// How often a file is open on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) reading: u32,
    pub(super) writing: u32,
}

impl Slot {
    /// Whether its connection is of no more use. Nothing is awaited on an idle one: what can be read is its end.
    fn has_ended(&mut self) -> bool {
        self.connection.as_mut().is_some_and(|c| c.is_broken() || c.is_readable())
    }

    pub(super) fn opened(&mut self, id: FileId, write: bool) {
        let uses = self.open.entry(id).or_default();
        *(if write { &mut uses.writing } else { &mut uses.reading }) += 1;
    }

    /// Notes that one use of a file has ended; the service is notified with the next request.
    pub(super) fn close(&mut self, file: Kept, end: End) {
        if let Some(uses) = self.open.get_mut(&file.id) {
            let count = if file.write { &mut uses.writing } else { &mut uses.reading };
            *count = count.saturating_sub(1);
            if uses.reading + uses.writing == 0 {
                self.open.remove(&file.id);
            }
        }
        // What was never opened for writing can have changed nothing.
        let end = if file.write { end } else { End::Read };
        self.closed.push(Closed { file: file.id, write: file.write, end });
    }
}

impl Drop for Inner {
    /// Says what was closed and not reported yet, without waiting for an answer: a writer that has ended well is not to be taken for one
    /// that was lost. What was sent before the end of a connection is read before it.
    fn drop(&mut self) {
        self.keeping.end();
        for slot in &self.slots {
            // One that is in use is being connected anew, and what was closed is no news to that.
            let Some(mut slot) = slot.try_lock() else { continue };
            let slot = &mut *slot;
            let Some(connection) = &mut slot.connection else { continue };
            for closed in slot.closed.chunks(limits::CLOSED) {
                let request = MetadataRequest { closed: closed.to_vec(), directory: None, number: None, operation: nothing_more() };
                let _ = connection.post(&mut Tracer::off(), None, Kind::Metadata, &request, &[], 0);
            }
        }
    }
}

impl std::ops::Deref for Inner {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl Inner {
    /// Over one connection that is there already; the others are made when they are needed.
    pub(super) fn new(address: &str, first: Connection, options: &Connect) -> Inner {
        let (store, emulated) = (first.hello().store, first.hello().emulated);
        let service = Mutex::new(first.hello().service_start);
        let active = Mutex::new(first.address().to_owned());
        let mut slots = vec![Fair::new(Slot { connection: Some(first), ..Slot::default() })];
        slots.extend((1_u8..).take(CONNECTIONS - 1).map(|line| Fair::new(Slot { line, ..Slot::default() })));
        let calls = Calls {
            address: address.to_owned(),
            active,
            service,
            slots,
            next: AtomicUsize::new(0),
            map: Mutex::new(Arc::new(StoreMap { store, servers: Vec::new(), targets: Vec::new() })),
            node: options.node.clone(),
            options: Mutex::new(Connect { store: Some(store), ..options.clone() }),
            unsynced: Mutex::new(None),
            emulated,
            one_connection: AtomicBool::new(false),
            kept: Mutex::default(),
            silence: Silence::default(),
            client: random_u64(),
            keeping: Keeping::default(),
        };
        Inner { calls: Arc::new(calls) }
    }

    /// Something is open from now on.
    pub(super) fn keep(&self) {
        self.keeping.begin(&self.calls, |calls| &calls.keeping, Calls::keep_alive);
    }
}

impl Calls {
    /// The start of the service that this client has met last.
    pub(super) fn service(&self) -> ServiceStart {
        *self.service.lock()
    }

    /// A connection that nobody uses, or the one whose turn it is to be waited for.
    pub(super) fn free_slot(&self) -> (usize, Held<'_, Slot>) {
        if self.one_connection.load(Ordering::Acquire) {
            return (0, self.slots[0].lock());
        }
        for (number, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot.try_lock() {
                return (number, slot);
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        (number, self.slots[number].lock())
    }

    /// Notes that a file is closed; the service is notified with the next request on its connection.
    pub(super) fn close(&self, file: Kept, end: End) {
        let mut slot = self.slots[file.slot].lock();
        slot.close(file, end);
        if slot.closed.len() >= CLOSED_AT_ONCE {
            // Nothing depends on it: an error here is returned to the next caller.
            let _ = self.call_on(&mut slot, &mut Tracer::off(), nothing_more(), true);
        }
    }

    /// Makes connections again on which something is open, if they have ended; that says what is open. And reports what is closed on the others.
    /// Those in use are left alone: who uses them finds out. An error is found by who asks next.
    pub(super) fn keep_alive(&self) {
        for slot in &self.slots {
            let Some(mut slot) = slot.try_lock() else { continue };
            if slot.has_ended() {
                slot.connection = None;
            }
            if slot.connection.is_none() && !slot.open.is_empty() {
                let options = self.options.lock().clone();
                let timeout = options.timeout.min(limits::KEPT_ALIVE_TRY);
                let _ = self.connect(&mut slot, &Connect { timeout, refused: Duration::ZERO, ..options });
            } else if slot.connection.is_some() && !slot.closed.is_empty() {
                let _ = self.call_on(&mut slot, &mut Tracer::off(), nothing_more(), true);
            }
        }
    }

    /// Reports what is closed on every connection with unreported ends.
    pub(super) fn report_closed(&self, tracer: &mut Tracer) -> Result<()> {
        // Others wait for these connections: a silent service is not waited for on one after the other.
        let _operation = thalweg_wire::Operation::begin(Instant::now(), Arc::default());
        for slot in &self.slots {
            let mut slot = slot.lock();
            if !slot.closed.is_empty() {
                self.call_on(&mut slot, tracer, nothing_more(), true)?;
            }
        }
        Ok(())
    }

    /// Makes the connection, unless it is there, and says what is open.
    pub(super) fn ready(&self, slot: &mut Slot) -> Result<()> {
        if slot.has_ended() {
            slot.connection = None;
        }
        if slot.connection.is_some() {
            return Ok(());
        }
        let options = self.options.lock().clone();
        self.connect(slot, &options)
    }

    /// Makes the connection, and says what is open.
    fn connect(&self, slot: &mut Slot, options: &Connect) -> Result<()> {
        slot.closed.clear();
        let mut connection = Connection::connect(&self.address, options)?;
        connection.address().clone_into(&mut self.active.lock());
        *self.service.lock() = connection.hello().service_start;
        let each = |(id, uses): (&FileId, &Uses)| {
            let reading = std::iter::repeat_n((*id, false), uses.reading as usize);
            reading.chain(std::iter::repeat_n((*id, true), uses.writing as usize)).collect::<Vec<_>>()
        };
        let open: Vec<(FileId, bool)> = slot.open.iter().flat_map(each).collect();
        for files in open.chunks(4096) {
            let request = MetadataRequest::of(Operation::Reopen { files: files.to_vec() });
            let _: MetadataReply = connection.call(&mut Tracer::off(), Kind::Metadata, &request)?;
        }
        slot.connection = Some(connection);
        Ok(())
    }

    /// The same after a connection has broken: a service that has just been killed may still take one, which it then resets.
    fn ready_again(&self, slot: &mut Slot) -> Result<()> {
        let (begun, patience) = (Instant::now(), self.options.lock().refused);
        loop {
            match self.ready(slot) {
                Err(error) if error.kind() == ErrorKind::Reset && begun.elapsed() < patience => std::thread::sleep(limits::BETWEEN_SEVERAL),
                other => return other,
            }
        }
    }

    pub(super) fn changing(
        &self,
        slot: &mut Slot,
        tracer: &mut Tracer,
        operation: Operation,
        directory: Option<FileId>,
    ) -> Result<MetadataReply> {
        let reply = self.call(slot, tracer, (operation, directory), false)?;
        let mut unsynced = self.unsynced.lock();
        if unsynced.is_none() {
            *unsynced = slot.connection.as_ref().map(|c| c.hello().boot_id.clone());
        }
        Ok(reply)
    }

    /// One call; one that only asks, or has a number, is made again on a new connection when the old one turns out to be dead.
    pub(super) fn call_on(&self, slot: &mut Slot, tracer: &mut Tracer, operation: Operation, only_asks: bool) -> Result<MetadataReply> {
        self.call(slot, tracer, (operation, None), only_asks)
    }

    fn call(&self, slot: &mut Slot, tracer: &mut Tracer, asked: (Operation, Option<FileId>), only_asks: bool) -> Result<MetadataReply> {
        // Somebody else may have waited on this connection for as long as we waited for it.
        self.silence.check()?;
        let reply = self.call_anyway(slot, tracer, asked, only_asks);
        self.silence.asked(&reply);
        reply
    }

    fn call_anyway(
        &self,
        slot: &mut Slot,
        tracer: &mut Tracer,
        (operation, directory): (Operation, Option<FileId>),
        only_asks: bool,
    ) -> Result<MetadataReply> {
        self.ready(slot)?;
        let reported = slot.closed.len().min(limits::CLOSED);
        let number = (!only_asks && operation.is_done_once()).then(|| {
            slot.number += 1;
            RequestNumber { client: self.client, line: slot.line, number: slot.number }
        });
        let mut request = MetadataRequest { closed: slot.closed.drain(..reported).collect(), directory, number, operation };
        let (sent, mut attempts) = (Instant::now(), 0);
        loop {
            let Some(connection) = slot.connection.as_mut() else { return Err(Error::new(ErrorKind::Reset, "not connected")) };
            let error = match connection.call(tracer, Kind::Metadata, &request) {
                Err(error) if error.kind() == ErrorKind::Reset => error,
                // Another service may have taken over from one that is cut off, or whose machine is gone without a word.
                Err(error) if error.kind() == ErrorKind::TimedOut && self.address.contains(',') => error,
                other => return other,
            };
            attempts += 1;
            let goes_on = if only_asks { attempts == 1 } else { number.is_some() && sent.elapsed() < limits::AGAIN };
            if !goes_on {
                return Err(error);
            }
            slot.connection = None;
            // What was sent may have been done: that is what is to be known of it, if nobody else can say.
            self.ready_again(slot).map_err(|unreachable| if only_asks { unreachable } else { error })?;
            // The new connection knows only of what is still open.
            request.closed.clear();
        }
    }
}
