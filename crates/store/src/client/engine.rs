//! The threads that move flow buffers: one for each connection, `streams` connections to each server.
//!
//! A server's connections share a queue, its lane. A connection's thread takes flow buffers from it and has up to `depth`
//! of them posted and unanswered; answers come in order. It fetches, checksums and sends (or receives, verifies and
//! stores) each flow buffer itself, in memory of its own that stays in the processor's cache, so that a flow buffer
//! passes through one thread at each end.
//!
//! An engine moves bytes one way only. With both ways on one connection, client and server could each be stuck in
//! sending what the other, sending too, does not receive.

use super::data::DataClient;
use super::file::{Verifiers, check_read, damaged, gather};
use super::flow::{End, Flow, Sink, Source, Task, Work};
use crate::crc::{Crc32c, crc32c};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::{IoReply, IoRequest};
use crate::sync::locked;
use crate::wire::{Connection, Kind, Reply, unexpected};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use thalweg_layout::FlowBuffer;
use thalweg_trace::{About, Mode, SpanKind, Tracer};

/// How an engine works.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    pub depth: Arc<AtomicU32>,
    pub streams: u32,
    pub socket_buffer_bytes: Option<usize>,
    pub mode: Mode,
}

/// Threads for the servers of one file, or of several.
pub(crate) struct Engine {
    lanes: HashMap<usize, Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    data: Arc<DataClient>,
    options: EngineOptions,
    verifiers: Verifiers,
    /// The first failure: what is asked for after it fails the same way, at once.
    failed: Mutex<Option<Error>>,
    cancelled: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// One server's queue.
struct Lane {
    server: usize,
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    closed: bool,
}

impl Engine {
    /// Starts the threads; they connect when they have something to do.
    pub fn start(data: Arc<DataClient>, servers: impl IntoIterator<Item = usize>, options: EngineOptions) -> Result<Engine> {
        let shared = Arc::new(Shared {
            data,
            options,
            verifiers: Verifiers::default(),
            failed: Mutex::new(None),
            cancelled: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let mut engine = Engine { lanes: HashMap::new(), threads: Vec::new(), shared };
        for server in servers {
            let lane = Arc::new(Lane { server, queue: Mutex::default(), ready: Condvar::new() });
            if engine.lanes.insert(server, Arc::clone(&lane)).is_some() {
                continue;
            }
            for stream in 0..engine.shared.options.streams.max(1) {
                let (shared, lane) = (Arc::clone(&engine.shared), Arc::clone(&lane));
                let name = format!("connection {}#{stream}", engine.shared.data.links()[server].name());
                let thread = std::thread::Builder::new().name(name.clone()).spawn(move || Worker::new(&shared, &lane, &name).run());
                engine.threads.push(thread.map_err(|e| Error::system("starting a thread", e))?);
            }
        }
        Ok(engine)
    }

    /// Puts a task into a server's queue.
    pub fn ask(&self, server: usize, work: Work) {
        let Some(lane) = self.lanes.get(&server) else {
            let error = Error::new(ErrorKind::NotFound, "no thread for this server: a bug");
            return work.flow.done(Err(error), None);
        };
        locked(&lane.queue).work.push_back(work);
        lane.ready.notify_one();
    }

    /// Ends everything as soon as possible: what is under way fails.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        self.shared.fail(Error::new(ErrorKind::Cancelled, "stopped on request"));
        for stream in locked(&self.shared.open).iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Finishes what was asked for, and ends the threads.
    pub fn finish(&mut self) {
        for lane in self.lanes.values() {
            locked(&lane.queue).closed = true;
            lane.ready.notify_all();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn fail(&self, error: Error) {
        locked(&self.failed).get_or_insert(error);
    }

    fn failure(&self) -> Option<Error> {
        locked(&self.failed).clone()
    }

    /// An error that the connection's end caused because we cancelled it is no error of the server's.
    fn explain(&self, error: Error) -> Error {
        if self.cancelled.load(Ordering::SeqCst) { Error::new(ErrorKind::Cancelled, "stopped on request") } else { error }
    }
}

/// One connection's thread.
struct Worker<'a> {
    shared: &'a Shared,
    lane: &'a Lane,
    tracer: Tracer,
    connection: Option<Connection>,
    posted: VecDeque<Work>,
    memory: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, lane: &'a Lane, name: &str) -> Worker<'a> {
        let tracer = shared.options.mode.thread(name);
        Worker { shared, lane, tracer, connection: None, posted: VecDeque::new(), memory: Vec::new() }
    }

    fn run(&mut self) {
        loop {
            let depth = self.shared.options.depth.load(Ordering::Relaxed).max(1) as usize;
            let next = match self.posted.len() {
                0 => self.wait_for_work(),
                posted if posted < depth => locked(&self.lane.queue).work.pop_front(),
                _ => None,
            };
            match next {
                Some(work) => {
                    self.begin(work);
                    while !self.posted.is_empty() && self.connection.as_ref().is_some_and(Connection::is_readable) {
                        self.complete();
                    }
                }
                None if self.posted.is_empty() => return,
                None => self.complete(),
            }
        }
    }

    /// `None`: there will be no more.
    fn wait_for_work(&mut self) -> Option<Work> {
        let waiting = self.tracer.begin();
        let mut queue = locked(&self.lane.queue);
        let mut slept = false;
        let work = loop {
            if let Some(work) = queue.work.pop_front() {
                break Some(work);
            }
            if queue.closed {
                break None;
            }
            slept = true;
            queue = self.lane.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        if slept {
            let waker_track = work.as_ref().and_then(|w| w.asked_by);
            self.tracer.end(waiting, SpanKind::WaitLock, About { waker_track, ..About::default() });
        }
        work
    }

    fn done(&self, flow: &Flow, result: Result<u64>) {
        let result = result.map_err(|error| {
            let error = self.shared.explain(error).at_server(self.name());
            self.shared.fail(error.clone());
            error
        });
        flow.done(result, self.tracer.track());
    }

    fn name(&self) -> &str {
        self.shared.data.links()[self.lane.server].name()
    }

    fn begin(&mut self, work: Work) {
        if let Some(error) = self.shared.failure().or_else(|| work.flow.error()) {
            return work.flow.done(Err(error), self.tracer.track());
        }
        match self.post(&work) {
            Ok(()) => self.posted.push_back(work),
            Err(error) => {
                self.done(&work.flow, Err(error.clone()));
                self.give_up(&error);
            }
        }
    }

    /// The connection is of no more use: nothing that was posted on it will be answered.
    fn give_up(&mut self, error: &Error) {
        if self.connection.as_ref().is_none_or(Connection::is_broken) {
            self.connection = None;
            for work in std::mem::take(&mut self.posted) {
                self.done(&work.flow, Err(error.clone()));
            }
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        let connecting = self.tracer.begin();
        let connection = self.shared.data.links()[self.lane.server].connect_with(self.shared.options.socket_buffer_bytes)?;
        if let Ok(stream) = connection.stream().try_clone() {
            locked(&self.shared.open).push(stream);
        }
        if self.shared.cancelled.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        let about = About { object: connection.object(), ..About::default() };
        self.tracer.end(connecting, SpanKind::NetConnect, about);
        self.connection = Some(connection);
        Ok(())
    }

    fn post(&mut self, work: &Work) -> Result<()> {
        self.connect()?;
        let Worker { connection: Some(connection), tracer, memory, .. } = self else { unreachable!("just connected") };
        let flow = &*work.flow;
        let request = match &work.task {
            Task::Sync(datafiles) => IoRequest::Sync { datafiles: datafiles.clone() },
            Task::Move(buffer) => {
                let datafile = flow.file.datafile(buffer.datafile);
                match &flow.end {
                    End::ToMemory(..) | End::ToSink(_) => {
                        IoRequest::Read { datafile, offset: buffer.physical_offset, length: buffer.length }
                    }
                    End::FromMemory(..) | End::FromSource(_) => {
                        let request = IoRequest::Write { datafile, offset: buffer.physical_offset, durability: flow.durability };
                        return send(connection, tracer, flow, *buffer, &request, memory);
                    }
                }
            }
        };
        connection.post(tracer, flow.request, Kind::Io, &request, &[], 0)?;
        Ok(())
    }

    /// Takes the answer to what was posted first.
    fn complete(&mut self) {
        let (Some(connection), Some(work)) = (&mut self.connection, self.posted.pop_front()) else { return };
        let result = match connection.complete::<IoReply>(&mut self.tracer) {
            Ok(reply) => self.take(&work, reply),
            Err(error) => Err(error),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::Corrupt && !work.again => {
                locked(&self.lane.queue).work.push_front(Work { again: true, ..work });
            }
            Err(error) => {
                self.done(&work.flow, Err(error.clone()));
                self.give_up(&error);
            }
            Ok(bytes) => self.done(&work.flow, Ok(bytes)),
        }
    }

    /// What the reply says, and its payload to where it belongs; how many bytes moved.
    fn take(&mut self, work: &Work, reply: Reply<IoReply>) -> Result<u64> {
        let Worker { connection: Some(connection), tracer, memory, .. } = self else { unreachable!("it has just answered") };
        let flow = &*work.flow;
        let Task::Move(buffer) = work.task else {
            return match connection.completed(tracer, reply, None) {
                IoReply::Synced { verifier } => self.shared.verifiers.note(self.lane.server, self.name(), verifier).map(|()| 0),
                other => Err(unexpected(&other)),
            };
        };
        match &flow.end {
            End::FromMemory(..) | End::FromSource(_) => match connection.completed(tracer, reply, Some(buffer.length)) {
                IoReply::Written { verifier } => {
                    self.shared.verifiers.note(self.lane.server, self.name(), verifier).map(|()| buffer.length)
                }
                other => Err(unexpected(&other)),
            },
            End::ToMemory(to, base) => {
                receive(connection, tracer, flow, buffer, reply, memory)?;
                // SAFETY: the flow owns its memory until it has ended, and this buffer's pieces of it are no other's:
                // only the pieces are written through this slice's parts.
                unsafe { scatter_into(to, flow, buffer, memory, *base) };
                Ok(buffer.length)
            }
            End::ToSink(sink) => {
                receive(connection, tracer, flow, buffer, reply, memory)?;
                store(&**sink, tracer, flow, buffer, memory)?;
                Ok(buffer.length)
            }
        }
    }
}

/// Fetches a flow buffer's bytes, checksums and sends them.
fn send(
    connection: &mut Connection,
    tracer: &mut Tracer,
    flow: &Flow,
    buffer: FlowBuffer,
    request: &IoRequest,
    memory: &mut Vec<u8>,
) -> Result<()> {
    let layout = flow.file.layout();
    let (pieces, crc) = match &flow.end {
        End::FromMemory(from, base) => {
            // SAFETY: the flow has the request's memory until it has ended; in this direction nobody writes it.
            let all = unsafe { from.part(0..from.len()) };
            let checking = tracer.begin();
            let gathered = gather(layout, buffer, all, *base);
            let about = About { parent: flow.request, size_bytes: Some(buffer.length), ..About::default() };
            tracer.end(checking, SpanKind::AppChecksum, about);
            gathered
        }
        End::FromSource(source) => fetch(&**source, tracer, flow, buffer, memory)?,
        End::ToMemory(..) | End::ToSink(_) => unreachable!("the caller has looked"),
    };
    connection.post(tracer, flow.request, Kind::Io, request, &pieces, crc)?;
    Ok(())
}

/// A flow buffer's bytes from a source, with their checksum.
fn fetch<'a>(
    source: &'a dyn Source,
    tracer: &mut Tracer,
    flow: &Flow,
    buffer: FlowBuffer,
    memory: &'a mut Vec<u8>,
) -> Result<(Vec<IoSlice<'a>>, u32)> {
    let layout = flow.file.layout();
    let about = About { parent: flow.request, size_bytes: Some(buffer.length), ..About::default() };
    if let Some(first) = buffer.pieces(layout).next()
        && source.in_memory(first.logical_offset, first.length).is_some()
    {
        let checking = tracer.begin();
        let (mut pieces, mut crc) = (Vec::new(), Crc32c::default());
        for piece in buffer.pieces(layout) {
            let (mut at, mut left) = (piece.logical_offset, piece.length);
            while let Some(bytes) = source.in_memory(at, left).filter(|_| left > 0) {
                crc.update(bytes);
                pieces.push(IoSlice::new(bytes));
                (at, left) = (at + bytes.len() as u64, left - bytes.len() as u64);
            }
        }
        tracer.end(checking, SpanKind::AppChecksum, about);
        return Ok((pieces, crc.finish()));
    }
    let reading = tracer.begin();
    memory.resize(buffer.length as usize, 0);
    let (mut count, mut offset_bytes) = (0, None);
    for piece in buffer.pieces(layout) {
        let at = (piece.physical_offset - buffer.physical_offset) as usize;
        source.read(&mut memory[at..at + piece.length as usize], piece.logical_offset)?;
        count += 1;
        offset_bytes.get_or_insert(piece.logical_offset);
    }
    tracer.end(reading, SpanKind::FileRead, About { object: source.object(), count: Some(count), offset_bytes, ..about });
    let checking = tracer.begin();
    let crc = crc32c(memory);
    tracer.end(checking, SpanKind::AppChecksum, about);
    Ok((vec![IoSlice::new(memory)], crc))
}

/// Receives and verifies the payload of an answered read into `memory`.
fn receive(
    connection: &mut Connection,
    tracer: &mut Tracer,
    flow: &Flow,
    buffer: FlowBuffer,
    reply: Reply<IoReply>,
    memory: &mut Vec<u8>,
) -> Result<()> {
    check_read(&reply.body, reply.header.payload_bytes, buffer.length)?;
    let header = reply.header;
    let (parent, request, size_bytes) = (reply.span(), reply.request, Some(header.payload_bytes));
    let receiving = tracer.begin();
    memory.resize(header.payload_bytes as usize, 0);
    connection.receive_payload(&header, memory)?;
    let about = About { object: connection.object(), parent, request, size_bytes, ..About::default() };
    tracer.end(receiving, SpanKind::NetReceive, about);
    connection.completed(tracer, reply, size_bytes);
    let checking = tracer.begin();
    let crc = crc32c(memory);
    tracer.end(checking, SpanKind::AppChecksum, About { parent: flow.request, size_bytes, ..About::default() });
    if !memory.is_empty() && crc != header.payload_crc {
        return Err(damaged(memory.len()));
    }
    Ok(())
}

/// Stores a received flow buffer. What is past the datafile's end is a hole, and stays one.
fn store(sink: &dyn Sink, tracer: &mut Tracer, flow: &Flow, buffer: FlowBuffer, payload: &[u8]) -> Result<()> {
    if sink.discards() {
        return Ok(());
    }
    let waiting = tracer.begin();
    let mut turn = sink.turn().map(|turn| match turn.try_lock() {
        Ok(turn) => turn,
        Err(_) => {
            let turn = locked(turn);
            tracer.end(waiting, SpanKind::WaitLock, About { waker_track: *turn, parent: flow.request, ..About::default() });
            turn
        }
    });
    if let Some(last) = turn.as_deref_mut() {
        *last = tracer.track();
    }
    let writing = tracer.begin();
    let (mut count, mut offset_bytes) = (0, None);
    for piece in buffer.pieces(flow.file.layout()) {
        let from = (piece.physical_offset - buffer.physical_offset) as usize;
        let have = payload.len().saturating_sub(from).min(piece.length as usize);
        if have > 0 {
            sink.write(&payload[from..from + have], piece.logical_offset)?;
            count += 1;
            offset_bytes.get_or_insert(piece.logical_offset);
        }
    }
    let about = About {
        object: sink.object(),
        count: Some(count.max(1)),
        offset_bytes,
        size_bytes: Some(payload.len() as u64),
        parent: flow.request,
        ..About::default()
    };
    tracer.end(writing, SpanKind::FileWrite, about);
    Ok(())
}

/// The payload's pieces into a request's memory.
///
/// # Safety
/// As [`super::memory::RequestMemory::part_mut`]: this buffer's pieces are nobody else's meanwhile.
unsafe fn scatter_into(to: &super::memory::RequestMemory, flow: &Flow, buffer: FlowBuffer, payload: &[u8], base: u64) {
    for piece in buffer.pieces(flow.file.layout()) {
        let start = (piece.logical_offset - base) as usize;
        // SAFETY: the pieces of different flow buffers are disjoint, and the caller has this one's.
        let part = unsafe { to.part_mut(start..start + piece.length as usize) };
        let from = (piece.physical_offset - buffer.physical_offset) as usize;
        let have = payload.len().saturating_sub(from).min(part.len());
        if have > 0 {
            part[..have].copy_from_slice(&payload[from..from + have]);
        }
        part[have..].fill(0);
    }
}
