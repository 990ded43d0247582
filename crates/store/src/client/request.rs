//! One request, on the thread of whoever asks: its flow buffers are posted to all servers, a few on each connection, and
//! the answers taken as they are due, so that all servers work at the same time.
//!
//! Every request to an I/O server may be made twice. A connection that turns out to be closed (the server has gone, and may
//! be back) is therefore made anew once, and what was unanswered on it posted again; if that fails too, so does the request.
//! When one server fails, nothing more is posted, and the others' answers are still taken: a write that nobody waits for
//! any more could overtake a later one.

use super::data::DataClient;
use super::file::{FileHandle, StoreFile, check_read, damaged, gather};
use super::link::{Lent, Link};
use crate::crc::Crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::io::{IoReply, IoRequest};
use crate::wire::{Connection, Kind, Reply, unexpected};
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSliceMut;
use thalweg_layout::{FlowBuffer, Layout};
use thalweg_trace::{SpanFields, SpanId, SpanKind, Tracer};

/// Flow buffers posted and unanswered on a connection.
const DEPTH: usize = 4;

/// What one direction does with a flow buffer.
trait Way {
    fn post(&mut self, connection: &mut Connection, tracer: &mut Tracer, buffer: FlowBuffer) -> Result<()>;
    fn take(&mut self, connection: &mut Connection, tracer: &mut Tracer, part: Part, reply: Reply<IoReply>) -> Result<()>;
}

/// A flow buffer, its number in the request, and the server it goes to.
#[derive(Clone, Copy)]
struct Part {
    number: usize,
    server: usize,
    buffer: FlowBuffer,
}

/// The part of a request at one server.
struct Lane<'a> {
    link: &'a Link,
    connection: Option<Lent<'a>>,
    waiting: VecDeque<Part>,
    posted: VecDeque<Part>,
    /// It was connected anew already.
    reconnected: bool,
    /// Bytes were damaged on their way already.
    damaged: bool,
}

/// A range of a file as flow buffers of at most [`limits::CONNECTION_MEMORY_BYTES`].
///
/// # Errors
/// When it ends past the largest file.
pub(super) fn buffers(file: &FileHandle, offset: u64, length: u64) -> Result<Vec<FlowBuffer>> {
    if offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES) {
        let problem = format!("{length} bytes at {offset} end past the largest file (2^63 - 1 bytes)");
        return Err(Error::new(ErrorKind::TooLarge, problem));
    }
    let layout = file.layout();
    let each = |id: crate::protocol::io::DatafileId| layout.flow_buffers(id.index, offset, length, limits::CONNECTION_MEMORY_BYTES);
    Ok(file.datafiles().flat_map(each).collect())
}

/// Writes flow buffers out of `bytes`, which begin at logical offset `base`.
pub(super) fn write(file: &StoreFile, tracer: &mut Tracer, buffers: &[FlowBuffer], (bytes, base): (&[u8], u64)) -> Result<()> {
    run(file.data(), file.handle(), tracer, buffers, &mut Writing { file, bytes, base })
}

/// Reads flow buffers into `memory`, which begins at logical offset `base`; how many bytes of each its datafile has. The
/// others are 0.
pub(super) fn read(file: &StoreFile, tracer: &mut Tracer, buffers: &[FlowBuffer], (memory, base): (&mut [u8], u64)) -> Result<Vec<u64>> {
    let mut reading = Reading { file: file.handle(), memory, base, have: vec![0; buffers.len()] };
    run(file.data(), file.handle(), tracer, buffers, &mut reading)?;
    Ok(reading.have)
}

fn run(data: &DataClient, file: &FileHandle, tracer: &mut Tracer, buffers: &[FlowBuffer], way: &mut dyn Way) -> Result<()> {
    let mut by_server: BTreeMap<usize, VecDeque<Part>> = BTreeMap::new();
    for (number, buffer) in buffers.iter().enumerate() {
        let server = data.server_of(file.datafile(buffer.datafile).target)?;
        by_server.entry(server).or_default().push_back(Part { number, server, buffer: *buffer });
    }
    let lane = |(server, waiting): (usize, VecDeque<Part>)| Lane {
        link: &data.links()[server],
        connection: None,
        waiting,
        posted: VecDeque::new(),
        reconnected: false,
        damaged: false,
    };
    let mut lanes: Vec<Lane<'_>> = by_server.into_iter().map(lane).collect();
    let mut failed: Option<Error> = None;
    if lanes.len() > 1 {
        let connections = data.lend_each(lanes.iter().map(|lane| lane.waiting[0].server));
        for (lane, connection) in lanes.iter_mut().zip(connections) {
            match connection {
                Ok(connection) => lane.connection = Some(connection),
                // That is tried once more, as any connection that turns out to be closed.
                Err(error) if error.kind() == ErrorKind::Reset => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
    }
    for _ in 0..DEPTH {
        for lane in &mut lanes {
            if failed.is_none() {
                failed = lane.post(tracer, way).err();
            }
        }
    }
    loop {
        let mut is_over = true;
        for lane in &mut lanes {
            let done = lane.complete(tracer, way, failed.is_some());
            if let Err(error) = done {
                failed.get_or_insert(error);
            } else if failed.is_none() {
                failed = lane.post(tracer, way).err();
            }
            is_over &= lane.posted.is_empty() && (lane.waiting.is_empty() || failed.is_some());
        }
        if is_over {
            return failed.map_or(Ok(()), |e| Err(e.on_file(file.path())));
        }
    }
}

impl Lane<'_> {
    /// Posts the next flow buffer, if there is one and the connection has room for it.
    fn post(&mut self, tracer: &mut Tracer, way: &mut dyn Way) -> Result<()> {
        while self.posted.len() < DEPTH {
            let Some(part) = self.waiting.pop_front() else { return Ok(()) };
            let posted = match &mut self.connection {
                Some(connection) => way.post(connection, tracer, part.buffer),
                None => self.link.lend().and_then(|lent| way.post(self.connection.insert(lent), tracer, part.buffer)),
            };
            match posted {
                Ok(()) => {
                    self.posted.push_back(part);
                    return Ok(());
                }
                Err(error) => {
                    self.posted.push_back(part);
                    self.again(error)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the answer to what was posted first. Where the request has failed already (`is_over`) nothing is tried again.
    fn complete(&mut self, tracer: &mut Tracer, way: &mut dyn Way, is_over: bool) -> Result<()> {
        let (Some(connection), Some(part)) = (&mut self.connection, self.posted.front().copied()) else { return Ok(()) };
        let reply = connection.complete::<IoReply>(tracer);
        let taken = reply.and_then(|reply| way.take(connection, tracer, part, reply));
        match taken {
            Ok(()) => {
                self.posted.pop_front();
                Ok(())
            }
            Err(error) if connection.is_broken() || error.breaks_connection() => match is_over {
                true => {
                    self.give_up();
                    Err(error)
                }
                false => self.again(error),
            },
            Err(error) => {
                self.posted.pop_front();
                if error.kind() == ErrorKind::Corrupt && !self.damaged && !is_over {
                    self.damaged = true;
                    self.waiting.push_front(part);
                    return Ok(());
                }
                Err(error.at_server(self.link.name()))
            }
        }
    }

    fn give_up(&mut self) {
        self.posted.clear();
        if let Some(lent) = self.connection.take() {
            lent.condemn();
        }
    }

    /// The connection is lost. If it had only been closed, everything unanswered is posted once more on a new one.
    fn again(&mut self, error: Error) -> Result<()> {
        let unanswered = std::mem::take(&mut self.posted);
        self.give_up();
        if self.reconnected || error.kind() != ErrorKind::Reset {
            return Err(error.at_server(self.link.name()));
        }
        self.reconnected = true;
        self.link.forget_idle();
        for part in unanswered.into_iter().rev() {
            self.waiting.push_front(part);
        }
        Ok(())
    }
}

struct Writing<'a> {
    file: &'a StoreFile,
    bytes: &'a [u8],
    base: u64,
}

impl Way for Writing<'_> {
    fn post(&mut self, connection: &mut Connection, tracer: &mut Tracer, buffer: FlowBuffer) -> Result<()> {
        let handle = self.file.handle();
        let checking = tracer.begin();
        let (pieces, crc) = gather(handle.layout(), buffer, self.bytes, self.base);
        tracer.end(checking, SpanKind::AppChecksum, SpanFields { size_bytes: Some(buffer.length), ..SpanFields::default() });
        let (datafile, durability) = (handle.datafile(buffer.datafile), self.file.durability());
        let request = IoRequest::Write { datafile, offset: buffer.physical_offset, durability };
        connection.post(tracer, None, Kind::Io, &request, &pieces, crc).map(drop)
    }

    fn take(&mut self, connection: &mut Connection, tracer: &mut Tracer, part: Part, reply: Reply<IoReply>) -> Result<()> {
        match connection.completed(tracer, reply, Some(part.buffer.length)) {
            IoReply::Written { verifier } => {
                self.file.verifiers().note(part.server, self.file.data().links()[part.server].name(), verifier);
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}

struct Reading<'a> {
    file: &'a FileHandle,
    memory: &'a mut [u8],
    base: u64,
    have: Vec<u64>,
}

impl Way for Reading<'_> {
    fn post(&mut self, connection: &mut Connection, tracer: &mut Tracer, buffer: FlowBuffer) -> Result<()> {
        let datafile = self.file.datafile(buffer.datafile);
        let request = IoRequest::Read { datafile, offset: buffer.physical_offset, length: buffer.length };
        connection.post(tracer, None, Kind::Io, &request, &[], 0).map(drop)
    }

    fn take(&mut self, connection: &mut Connection, tracer: &mut Tracer, part: Part, reply: Reply<IoReply>) -> Result<()> {
        let mut pieces = pieces_of(self.file.layout(), part.buffer, self.memory, self.base);
        self.have[part.number] = reply.header.payload_bytes;
        receive(connection, tracer, None, part.buffer, reply, &mut pieces)
    }
}

/// The pieces of a flow buffer in memory that begins at logical offset `base`, in their order.
fn pieces_of<'a>(layout: &Layout, buffer: FlowBuffer, memory: &'a mut [u8], base: u64) -> Vec<IoSliceMut<'a>> {
    let (mut rest, mut at) = (memory, base);
    let mut pieces = Vec::new();
    for piece in buffer.pieces(layout) {
        // The logical offsets of a datafile's bytes grow with the physical ones.
        let (_, from_here) = rest.split_at_mut((piece.logical_offset - at) as usize);
        let (here, after) = from_here.split_at_mut(piece.length as usize);
        pieces.push(IoSliceMut::new(here));
        (rest, at) = (after, piece.logical_offset + piece.length);
    }
    pieces
}

/// Receives the payload of an answered read of a flow buffer into its pieces, verifies it, and clears what the datafile
/// does not have.
pub(super) fn receive(
    connection: &mut Connection,
    tracer: &mut Tracer,
    parent: Option<SpanId>,
    buffer: FlowBuffer,
    reply: Reply<IoReply>,
    pieces: &mut [IoSliceMut<'_>],
) -> Result<()> {
    let header = reply.header;
    check_read(&reply.body, header.payload_bytes, buffer.length)?;
    let size_bytes = Some(header.payload_bytes);
    let mut left = header.payload_bytes as usize;
    let mut crc = Crc32c::default();
    if left > 0 {
        let receiving = tracer.begin();
        let mut wanted: Vec<IoSliceMut<'_>> = Vec::with_capacity(pieces.len());
        for piece in pieces.iter_mut() {
            let many = piece.len().min(left);
            wanted.push(IoSliceMut::new(&mut piece[..many]));
            left -= many;
            if left == 0 {
                break;
            }
        }
        connection.receive_pieces(&header, &mut wanted)?;
        let about =
            SpanFields { object: connection.object(), parent: reply.span(), request: reply.request, size_bytes, ..SpanFields::default() };
        tracer.end(receiving, SpanKind::NetReceive, about);
    }
    connection.completed(tracer, reply, size_bytes);
    let checking = tracer.begin();
    let mut left = header.payload_bytes as usize;
    for piece in pieces.iter_mut() {
        let have = piece.len().min(left);
        crc.update(&piece[..have]);
        piece[have..].fill(0);
        left -= have;
    }
    tracer.end(checking, SpanKind::AppChecksum, SpanFields { parent, size_bytes, ..SpanFields::default() });
    if header.payload_bytes > 0 && crc.finish() != header.payload_crc {
        return Err(damaged(header.payload_bytes as usize));
    }
    Ok(())
}
