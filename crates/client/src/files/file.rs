//! One file of a store: bytes at offsets, as an application asks for them.
//!
//! Everything here runs on the caller's thread, and has happened when it returns. [`super::buffered::read_ahead`] and [`super::buffered::write_behind`] move
//! bytes before they are asked for, and after they were written; long transfers have threads of their own ([`crate::copy`]).

use super::data::DataClient;
use super::handle::FileHandle;
use super::names::Names;
use super::payload;
use super::request;
use super::verifiers::Verifiers;
use std::ops::Range;
use std::sync::Arc;
use thalweg_base::ranges;
use thalweg_base::sync::Mutex;
use thalweg_layout::Distribution;
use thalweg_trace::Tracer;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{Allocate, DatafileId, Durability, IoReply, IoRequest, Seek};
use thalweg_wire::protocol::metadata::End;
use thalweg_wire::unexpected;
use thalweg_wire::{Error, ErrorKind, Result};

/// An open file. May be used by several threads at a time.
pub struct StoreFile {
    data: Arc<DataClient>,
    handle: Arc<FileHandle>,
    verifiers: Arc<Verifiers>,
    /// What is asked of the servers for each flow buffer written.
    durability: Durability,
    /// Who is notified when it is closed.
    names: Option<Arc<dyn Names>>,
    changes: Mutex<Changes>,
}

/// What was done to a file's bytes through one [`StoreFile`].
#[derive(Debug, Default)]
struct Changes {
    /// Not answered yet.
    in_flight: usize,
    /// Something has arrived.
    arrived: bool,
    /// How often, and how often it had when everything was synced last.
    arrivals: u64,
    synced_arrivals: u64,
    /// Where the last byte ends that was written, or made room for.
    end_bytes: u64,
    /// What was written, or made room for, in order. Parts that touch are one.
    parts: Vec<Range<u64>>,
    /// Of a change that failed nobody knows how much has happened, or still will.
    failed: bool,
}

impl Changes {
    /// Parts that are kept apart: who writes here and there is asked for the sizes of datafiles instead.
    const PARTS: usize = 64;

    fn add(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.end_bytes = self.end_bytes.max(range.end);
        ranges::add(&mut self.parts, range.clone());
        if self.parts.len() > Changes::PARTS {
            // The last one is what a file that grows is about.
            self.parts.remove(0);
        }
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            names.close(self.handle.id(), self.take_end());
        }
    }
}

impl StoreFile {
    /// An open file of the servers of `data`.
    pub fn new(data: Arc<DataClient>, handle: FileHandle) -> StoreFile {
        StoreFile {
            data,
            handle: Arc::new(handle),
            verifiers: Arc::default(),
            durability: Durability::Returned,
            names: None,
            changes: Mutex::default(),
        }
    }

    /// Asks the servers to begin making each write durable, for a caller that will sync at the end: disks then work while bytes
    /// still arrive.
    #[must_use]
    pub fn to_be_synced(mut self) -> StoreFile {
        self.durability = Durability::Underway;
        self
    }

    /// Notifies these names when it is closed.
    #[must_use]
    pub(crate) fn closing(mut self, names: Arc<dyn Names>) -> StoreFile {
        self.names = Some(names);
        self
    }

    /// How what was written through this has ended, since the last time this was asked: what to report to the metadata service when
    /// it is closed.
    pub fn take_end(&self) -> End {
        let mut changes = self.changes.lock();
        let in_flight = changes.in_flight;
        let now = std::mem::replace(&mut *changes, Changes { in_flight, failed: in_flight > 0, ..Changes::default() });
        match now {
            Changes { failed: true, .. } => End::Unknown,
            Changes { in_flight: 1.., .. } => End::Unknown,
            Changes { arrived: true, end_bytes, parts, arrivals, synced_arrivals, .. } => End::Written {
                end_bytes,
                whole_from_bytes: parts.last().filter(|part| part.end == end_bytes).map_or(end_bytes, |part| part.start),
                is_synced: synced_arrivals == arrivals,
            },
            _ => End::Read,
        }
    }

    /// Bytes are about to be changed; [`StoreFile::changed`] follows, or nobody knows what has become of it.
    pub(crate) fn changing(&self) {
        self.changes.lock().in_flight += 1;
    }

    /// These bytes were changed, or nobody knows how many of them. An empty range does not make the file longer.
    pub(crate) fn changed(&self, ranges: &[Range<u64>], done: bool) {
        let mut changes = self.changes.lock();
        changes.in_flight -= 1;
        changes.arrived = true;
        changes.arrivals += 1;
        changes.failed |= !done;
        ranges.iter().for_each(|range| changes.add(range));
    }

    /// Bytes that were acknowledged are lost, since they did not arrive.
    pub fn lose(&self, bytes: &[u8], offset: u64) {
        self.changes.lock().failed = true;
        self.handle.losses().lose(self.handle.layout(), offset, bytes);
    }

    /// These bytes have arrived: what was lost of them is there again.
    pub(crate) fn mend(&self, range: &Range<u64>) {
        self.handle.losses().mend(self.handle.layout(), range);
    }

    fn servers_and_handle(&self) -> (&DataClient, &FileHandle) {
        (&self.data, &self.handle)
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

    /// [`StoreFile::size`], traced.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size_traced(&self, tracer: &mut Tracer) -> Result<u64> {
        self.data.size(tracer, &self.handle)
    }

    /// The servers.
    pub fn data(&self) -> &Arc<DataClient> {
        &self.data
    }

    /// Which starts of the servers have taken its unsynced bytes.
    pub(crate) fn verifiers(&self) -> &Arc<Verifiers> {
        &self.verifiers
    }

    /// What is asked of the servers for each flow buffer written.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// Names server and file; [`thalweg_wire::ErrorKind::Stale`], once, when a server has started anew since it took what is to be
    /// synced.
    pub fn sync(&self) -> Result<()> {
        self.sync_traced(&mut Tracer::off())
    }

    /// [`StoreFile::sync`], traced.
    ///
    /// # Errors
    /// As [`StoreFile::sync`].
    pub fn sync_traced(&self, tracer: &mut Tracer) -> Result<()> {
        let name = |server: usize| self.data.links()[server].name().to_owned();
        let before = self.verifiers.begin_sync();
        let arrivals = self.changes.lock().arrivals;
        match self.data.sync(tracer, &self.handle) {
            Ok(by) => {
                self.verifiers.synced(&before, &by, name).map_err(|e| e.on_file(self.handle.path()))?;
                let mut changes = self.changes.lock();
                changes.synced_arrivals = changes.synced_arrivals.max(arrivals);
                Ok(())
            }
            Err(error) => {
                self.verifiers.sync_failed(before, name);
                Err(error)
            }
        }
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
    /// As [`StoreFile::write_at`].
    pub fn write_traced(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        let buffers = payload::buffers(self.handle.layout(), offset, bytes.len() as u64).map_err(on_file)?;
        self.changing();
        let written = request::write(self.servers_and_handle(), (self.durability, &self.verifiers), tracer, &buffers, (bytes, offset))
            .map_err(on_file);
        // Nothing written does not make a file longer.
        let range = offset..offset + bytes.len() as u64;
        self.changed(std::slice::from_ref(&range), written.is_ok());
        if written.is_ok() {
            self.mend(&range);
        }
        written
    }

    /// Writes all of `bytes` at `offset`, where the file ends; `false`: it goes on, and nothing was written. What another client has written there is
    /// never overwritten.
    ///
    /// # Errors
    /// Names server and file. A part may have been written, and is the file's last then, or has another's bytes behind it.
    pub fn append_traced(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<bool> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        // First what lies together in the datafile that the end of the file is in: every client that appends writes there first.
        let first = self.handle.layout().pieces(offset, bytes.len() as u64).next().map_or(0, |piece| piece.length) as usize;
        self.changing();
        let mut end = offset;
        let mut append = |part: &[u8]| {
            let buffers = payload::buffers(self.handle.layout(), end, part.len() as u64).map_err(on_file)?;
            let how = (self.durability, &*self.verifiers);
            let appended = request::append(self.servers_and_handle(), how, tracer, &buffers, (part, end)).map_err(on_file)?;
            end += part.len() as u64;
            Ok(appended)
        };
        let appended = append(&bytes[..first]).and_then(|is_first| match is_first && first < bytes.len() {
            true if !append(&bytes[first..])? => {
                let problem = "its turn to append was over, and another client has appended: a part of the bytes is in the file";
                Err(on_file(Error::new(ErrorKind::Restarted, problem)))
            }
            _ => Ok(is_first),
        });
        let range = offset..offset + bytes.len() as u64;
        self.changed(std::slice::from_ref(&range), appended.as_ref().is_ok_and(|appended| *appended));
        if matches!(appended, Ok(true)) {
            self.mend(&range);
        }
        appended
    }

    /// Reads `buffer` full from `offset` on, or up to the end of the file; how many bytes there were.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read(&mut Tracer::off(), buffer, offset, None)
    }

    /// Reads `buffer` full from `offset` on; what no datafile has is 0. For a caller that knows the file's size.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_within(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        self.read(tracer, buffer, offset, Some(end)).map(drop)
    }

    /// Reads `buffer` full from `offset` on, or up to the end of the file, which is `known_size` if the caller knows; how
    /// many bytes there were.
    ///
    /// Servers are asked for sizes only where it matters: a datafile that comes short either ends before the file does,
    /// and what is missing is a hole, or the file ends there. Bytes that came from behind the missing ones prove it, and if there
    /// are none, the sizes do; those are asked for too where the metadata service says that the datafile is longer. A datafile that has grown between the two is read again, so that what another client writes
    /// meanwhile is seen, or not, but never as 0.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64, known_size: Option<u64>) -> Result<usize> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        let most = known_size.unwrap_or(limits::FILE_BYTES).saturating_sub(offset);
        let length = (buffer.len() as u64).min(most);
        if length == 0 {
            return Ok(0);
        }
        self.data.check_readable(&self.handle)?;
        let memory = &mut buffer[..length as usize];
        let layout = self.handle.layout();
        let mut short = payload::buffers(layout, offset, length).map_err(on_file)?;
        let mut reached = offset;
        loop {
            let have = request::read(self.servers_and_handle(), tracer, &short, (memory, offset)).map_err(on_file)?;
            for (part, have) in short.iter_mut().zip(&have) {
                if *have > 0 {
                    let last = layout.physical_to_logical(part.datafile, part.physical_offset + have - 1);
                    reached = reached.max(last.map_or(0, |last| last + 1));
                }
                part.physical_offset += have;
                part.length -= have;
            }
            short.retain(|part| part.length > 0);
            let may_be_holes = short.iter().all(|part| self.handle.may_end(part.datafile, part.physical_offset));
            if may_be_holes && (known_size.is_some() || short.is_empty() || reached >= offset + length) {
                return Ok(length as usize);
            }
            let sizes: Vec<u64> = self.data.sizes(tracer, &self.handle)?.iter().map(|s| s.size_bytes).collect();
            short.retain(|part| sizes[part.datafile as usize] > part.physical_offset);
            if short.is_empty() {
                if known_size.is_some() {
                    return Ok(length as usize);
                }
                let size = layout.logical_file_size(&sizes).map_err(|e| on_file(Error::new(ErrorKind::Io, e.to_string())))?;
                return Ok(size.max(reached).saturating_sub(offset).min(length) as usize);
            }
        }
    }

    /// Gives a range space, takes it away, or clears it.
    ///
    /// # Errors
    /// Names server and file; [`ErrorKind::Unsupported`] where a target's file system cannot. Parts on other servers may have
    /// been changed.
    pub fn allocate(&self, tracer: &mut Tracer, offset: u64, length: u64, how: Allocate) -> Result<()> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        if length == 0 || offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES) {
            let kind = if length == 0 { ErrorKind::Invalid } else { ErrorKind::TooLarge };
            return Err(on_file(Error::new(kind, format!("{length} bytes at {offset}: expected at least one, before 2^63"))));
        }
        let layout = self.handle.layout();
        let range = |id: DatafileId| layout.physical_range(id.index, offset, length);
        let requests = self.data.requests(&self.handle, |ids| {
            let ranges = ids.iter().map(|id| (*id, range(*id))).filter(|(_, r)| !r.is_empty());
            let datafiles: Vec<_> = ranges.map(|(id, r)| (id, r.start, r.end - r.start)).collect();
            (!datafiles.is_empty()).then_some(IoRequest::Allocate { datafiles, how })
        })?;
        self.changing();
        let replies = self.data.call_each(tracer, &requests).map_err(on_file);
        let longer = matches!(how, Allocate::Extend | Allocate::ZeroRange);
        let range = offset..offset + length;
        self.changed(&[if longer { range.clone() } else { 0..0 }], replies.is_ok());
        if replies.is_ok() && !matches!(how, Allocate::Extend | Allocate::KeepSize) {
            // They are known again: zeros.
            self.mend(&range);
        }
        for ((server, _), reply) in requests.iter().zip(replies?) {
            let IoReply::Written { verifier } = reply else { return Err(on_file(unexpected(&reply))) };
            self.verifiers.note(*server, self.data.links()[*server].name(), verifier);
        }
        Ok(())
    }

    /// The first byte of data, or of a hole, from `offset` on; the file's end counts as one. `None`: there is none, since
    /// the file ends before it.
    ///
    /// Each datafile is asked from where its bytes of the range begin, and its answer is mapped back. Physical and logical
    /// offsets of one datafile grow together, so the least of the answers is the file's.
    ///
    /// A file that has lost bytes has no holes: what skips them would take lost bytes for zeros.
    ///
    /// # Errors
    /// Names server and file.
    pub fn seek(&self, tracer: &mut Tracer, offset: u64, what: Seek) -> Result<Option<u64>> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        if offset >= limits::FILE_BYTES {
            return Ok(None);
        }
        let layout = self.handle.layout();
        let requests = self.data.requests(&self.handle, |ids| {
            let datafiles = ids.iter().map(|id| (*id, layout.logical_to_physical(id.index, offset))).collect();
            Some(IoRequest::Seek { datafiles, what })
        })?;
        let replies = self.data.call_each(tracer, &requests).map_err(on_file)?;
        let mut sizes = vec![0; self.handle.targets().len()];
        let mut first: Option<u64> = None;
        for ((_, request), reply) in requests.iter().zip(replies) {
            let (IoRequest::Seek { datafiles, .. }, IoReply::Found(found)) = (request, &reply) else {
                return Err(on_file(unexpected(&reply)));
            };
            if datafiles.len() != found.len() {
                return Err(on_file(unexpected(&reply)));
            }
            for ((id, _), found) in datafiles.iter().zip(found) {
                sizes[id.index as usize] = found.size_bytes;
                let logical = found.at.and_then(|at| layout.physical_to_logical(id.index, at));
                first = [first, logical].into_iter().flatten().min();
            }
        }
        let size = layout.logical_file_size(&sizes).map_err(|e| on_file(Error::new(ErrorKind::Io, e.to_string())))?;
        let (size, has_lost) = (size.max(self.handle.lost_end()), !self.handle.losses().is_empty());
        Ok(match what {
            _ if offset >= size => None,
            Seek::Data if has_lost => Some(offset),
            Seek::Hole if has_lost => Some(size),
            Seek::Data => first,
            Seek::Hole => Some(first.unwrap_or(size).min(size)),
        })
    }
}
