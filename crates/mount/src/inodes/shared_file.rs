//! An open file: the state shared by all open files of one inode on this mount.
//!
//! A file opened by several programs, or several times, is opened once at the metadata service and buffered in one place here, so every
//! reader sees a write immediately. A write that fails after it was acknowledged is a loss. Each open file that existed then reports it
//! once on its next sync, and on each flush (`close`) before that. The kernel does so for local file systems (`errseq_t`), except that
//! those report nothing on `close`. A loss that no sync has reported yet is also reported to the next open file.
//!
//! The service knows the writers: the first program that opens a file for writing opens it for writing there, until no program here has it
//! open. The service is then notified how the writing ended, and if every byte is at the servers, it knows the file's size.
//!
//! Servers can begin to make bytes durable as they arrive, which shortens a sync at the end, at the cost of writing data that may soon be
//! overwritten or removed. This is requested while programs here tend to sync what they write ([`SyncHabit`]).

use super::far_writes::FarWrites;
use super::unreported_writes::UnreportedWrites;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_client::metadata::OpenFile;
use thalweg_client::wire::protocol::metadata::{Attributes, End};
use thalweg_client::wire::{Error, ErrorKind, Result};
use thalweg_client::{BufferedFile, BufferedOptions, DataClient, FileHandle, Reader, RequestMemory, StoreFile, View};
use thalweg_trace::Tracer;

/// Attempts to append at the end of a file that others extend without a turn.
const APPEND_TRIES: u32 = 16;

/// Smaller files are made durable quickly whenever the sync begins.
const LARGE_BYTES: u64 = 1 << 20;
/// Number of recent files that determine the prediction.
const HABIT: i32 = 4;

/// Predicts whether programs sync large files they write: whether more of the recent ones were synced than not.
#[derive(Default)]
pub(crate) struct SyncHabit(AtomicI32);

impl SyncHabit {
    /// Records a written file that is closed.
    pub(crate) fn note(&self, written_bytes: u64, synced: bool) {
        if written_bytes >= LARGE_BYTES {
            let step = if synced { 1 } else { -1 };
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some((n + step).clamp(-HABIT, HABIT)));
        }
    }

    /// Whether the next file is expected to be synced.
    pub(crate) fn expects_sync(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A file open on this mount.
pub(crate) struct SharedFile {
    /// Bytes of the file; not buffered on a strict mount.
    pub file: BufferedFile,
    /// Keeps the file open at the service, for writing if first opened so. `None` only while dropping.
    opened: Option<OpenAtService>,
    /// Keeps the file open for writing at the service, if first opened for reading.
    writing: Mutex<Option<OpenAtService>>,
    written_bytes: AtomicU64,
    /// Number of open files for reading and writing, which may write through mappings.
    pub mappers: AtomicUsize,
    /// Whether it was synced since it was opened.
    pub synced: AtomicBool,
    /// Whether its name was made durable since it was opened, so that a data-only sync need not ask again.
    pub name_synced: AtomicBool,
    state: Mutex<State>,
    /// Writes the next write-back reports to the service.
    pub unreported: UnreportedWrites,
    far: FarWrites,
}

/// A file open at the service; dropping it reports that nothing was written.
#[derive(Debug)]
pub(crate) struct OpenAtService(Option<OpenFile>);

impl OpenAtService {
    /// Wraps a file that was not written yet.
    pub(crate) fn new(opened: OpenFile) -> OpenAtService {
        OpenAtService(Some(opened))
    }

    fn file(&self) -> &OpenFile {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Returns its attributes when it was opened.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.file().attributes
    }

    fn ended(mut self, end: End) {
        if let Some(opened) = self.0.take() {
            opened.ended(end);
        }
    }
}

impl Drop for OpenAtService {
    fn drop(&mut self) {
        if let Some(opened) = self.0.take() {
            opened.ended(End::Read);
        }
    }
}

#[derive(Default)]
struct State {
    /// Number of losses; then the errno of the last.
    losses: u64,
    errno: i32,
    /// Whether no sync has reported the last loss yet.
    unseen: bool,
}

impl SharedFile {
    /// Wraps a file that was just opened or created.
    ///
    /// # Errors
    /// An unknown layout.
    pub(crate) fn new(
        data: &Arc<DataClient>,
        opened: OpenAtService,
        path: String,
        (strict, will_be_synced): (bool, bool),
    ) -> Result<SharedFile> {
        let handle = FileHandle::from_attributes(path, opened.attributes())?.for_mending();
        // The program that lost them has exited, possibly without an error.
        let state = match opened.attributes().lost {
            Some(_) => State { losses: 1, errno: libc::EIO, unseen: true },
            None => State::default(),
        };
        let file = StoreFile::new(Arc::clone(data), handle);
        let file = Arc::new(if will_be_synced { file.to_be_synced() } else { file });
        let file = if strict { BufferedFile::unbuffered(file) } else { BufferedFile::new(file, &BufferedOptions::default()) };
        Ok(SharedFile {
            file,
            opened: Some(opened),
            writing: Mutex::default(),
            written_bytes: AtomicU64::new(0),
            mappers: AtomicUsize::new(0),
            synced: AtomicBool::new(false),
            name_synced: AtomicBool::new(false),
            state: Mutex::new(state),
            unreported: UnreportedWrites::default(),
            far: FarWrites::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Makes sure that the service knows of a writer. `open` opens the file for writing; returns its attributes then, or `None` if already
    /// open for writing.
    ///
    /// # Errors
    /// The error of `open`.
    pub(crate) fn begin_writing(&self, open: impl FnOnce() -> Result<OpenFile>) -> Result<Option<Attributes>> {
        if self.opened.as_ref().is_some_and(|opened| opened.file().is_for_writing()) {
            return Ok(None);
        }
        let mut writing = self.writing.lock();
        if writing.is_some() {
            return Ok(None);
        }
        let opened = OpenAtService::new(open()?);
        let attributes = opened.attributes().clone();
        *writing = Some(opened);
        Ok(Some(attributes))
    }

    /// Reads; fewer bytes than `length` only at the end of the file.
    ///
    /// # Errors
    /// A server's; or that bytes are lost.
    pub(crate) fn read(&self, tracer: &mut Tracer, offset: u64, length: usize, reader: Reader) -> Result<View> {
        self.file.read_as(tracer, offset, length, reader)
    }

    /// Writes; the bytes may still be in flight on return. If `memory` holds exactly these bytes, they are not copied, and the memory is
    /// not reused while referenced.
    ///
    /// # Errors
    /// A server's; or that of an earlier, acknowledged write.
    pub(crate) fn write(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64, memory: Option<&Arc<RequestMemory>>) -> Result<()> {
        if let Some(unproven) = self.far.unproven(self.file.file().handle().layout(), offset, bytes.len() as u64) {
            self.noted(bytes, offset, || self.file.write_through(tracer, bytes, offset))?;
            self.far.proven(unproven);
            return Ok(());
        }
        self.noted(bytes, offset, || match memory {
            Some(memory) if self.file.give(tracer, memory, bytes.len(), offset)? => Ok(()),
            _ => self.file.write(tracer, bytes, offset),
        })
    }

    /// Appends to the file; returns the offset. No other client appends meanwhile, unless the turn expires or the client writes without
    /// one: then its data is kept, and the end is determined again.
    ///
    /// # Errors
    /// A server's.
    pub(crate) fn append(&self, tracer: &mut Tracer, bytes: &[u8]) -> Result<u64> {
        for _ in 0..APPEND_TRIES {
            let offset = self.file.size(tracer)?;
            let appended = self.file.append_through(tracer, bytes, offset);
            if matches!(appended, Ok(false)) {
                continue;
            }
            self.noted(bytes, offset, || appended.map(drop))?;
            return Ok(offset);
        }
        let problem = format!("{APPEND_TRIES} attempts to append failed because others wrote at the end of the file: nothing was appended");
        Err(Error::new(ErrorKind::WouldBlock, problem))
    }

    /// Whether a program may write through a mapping.
    pub(crate) fn may_be_mapped(&self) -> bool {
        self.mappers.load(Ordering::SeqCst) > 0
    }

    fn noted(&self, bytes: &[u8], offset: u64, write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let written = write();
        // Even a failed write may be partly done. Noted only now: a flush that begins from here on includes these bytes.
        self.unreported.note(offset.saturating_add(bytes.len() as u64));
        written
    }

    /// Returns the number of bytes written since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Records the loss of acknowledged bytes.
    pub(crate) fn lost(&self, error: &Error) {
        let mut state = self.state();
        state.losses += 1;
        state.errno = crate::errors::errno(error.kind());
        state.unseen = true;
    }

    /// Returns the losses that do not concern a program that opens it now, and the number of losses.
    pub(crate) fn losses(&self) -> (u64, u64) {
        let state = self.state();
        (state.losses - u64::from(state.unseen), state.losses)
    }

    /// Returns the errno of the last loss.
    pub(crate) fn errno(&self) -> i32 {
        self.state().errno
    }

    /// Records that a sync reports all losses so far; returns their number.
    pub(crate) fn saw_losses(&self) -> u64 {
        let mut state = self.state();
        state.unseen = false;
        state.losses
    }
}

impl Drop for SharedFile {
    /// Reports to the service how the writing ended; data not sent yet counts as not arrived.
    fn drop(&mut self) {
        let end = self.file.take_end();
        let writing = self.writing.get_mut().take();
        writing.into_iter().chain(self.opened.take()).for_each(|opened| opened.ended(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_what_most_of_the_last_files_were() {
        let habit = SyncHabit::default();
        assert!(!habit.expects_sync());
        habit.note(LARGE_BYTES, true);
        assert!(habit.expects_sync());
        for _ in 0..100 {
            habit.note(10, false);
        }
        assert!(habit.expects_sync(), "small files say nothing");
        for _ in 0..100 {
            habit.note(LARGE_BYTES, false);
        }
        for _ in 0..HABIT {
            assert!(!habit.expects_sync());
            habit.note(LARGE_BYTES, true);
        }
        habit.note(LARGE_BYTES, true);
        assert!(habit.expects_sync());
    }
}
