//! The connections used for calls, and the files open on each.

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
use thalweg_wire::protocol::metadata::{Closed, End, FileId, FilePath, MetadataReply, MetadataRequest, Operation, RequestNumber, StoreMap};
use thalweg_wire::{Connect, Connection, Kind};
use thalweg_wire::{Error, ErrorKind, Result};

/// Connections to the service; further calls wait for one.
pub const CONNECTIONS: usize = 4;

/// Bound: closed files waiting to be reported with the next request; at this number they are reported immediately.
const CLOSED_AT_ONCE: usize = 256;

/// Returns the operation for a request that only reports closed files: the one with the smallest reply. (The store map takes 100 bytes per
/// server.)
pub fn nothing_more() -> Operation {
    Operation::Stat { places: vec![FilePath::of(FileId::ROOT)], sizes: false }
}

/// State shared by a client's clones and its open files; dropping it reports the files they closed.
pub(super) struct Inner {
    calls: Arc<Calls>,
}

/// The calls, and the connections they use.
pub(super) struct Calls {
    pub(super) address: String,
    /// Address of the service that was active when this client last connected, of several.
    pub(super) active: Mutex<String>,
    /// Latest start of the service that this client has seen.
    service: Mutex<ServiceStart>,
    pub(super) slots: Vec<Fair<Slot>>,
    pub(super) next: AtomicUsize,
    pub(super) map: Mutex<Arc<StoreMap>>,
    pub(super) options: Mutex<Connect>,
    pub(super) node: String,
    /// Boot of the service's machine under which changes were made and not synced since.
    pub(super) unsynced: Mutex<Option<String>>,
    /// Emulated devices of the store.
    pub(super) emulated: Option<Emulation>,
    /// Whether all calls use the first connection.
    pub(super) one_connection: AtomicBool,
    /// Files opened by path ([`Names`]), oldest first.
    pub(super) kept: Mutex<VecDeque<OpenEntry>>,
    silence: Silence,
    /// Client number by which the service recognises repeated requests.
    client: u64,
    /// The thread that keeps the service informed of open files.
    keeping: Keeping,
}

/// A file opened by path, and kept open on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenEntry {
    pub(super) id: FileId,
    /// Index of the connection.
    pub(super) slot: usize,
    /// Whether it is open for writing.
    pub(super) write: bool,
}

impl OpenEntry {
    /// Returns the end to report if the caller reports none.
    pub(super) fn end(&self) -> End {
        if self.write { End::Unknown } else { End::Read }
    }
}

/// One connection, with the files open on it.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) connection: Option<Connection>,
    pub(super) open: HashMap<FileId, Uses>,
    pub(super) closed: Vec<Closed>,
    /// Index of the slot.
    line: u8,
    /// Number of the last numbered request.
    number: u64,
}

/// How many times a file is open on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) reading: u32,
    pub(super) writing: u32,
}

impl Slot {
    /// Whether its connection is closed. No data is expected on an idle one: if it is readable, the peer closed it.
    fn has_ended(&mut self) -> bool {
        self.connection.as_mut().is_some_and(|c| c.is_broken() || c.is_readable())
    }

    pub(super) fn opened(&mut self, id: FileId, write: bool) {
        let uses = self.open.entry(id).or_default();
        *(if write { &mut uses.writing } else { &mut uses.reading }) += 1;
    }

    /// Records that one use of a file has ended; the next request reports it to the service.
    pub(super) fn close(&mut self, file: OpenEntry, end: End) {
        if let Some(uses) = self.open.get_mut(&file.id) {
            let count = if file.write { &mut uses.writing } else { &mut uses.reading };
            *count = count.saturating_sub(1);
            if uses.reading + uses.writing == 0 {
                self.open.remove(&file.id);
            }
        }
        // A file opened only for reading cannot have been changed.
        let end = if file.write { end } else { End::Read };
        self.closed.push(Closed { file: file.id, write: file.write, end });
    }
}

impl Drop for Inner {
    /// Reports files closed and not reported yet, without waiting for an answer: a writer that ended well must not be taken for one that
    /// was lost. The service reads data sent before the end of a connection.
    fn drop(&mut self) {
        self.keeping.end();
        for slot in &self.slots {
            // A slot in use is reconnecting, and a new connection need not report closed files.
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
    /// Starts with one existing connection; the others are made on demand.
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

    /// Starts the keep-alive thread: a file is open from now on.
    pub(super) fn keep(&self) {
        self.keeping.begin(&self.calls, |calls| &calls.keeping, Calls::keep_alive);
    }
}

impl Calls {
    /// Returns the latest start of the service that this client has seen.
    pub(super) fn service(&self) -> ServiceStart {
        *self.service.lock()
    }

    /// Returns an idle connection, or waits for the next in rotation.
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

    /// Records that a file is closed; the next request on its connection reports it to the service.
    pub(super) fn close(&self, file: OpenEntry, end: End) {
        let mut slot = self.slots[file.slot].lock();
        slot.close(file, end);
        if slot.closed.len() >= CLOSED_AT_ONCE {
            // Any error is returned to the next caller instead.
            let _ = self.call_on(&mut slot, &mut Tracer::off(), nothing_more(), true);
        }
    }

    /// Reconnects closed connections that have open files, which reports those files, and reports closed files on the others. Connections
    /// in use are skipped, since their users notice a failure; other errors are left to the next caller.
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

    /// Reports closed files on every connection that has any to report.
    pub(super) fn report_closed(&self, tracer: &mut Tracer) -> Result<()> {
        // Bounds the whole operation: others wait for these connections, so a silent service must not cost one timeout each.
        let _operation = thalweg_wire::Operation::begin(Instant::now(), Arc::default());
        for slot in &self.slots {
            let mut slot = slot.lock();
            if !slot.closed.is_empty() {
                self.call_on(&mut slot, tracer, nothing_more(), true)?;
            }
        }
        Ok(())
    }

    /// Connects if necessary, and reports the open files.
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

    /// Connects, and reports the open files.
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

    /// Reconnects after a connection broke; a service that was just killed may still accept a connection, and then reset it.
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

    /// Makes one call. A read-only or numbered call is retried on a new connection if the old one was closed.
    pub(super) fn call_on(&self, slot: &mut Slot, tracer: &mut Tracer, operation: Operation, only_asks: bool) -> Result<MetadataReply> {
        self.call(slot, tracer, (operation, None), only_asks)
    }

    fn call(&self, slot: &mut Slot, tracer: &mut Tracer, asked: (Operation, Option<FileId>), only_asks: bool) -> Result<MetadataReply> {
        // Another thread may have waited on this connection as long as this one waited for it.
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
                // Another service may have taken over from one that is cut off, or whose machine failed silently.
                Err(error) if error.kind() == ErrorKind::TimedOut && self.address.contains(',') => error,
                other => return other,
            };
            attempts += 1;
            let goes_on = if only_asks { attempts == 1 } else { number.is_some() && sent.elapsed() < limits::AGAIN };
            if !goes_on {
                return Err(error);
            }
            slot.connection = None;
            // The call may have been carried out: return the original error unless a retry can decide.
            self.ready_again(slot).map_err(|unreachable| if only_asks { unreachable } else { error })?;
            // The new connection knows only the files still open.
            request.closed.clear();
        }
    }
}
