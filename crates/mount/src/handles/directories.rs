//! Open directories.

use crate::errors::{HandlerResult, Refusal};
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

/// State of reading one open directory.
#[derive(Default)]
pub(crate) struct Reading {
    /// Current walk, if any.
    pub walk: Option<Walk>,
    pub with_attributes: bool,
    /// Entries fetched and not returned to the kernel.
    pub came: VecDeque<WalkEntry>,
    /// Position after the entries returned to the kernel.
    pub cursor: ReaddirCursor,
    /// Time of the kernel's last request.
    pub left_at: Option<Instant>,
}

impl Directories {
    /// Adds a directory; returns its number.
    pub(crate) fn add(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(number, Arc::default());
        number
    }

    /// Removes a directory and drops unread entries.
    pub(crate) fn remove(&self, number: u64) {
        let reading = self.open.lock().remove(&number);
        // Ending a walk may take a while: not under the lock.
        drop(reading);
    }

    /// Returns the open directory of this number.
    ///
    /// # Errors
    /// EBADF if there is none.
    pub(crate) fn get(&self, number: u64) -> HandlerResult<Arc<Mutex<Reading>>> {
        self.open.lock().get(&number).cloned().ok_or(Refusal::plain(libc::EBADF))
    }
}
