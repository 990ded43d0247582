//! Read, write, sync, allocate, seek.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::{abi, reply};
use crate::handles::files::Handle;
use std::sync::atomic::Ordering;
use thalweg_client::wire::limits;
use thalweg_client::wire::protocol::io::{Allocate, Seek};
use thalweg_trace::Tracer;

/// Minimum size of a write that is sent without copying; smaller ones are copied, to be merged with others.
const GIVEN_BYTES: usize = 256 << 10;

impl FileSystem {
    /// Reads from an open file.
    pub(crate) fn read(&self, w: &mut Worker, handle: u64, offset: u64, length: u32) -> HandlerResult<Answer> {
        let handle = self.handles.get(handle)?;
        self.check_locks(&handle.inode)?;
        Ok(Answer::View(handle.shared.read(&mut w.tracer, offset, length as usize, handle.reader)?))
    }

    /// Writes to an open file.
    pub(crate) fn write(
        &self,
        w: &mut Worker,
        handle: u64,
        bytes: &[u8],
        offset: u64,
        (write_flags, flags): (u32, u32),
    ) -> HandlerResult<Answer> {
        let handle = self.handles.get(handle)?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > limits::FILE_BYTES) {
            return Err(Refusal::plain(libc::EFBIG));
        }
        self.check_locks(&handle.inode)?;
        if write_flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.drop_privileges(&mut w.tracer, &handle.inode)?;
        }
        // Writeback of a mapped page keeps its offset, however the file was opened.
        let of_map = write_flags & abi::WRITE_CACHE != 0;
        if flags & libc::O_APPEND as u32 != 0 && !of_map {
            let offset = self.append(w, &handle, bytes)?;
            self.merge_into_map(&handle, bytes, offset);
        } else if let Err(error) =
            handle.shared.write(&mut w.tracer, bytes, offset, w.received.as_ref().filter(|_| !of_map && bytes.len() >= GIVEN_BYTES))
        {
            if !of_map {
                return Err(error.into());
            }
            // A mapped page: the program continued long ago, and learns of the loss on its next sync.
            handle.shared.file.file().lose(bytes, offset);
            self.note_loss(&handle.inode, &handle.shared, &error);
        } else if !of_map {
            self.merge_into_map(&handle, bytes, offset);
        }
        if handle.is_direct && flags & libc::O_DSYNC as u32 != 0 {
            // The kernel syncs only writes that go through its cache.
            self.sync_handle(&mut w.tracer, &handle, flags & libc::O_SYNC as u32 != libc::O_SYNC as u32)?;
        }
        reply::count(&mut w.out, bytes.len() as u32);
        Ok(Answer::Out)
    }

    /// Merges a write into the page cache of a mapped file. A dirty mapped page is written back whole, so it must already contain bytes
    /// written around the cache, which the kernel does not ensure for direct writes. A program that maps the file later reads the written
    /// bytes anyway.
    fn merge_into_map(&self, handle: &Handle, bytes: &[u8], offset: u64) {
        if handle.is_direct && !self.options.strict && handle.shared.may_be_mapped() {
            self.device.store(self.table.number(handle.inode.id), offset, bytes);
        }
    }

    fn append(&self, w: &mut Worker, handle: &Handle, bytes: &[u8]) -> HandlerResult<u64> {
        let shared = &handle.shared;
        self.write_back(&mut w.tracer, &handle.inode, shared);
        Ok(self.locks.append(&mut w.tracer, handle.inode.id, |tracer| shared.append(tracer, bytes))?)
    }

    /// Makes a file's bytes durable, and its name and attributes.
    pub(crate) fn sync(&self, w: &mut Worker, handle: u64, data_only: bool) -> HandlerResult<Answer> {
        self.sync_handle(&mut w.tracer, &*self.handles.get(handle)?, data_only)?;
        Ok(Answer::Done)
    }

    fn sync_handle(&self, tracer: &mut Tracer, handle: &Handle, data_only: bool) -> HandlerResult<()> {
        let shared = &handle.shared;
        shared.synced.store(true, Ordering::Relaxed);
        self.write_back(tracer, &handle.inode, shared);
        if let Err(error) = shared.file.sync(tracer) {
            self.note_loss(&handle.inode, shared, &error);
            self.report_losses(tracer, &handle.inode, shared);
        }
        handle.report_at_sync()?;
        if !(data_only && shared.name_synced.load(Ordering::Relaxed)) {
            self.names.sync(tracer)?;
            shared.name_synced.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes names durable.
    pub(crate) fn sync_names(&self, w: &mut Worker) -> HandlerResult<Answer> {
        self.names.sync(&mut w.tracer)?;
        Ok(Answer::Done)
    }

    /// Makes everything written here durable.
    pub(crate) fn sync_all(&self, w: &mut Worker) -> HandlerResult<Answer> {
        let mut all = Ok(());
        for handle in self.handles.all() {
            self.write_back(&mut w.tracer, &handle.inode, &handle.shared);
            if let Err(error) = handle.shared.file.sync(&mut w.tracer) {
                handle.shared.lost(&error);
                all = all.and(Err(Refusal::from(error)));
            }
        }
        self.names.sync(&mut w.tracer)?;
        if self.losses.take_unsynced() {
            all = all.and(Err(Refusal::plain(libc::EIO)));
        }
        all.map(|()| Answer::Done)
    }

    /// Allocates, deallocates or zeroes a range.
    pub(crate) fn allocate(&self, w: &mut Worker, handle: u64, offset: u64, length: u64, mode: u32) -> HandlerResult<Answer> {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | KEEP;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        let how = match mode as i32 {
            0 => Allocate::Extend,
            KEEP => Allocate::KeepSize,
            PUNCH => Allocate::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::ZeroRange,
            ZERO_KEEP => Allocate::ZeroRangeKeepSize,
            _ => return Err(Refusal::plain(libc::EOPNOTSUPP)),
        };
        let handle = self.handles.get(handle)?;
        let shared = &handle.shared;
        self.write_back(&mut w.tracer, &handle.inode, shared);
        let done = shared.file.allocate(&mut w.tracer, offset, length, how);
        shared.unreported.note(offset.saturating_add(length));
        done?;
        Ok(Answer::Done)
    }

    /// Returns the next offset of data, or of a hole.
    pub(crate) fn seek(&self, w: &mut Worker, handle: u64, offset: u64, whence: u32) -> HandlerResult<Answer> {
        let what = match whence as i32 {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Refusal::plain(libc::EINVAL)),
        };
        let handle = self.handles.get(handle)?;
        self.write_back(&mut w.tracer, &handle.inode, &handle.shared);
        match handle.shared.file.seek(&mut w.tracer, offset, what)? {
            Some(found) => {
                reply::offset(&mut w.out, found);
                Ok(Answer::Out)
            }
            None => Err(Refusal::plain(libc::ENXIO)),
        }
    }
}
