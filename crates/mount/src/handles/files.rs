//! Open files, each as one program has it open.

use crate::errors::{Answered, Refusal};
use crate::inodes::inode::Inode;
use crate::inodes::shared_file::SharedFile;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Owners of locks that were taken through it, by the service's numbers: those of an open file description are freed with it alone.
    pub lock_owners: Mutex<Vec<u64>>,
    /// Losses that were reported through it.
    pub reported_losses: AtomicU64,
}

impl Handle {
    /// A new one.
    pub(crate) fn new(inode: Arc<Inode>, shared: Arc<SharedFile>, is_direct: bool, writes: bool) -> Handle {
        let reported_losses = AtomicU64::new(shared.losses_before());
        Handle { inode, shared, is_direct, writes, lock_owners: Mutex::default(), reported_losses }
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
