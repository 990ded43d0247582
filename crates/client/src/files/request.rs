//! One request, on the caller's thread: posts its flow buffers to all servers, a few per connection, and receives the answers as they
//! come, so that all servers work in parallel.
//!
//! Every request to an I/O server is idempotent. If a connection turns out to be closed (the server may have restarted), it is reconnected
//! once and its unanswered flow buffers are posted again; a second failure fails the request. When one server fails, nothing more is
//! posted, but the other servers' answers are still received: a write left in flight could overtake a later one.

use super::data::DataClient;
use super::handle::FileHandle;
use super::link::{Lent, Link};
use super::payload::{gather, pieces_of, receive};
use super::verifiers::Verifiers;
use std::collections::{BTreeMap, VecDeque};
use thalweg_layout::FlowBuffer;
use thalweg_trace::{SpanFields, SpanKind, Tracer};
use thalweg_wire::protocol::io::{Durability, IoReply, IoRequest};
use thalweg_wire::{Connection, Kind, Reply, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// Flow buffers posted and unanswered per connection.
const DEPTH: usize = 4;

/// The direction of a request: how a flow buffer is posted and completed.
trait Direction {
    fn post(&mut self, connection: &mut Connection, tracer: &mut Tracer, buffer: FlowBuffer) -> Result<()>;
    fn take(&mut self, connection: &mut Connection, tracer: &mut Tracer, part: Part, reply: Reply<IoReply>) -> Result<()>;
}

/// A flow buffer, with its index in the request and its server.
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
    /// Whether it was already reconnected.
    reconnected: bool,
    /// Whether bytes were already damaged in transit.
    damaged: bool,
}

/// Writes flow buffers from `bytes`, which begin at logical offset `base`.
pub(super) fn write(
    (data, file): (&DataClient, &FileHandle),
    (durability, verifiers): (Durability, &Verifiers),
    tracer: &mut Tracer,
    buffers: &[FlowBuffer],
    (bytes, base): (&[u8], u64),
) -> Result<()> {
    let how = WriteOptions { durability, appends: false };
    run(data, file, tracer, buffers, &mut Writing { data, file, how, verifiers, bytes, base, posted: 0, goes_on: false })
}

/// Appends flow buffers, each only if its datafile ends at or before it. `false`: a datafile is longer, and its flow buffer was not
/// written.
///
/// # Errors
/// Includes a lost connection: what was posted on it may or may not have been appended.
pub(super) fn append(
    (data, file): (&DataClient, &FileHandle),
    (durability, verifiers): (Durability, &Verifiers),
    tracer: &mut Tracer,
    buffers: &[FlowBuffer],
    (bytes, base): (&[u8], u64),
) -> Result<bool> {
    let how = WriteOptions { durability, appends: true };
    let mut writing = Writing { data, file, how, verifiers, bytes, base, posted: 0, goes_on: false };
    run(data, file, tracer, buffers, &mut writing)?;
    if writing.goes_on && writing.posted > buffers.len() {
        let problem = "the connection was lost during an append: the bytes may or may not be in the file";
        return Err(Error::new(ErrorKind::Restarted, problem).on_file(file.path()));
    }
    Ok(!writing.goes_on)
}

/// Reads flow buffers into `memory`, which begins at logical offset `base`; returns how many bytes of each its datafile has. The rest is
/// zeroed.
pub(super) fn read(
    (data, file): (&DataClient, &FileHandle),
    tracer: &mut Tracer,
    buffers: &[FlowBuffer],
    (memory, base): (&mut [u8], u64),
) -> Result<Vec<u64>> {
    let mut reading = Reading { file, memory, base, have: vec![0; buffers.len()] };
    run(data, file, tracer, buffers, &mut reading)?;
    Ok(reading.have)
}

fn run(data: &DataClient, file: &FileHandle, tracer: &mut Tracer, buffers: &[FlowBuffer], direction: &mut dyn Direction) -> Result<()> {
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
        let connections = data.lend_each(tracer, lanes.iter().map(|lane| lane.waiting[0].server));
        for (lane, connection) in lanes.iter_mut().zip(connections) {
            match connection {
                Ok(connection) => lane.connection = Some(connection),
                // Retried, like any connection that turns out to be closed.
                Err(error) if error.kind() == ErrorKind::Reset => {}
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
    }
    for _ in 0..DEPTH {
        for lane in &mut lanes {
            if failed.is_none() {
                failed = lane.post(tracer, direction).err();
            }
        }
    }
    loop {
        let mut is_over = true;
        for lane in &mut lanes {
            let done = lane.complete(tracer, direction, failed.is_some());
            if let Err(error) = done {
                failed.get_or_insert(error);
            } else if failed.is_none() {
                failed = lane.post(tracer, direction).err();
            }
            is_over &= lane.posted.is_empty() && (lane.waiting.is_empty() || failed.is_some());
        }
        if is_over {
            return failed.map_or(Ok(()), |e| Err(e.on_file(file.path())));
        }
    }
}

impl Lane<'_> {
    /// Posts the next flow buffer, if there is one and the connection's depth permits.
    fn post(&mut self, tracer: &mut Tracer, direction: &mut dyn Direction) -> Result<()> {
        while self.posted.len() < DEPTH {
            let Some(part) = self.waiting.pop_front() else { return Ok(()) };
            let posted = match &mut self.connection {
                Some(connection) => direction.post(connection, tracer, part.buffer),
                None => self.link.lend(tracer).and_then(|lent| direction.post(self.connection.insert(lent), tracer, part.buffer)),
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

    /// Receives the answer to the oldest posted flow buffer. With `is_over` (the request has failed), nothing is retried.
    fn complete(&mut self, tracer: &mut Tracer, direction: &mut dyn Direction, is_over: bool) -> Result<()> {
        let (Some(connection), Some(part)) = (&mut self.connection, self.posted.front().copied()) else { return Ok(()) };
        let reply = connection.complete::<IoReply>(tracer);
        let taken = reply.and_then(|reply| direction.take(connection, tracer, part, reply));
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
            lent.discard();
        }
    }

    /// Handles a lost connection: if the server merely closed it, reconnects and posts everything unanswered again.
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

/// Options of a write.
#[derive(Clone, Copy)]
struct WriteOptions {
    durability: Durability,
    /// Writes only where a datafile ends.
    appends: bool,
}

struct Writing<'a> {
    data: &'a DataClient,
    file: &'a FileHandle,
    how: WriteOptions,
    verifiers: &'a Verifiers,
    bytes: &'a [u8],
    base: u64,
    /// Flow buffers posted, including repeats.
    posted: usize,
    /// Whether a flow buffer was not appended because its datafile is longer.
    goes_on: bool,
}

impl Direction for Writing<'_> {
    fn post(&mut self, connection: &mut Connection, tracer: &mut Tracer, buffer: FlowBuffer) -> Result<()> {
        let checking = tracer.begin();
        let (pieces, crc) = gather(self.file.layout(), buffer, self.bytes, self.base);
        tracer.end(checking, SpanKind::AppChecksum, SpanFields { size_bytes: Some(buffer.length), ..SpanFields::default() });
        let (datafile, offset, durability) = (self.file.datafile(buffer.datafile), buffer.physical_offset, self.how.durability);
        let request = match self.how.appends {
            true => IoRequest::Append { datafile, offset, durability },
            false => IoRequest::Write { datafile, offset, durability },
        };
        self.posted += 1;
        connection.post(tracer, None, Kind::Io, &request, &pieces, crc).map(drop)
    }

    fn take(&mut self, connection: &mut Connection, tracer: &mut Tracer, part: Part, reply: Reply<IoReply>) -> Result<()> {
        match connection.completed(tracer, reply, Some(part.buffer.length)) {
            IoReply::Written { verifier } => {
                self.verifiers.note(part.server, self.data.links()[part.server].name(), verifier);
                Ok(())
            }
            IoReply::GoesOn if self.how.appends => {
                self.goes_on = true;
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

impl Direction for Reading<'_> {
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
