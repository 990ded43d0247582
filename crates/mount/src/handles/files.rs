//! Open files, one per open file description.

use crate::errors::{HandlerResult, Refusal};
use crate::inodes::inode::Inode;
use crate::inodes::shared_file::SharedFile;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::sync::{Mutex, RwLock};
use thalweg_client::Reader;

/// An open file description.
pub(crate) struct Handle {
    /// Inode.
    pub inode: Arc<Inode>,
    /// Bytes, shared with other open files of the inode.
    pub shared: Arc<SharedFile>,
    /// Whether the kernel's cache is bypassed.
    pub is_direct: bool,
    /// Whether it is open for writing.
    pub writes: bool,
    /// Whether it is open for reading and writing, so that it may be mapped and written through the mapping.
    maps: bool,
    /// Lock owners that acquired locks through it, by the service's numbers: locks of an open file description are only released with it.
    pub lock_owners: Mutex<Vec<u64>>,
    /// Treatment of lost bytes on reads.
    pub reader: Reader,
    /// Number of the file's losses that its syncs have reported.
    seen: AtomicU64,
    /// Number of losses at open time, if bytes were lost then. They no longer concern it once repaired.
    inherited: Option<u64>,
}

impl Handle {
    /// Creates a handle.
    pub(crate) fn new(inode: Arc<Inode>, shared: Arc<SharedFile>, is_direct: bool, flags: u32) -> Handle {
        let writes = flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32;
        let maps = flags & libc::O_ACCMODE as u32 == libc::O_RDWR as u32;
        if maps {
            shared.mappers.fetch_add(1, Ordering::SeqCst);
        }
        let (seen, now) = shared.losses();
        let (reader, inherited) = match (shared.file.has_lost(), writes) {
            (false, _) => (Reader::Had, None),
            (true, true) => (Reader::Mends, Some(now)),
            (true, false) => (Reader::After, Some(now)),
        };
        let seen = AtomicU64::new(seen);
        Handle { inode, shared, is_direct, writes, maps, lock_owners: Mutex::default(), reader, seen, inherited }
    }

    /// Returns the errno of the last loss, if it was not reported to this open file. A sync reports it for the last time. Every open
    /// file's own sync reports it, whatever the others got.
    fn owed(&self) -> Option<i32> {
        let (_, now) = self.shared.losses();
        let is_new = self.inherited.is_none_or(|inherited| now > inherited) || self.shared.file.has_lost();
        (self.seen.load(Ordering::Acquire) < now && is_new).then(|| self.shared.errno())
    }

    /// Reports a loss on close, without clearing it: the descriptor may be a copy in another process, whose close must not consume the
    /// loss before a sync.
    ///
    /// # Errors
    /// The last loss's errno, if unreported.
    pub(crate) fn report_at_close(&self) -> HandlerResult<()> {
        self.owed().map_or(Ok(()), |errno| Err(Refusal::plain(errno)))
    }

    /// Reports a loss on sync, once.
    ///
    /// # Errors
    /// As [`Handle::report_at_close`].
    pub(crate) fn report_at_sync(&self) -> HandlerResult<()> {
        let owed = self.owed();
        self.seen.store(self.shared.saw_losses(), Ordering::Release);
        owed.map_or(Ok(()), |errno| Err(Refusal::plain(errno)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.maps {
            self.shared.mappers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// All open files.
#[derive(Default)]
pub(crate) struct Handles {
    open: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
}

impl Handles {
    /// Adds an open file; returns its number.
    pub(crate) fn add(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.write().insert(number, Arc::new(handle));
        number
    }

    /// Returns the open file of this number.
    ///
    /// # Errors
    /// EBADF if there is none.
    pub(crate) fn get(&self, number: u64) -> HandlerResult<Arc<Handle>> {
        self.open.read().get(&number).cloned().ok_or(Refusal::plain(libc::EBADF))
    }

    /// Removes an open file.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.write().remove(&number)
    }

    /// Returns all open files.
    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        self.open.read().values().cloned().collect()
    }
}
