//! One request, on the caller's thread: its flow buffers are posted to all servers, a few on each connection, and
//! the answers taken as they are due, so that all servers work at the same time.
//!
//! Every request to an I/O server may be made twice. A connection that turns out to be closed (the server has gone, and may
//! be back) is therefore made anew once, and what was unanswered on it posted again; if that fails too, so does the request.
//! When one server fails, nothing more is posted, and the others' answers are still taken: a write that nobody waits for
//! any more could overtake a later one.

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

/// Flow buffers posted and unanswered on a connection.
const DEPTH: usize = 4;

/// What one direction does with a flow buffer.
trait Direction {
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

/// Writes flow buffers out of `bytes`, which begin at logical offset `base`.
pub(super) fn write(
    (data, file): (&DataClient, &FileHandle),
    (durability, verifiers): (Durability, &Verifiers),
    tracer: &mut Tracer,
    buffers: &[FlowBuffer],
    (bytes, base): (&[u8], u64),
) -> Result<()> {
    let how = How { durability, appends: false };
    run(data, file, tracer, buffers, &mut Writing { data, file, how, verifiers, bytes, base, posted: 0, goes_on: false })
}

/// The same, each where its datafile ends there or before. `false`: one goes on, and was not written.
///
/// # Errors
/// Also where a connection was lost, and what was posted on it may have been appended or not.
pub(super) fn append(
    (data, file): (&DataClient, &FileHandle),
    (durability, verifiers): (Durability, &Verifiers),
    tracer: &mut Tracer,
    buffers: &[FlowBuffer],
    (bytes, base): (&[u8], u64),
) -> Result<bool> {
    let how = How { durability, appends: true };
    let mut writing = Writing { data, file, how, verifiers, bytes, base, posted: 0, goes_on: false };
    run(data, file, tracer, buffers, &mut writing)?;
    if writing.goes_on && writing.posted > buffers.len() {
        let problem = "the connection was lost while it was appended to: the bytes may be in it or not";
        return Err(Error::new(ErrorKind::Restarted, problem).on_file(file.path()));
    }
    Ok(!writing.goes_on)
}

/// Reads flow buffers into `memory`, which begins at logical offset `base`; how many bytes of each its datafile has. The
/// others are 0.
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
                // That is tried once more, as any connection that turns out to be closed.
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
    /// Posts the next flow buffer, if there is one and the connection has room for it.
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

    /// Takes the answer to what was posted first. Where the request has failed already (`is_over`) nothing is tried again.
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

/// How bytes are written.
#[derive(Clone, Copy)]
struct How {
    durability: Durability,
    /// Only where a datafile ends.
    appends: bool,
}

struct Writing<'a> {
    data: &'a DataClient,
    file: &'a FileHandle,
    how: How,
    verifiers: &'a Verifiers,
    bytes: &'a [u8],
    base: u64,
    /// Flow buffers posted, each time counted.
    posted: usize,
    /// Something was not appended.
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
