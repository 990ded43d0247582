//! Moving the bytes of many files in one message per I/O server.

use crate::files::Outgoing;
use crate::files::{DataClient, FileHandle};
use std::collections::HashMap;
use std::io::IoSlice;
use std::ops::Range;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_trace::{SpanId, Tracer};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, IoReply, IoRequest};
use thalweg_wire::{Error, ErrorKind, Result};

/// Time before an I/O server that closed or refused a connection is tried again: it may be restarting.
const LEFT_ALONE: Duration = Duration::from_secs(2);

/// One message to one server.
pub(super) struct Request {
    pub server: usize,
    /// Datafile, offset and length in bytes.
    pub parts: Vec<(DatafileId, u64, u64)>,
    /// Entry of each part.
    pub owners: Vec<usize>,
    /// Location of each part in the batch's memory: pieces of all parts in order, and where each part's pieces end.
    pieces: Vec<Range<usize>>,
    ends: Vec<usize>,
    bytes: u64,
}

/// A file whose bytes are in memory, or are to be read there.
pub(super) struct Loaded<'a> {
    /// Number of the entry.
    pub number: usize,
    /// Handle of the file.
    pub handle: &'a FileHandle,
    /// Location in memory.
    pub range: Range<usize>,
    /// Bytes wanted, as ranges; `None`: all.
    pub data: Option<&'a [Range<u64>]>,
}

/// The loaded files of a batch, split by server.
pub(super) struct Parts {
    open: HashMap<usize, Request>,
    full: Vec<Request>,
    /// Entries that cannot be split, with their errors.
    pub failed: Vec<(usize, Error)>,
}

impl Parts {
    /// Splits files into requests.
    pub(super) fn of<'a>(data: &DataClient, files: impl Iterator<Item = Loaded<'a>>) -> Parts {
        let mut parts = Parts { open: HashMap::new(), full: Vec::new(), failed: Vec::new() };
        for Loaded { number, handle, range, data: of_file } in files {
            let all = 0..range.len() as u64;
            let ranges = of_file.unwrap_or(std::slice::from_ref(&all));
            for id in handle.datafiles() {
                let of_range = |part: &Range<u64>| handle.layout().flow_buffers(id.index, part.start, part.end - part.start, u64::MAX);
                for buffer in ranges.iter().flat_map(of_range) {
                    match data.server_of(id.target) {
                        Ok(server) => {
                            let request = parts.room(server, buffer.length);
                            request.parts.push((id, buffer.physical_offset, buffer.length));
                            request.owners.push(number);
                            let at = |offset: u64| range.start + offset as usize;
                            request
                                .pieces
                                .extend(buffer.pieces(handle.layout()).map(|p| at(p.logical_offset)..at(p.logical_offset + p.length)));
                            request.ends.push(request.pieces.len());
                            request.bytes += buffer.length;
                        }
                        Err(error) => parts.failed.push((number, error)),
                    }
                }
            }
        }
        parts
    }

    /// Returns a request to a server with room for `bytes` more.
    fn room(&mut self, server: usize, bytes: u64) -> &mut Request {
        let is_full = |request: &Request| request.parts.len() >= limits::BATCH || request.bytes + bytes > limits::MANY_BYTES;
        if self.open.get(&server).is_some_and(is_full) {
            self.full.extend(self.open.remove(&server));
        }
        self.open.entry(server).or_insert_with(|| Request {
            server,
            parts: Vec::new(),
            owners: Vec::new(),
            pieces: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
        })
    }

    /// Takes all requests.
    pub(super) fn requests(&mut self) -> Vec<Request> {
        let mut all = std::mem::take(&mut self.full);
        all.extend(self.open.drain().map(|(_, request)| request));
        all
    }
}

impl Request {
    /// Returns the request's bytes as slices of `memory`.
    pub(super) fn gather<'a>(&self, memory: &'a [u8]) -> Vec<IoSlice<'a>> {
        self.pieces.iter().map(|piece| IoSlice::new(&memory[piece.clone()])).collect()
    }

    /// Copies the first bytes of a part to their location in memory.
    pub(super) fn scatter(&self, part: usize, mut bytes: &[u8], memory: &mut [u8]) {
        let begin = if part == 0 { 0 } else { self.ends[part - 1] };
        for piece in &self.pieces[begin..self.ends[part]] {
            let many = piece.len().min(bytes.len());
            let (now, later) = bytes.split_at(many);
            memory[piece.start..piece.start + many].copy_from_slice(now);
            bytes = later;
        }
    }
}

/// The I/O servers, for a tree's copy: a server that timed out is not asked again, so that it costs one timeout rather than one per batch;
/// a server that refused is retried after [`LEFT_ALONE`].
pub(super) struct Servers<'a> {
    data: &'a DataClient,
    away: Mutex<HashMap<usize, (Error, Option<Instant>)>>,
}

impl<'a> Servers<'a> {
    pub(super) fn new(data: &'a DataClient) -> Servers<'a> {
        Servers { data, away: Mutex::default() }
    }

    fn why_away(&self, server: usize) -> Option<Error> {
        let mut away = self.away.lock();
        match away.get(&server) {
            Some((_, Some(until))) if Instant::now() >= *until => {
                away.remove(&server);
                None
            }
            known => known.map(|(error, _)| error.clone()),
        }
    }

    /// Makes one exchange with each server, in parallel; each has its own result.
    pub(super) fn exchange(
        &self,
        tracer: &mut Tracer,
        parent: Option<SpanId>,
        requests: Vec<(usize, IoRequest, Vec<IoSlice<'_>>)>,
    ) -> Vec<Result<(IoReply, Vec<u8>)>> {
        let known: Vec<Option<Error>> = requests.iter().map(|(server, ..)| self.why_away(*server)).collect();
        let asked = requests.into_iter().zip(&known).filter(|(_, known)| known.is_none());
        let outgoing: Vec<Outgoing<'_>> = asked.map(|((server, request, payload), _)| Outgoing { server, request, payload }).collect();
        let servers: Vec<usize> = outgoing.iter().map(|o| o.server).collect();
        let mut replies = servers.into_iter().zip(self.data.exchange(tracer, parent, &outgoing));
        let each = known.into_iter().map(|known| match known {
            Some(error) => Err(error),
            None => {
                let (server, reply) = replies.next().expect("one for each that was asked");
                if let Err(error) = &reply {
                    let until = match error.kind() {
                        ErrorKind::TimedOut => None,
                        ErrorKind::Refused | ErrorKind::Reset => Some(Instant::now() + LEFT_ALONE),
                        _ => return reply,
                    };
                    self.away.lock().insert(server, (error.clone(), until));
                }
                reply
            }
        });
        each.collect()
    }
}
