//! `copy_file_range`: copies between files of the store without the program's memory, preserving holes.
//!
//! A request copies a bounded amount, to limit how long it occupies a worker, and returns how much; the program requests the rest. A hole
//! at the end extends the file by writing its last byte only, since a truncation could remove data another client is writing beyond.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply;
use crate::fuse::request::CopyRangeCall;
use crate::handles::files::Handle;
use std::cell::Cell;
use thalweg_client::wire::limits;
use thalweg_client::wire::protocol::io::{Allocate, Seek};

/// Maximum data bytes per request.
const DATA_BYTES: u64 = 16 << 20;
/// Bytes read and written together.
const PIECE_BYTES: u64 = 1 << 20;
/// Largest count the answer can hold, in whole pages.
const MOST_BYTES: u64 = (u32::MAX as u64) & !4095;

impl FileSystem {
    /// Copies a range of a file into another, or to another offset of the same file.
    pub(crate) fn copy_range(&self, w: &mut Worker, asked: &CopyRangeCall) -> HandlerResult<Answer> {
        if asked.flags != 0 {
            return Err(Refusal::plain(libc::EINVAL));
        }
        let (from, to) = (self.handles.get(asked.from)?, self.handles.get(asked.to)?);
        let length = asked.length.min(MOST_BYTES);
        if asked.to_offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES) {
            return Err(Refusal::plain(libc::EFBIG));
        }
        self.check_locks(&from.inode)?;
        self.check_locks(&to.inode)?;
        self.write_back(&mut w.tracer, &from.inode, &from.shared);
        self.write_back(&mut w.tracer, &to.inode, &to.shared);
        let size_bytes = from.shared.file.size(&mut w.tracer)?;
        let length = length.min(size_bytes.saturating_sub(asked.from_offset));
        let done_bytes = Cell::new(0);
        let copied = self.copy_parts(w, (&from, asked.from_offset), (&to, asked.to_offset), length, &done_bytes);
        if done_bytes.get() == 0 {
            // Progress before an error is returned, as in a short write; the error recurs.
            copied?;
        }
        reply::count(&mut w.out, done_bytes.get() as u32);
        Ok(Answer::Out)
    }

    fn copy_parts(
        &self,
        w: &mut Worker,
        (from, from_offset): (&Handle, u64),
        (to, to_offset): (&Handle, u64),
        length: u64,
        done_bytes: &Cell<u64>,
    ) -> HandlerResult<()> {
        let mut data_bytes = 0;
        while done_bytes.get() < length && data_bytes < DATA_BYTES {
            let (at, left) = (from_offset + done_bytes.get(), length - done_bytes.get());
            let data = from.shared.file.seek(&mut w.tracer, at, Seek::Data)?.map_or(left, |data| data.saturating_sub(at).min(left));
            if data > 0 {
                self.make_hole(w, to, to_offset + done_bytes.get(), data)?;
                done_bytes.set(done_bytes.get() + data);
                continue;
            }
            let hole = from.shared.file.seek(&mut w.tracer, at, Seek::Hole)?.map_or(left, |hole| hole.saturating_sub(at).min(left));
            let end = done_bytes.get() + hole.max(1).min(DATA_BYTES - data_bytes);
            while done_bytes.get() < end {
                let piece = PIECE_BYTES.min(end - done_bytes.get());
                let bytes = from.shared.read(&mut w.tracer, from_offset + done_bytes.get(), piece as usize, from.reader)?;
                if bytes.is_empty() {
                    // The source was truncated meanwhile.
                    return Ok(());
                }
                to.shared.write(&mut w.tracer, &bytes, to_offset + done_bytes.get(), None)?;
                done_bytes.set(done_bytes.get() + bytes.len() as u64);
                data_bytes += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros and occupy no space.
    fn make_hole(&self, w: &mut Worker, to: &Handle, offset: u64, length: u64) -> HandlerResult<()> {
        let (end, size_bytes) = (offset + length, to.shared.file.size(&mut w.tracer)?);
        if offset < size_bytes {
            let punched = to.shared.file.allocate(&mut w.tracer, offset, end.min(size_bytes) - offset, Allocate::PunchHole);
            to.shared.unreported.note(end.min(size_bytes));
            punched?;
        }
        if end > size_bytes {
            to.shared.write(&mut w.tracer, &[0], end - 1, None)?;
        }
        Ok(())
    }
}
