//! One connection's thread. It fetches, checksums and sends (or receives, verifies and stores) each flow buffer itself, in memory that
//! stays in the processor's cache, so that a flow buffer passes through one thread at each end.

use super::flow::{Endpoint, Flow, QueuedTask, Sink, Source, Task};
use super::lanes::{Lane, Shared, Turn, Wake};
use super::memory::RequestMemory;
use crate::files::payload;
use crate::files::payload::gather;
use crate::stages::{Stage, StageClock};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_bulk::{Crc32c, crc32c, resize};
use thalweg_layout::{FlowBuffer, Piece};
use thalweg_trace::{OpenSpan, SpanFields, SpanKind, Tracer};
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::protocol::io::{IoReply, IoRequest};
use thalweg_wire::{Connection, Kind, Reply, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// The state of a connection's thread.
pub(in crate::files) struct Worker<'a> {
    shared: &'a Shared,
    lane: &'a Lane,
    tracer: Tracer,
    number: u64,
    connection: Option<Connection>,
    /// Unanswered tasks, with the time each was posted.
    posted: VecDeque<(QueuedTask, Instant)>,
    memory: Vec<u8>,
    /// Whether the other connections suffice.
    is_spare: bool,
    /// Whether it takes no more tasks.
    leaves: bool,
    /// Ends its wait for answers when a task is queued.
    wake: Arc<Wake>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared, lane: &'a Lane, name: &str, wake: Wake, is_spare: bool) -> Worker<'a> {
        let tracer = shared.options.trace.clone().unwrap_or_else(|| lane.link.trace()).thread(name);
        let number = shared.last_worker.fetch_add(1, Ordering::Relaxed);
        let (posted, memory) = (VecDeque::new(), Vec::new());
        Worker { shared, lane, tracer, number, connection: None, posted, memory, is_spare, leaves: false, wake: Arc::new(wake) }
    }

    /// Runs until the queue is closed or the thread is surplus.
    pub(super) fn run(&mut self) {
        let mut woken: Option<OpenSpan> = None;
        loop {
            let depth = self.shared.options.depth.load(Ordering::Relaxed).max(1) as usize;
            let has_room = self.posted.len() < depth && !self.leaves;
            let turn = match self.posted.len() {
                0 if self.leaves && self.lane.may_leave() => return,
                0 => {
                    self.leaves = false;
                    self.lane.wait(&mut self.tracer, &self.shared.options)
                }
                _ if has_room => self.lane.next(self.shared.options.wanted(), &self.wake),
                _ => Turn::Nothing,
            };
            if let Some(waiting) = woken.take() {
                turn.record(&mut self.tracer, waiting);
            }
            match turn {
                Turn::Do(work) => {
                    self.begin(work);
                    while !self.posted.is_empty() && self.connection.as_mut().is_some_and(Connection::is_readable) {
                        let receiving = self.tracer.begin();
                        self.complete(receiving);
                    }
                }
                Turn::Leave => self.leaves = true,
                Turn::Nothing => {
                    let waiting = self.tracer.begin();
                    if !has_room || self.is_answered_first() { self.complete(waiting) } else { woken = Some(waiting) }
                }
            }
        }
    }

    /// Waits for the next answer or task; `true`: the answer came first.
    fn is_answered_first(&mut self) -> bool {
        let begun = Instant::now();
        let answered = self.connection.as_mut().is_none_or(|connection| connection.is_readable_before(self.wake.as_fd()));
        self.lane.listens_no_more(&self.wake);
        self.stages().add(Stage::Answers, begun);
        answered
    }

    fn stages(&self) -> &'a StageClock {
        &self.shared.options.stages
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
        self.lane.link.name()
    }

    fn is_shared(&self) -> bool {
        self.shared.options.is_shared
    }

    fn begin(&mut self, work: QueuedTask) {
        if let Some(error) = self.shared.failure().or_else(|| work.flow.error()) {
            return work.flow.done(Err(error), self.tracer.track());
        }
        if work.again {
            // The server that closed the connection first used has closed this one too: finish what is posted, then reconnect.
            while !self.posted.is_empty() {
                let receiving = self.tracer.begin();
                self.complete(receiving);
            }
            self.disconnect();
        }
        match self.post(&work) {
            Ok(()) => self.posted.push_back((work, Instant::now())),
            Err(error) => self.failed(work, error),
        }
    }

    /// Handles a failed task and, if the connection is lost, every task posted on it.
    ///
    /// A shared engine's connection may have been idle long enough for the server to close it: it is reconnected once and the unanswered
    /// tasks are sent again (every request to an I/O server is idempotent). If the server is unreachable, everything that waits for it
    /// fails now, rather than after one timeout each.
    fn failed(&mut self, work: QueuedTask, error: Error) {
        let is_lost = self.connection.as_ref().is_none_or(|c| c.is_broken() || error.breaks_connection());
        if !is_lost {
            return self.done(&work.flow, Err(error));
        }
        self.disconnect();
        let mut lost: Vec<QueuedTask> = std::iter::once(work).chain(self.posted.drain(..).map(|(work, _)| work)).collect();
        if self.is_spare && !self.shared.cancelled.load(Ordering::SeqCst) {
            match self.lane.give_back(lost, !self.leaves) {
                Ok(others) => {
                    self.leaves = true;
                    self.stages().lost();
                    self.shared.options.streams.fetch_min(others, Ordering::Relaxed);
                    return;
                }
                Err(back) => lost = back,
            }
        }
        if error.kind() == ErrorKind::TimedOut {
            // Recorded before the waiters are notified.
            self.lane.link.silence().gave_up(&error);
        }
        if self.is_shared() {
            let may_be_back = error.kind() == ErrorKind::Reset;
            let (again, given_up): (Vec<QueuedTask>, Vec<QueuedTask>) = lost.into_iter().partition(|work| may_be_back && !work.again);
            if again.is_empty() {
                lost = given_up.into_iter().chain(self.lane.all()).collect();
            } else {
                lost = given_up;
                again.into_iter().rev().for_each(|work| self.lane.again(work));
            }
        }
        for work in lost {
            self.done(&work.flow, Err(error.clone()));
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        let connection = self.lane.link.connect(&mut self.tracer, self.shared.options.socket_buffer_bytes)?;
        if !self.is_shared()
            && let Ok(stream) = connection.stream().try_clone()
        {
            self.shared.open.lock().push((self.number, stream));
        }
        if self.shared.cancelled.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        self.connection = Some(connection);
        self.stages().connected(begun.elapsed());
        Ok(())
    }

    /// Closes the connection, and the handle kept for cancelling: the server sees it as open until both are closed.
    fn disconnect(&mut self) {
        if self.connection.take().is_some() {
            self.stages().disconnected();
        }
        self.shared.open.lock().retain(|(number, _)| *number != self.number);
    }

    fn post(&mut self, work: &QueuedTask) -> Result<()> {
        self.connect()?;
        let stages = self.stages();
        let Worker { connection: Some(connection), tracer, memory, .. } = self else { unreachable!("just connected") };
        let flow = &*work.flow;
        let request = match &work.task {
            Task::Sync(datafiles) => IoRequest::Sync { datafiles: datafiles.clone() },
            Task::Move(buffer) => {
                let datafile = flow.file.datafile(buffer.datafile);
                match &flow.endpoint {
                    Endpoint::ToMemory(..) | Endpoint::ToSink(_) => {
                        IoRequest::Read { datafile, offset: buffer.physical_offset, length: buffer.length }
                    }
                    Endpoint::FromMemory(..) | Endpoint::FromSource(_) => {
                        let request = IoRequest::Write { datafile, offset: buffer.physical_offset, durability: flow.durability };
                        return send(connection, (tracer, stages), flow, *buffer, &request, memory);
                    }
                }
            }
        };
        connection.post(tracer, flow.request, Kind::Io, &request, &[], 0)?;
        Ok(())
    }

    /// Receives the answer to the oldest posted task; `receiving` is the span of the wait.
    fn complete(&mut self, receiving: OpenSpan) {
        let (Some(connection), Some((work, posted))) = (&mut self.connection, self.posted.pop_front()) else { return };
        let waiting = Instant::now();
        let reply = connection.complete_since::<IoReply>(&mut self.tracer, receiving);
        self.stages().add(Stage::Answers, waiting);
        let result = match reply {
            Ok(reply) => {
                self.stages().answered(posted);
                self.take(&work, reply)
            }
            Err(error) => Err(error),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::Corrupt && !work.again => self.lane.again(work),
            Err(error) => self.failed(work, error),
            Ok(bytes) => {
                self.lane.link.silence().answered();
                self.done(&work.flow, Ok(bytes));
            }
        }
    }

    /// Records the server's boot verifier for the bytes it took.
    fn note(&self, flow: &Flow, verifier: BootVerifier) -> Result<()> {
        if self.is_shared() {
            flow.verifiers.note(self.lane.server, self.name(), verifier);
            return Ok(());
        }
        flow.verifiers.note_strictly(self.lane.server, self.name(), verifier)
    }

    /// Handles a reply and stores its payload; returns the bytes moved.
    fn take(&mut self, work: &QueuedTask, reply: Reply<IoReply>) -> Result<u64> {
        let stages = self.stages();
        let Worker { connection: Some(connection), tracer, memory, .. } = self else { unreachable!("it has just answered") };
        let flow = &*work.flow;
        let Task::Move(buffer) = work.task else {
            return match connection.completed(tracer, reply, None) {
                IoReply::Synced { verifier } => self.note(flow, verifier).map(|()| 0),
                other => Err(unexpected(&other)),
            };
        };
        match &flow.endpoint {
            Endpoint::FromMemory(..) | Endpoint::FromSource(_) => match connection.completed(tracer, reply, Some(buffer.length)) {
                IoReply::Written { verifier } => self.note(flow, verifier).map(|()| buffer.length),
                other => Err(unexpected(&other)),
            },
            Endpoint::ToMemory(to, base) => {
                if reply.header.payload_bytes < buffer.length {
                    flow.came_short();
                    check_end(flow, buffer, reply.header.payload_bytes)?;
                }
                // SAFETY: the flow owns its memory until it has ended, and only this flow buffer has these pieces of it.
                let mut pieces = unsafe { pieces_of(to, flow, buffer, *base) };
                let receiving = Instant::now();
                payload::receive(connection, tracer, flow.request, buffer, reply, &mut pieces)?;
                stages.add(Stage::Answers, receiving);
                Ok(buffer.length)
            }
            Endpoint::ToSink(sink) => {
                check_end(flow, buffer, reply.header.payload_bytes)?;
                resize(memory, reply.header.payload_bytes.min(buffer.length) as usize);
                let receiving = Instant::now();
                payload::receive(connection, tracer, flow.request, buffer, reply, &mut [IoSliceMut::new(memory)])?;
                stages.add(Stage::Answers, receiving);
                let storing = Instant::now();
                store(&**sink, tracer, flow, buffer, memory)?;
                stages.add(Stage::Local, storing);
                Ok(buffer.length)
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Checks a flow buffer of which the datafile has only `have_bytes`: a hole, unless the metadata service reported more. (The file may have
/// been truncated since; a copy made then would not match its earlier state either.)
fn check_end(flow: &Flow, buffer: FlowBuffer, have_bytes: u64) -> Result<()> {
    let end_bytes = buffer.physical_offset + have_bytes;
    if have_bytes >= buffer.length || flow.file.may_end(buffer.datafile, end_bytes) {
        return Ok(());
    }
    let id = flow.file.datafile(buffer.datafile);
    let problem = format!(
        "datafile {}.{} on target {} ends at byte {end_bytes}, before the file does: bytes of the file are lost, or it was truncated meanwhile",
        id.file, id.index, id.target
    );
    Err(Error::new(ErrorKind::Lost, problem))
}

/// Reads a flow buffer's bytes, computes the checksum, and sends them.
fn send(
    connection: &mut Connection,
    (tracer, stages): (&mut Tracer, &StageClock),
    flow: &Flow,
    buffer: FlowBuffer,
    request: &IoRequest,
    memory: &mut Vec<u8>,
) -> Result<()> {
    let layout = flow.file.layout();
    let (pieces, crc) = match &flow.endpoint {
        Endpoint::FromMemory(from, base) => {
            // SAFETY: the flow has the request's memory until it has ended; in this direction no thread writes it.
            let all = unsafe { from.part(0..from.len()) };
            let checking = tracer.begin();
            let gathered = gather(layout, buffer, all, *base);
            let about = SpanFields { parent: flow.request, size_bytes: Some(buffer.length), ..SpanFields::default() };
            tracer.end(checking, SpanKind::AppChecksum, about);
            gathered
        }
        Endpoint::FromSource(source) => fetch(&**source, (tracer, stages), flow, buffer, memory)?,
        Endpoint::ToMemory(..) | Endpoint::ToSink(_) => unreachable!("checked by the caller"),
    };
    let sending = Instant::now();
    connection.post(tracer, flow.request, Kind::Io, request, &pieces, crc)?;
    stages.add(Stage::Sending, sending);
    Ok(())
}

/// Reads a flow buffer's bytes from a source and computes their checksum.
fn fetch<'a>(
    source: &'a dyn Source,
    (tracer, stages): (&mut Tracer, &StageClock),
    flow: &Flow,
    buffer: FlowBuffer,
    memory: &'a mut Vec<u8>,
) -> Result<(Vec<IoSlice<'a>>, u32)> {
    let layout = flow.file.layout();
    let about = SpanFields { parent: flow.request, size_bytes: Some(buffer.length), ..SpanFields::default() };
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
    let (reading, begun) = (tracer.begin(), Instant::now());
    resize(memory, buffer.length as usize);
    let (mut count, mut offset_bytes) = (0, None);
    for piece in buffer.pieces(layout) {
        let at = (piece.physical_offset - buffer.physical_offset) as usize;
        source.read(&mut memory[at..at + piece.length as usize], piece.logical_offset)?;
        count += 1;
        offset_bytes.get_or_insert(piece.logical_offset);
    }
    tracer.end(reading, SpanKind::FileRead, SpanFields { object: source.object(), count: Some(count), offset_bytes, ..about });
    stages.add(Stage::Local, begun);
    let checking = tracer.begin();
    let crc = crc32c(memory);
    tracer.end(checking, SpanKind::AppChecksum, about);
    Ok((vec![IoSlice::new(memory)], crc))
}

/// Stores a received flow buffer. Bytes past the datafile's end are a hole, and are not written.
fn store(sink: &dyn Sink, tracer: &mut Tracer, flow: &Flow, buffer: FlowBuffer, payload: &[u8]) -> Result<()> {
    if sink.discards() {
        return Ok(());
    }
    let waiting = tracer.begin();
    let mut turn = sink.turn().map(|turn| match turn.try_lock() {
        Some(turn) => turn,
        None => {
            let turn = turn.lock();
            tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track: *turn, parent: flow.request, ..SpanFields::default() });
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
    let about = SpanFields {
        object: sink.object(),
        count: Some(count.max(1)),
        offset_bytes,
        size_bytes: Some(payload.len() as u64),
        parent: flow.request,
        ..SpanFields::default()
    };
    tracer.end(writing, SpanKind::FileWrite, about);
    Ok(())
}

/// Returns the pieces of a flow buffer in a request's memory that begins at logical offset `base`.
///
/// # Safety
/// As [`super::memory::RequestMemory::part_mut`]: no other thread accesses this flow buffer's pieces while they are in use.
unsafe fn pieces_of<'a>(to: &'a RequestMemory, flow: &Flow, buffer: FlowBuffer, base: u64) -> Vec<IoSliceMut<'a>> {
    let piece = |piece: Piece| {
        let start = (piece.logical_offset - base) as usize;
        // SAFETY: the pieces of different flow buffers are disjoint, and the caller owns this one's.
        IoSliceMut::new(unsafe { to.part_mut(start..start + piece.length as usize) })
    };
    buffer.pieces(flow.file.layout()).map(piece).collect()
}
