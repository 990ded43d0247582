//! Open files, each as one program has it open.

use crate::errors::{Answered, Refusal};
use crate::inodes::inode::Inode;
use crate::inodes::shared_file::SharedFile;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::sync::{Mutex, RwLock};
use thalweg_client::Reader;

/// A file as one program has it open.
pub(crate) struct Handle {
    /// Which.
    pub inode: Arc<Inode>,
    /// Its bytes.
    pub shared: Arc<SharedFile>,
    /// The kernel keeps nothing of what goes through it.
    pub is_direct: bool,
    /// It is open for writing.
    pub writes: bool,
    /// It is open for reading and writing: it may be mapped, and written through the map.
    maps: bool,
    /// Owners of locks that were taken through it, by the service's numbers: those of an open file description are freed with it alone.
    pub lock_owners: Mutex<Vec<u64>>,
    /// How it reads a file that has lost bytes.
    pub reader: Reader,
    /// How many of the file's losses its syncs have reported.
    seen: AtomicU64,
    /// Where bytes were lost when it was opened: how many losses there were. They are of no interest to it once they are mended.
    inherited: Option<u64>,
}

impl Handle {
    /// A new one.
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

    /// Whether a loss is owed to this open file, as the errno of the last one. A sync that reports it is the last to: everybody who has
    /// the file open is reported by a sync of their own, whatever the others got.
    fn owed(&self) -> Option<i32> {
        let (_, now) = self.shared.losses();
        let is_new = self.inherited.is_none_or(|inherited| now > inherited) || self.shared.file.has_lost();
        (self.seen.load(Ordering::Acquire) < now && is_new).then(|| self.shared.errno())
    }

    /// What closing a descriptor reports: it may be a copy in another process, whose closing must not take the loss from the one that
    /// syncs.
    ///
    /// # Errors
    /// The last loss's, if one is owed.
    pub(crate) fn report_at_close(&self) -> Answered<()> {
        self.owed().map_or(Ok(()), |errno| Err(Refusal::plain(errno)))
    }

    /// What a sync reports, once.
    ///
    /// # Errors
    /// As [`Handle::report_at_close`].
    pub(crate) fn report_at_sync(&self) -> Answered<()> {
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
    /// One more; its number.
    pub(crate) fn add(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.write().insert(number, Arc::new(handle));
        number
    }

    /// The open file of this number.
    ///
    /// # Errors
    /// EBADF: there is none.
    pub(crate) fn get(&self, number: u64) -> Answered<Arc<Handle>> {
        self.open.read().get(&number).cloned().ok_or(Refusal::plain(libc::EBADF))
    }

    /// It is closed.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.write().remove(&number)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        self.open.read().values().cloned().collect()
    }
}
