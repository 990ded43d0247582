//! Directories that are open.

use crate::errors::{Answered, Refusal};
use crate::handles::readdir_cursor::ReaddirCursor;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_base::sync::Mutex;
use thalweg_client::walk::{Walk, WalkEntry};

/// All open directories.
#[derive(Default)]
pub(crate) struct Directories {
    open: Mutex<HashMap<u64, Arc<Mutex<Reading>>>>,
    next: AtomicU64,
}

/// One directory that is being read.
#[derive(Default)]
pub(crate) struct Reading {
    /// What runs ahead, and whether it brings attributes.
    pub walk: Option<Walk>,
    pub with_attributes: bool,
    /// What it has brought and the kernel has not been given.
    pub came: VecDeque<WalkEntry>,
    /// What the kernel has been given: where it may go on.
    pub cursor: ReaddirCursor,
    /// When the kernel was last here.
    pub left_at: Option<Instant>,
}

impl Directories {
    /// One more; its number.
    pub(crate) fn add(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(number, Arc::default());
        number
    }

    /// It is closed: what was asked for and nobody read is let go.
    pub(crate) fn remove(&self, number: u64) {
        let reading = self.open.lock().remove(&number);
        // A walk may take a while to end: not under the lock.
        drop(reading);
    }

    /// The open directory of this number.
    ///
    /// # Errors
    /// EBADF: there is none.
    pub(crate) fn get(&self, number: u64) -> Answered<Arc<Mutex<Reading>>> {
        self.open.lock().get(&number).cloned().ok_or(Refusal::plain(libc::EBADF))
    }
}
