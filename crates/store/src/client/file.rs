//! One file of a store: bytes at offsets, as an application asks for them.
//!
//! Everything here runs on the caller's thread: for a request over several servers it posts to all of them, and then
//! takes the answers, so that they work at the same time. Long transfers have threads of their own ([`crate::copy`]).

use super::data::DataClient;
use super::names::Names;
use crate::crc::{Crc32c, crc32c};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::common::BootVerifier;
use crate::protocol::io::{DatafileId, Durability, FileId, IoReply, IoRequest, TargetId};
use crate::protocol::metadata::{Attributes, FileLayout};
use crate::wire::{Kind, unexpected};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_layout::{FlowBuffer, Layout};
use thalweg_trace::Tracer;

/// What is needed to find a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    id: FileId,
    path: String,
    layout: Layout,
    targets: Vec<TargetId>,
}

impl FileHandle {
    /// File `id` as `layout` over `targets`, called `path` in messages.
    ///
    /// # Errors
    /// When there are not as many targets as datafiles.
    pub fn new(id: FileId, path: impl Into<String>, layout: Layout, targets: Vec<TargetId>) -> Result<FileHandle> {
        let path = path.into();
        if layout.num_datafiles() as usize != targets.len() {
            let problem = format!("a layout of {} datafiles on {} targets", layout.num_datafiles(), targets.len());
            return Err(Error::new(ErrorKind::Invalid, problem).on_file(path));
        }
        Ok(FileHandle { id, path, layout, targets })
    }

    /// A file as the metadata service describes it.
    ///
    /// # Errors
    /// When it is no file, or its layout is one that this program does not know.
    pub fn from_attributes(path: impl Into<String>, attributes: &Attributes) -> Result<FileHandle> {
        let path = path.into();
        let Some(FileLayout { spec, targets }) = &attributes.layout else {
            return Err(Error::new(ErrorKind::IsDirectory, "it is not a file").on_file(path));
        };
        let many = targets.len() as u32;
        match Layout::new(spec, Some(many), many) {
            Ok(layout) => FileHandle::new(attributes.id, path, layout, targets.clone()),
            Err(e) => Err(Error::new(ErrorKind::Invalid, e.to_string()).on_file(path)),
        }
    }

    /// Its number.
    pub fn id(&self) -> FileId {
        self.id
    }
    /// What it is called in messages.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// How it is laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The target of each datafile.
    pub fn targets(&self) -> &[TargetId] {
        &self.targets
    }
    /// Datafile `index`.
    pub fn datafile(&self, index: u32) -> DatafileId {
        DatafileId { file: self.id, index, target: self.targets[index as usize] }
    }
    /// All datafiles.
    pub fn datafiles(&self) -> impl Iterator<Item = DatafileId> + '_ {
        (0..self.targets.len() as u32).map(|index| self.datafile(index))
    }
}

/// Which start of each server took our writes: what was written under one start and synced under another may be lost.
#[derive(Debug, Default)]
pub(crate) struct Verifiers(Mutex<BTreeMap<usize, BootVerifier>>);

impl Verifiers {
    /// Notes an answer; an error if the server has started anew since the first.
    pub fn note(&self, server: usize, name: &str, verifier: BootVerifier) -> Result<()> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen.entry(server).or_insert(verifier) == verifier {
            return Ok(());
        }
        let problem = "started anew since it took unsynced bytes of this file: they may be lost; write the file again";
        Err(Error::new(ErrorKind::Stale, problem).at_server(name))
    }

    /// After an error was reported, or everything is synced: from here on anew.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// An open file. May be used by several threads at a time.
pub struct StoreFile {
    data: Arc<DataClient>,
    handle: Arc<FileHandle>,
    verifiers: Verifiers,
    /// What is asked of the servers for each flow buffer written.
    durability: Durability,
    /// Who is told when it is closed.
    names: Option<Arc<dyn Names>>,
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            names.close(self.handle.id());
        }
    }
}

/// One flow buffer of a request, and the server it goes to.
struct Part {
    server: usize,
    buffer: FlowBuffer,
}

impl StoreFile {
    /// An open file of the servers of `data`.
    pub fn new(data: Arc<DataClient>, handle: FileHandle) -> StoreFile {
        StoreFile { data, handle: Arc::new(handle), verifiers: Verifiers::default(), durability: Durability::Returned, names: None }
    }

    /// Asks the servers to begin putting each write on media, for a caller that will sync at the end: disks then work while bytes
    /// still arrive.
    #[must_use]
    pub fn to_be_synced(mut self) -> StoreFile {
        self.durability = Durability::Underway;
        self
    }

    /// Tells these names when it is closed.
    #[must_use]
    pub(crate) fn closing(mut self, names: Arc<dyn Names>) -> StoreFile {
        self.names = Some(names);
        self
    }

    /// Where its bytes are.
    pub fn handle(&self) -> &Arc<FileHandle> {
        &self.handle
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size(&self) -> Result<u64> {
        self.data.size(&mut Tracer::off(), &self.handle)
    }

    /// Puts what was written on media.
    ///
    /// # Errors
    /// Names server and file; [`ErrorKind::Stale`] when a server has started anew since it took what is to be synced.
    pub fn sync(&self) -> Result<()> {
        self.sync_traced(&mut Tracer::off())
    }

    /// [`StoreFile::sync`], traced.
    ///
    /// # Errors
    /// As there.
    pub fn sync_traced(&self, tracer: &mut Tracer) -> Result<()> {
        let synced = self.data.sync(tracer, &self.handle)?;
        let mut all = Ok(());
        for (server, verifier) in synced {
            let noted = self.verifiers.note(server, self.data.links()[server].name(), verifier);
            all = all.and(noted.map_err(|e| e.on_file(self.handle.path())));
        }
        self.verifiers.forget();
        all
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Names server and file. Parts on other servers may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_traced(&mut Tracer::off(), bytes, offset)
    }

    /// [`StoreFile::write_at`], traced.
    ///
    /// # Errors
    /// As there.
    pub fn write_traced(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let waves = self.waves(offset, bytes.len() as u64)?;
        for wave in waves {
            self.write_wave(tracer, &wave, bytes, offset).map_err(|e| e.on_file(self.handle.path()))?;
        }
        Ok(())
    }

    /// Reads `buffer` full from `offset` on, or up to the end of the file; how many bytes there were.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let size = self.size()?;
        let length = size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.read_within(&mut Tracer::off(), &mut buffer[..length], offset)?;
        Ok(length)
    }

    /// Reads `buffer` full from `offset` on; what no datafile has is 0. For a caller that knows the file's size.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_within(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<()> {
        let waves = self.waves(offset, buffer.len() as u64)?;
        for wave in waves {
            self.read_wave(tracer, &wave, buffer, offset).map_err(|e| e.on_file(self.handle.path()))?;
        }
        Ok(())
    }

    /// A range as flow buffers, in waves: in each, at most one for each server.
    fn waves(&self, offset: u64, length: u64) -> Result<Vec<Vec<Part>>> {
        if offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES) {
            let problem = format!("{length} bytes at {offset} end past the largest file (2^63 - 1 bytes)");
            return Err(Error::new(ErrorKind::TooLarge, problem).on_file(self.handle.path()));
        }
        let mut by_server: BTreeMap<usize, Vec<FlowBuffer>> = BTreeMap::new();
        for id in self.handle.datafiles() {
            let server = self.data.server_of(id.target)?;
            let buffers = self.handle.layout().flow_buffers(id.index, offset, length, limits::CONNECTION_MEMORY_BYTES);
            by_server.entry(server).or_default().extend(buffers);
        }
        let most = by_server.values().map(Vec::len).max().unwrap_or(0);
        let wave =
            |n: usize| by_server.iter().filter_map(move |(server, buffers)| Some(Part { server: *server, buffer: *buffers.get(n)? }));
        Ok((0..most).map(|n| wave(n).collect()).collect())
    }

    fn write_wave(&self, tracer: &mut Tracer, wave: &[Part], bytes: &[u8], base: u64) -> Result<()> {
        let mut lent = Vec::with_capacity(wave.len());
        let post = |connection: &mut super::link::Lent<'_>, part: &Part, tracer: &mut Tracer| {
            let (pieces, crc) = gather(self.handle.layout(), part.buffer, bytes, base);
            let datafile = self.handle.datafile(part.buffer.datafile);
            let request = IoRequest::Write { datafile, offset: part.buffer.physical_offset, durability: self.durability };
            connection.post(tracer, None, Kind::Io, &request, &pieces, crc)
        };
        for part in wave {
            let mut connection = self.data.links()[part.server].lend()?;
            let posted = post(&mut connection, part, tracer);
            lent.push((connection, posted));
        }
        for ((mut connection, posted), part) in lent.into_iter().zip(wave) {
            let mut reply = posted.and_then(|_| connection.complete::<IoReply>(tracer));
            if matches!(&reply, Err(e) if connection.was_idle && e.kind() == ErrorKind::Reset) {
                // The connection had died while it was idle: the same once more on a new one.
                drop(connection);
                connection = self.data.links()[part.server].lend()?;
                reply = post(&mut connection, part, tracer).and_then(|_| connection.complete::<IoReply>(tracer));
            }
            match connection.completed(tracer, reply?, Some(part.buffer.length)) {
                IoReply::Written { verifier } => self.verifiers.note(part.server, self.data.links()[part.server].name(), verifier)?,
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }

    fn read_wave(&self, tracer: &mut Tracer, wave: &[Part], memory: &mut [u8], base: u64) -> Result<()> {
        let mut lent = Vec::with_capacity(wave.len());
        let post = |connection: &mut super::link::Lent<'_>, part: &Part, tracer: &mut Tracer| {
            let datafile = self.handle.datafile(part.buffer.datafile);
            let request = IoRequest::Read { datafile, offset: part.buffer.physical_offset, length: part.buffer.length };
            connection.post(tracer, None, Kind::Io, &request, &[], 0)
        };
        for part in wave {
            let mut connection = self.data.links()[part.server].lend()?;
            let posted = post(&mut connection, part, tracer);
            lent.push((connection, posted));
        }
        let mut payload = Vec::new();
        for ((mut connection, posted), part) in lent.into_iter().zip(wave) {
            let mut reply = posted.and_then(|_| connection.complete::<IoReply>(tracer));
            if matches!(&reply, Err(e) if connection.was_idle && e.kind() == ErrorKind::Reset) {
                drop(connection);
                connection = self.data.links()[part.server].lend()?;
                reply = post(&mut connection, part, tracer).and_then(|_| connection.complete::<IoReply>(tracer));
            }
            let reply = reply?;
            check_read(&reply.body, reply.header.payload_bytes, part.buffer.length)?;
            payload.resize(reply.header.payload_bytes as usize, 0);
            let header = reply.header;
            connection.receive_payload(&header, &mut payload)?;
            connection.completed(tracer, reply, Some(payload.len() as u64));
            if !payload.is_empty() && crc32c(&payload) != header.payload_crc {
                return Err(damaged(payload.len()).at_server(self.data.links()[part.server].name()));
            }
            scatter(self.handle.layout(), part.buffer, &payload, memory, base);
        }
        Ok(())
    }
}

/// A reply to a read that cannot be one.
pub(crate) fn check_read(reply: &IoReply, payload_bytes: u64, asked: u64) -> Result<()> {
    match reply {
        IoReply::Read if payload_bytes <= asked => Ok(()),
        IoReply::Read => Err(Error::new(ErrorKind::Protocol, format!("{payload_bytes} bytes in answer to a read of {asked}"))),
        other => Err(unexpected(other)),
    }
}

/// Bytes read did not match their checksum.
pub(crate) fn damaged(bytes: usize) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{bytes} bytes read do not match their checksum: damaged on their way, twice"))
}

/// The pieces of a flow buffer in a request's memory that begins at logical offset `base`, and their checksum.
pub(crate) fn gather<'a>(layout: &Layout, buffer: FlowBuffer, memory: &'a [u8], base: u64) -> (Vec<IoSlice<'a>>, u32) {
    let mut crc = Crc32c::default();
    let mut pieces = Vec::new();
    for piece in buffer.pieces(layout) {
        let at = (piece.logical_offset - base) as usize;
        let bytes = &memory[at..at + piece.length as usize];
        crc.update(bytes);
        pieces.push(IoSlice::new(bytes));
    }
    (pieces, crc.finish())
}

/// A flow buffer's bytes to where they belong in a request's memory; past the datafile's end there is 0.
pub(crate) fn scatter(layout: &Layout, buffer: FlowBuffer, payload: &[u8], memory: &mut [u8], base: u64) {
    for piece in buffer.pieces(layout) {
        let to = (piece.logical_offset - base) as usize;
        let from = (piece.physical_offset - buffer.physical_offset) as usize;
        let have = payload.len().saturating_sub(from).min(piece.length as usize);
        if have > 0 {
            memory[to..to + have].copy_from_slice(&payload[from..from + have]);
        }
        memory[to + have..to + piece.length as usize].fill(0);
    }
}
