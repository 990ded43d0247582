//! An open file: what all programs here that have it open share.
//!
//! A file that several programs have open, or one several times, is open once at the metadata service and has its bytes in one
//! place here, so that a write is seen by every reader at once. A write that fails after it was acknowledged is a loss: it is reported to
//! each open file that there was then, once, by its next sync, and by each of its flushes (`close`) before that. That is what the kernel does for local file
//! systems (`errseq_t`), but that those report nothing at `close`. A loss that no sync has reported yet is owed to the next one who opens the file, too.
//!
//! The service is notified who may write: the first program that opens a file for writing opens it for writing there, until nobody here has it
//! open any more. Then it is notified how that has ended, and if every byte is at the servers it knows the file's size.
//!
//! Servers can begin to make bytes durable when they arrive, so that a sync at the end finds most of it done, at the price of
//! writing what may soon be written again or removed. It is asked for as long as programs here sync what they write
//! ([`SyncHabit`]).

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

/// How often the end of a file is looked for that others write at without a turn.
const APPEND_TRIES: u32 = 16;

/// Less than this is soon durable, whenever it is begun.
const LARGE_BYTES: u64 = 1 << 20;
/// How many files decide what the next one is taken for.
const HABIT: i32 = 4;

/// Whether programs here sync large files that they write: of the last ones, were more synced than not?
#[derive(Default)]
pub(crate) struct SyncHabit(AtomicI32);

impl SyncHabit {
    /// A file that was written is closed.
    pub(crate) fn note(&self, written_bytes: u64, synced: bool) {
        if written_bytes >= LARGE_BYTES {
            let step = if synced { 1 } else { -1 };
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some((n + step).clamp(-HABIT, HABIT)));
        }
    }

    /// Whether the next one will probably be synced.
    pub(crate) fn expects_sync(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A file that is open here.
pub(crate) struct SharedFile {
    /// Its bytes; a strict mount keeps none of them.
    pub file: BufferedFile,
    /// Says to the service that it is open, and to be written if it was made or first opened so. `None` only at its end.
    opened: Option<OpenAtService>,
    /// Says to the service that it is to be written, if it was first opened to be read.
    writing: Mutex<Option<OpenAtService>>,
    written_bytes: AtomicU64,
    /// How many have it open for reading and writing: those may write through maps.
    pub mappers: AtomicUsize,
    /// It was synced since it was opened.
    pub synced: AtomicBool,
    /// Its name has been made durable since it was opened: a sync of data alone need not ask again.
    pub name_synced: AtomicBool,
    state: Mutex<State>,
    /// Writes that the service is notified of by the next write-back.
    pub unreported: UnreportedWrites,
    far: FarWrites,
}

/// A file that is open at the service; the one that drops it has written nothing.
#[derive(Debug)]
pub(crate) struct OpenAtService(Option<OpenFile>);

impl OpenAtService {
    /// Nothing was written to it yet.
    pub(crate) fn new(opened: OpenFile) -> OpenAtService {
        OpenAtService(Some(opened))
    }

    fn file(&self) -> &OpenFile {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Its attributes when it was opened.
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
    /// How many losses there were; and the last one's errno.
    losses: u64,
    errno: i32,
    /// No sync has reported the last loss yet.
    unseen: bool,
}

impl SharedFile {
    /// A file that was just opened, or made.
    ///
    /// # Errors
    /// A layout that this program does not know.
    pub(crate) fn new(
        data: &Arc<DataClient>,
        opened: OpenAtService,
        path: String,
        (strict, will_be_synced): (bool, bool),
    ) -> Result<SharedFile> {
        let handle = FileHandle::from_attributes(path, opened.attributes())?.for_mending();
        // Who lost them has gone, and may have got no error.
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

    /// Somebody may write from now on: the service knows when it returns. `open` opens the file for writing; its attributes then, if
    /// that was not done before.
    ///
    /// # Errors
    /// What `open` says.
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

    /// Reads; fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// A server's; or that bytes are lost.
    pub(crate) fn read(&self, tracer: &mut Tracer, offset: u64, length: usize, reader: Reader) -> Result<View> {
        self.file.read_as(tracer, offset, length, reader)
    }

    /// Writes; the bytes may be on their way when it returns. Those that are all that was received in `memory` are not copied: it is not
    /// used again as long as others have it.
    ///
    /// # Errors
    /// A server's; or that of an earlier write, which had been answered.
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

    /// Writes at the end of the file: where that was. Nobody else appends meanwhile, unless the turn to append is over, or writes there without one: then
    /// what they wrote stays, and the end is looked for again.
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
        let problem = format!("others wrote at its end {APPEND_TRIES} times while it was appended to: nothing was appended");
        Err(Error::new(ErrorKind::WouldBlock, problem))
    }

    /// Whether somebody may write through a map.
    pub(crate) fn may_be_mapped(&self) -> bool {
        self.mappers.load(Ordering::SeqCst) > 0
    }

    fn noted(&self, bytes: &[u8], offset: u64, write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let written = write();
        // Even of a write that fails a part may be there. Noted only now: a flush that begins from here on sends these bytes.
        self.unreported.note(offset.saturating_add(bytes.len() as u64));
        written
    }

    /// How many bytes were written since it was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that had been answered for are lost.
    pub(crate) fn lost(&self, error: &Error) {
        let mut state = self.state();
        state.losses += 1;
        state.errno = crate::errors::errno(error.kind());
        state.unseen = true;
    }

    /// How many losses are no concern of a program that opens it now, and how many there were.
    pub(crate) fn losses(&self) -> (u64, u64) {
        let state = self.state();
        (state.losses - u64::from(state.unseen), state.losses)
    }

    /// The last loss's errno.
    pub(crate) fn errno(&self) -> i32 {
        self.state().errno
    }

    /// A sync reports all losses so far: how many there were.
    pub(crate) fn saw_losses(&self) -> u64 {
        let mut state = self.state();
        state.unseen = false;
        state.losses
    }
}

impl Drop for SharedFile {
    /// Notifies the service how the writing has ended; what has not left yet is not known to have arrived.
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
