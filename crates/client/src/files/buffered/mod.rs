//! One file of a store as a program on this machine expects a file to be: what it has written it reads, whatever is still on its
//! way, and neither reading on nor writing on waits for the network.
//!
//! [`ReadAhead`] and [`WriteBehind`] of one file, kept consistent with each other: bytes that are not on servers yet are read from
//! here, and never fetched ahead; what is written makes read-ahead forget what it had; whatever goes around both (allocating,
//! seeking, writing through, truncating) has them settle first.
//!
//! An *unbuffered* file keeps nothing: every read and write takes its round trip.

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

/// How a file is buffered.
#[derive(Clone, Debug, Default)]
pub struct BufferedOptions {
    /// Bytes ahead of each stream of reads, at most; see [`AheadOptions`].
    pub ahead_bytes: Option<u64>,
    /// Writes; see [`BehindOptions`].
    pub behind: BehindOptions,
}

/// Who reads a file of which bytes are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Had it open when it happened: reads what was written, as long as it is kept.
    Had,
    /// Has opened it since, for writing: may mend it, and cannot read what is lost.
    Mends,
    /// Has opened it since, for reading: cannot rely on any of it.
    After,
}

/// See the module's page. May be used by several threads at a time.
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
    /// An open file, buffered.
    pub fn new(file: Arc<StoreFile>, options: &BufferedOptions) -> BufferedFile {
        let behind = WriteBehind::new(Arc::clone(&file), &options.behind);
        let ahead_options = AheadOptions { window_bytes: options.ahead_bytes, size_bytes: None, behind: Some(Arc::clone(&behind)) };
        let ahead = ReadAhead::new(Arc::clone(&file), &ahead_options);
        BufferedFile { file, windows: Some(Windows { ahead, behind }) }
    }

    /// An open file of which nothing is kept.
    pub fn unbuffered(file: Arc<StoreFile>) -> BufferedFile {
        BufferedFile { file, windows: None }
    }

    /// The file without buffers.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.file
    }

    /// Reads; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, offset: u64, length: usize) -> Result<View> {
        // Asked before anything is read: what arrives at a server meanwhile must not be missed in both places.
        let end = self.dirty_end().unwrap_or(0).max(self.file.handle().lost_end());
        let Some(Windows { ahead, behind }) = &self.windows else {
            return Ok(up_to(read_into_memory(length, |memory| self.file.read(tracer, memory, offset, None))?, offset, length, end));
        };
        if end > offset && behind.is_dirty(&range_of(offset, length)) {
            return Ok(up_to(read_into_memory(length, |memory| behind.read(tracer, memory, offset, None))?, offset, length, end));
        }
        Ok(up_to(ahead.view(tracer, offset, length)?, offset, length, end))
    }

    /// The same for one of several owners of a file of which bytes may be lost.
    ///
    /// # Errors
    /// As [`BufferedFile::read`]; [`ErrorKind::Lost`] where bytes of the range are lost, and its reader has not seen them otherwise.
    pub fn read_as(&self, tracer: &mut Tracer, offset: u64, length: usize, reader: Reader) -> Result<View> {
        let (handle, range) = (self.file.handle(), range_of(offset, length));
        if handle.losses().is_empty() {
            return self.read(tracer, offset, length);
        }
        let lost = || Err(lost_bytes().on_file(handle.path()));
        if reader == Reader::After {
            return lost();
        }
        // What is written again counts once it has arrived, or has failed again.
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

    /// Takes `bytes` for `offset`; they are on their way, or will be. Reads here see them.
    ///
    /// # Errors
    /// As [`WriteBehind::write`].
    pub fn write(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(Windows { ahead, behind }) = &self.windows else { return self.file.write_traced(tracer, bytes, offset) };
        let written = behind.write(tracer, bytes, offset);
        ahead.forget(&range_of(offset, bytes.len()));
        written
    }

    /// As [`WriteBehind::give`]: `false`: they are to be written.
    ///
    /// # Errors
    /// As there.
    pub fn give(&self, tracer: &mut Tracer, memory: &Arc<RequestMemory>, length: usize, offset: u64) -> Result<bool> {
        let Some(Windows { ahead, behind }) = &self.windows else { return Ok(false) };
        let given = behind.give(tracer, memory, length, offset);
        ahead.forget(&range_of(offset, length));
        given
    }

    /// Writes all of `bytes` at `offset`; they are at the servers when it returns.
    ///
    /// # Errors
    /// Names server and file. Parts on other servers may have been written.
    pub fn write_through(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let range = range_of(offset, bytes.len());
        // What was written there before and has not left must not overtake these bytes.
        self.settle_range(tracer, &range);
        let written = self.file.write_traced(tracer, bytes, offset);
        if let Some(windows) = &self.windows {
            windows.ahead.forget(&range);
        }
        written
    }

    /// As [`StoreFile::append_traced`].
    ///
    /// # Errors
    /// As there.
    pub fn append_through(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<bool> {
        let range = range_of(offset, bytes.len());
        self.settle_range(tracer, &range);
        let appended = self.file.append_traced(tracer, bytes, offset);
        if let Some(windows) = &self.windows {
            windows.ahead.forget(&range);
        }
        appended
    }

    /// Waits until everything that was written before is on the servers.
    ///
    /// # Errors
    /// As [`WriteBehind::flush`].
    pub fn flush(&self, tracer: &mut Tracer) -> Result<()> {
        self.windows.as_ref().map_or(Ok(()), |windows| windows.behind.flush(tracer))
    }

    /// Waits until everything that was written before is on stable storage.
    ///
    /// # Errors
    /// The first, once: a write's, the sync's, or that a server may have lost what it took.
    pub fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        let flushed = self.flush(tracer);
        let synced = self.file.sync_traced(tracer);
        flushed.and(synced)
    }

    /// Its size, with what was written here.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size(&self, tracer: &mut Tracer) -> Result<u64> {
        let end = self.dirty_end().unwrap_or(0);
        Ok(self.file.size_traced(tracer)?.max(end))
    }

    /// The end of the last byte that is not known to be on a server. The file's size is at least that.
    pub fn dirty_end(&self) -> Option<u64> {
        self.windows.as_ref().and_then(|windows| windows.behind.dirty_end())
    }

    /// As [`StoreFile::take_end`]; of what is not on servers yet nobody knows whether it will arrive.
    pub fn take_end(&self) -> End {
        let is_dirty = self.dirty_end().is_some();
        match self.file.take_end() {
            _ if is_dirty => End::Unknown,
            end => end,
        }
    }

    /// As [`StoreFile::allocate`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate(&self, tracer: &mut Tracer, offset: u64, length: u64, how: Allocate) -> Result<()> {
        self.settle(tracer);
        let allocated = self.file.allocate(tracer, offset, length, how);
        self.forget_all();
        allocated
    }

    /// As [`StoreFile::seek`].
    ///
    /// # Errors
    /// As there.
    pub fn seek(&self, tracer: &mut Tracer, offset: u64, what: Seek) -> Result<Option<u64>> {
        self.settle(tracer);
        self.file.seek(tracer, offset, what)
    }

    /// Truncates it by `truncate`, which asks the metadata service: that keeps it in order with everything else about the file.
    ///
    /// # Errors
    /// What `truncate` says.
    pub fn truncate<T>(&self, tracer: &mut Tracer, truncate: impl FnOnce(&mut Tracer) -> Result<T>) -> Result<T> {
        self.settle(tracer);
        let truncated = truncate(tracer);
        if truncated.is_ok() {
            self.file.handle().losses().accept();
        }
        self.forget_all();
        truncated
    }

    /// Whether bytes of it are lost.
    pub fn has_lost(&self) -> bool {
        !self.file.handle().losses().is_empty()
    }

    /// What the metadata service is to be notified of: bytes that are lost, or are there again.
    pub fn unreported(&self) -> Unreported {
        self.file.handle().losses().unreported()
    }

    /// This was reported to it. Its answer: `None` where there is no such file any more.
    pub fn reported(&self, what: &Unreported, answer: Option<&Attributes>) {
        self.file.handle().losses().reported(what, answer);
    }

    /// The metadata service has said this of the file.
    pub fn heard(&self, attributes: &Attributes) {
        self.file.handle().losses().heard(attributes);
    }

    /// Everything written before is at the servers, or has failed, which is for the next flush to report.
    pub fn settle(&self, tracer: &mut Tracer) {
        self.settle_range(tracer, &EVERYTHING);
    }

    fn settle_range(&self, tracer: &mut Tracer, range: &Range<u64>) {
        if let Some(windows) = &self.windows {
            windows.behind.flush_range(tracer, range);
        }
    }

    /// Others may have changed it: nothing that was fetched may be relied on any more.
    pub fn forget_all(&self) {
        if let Some(windows) = &self.windows {
            windows.ahead.forget_all();
        }
    }

    /// What read-ahead was good for.
    pub fn counters(&self) -> AheadCounters {
        self.windows.as_ref().map(|windows| windows.ahead.counters()).unwrap_or_default()
    }
}

/// The file may end before `end` at the servers, but bytes behind that are on their way, or lost: what is between is a hole.
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
