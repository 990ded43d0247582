//! The files that a session has open, by number.

use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::copy::Unpublished;
use thalweg_client::metadata::OpenFile;
use thalweg_client::{DataClient, FileHandle, StoreFile};
use thalweg_trace::Tracer;
use thalweg_wire::{Error, ErrorKind};

/// Bound: files that a session has open. Instead: a client closes those that it does not use, and opens them again.
const MOST: usize = 4096;

/// A file open for reading. Its bytes stay while it is open, even if its name is removed.
pub(super) struct Reading {
    pub file: StoreFile,
    pub size_bytes: u64,
    /// Closes the file when dropped.
    pub open: OpenFile,
}

impl Reading {
    /// Asks for the size of an open file; `path` names it in messages.
    pub(super) fn new(data: &Arc<DataClient>, path: &[u8], open: OpenFile) -> Result<Reading, Error> {
        let handle = FileHandle::from_attributes(crate::names::text(path), &open.attributes)?;
        let size_bytes = data.size(&mut Tracer::off(), &handle)?;
        Ok(Reading { file: StoreFile::new(Arc::clone(data), handle), size_bytes, open })
    }
}

/// Time that the end of a session waits for copies to notice it.
const COPIES_END: Duration = Duration::from_secs(5);

/// All open files.
#[derive(Default)]
pub(super) struct Opened {
    files: Mutex<Files>,
    /// Signalled when a copy has ended.
    copied: Condvar,
}

/// A copy that is running.
pub(super) struct Copying<'a>(&'a Opened);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.files.lock().copies -= 1;
        self.0.copied.notify_all();
    }
}

#[derive(Default)]
struct Files {
    last: u64,
    read: HashMap<u64, Arc<Reading>>,
    written: HashMap<u64, Arc<Unpublished>>,
    copies: usize,
    /// Whether the session ends: what is opened from now on is closed at once.
    closed: bool,
}

impl Files {
    fn next(&mut self) -> Result<u64, Error> {
        if self.read.len() + self.written.len() >= MOST {
            return Err(Error::new(ErrorKind::TooMany, format!("{MOST} files are open in this session: close some")));
        }
        self.check_open()?;
        self.last += 1;
        Ok(self.last)
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closed { Err(Error::new(ErrorKind::Cancelled, "the session ends")) } else { Ok(()) }
    }
}

impl Opened {
    /// Adds a file to read; returns its number.
    pub(super) fn add_reading(&self, file: &Arc<Reading>) -> Result<u64, Error> {
        let mut files = self.files.lock();
        let number = files.next()?;
        files.read.insert(number, Arc::clone(file));
        Ok(number)
    }

    /// Adds a file to write; returns its number.
    pub(super) fn add_unpublished(&self, file: Unpublished) -> Result<u64, Error> {
        let mut files = self.files.lock();
        let number = files.next()?;
        files.written.insert(number, Arc::new(file));
        Ok(number)
    }

    /// Returns a file to read.
    pub(super) fn reading(&self, number: u64) -> Result<Arc<Reading>, Error> {
        self.files.lock().read.get(&number).cloned().ok_or_else(|| not_open(number, "for reading"))
    }

    /// Returns a file to write.
    pub(super) fn unpublished(&self, number: u64) -> Result<Arc<Unpublished>, Error> {
        self.files.lock().written.get(&number).cloned().ok_or_else(|| not_open(number, "for writing"))
    }

    /// Closes a file to read.
    pub(super) fn close(&self, number: u64) -> Result<(), Error> {
        // Dropped when the lock is released: closing may ask the service.
        let closed = self.files.lock().read.remove(&number);
        closed.map(drop).ok_or_else(|| not_open(number, "for reading"))
    }

    /// Closes a file to write, and removes it unless it was published.
    pub(super) fn discard(&self, number: u64) {
        let discarded = self.files.lock().written.remove(&number);
        discarded.into_iter().for_each(|file| file.discard());
    }

    /// Counts a copy until the result is dropped.
    pub(super) fn copying(&self) -> Result<Copying<'_>, Error> {
        let mut files = self.files.lock();
        files.check_open()?;
        files.copies += 1;
        Ok(Copying(self))
    }

    /// Closes everything; files that were not published are removed, even if pieces of them are still being written.
    pub(super) fn close_all(&self) {
        let mut files = self.files.lock();
        files.closed = true;
        let (read, written) = (std::mem::take(&mut files.read), std::mem::take(&mut files.written));
        drop(files);
        written.values().for_each(|file| file.discard());
        drop((read, written));
        self.copied.wait_while_for(&mut self.files.lock(), |files| files.copies > 0, COPIES_END);
    }
}

fn not_open(number: u64, how: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("file {number} is not open {how} in this session"))
}
