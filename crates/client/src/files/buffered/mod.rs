//! A file of a store with local-file semantics: reads return what this client wrote, even if still in flight, and neither sequential reads
//! nor writes wait for the network.
//!
//! Combines the [`ReadAhead`] and [`WriteBehind`] of one file and keeps them consistent: bytes not yet on servers are read from
//! write-behind and never prefetched; a write invalidates read-ahead; operations that bypass both (allocating, seeking, writing through,
//! truncating) first settle them.
//!
//! An *unbuffered* file caches nothing: every read and write takes a round trip.

#[cfg(all(test, feature = "shuttle"))]
mod checked;
mod extent;
mod read_ahead;
mod streams;
mod window;
mod write_behind;

pub use read_ahead::{AheadCounters, AheadOptions, ReadAhead, View};
pub use write_behind::{BehindOptions, WriteBehind};

use crate::files::engine::memory::RequestMemory;
use crate::files::file::StoreFile;
use crate::files::lengths::lost_bytes;
use crate::files::losses::Unreported;
use std::ops::Range;
use std::sync::Arc;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::io::{Allocate, Seek};
use thalweg_wire::protocol::metadata::{Attributes, End};

/// Buffering options of a file.
#[derive(Clone, Debug, Default)]
pub struct BufferedOptions {
    /// Maximum bytes ahead of each stream of reads; see [`AheadOptions`].
    pub ahead_bytes: Option<u64>,
    /// Write options; see [`BehindOptions`].
    pub behind: BehindOptions,
}

/// How a reader relates to a loss of bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Had the file open before the loss: reads what was written, as long as it is kept.
    Had,
    /// Opened it afterwards, for writing: may rewrite the lost bytes, and cannot read them.
    Mends,
    /// Opened it afterwards, for reading: any read is an error.
    After,
}

/// A buffered file; see the module documentation. May be used by several threads at a time.
pub struct BufferedFile {
    file: Arc<StoreFile>,
    windows: Option<Windows>,
}

struct Windows {
    ahead: Arc<ReadAhead>,
    behind: Arc<WriteBehind>,
}

const EVERYTHING: Range<u64> = 0..u64::MAX;

impl BufferedFile {
    /// Buffers an open file.
    pub fn new(file: Arc<StoreFile>, options: &BufferedOptions) -> BufferedFile {
        let behind = WriteBehind::new(Arc::clone(&file), &options.behind);
        let ahead_options = AheadOptions { window_bytes: options.ahead_bytes, size_bytes: None, behind: Some(Arc::clone(&behind)) };
        let ahead = ReadAhead::new(Arc::clone(&file), &ahead_options);
        BufferedFile { file, windows: Some(Windows { ahead, behind }) }
    }

    /// Wraps an open file without buffering.
    pub fn unbuffered(file: Arc<StoreFile>) -> BufferedFile {
        BufferedFile { file, windows: None }
    }

    /// Returns the underlying file.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.file
    }

    /// Reads `length` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, offset: u64, length: usize) -> Result<View> {
        // Determined before reading, so that bytes that arrive at a server meanwhile are not missed in both places.
        let end = self.dirty_end().unwrap_or(0).max(self.file.handle().lost_end());
        let Some(Windows { ahead, behind }) = &self.windows else {
            return Ok(up_to(read_into_memory(length, |memory| self.file.read(tracer, memory, offset, None))?, offset, length, end));
        };
        if end > offset && behind.is_dirty(&range_of(offset, length)) {
            return Ok(up_to(read_into_memory(length, |memory| behind.read(tracer, memory, offset, None))?, offset, length, end));
        }
        Ok(up_to(ahead.view(tracer, offset, length)?, offset, length, end))
    }

    /// Reads as [`BufferedFile::read`] does, for one of several owners of a file with lost bytes.
    ///
    /// # Errors
    /// As [`BufferedFile::read`]; [`ErrorKind::Lost`] when lost bytes are in the range and `reader` may not see them.
    pub fn read_as(&self, tracer: &mut Tracer, offset: u64, length: usize, reader: Reader) -> Result<View> {
        let (handle, range) = (self.file.handle(), range_of(offset, length));
        if handle.losses().is_empty() {
            return self.read(tracer, offset, length);
        }
        let lost = || Err(lost_bytes().on_file(handle.path()));
        if reader == Reader::After {
            return lost();
        }
        // A rewrite counts once it has arrived, or has failed again.
        self.settle_range(tracer, &range);
        if !handle.losses().overlaps(handle.layout(), &range) {
            return self.read(tracer, offset, length);
        }
        if reader == Reader::Mends {
            return lost();
        }
        let mut bytes = self.read(tracer, offset, length)?.to_vec();
        match handle.losses().fill(handle.layout(), &mut bytes, offset) {
            true => Ok(View::from(bytes)),
            false => lost(),
        }
    }

    /// Writes `bytes` at `offset` through write-behind; reads of this file see them immediately.
    ///
    /// # Errors
    /// As [`WriteBehind::write`].
    pub fn write(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(Windows { ahead, behind }) = &self.windows else { return self.file.write_traced(tracer, bytes, offset) };
        let written = behind.write(tracer, bytes, offset);
        ahead.forget(&range_of(offset, bytes.len()));
        written
    }

    /// Writes from `memory` without copying, as [`WriteBehind::give`]. `false`: no room; the caller must write the bytes.
    ///
    /// # Errors
    /// As [`WriteBehind::give`].
    pub fn give(&self, tracer: &mut Tracer, memory: &Arc<RequestMemory>, length: usize, offset: u64) -> Result<bool> {
        let Some(Windows { ahead, behind }) = &self.windows else { return Ok(false) };
        let given = behind.give(tracer, memory, length, offset);
        ahead.forget(&range_of(offset, length));
        given
    }

    /// Writes all of `bytes` at `offset`; returns when they are on the servers.
    ///
    /// # Errors
    /// Names server and file. Parts on other servers may have been written.
    pub fn write_through(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let range = range_of(offset, bytes.len());
        // Earlier writes to the range that were not sent yet must not overtake these bytes.
        self.settle_range(tracer, &range);
        let written = self.file.write_traced(tracer, bytes, offset);
        if let Some(windows) = &self.windows {
            windows.ahead.forget(&range);
        }
        written
    }

    /// Appends as [`StoreFile::append_traced`].
    ///
    /// # Errors
    /// As [`StoreFile::append_traced`].
    pub fn append_through(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<bool> {
        let range = range_of(offset, bytes.len());
        self.settle_range(tracer, &range);
        let appended = self.file.append_traced(tracer, bytes, offset);
        if let Some(windows) = &self.windows {
            windows.ahead.forget(&range);
        }
        appended
    }

    /// Waits until all earlier writes are on the servers.
    ///
    /// # Errors
    /// As [`WriteBehind::flush`].
    pub fn flush(&self, tracer: &mut Tracer) -> Result<()> {
        self.windows.as_ref().map_or(Ok(()), |windows| windows.behind.flush(tracer))
    }

    /// Waits until all earlier writes are on stable storage.
    ///
    /// # Errors
    /// The first of these, once: a write's error, the sync's error, or that a server may have lost data.
    pub fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        let flushed = self.flush(tracer);
        let synced = self.file.sync_traced(tracer);
        flushed.and(synced)
    }

    /// Returns the size, including bytes still in write-behind.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size(&self, tracer: &mut Tracer) -> Result<u64> {
        let end = self.dirty_end().unwrap_or(0);
        Ok(self.file.size_traced(tracer)?.max(end))
    }

    /// Returns the end of the last byte not known to be on a server, a lower bound of the file's size.
    pub fn dirty_end(&self) -> Option<u64> {
        self.windows.as_ref().and_then(|windows| windows.behind.dirty_end())
    }

    /// Returns the same as [`StoreFile::take_end`], but an unknown end while bytes are still in write-behind.
    pub fn take_end(&self) -> End {
        let is_dirty = self.dirty_end().is_some();
        match self.file.take_end() {
            _ if is_dirty => End::Unknown,
            end => end,
        }
    }

    /// Allocates as [`StoreFile::allocate`].
    ///
    /// # Errors
    /// As [`StoreFile::allocate`].
    pub fn allocate(&self, tracer: &mut Tracer, offset: u64, length: u64, how: Allocate) -> Result<()> {
        self.settle(tracer);
        let allocated = self.file.allocate(tracer, offset, length, how);
        self.forget_all();
        allocated
    }

    /// Seeks as [`StoreFile::seek`].
    ///
    /// # Errors
    /// As [`StoreFile::seek`].
    pub fn seek(&self, tracer: &mut Tracer, offset: u64, what: Seek) -> Result<Option<u64>> {
        self.settle(tracer);
        self.file.seek(tracer, offset, what)
    }

    /// Truncates with `truncate`, which calls the metadata service: the service orders it with its other operations on the file.
    ///
    /// # Errors
    /// The error of `truncate`.
    pub fn truncate<T>(&self, tracer: &mut Tracer, truncate: impl FnOnce(&mut Tracer) -> Result<T>) -> Result<T> {
        self.settle(tracer);
        let truncated = truncate(tracer);
        if truncated.is_ok() {
            self.file.handle().losses().accept();
        }
        self.forget_all();
        truncated
    }

    /// Whether bytes of the file are lost.
    pub fn has_lost(&self) -> bool {
        !self.file.handle().losses().is_empty()
    }

    /// Returns the losses and repairs not yet reported to the metadata service.
    pub fn unreported(&self) -> Unreported {
        self.file.handle().losses().unreported()
    }

    /// Records that `what` was reported, with the service's answer; `None`: the file no longer exists.
    pub fn reported(&self, what: &Unreported, answer: Option<&Attributes>) {
        self.file.handle().losses().reported(what, answer);
    }

    /// Adds losses that the metadata service reported.
    pub fn heard(&self, attributes: &Attributes) {
        self.file.handle().losses().heard(attributes);
    }

    /// Waits until all earlier writes are on the servers or have failed; the next flush reports the error.
    pub fn settle(&self, tracer: &mut Tracer) {
        self.settle_range(tracer, &EVERYTHING);
    }

    fn settle_range(&self, tracer: &mut Tracer, range: &Range<u64>) {
        if let Some(windows) = &self.windows {
            windows.behind.flush_range(tracer, range);
        }
    }

    /// Invalidates all prefetched data: another client may have changed the file.
    pub fn forget_all(&self) {
        if let Some(windows) = &self.windows {
            windows.ahead.forget_all();
        }
    }

    /// Returns read-ahead's hit, miss and waste counters.
    pub fn counters(&self) -> AheadCounters {
        self.windows.as_ref().map(|windows| windows.ahead.counters()).unwrap_or_default()
    }
}

/// Extends a read up to `end`: the servers' file may be shorter while later bytes are in flight or lost; the gap is a hole.
fn up_to(view: View, offset: u64, length: usize, end: u64) -> View {
    let reached = end.saturating_sub(offset).min(length as u64) as usize;
    if reached <= view.len() {
        return view;
    }
    let mut bytes = view.to_vec();
    thalweg_bulk::resize(&mut bytes, reached);
    View::from(bytes)
}

fn range_of(offset: u64, length: usize) -> Range<u64> {
    offset..offset.saturating_add(length as u64)
}

fn read_into_memory(length: usize, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<View> {
    let mut bytes = vec![0; length];
    let have = read(&mut bytes)?;
    bytes.truncate(have);
    Ok(View::from(bytes))
}
