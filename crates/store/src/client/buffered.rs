//! One file of a store as a program on this machine expects a file to be: what it has written it reads, whatever is still on its
//! way, and neither reading on nor writing on waits for the network.
//!
//! [`ReadAhead`] and [`WriteBehind`] of one file, kept true to each other: bytes that are not on servers yet are read from here, and
//! never fetched ahead; what is written makes read-ahead forget what it had; whatever goes around both (allocating, seeking,
//! writing through, truncating) has them settle first.

use super::ahead::{AheadCounters, AheadOptions, ReadAhead, View};
use super::behind::{BehindOptions, WriteBehind};
use super::file::StoreFile;
use crate::error::Result;
use crate::protocol::io::{Allocate, Seek};
use std::ops::Range;
use std::sync::Arc;
use thalweg_trace::Tracer;

/// How a file is buffered.
#[derive(Clone, Debug, Default)]
pub struct BufferedOptions {
    /// Bytes ahead of each stream of reads, at most; see [`AheadOptions`].
    pub ahead_bytes: Option<u64>,
    /// Writes; see [`BehindOptions`].
    pub behind: BehindOptions,
    /// The file's size, if the owner knows it and will keep telling it.
    pub size_bytes: Option<u64>,
}

/// See the module's page. May be used by several threads at a time.
pub struct BufferedFile {
    file: Arc<StoreFile>,
    ahead: Arc<ReadAhead>,
    behind: Arc<WriteBehind>,
}

const EVERYTHING: Range<u64> = 0..u64::MAX;

impl BufferedFile {
    /// An open file, buffered.
    pub fn new(file: Arc<StoreFile>, options: &BufferedOptions) -> BufferedFile {
        let behind = WriteBehind::new(Arc::clone(&file), &options.behind);
        let ahead_options =
            AheadOptions { window_bytes: options.ahead_bytes, size_bytes: options.size_bytes, behind: Some(Arc::clone(&behind)) };
        BufferedFile { ahead: ReadAhead::new(Arc::clone(&file), &ahead_options), behind, file }
    }

    /// The file without buffers.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.file
    }

    /// Its reads.
    pub fn ahead(&self) -> &Arc<ReadAhead> {
        &self.ahead
    }

    /// Its writes.
    pub fn behind(&self) -> &Arc<WriteBehind> {
        &self.behind
    }

    /// Reads `buffer` full from `offset` on, or up to the end of the file; how many bytes there were.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if self.behind.is_dirty(&range_of(offset, buffer.len())) {
            return self.behind.read(tracer, buffer, offset, None);
        }
        // Asked before reading: what arrives meanwhile makes the file at least as long.
        let end = self.behind.dirty_end().unwrap_or(0);
        let have = self.ahead.read(tracer, buffer, offset)?;
        let reached = (end.saturating_sub(offset).min(buffer.len() as u64) as usize).max(have);
        buffer[have..reached].fill(0);
        Ok(reached)
    }

    /// The same bytes where they are, if they are in memory in one piece; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// Names server and file.
    pub fn view(&self, tracer: &mut Tracer, offset: u64, length: usize) -> Result<View> {
        let end = self.behind.dirty_end().unwrap_or(0);
        if end > offset && self.behind.is_dirty(&range_of(offset, length)) {
            let mut bytes = vec![0; length];
            let have = self.behind.read(tracer, &mut bytes, offset, None)?;
            bytes.truncate(have);
            return Ok(View::from(bytes));
        }
        let view = self.ahead.view(tracer, offset, length)?;
        let reached = end.saturating_sub(offset).min(length as u64) as usize;
        if reached <= view.len() {
            return Ok(view);
        }
        let mut bytes = view.to_vec();
        bytes.resize(reached, 0);
        Ok(View::from(bytes))
    }

    /// Takes `bytes` for `offset`; they are on their way, or will be. Reads here see them.
    ///
    /// # Errors
    /// As [`WriteBehind::write`].
    pub fn write(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.behind.write(tracer, bytes, offset);
        self.ahead.forget(&range_of(offset, bytes.len()));
        written
    }

    /// Writes all of `bytes` at `offset`; they are at the servers when it returns.
    ///
    /// # Errors
    /// Names server and file. Parts on other servers may have been written.
    pub fn write_through(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let range = range_of(offset, bytes.len());
        self.behind.flush_range(tracer, &range);
        let written = self.file.write_traced(tracer, bytes, offset);
        self.ahead.forget(&range);
        written
    }

    /// Waits until everything that was written before is on the servers.
    ///
    /// # Errors
    /// As [`WriteBehind::flush`].
    pub fn flush(&self, tracer: &mut Tracer) -> Result<()> {
        self.behind.flush(tracer)
    }

    /// Waits until everything that was written before is on media.
    ///
    /// # Errors
    /// The first, once: a write's, the sync's, or that a server may have lost what it took.
    pub fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        let flushed = self.behind.flush(tracer);
        let synced = self.file.sync_traced(tracer);
        flushed.and(synced)
    }

    /// Its size, with what was written here.
    ///
    /// # Errors
    /// Names server and file.
    pub fn size(&self, tracer: &mut Tracer) -> Result<u64> {
        let end = self.behind.dirty_end().unwrap_or(0);
        Ok(self.file.size_traced(tracer)?.max(end))
    }

    /// As [`StoreFile::allocate`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate(&self, tracer: &mut Tracer, offset: u64, length: u64, how: Allocate) -> Result<()> {
        self.settle(tracer);
        let allocated = self.file.allocate(tracer, offset, length, how);
        self.ahead.forget_all();
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

    /// Everything written before is at the servers, or has failed, which is for the next flush to tell. To be called before the
    /// metadata service is asked to truncate.
    pub fn settle(&self, tracer: &mut Tracer) {
        self.behind.flush_range(tracer, &EVERYTHING);
    }

    /// Others may have changed it (or it was truncated): nothing that was fetched may be relied on any more.
    pub fn forget_all(&self) {
        self.ahead.forget_all();
    }

    /// What the owner knows of its size; see [`AheadOptions::size_bytes`].
    pub fn set_size(&self, size_bytes: Option<u64>) {
        self.ahead.set_size(size_bytes);
    }

    /// What read-ahead was good for.
    pub fn counters(&self) -> AheadCounters {
        self.ahead.counters()
    }
}

fn range_of(offset: u64, length: usize) -> Range<u64> {
    offset..offset.saturating_add(length as u64)
}
