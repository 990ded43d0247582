//! One file of a store: reads and writes at offsets.
//!
//! Everything here runs on the caller's thread and is complete when it returns. [`super::buffered::read_ahead`] and
//! [`super::buffered::write_behind`] prefetch and defer; long transfers have their own threads ([`crate::copy`]).

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
    /// Durability requested for each flow buffer written.
    durability: Durability,
    /// Notified when the file is closed.
    names: Option<Arc<dyn Names>>,
    changes: Mutex<Changes>,
}

/// Changes to a file's bytes made through one [`StoreFile`].
#[derive(Debug, Default)]
struct Changes {
    /// Writes not answered yet.
    in_flight: usize,
    /// Whether a write has arrived.
    arrived: bool,
    /// Number of arrivals, and its value at the last complete sync.
    arrivals: u64,
    synced_arrivals: u64,
    /// End of the last byte written or allocated.
    end_bytes: u64,
    /// Ranges written or allocated, sorted and merged.
    parts: Vec<Range<u64>>,
    /// Whether a change failed: how much of it happened, or may still happen, is unknown.
    failed: bool,
}

impl Changes {
    /// Bound: separate ranges kept. For more scattered writes, the service asks for the datafiles' sizes instead.
    const PARTS: usize = 64;

    fn add(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.end_bytes = self.end_bytes.max(range.end);
        ranges::add(&mut self.parts, range.clone());
        if self.parts.len() > Changes::PARTS {
            // Keep the last range, which matters for a growing file.
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
    /// Wraps an open file of the servers of `data`.
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

    /// Requests each write to become durable in the background, for a caller that will sync at the end: the disks then work while bytes
    /// still arrive.
    #[must_use]
    pub fn to_be_synced(mut self) -> StoreFile {
        self.durability = Durability::Underway;
        self
    }

    /// Notifies `names` when the file is closed.
    #[must_use]
    pub(crate) fn closing(mut self, names: Arc<dyn Names>) -> StoreFile {
        self.names = Some(names);
        self
    }

    /// Returns, and resets, what was written through this file, for the metadata service when the file is closed.
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

    /// Marks the beginning of a change; without a following [`StoreFile::changed`], its outcome is unknown.
    pub(crate) fn changing(&self) {
        self.changes.lock().in_flight += 1;
    }

    /// Records changed ranges; `done` is false if how many of the bytes were changed is unknown. An empty range does not extend the file.
    pub(crate) fn changed(&self, ranges: &[Range<u64>], done: bool) {
        let mut changes = self.changes.lock();
        changes.in_flight -= 1;
        changes.arrived = true;
        changes.arrivals += 1;
        changes.failed |= !done;
        ranges.iter().for_each(|range| changes.add(range));
    }

    /// Records that acknowledged bytes were lost because they did not arrive.
    pub fn lose(&self, bytes: &[u8], offset: u64) {
        self.changes.lock().failed = true;
        self.handle.losses().lose(self.handle.layout(), offset, bytes);
    }

    /// Records that these bytes have arrived, so that they are no longer lost.
    pub(crate) fn mend(&self, range: &Range<u64>) {
        self.handle.losses().mend(self.handle.layout(), range);
    }

    fn servers_and_handle(&self) -> (&DataClient, &FileHandle) {
        (&self.data, &self.handle)
    }

    /// Returns the handle.
    pub fn handle(&self) -> &Arc<FileHandle> {
        &self.handle
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size(&self) -> Result<u64> {
        self.data.size(&mut Tracer::off(), &self.handle)
    }

    /// Returns the size in bytes; traced.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size_traced(&self, tracer: &mut Tracer) -> Result<u64> {
        self.data.size(tracer, &self.handle)
    }

    /// Returns the servers.
    pub fn data(&self) -> &Arc<DataClient> {
        &self.data
    }

    /// Returns the boot verifiers of the servers that took unsynced bytes.
    pub(crate) fn verifiers(&self) -> &Arc<Verifiers> {
        &self.verifiers
    }

    /// Returns the durability requested for each flow buffer written.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// Names server and file; [`thalweg_wire::ErrorKind::Stale`], once, when a server has restarted since it took unsynced bytes.
    pub fn sync(&self) -> Result<()> {
        self.sync_traced(&mut Tracer::off())
    }

    /// Does what [`StoreFile::sync`] does; traced.
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

    /// Does what [`StoreFile::write_at`] does; traced.
    ///
    /// # Errors
    /// As [`StoreFile::write_at`].
    pub fn write_traced(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        let buffers = payload::buffers(self.handle.layout(), offset, bytes.len() as u64).map_err(on_file)?;
        self.changing();
        let written = request::write(self.servers_and_handle(), (self.durability, &self.verifiers), tracer, &buffers, (bytes, offset))
            .map_err(on_file);
        // An empty write does not extend the file.
        let range = offset..offset + bytes.len() as u64;
        self.changed(std::slice::from_ref(&range), written.is_ok());
        if written.is_ok() {
            self.mend(&range);
        }
        written
    }

    /// Appends `bytes` if the file ends at `offset`; `false`: the file is longer, and nothing was written. Bytes written there by another
    /// client are never overwritten.
    ///
    /// # Errors
    /// Names server and file. Part of the bytes may have been written: they are at the end of the file, or followed by another client's
    /// bytes.
    pub fn append_traced(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<bool> {
        let on_file = |e: Error| e.on_file(self.handle.path());
        // First the bytes in the datafile that holds the end of the file: every appending client writes there first.
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
                let problem = "its turn to append expired, and another client has appended: part of the bytes are in the file";
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

    /// Fills `buffer` from `offset`, or up to the end of the file; returns the number of bytes read.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read(&mut Tracer::off(), buffer, offset, None)
    }

    /// Fills `buffer` from `offset`; bytes in no datafile are 0. For a caller that knows the file's size.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read_within(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        self.read(tracer, buffer, offset, Some(end)).map(drop)
    }

    /// Fills `buffer` from `offset`, or up to the end of the file, which is `known_size` if the caller knows it; returns the number of
    /// bytes read.
    ///
    /// Sizes are requested only when they matter. If a datafile comes short, either the missing bytes are a hole, or the file ends there.
    /// Later bytes prove a hole; without any, the sizes decide. They are also requested if the metadata service says that the datafile is
    /// longer. A datafile that has grown between the two requests is read again, so that another client's concurrent write is seen
    /// completely or not at all, but never as 0.
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

    /// Allocates, deallocates or zeroes a range.
    ///
    /// # Errors
    /// Names server and file; [`ErrorKind::Unsupported`] if a target's file system cannot. Parts on other servers may have been changed.
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
            // Their content is known again: zeros.
            self.mend(&range);
        }
        for ((server, _), reply) in requests.iter().zip(replies?) {
            let IoReply::Written { verifier } = reply else { return Err(on_file(unexpected(&reply))) };
            self.verifiers.note(*server, self.data.links()[*server].name(), verifier);
        }
        Ok(())
    }

    /// Returns the first offset of data, or of a hole, from `offset` on; the end of the file counts as a hole. `None`: the file ends
    /// before `offset`.
    ///
    /// Each datafile is asked from the first of its bytes in the range, and its answer is mapped back. Physical and logical offsets of a
    /// datafile increase together, so the smallest answer is the file's.
    ///
    /// A file with lost bytes reports no holes: a program that skips them would take lost bytes for zeros.
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
