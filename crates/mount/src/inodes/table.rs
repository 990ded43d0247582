//! The inodes the kernel knows. The kernel counts its lookups of each, and reports when it has dropped one; an inode that was dropped and
//! is not open is removed here too, so the table is no larger than the kernel's cache. [`crate::inodes::shrinker`] bounds the size.

use crate::fuse::abi::ROOT;
use crate::inodes::inode::{Inode, InodeState};
use crate::inodes::shrinker::Shrinker;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FilePath};

/// Parts of the table, each with its own lock.
const PARTS: usize = 16;

/// Bound: components of a path followed upwards.
const MOST_NAMES: usize = 64;

struct Entry {
    inode: Arc<Inode>,
    lookups: u64,
}

/// Table of inodes; see the module documentation.
pub(crate) struct InodeTable {
    parts: [Mutex<HashMap<FileId, Entry>>; PARTS],
    root: Arc<Inode>,
    known: AtomicUsize,
    serial: AtomicU64,
    shrinker: Shrinker,
}

impl InodeTable {
    /// Starts with the mounted directory only; `limit`: number of inodes the kernel should have at most.
    pub(crate) fn new(root: &Attributes, limit: usize) -> InodeTable {
        let root_inode = Arc::new(Inode::new(root, 0));
        root_inode.update(root, Instant::now());
        InodeTable {
            parts: std::array::from_fn(|_| Mutex::default()),
            root: root_inode,
            known: AtomicUsize::new(0),
            serial: AtomicU64::new(1),
            shrinker: Shrinker::new(limit),
        }
    }

    fn part_of(id: FileId) -> usize {
        id.0 as usize % PARTS
    }

    fn part(&self, id: FileId) -> MutexGuard<'_, HashMap<FileId, Entry>> {
        self.parts[InodeTable::part_of(id)].lock()
    }

    /// Returns the store's number for the kernel's `number`.
    pub(crate) fn id(&self, number: u64) -> FileId {
        if number == ROOT { self.root.id } else { FileId(number) }
    }

    /// Returns the kernel's number of a file or directory.
    pub(crate) fn number(&self, id: FileId) -> u64 {
        if id == self.root.id { ROOT } else { id.0 }
    }

    /// Returns an inode the kernel knows. `None`: it does not, or no longer.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        let id = self.id(number);
        if id == self.root.id {
            return Some(Arc::clone(&self.root));
        }
        self.part(id).get(&id).map(|entry| Arc::clone(&entry.inode))
    }

    /// Adds an inode that is being given to the kernel, from attributes requested at `asked`, under a name that is valid for `lifetime`.
    pub(crate) fn insert(
        &self,
        (attributes, asked): (&Attributes, Instant),
        (directory, name): (FileId, &[u8]),
        lifetime: Duration,
    ) -> Arc<Inode> {
        if attributes.id == self.root.id {
            self.root.update(attributes, asked);
            return Arc::clone(&self.root);
        }
        let mut part = self.part(attributes.id);
        let mut is_new = false;
        let entry = part.entry(attributes.id).or_insert_with(|| {
            is_new = true;
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            Entry { inode: Arc::new(Inode::new(attributes, serial)), lookups: 0 }
        });
        entry.lookups += 1;
        let inode = Arc::clone(&entry.inode);
        drop(part);
        if is_new {
            self.known.fetch_add(1, Ordering::Relaxed);
            self.shrinker.added(&inode);
        }
        inode.update(attributes, asked);
        inode.state().dentries.add(directory, name, lifetime);
        inode
    }

    /// Returns the latest path of a file or directory relative to the mount, for messages only. `known` is its state.
    pub(crate) fn path(&self, id: FileId, known: &InodeState) -> String {
        let mut names = Vec::new();
        let mut place = known.dentries.last().cloned();
        while let Some(FilePath { from: directory, path: name }) = place {
            names.push(String::from_utf8_lossy(&name).into_owned());
            if directory == self.root.id || names.len() > MOST_NAMES {
                break;
            }
            place = self.part(directory).get(&directory).and_then(|entry| entry.inode.state().dentries.last().cloned());
        }
        names.reverse();
        if names.is_empty() { id.to_string() } else { format!("/{}", names.join("/")) }
    }

    /// Handles FORGET: subtracts `lookups` from the kernel's count.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        self.forget_all(vec![(number, lookups)]);
    }

    /// Handles FORGET of many inodes, locking each part of the table once.
    pub(crate) fn forget_all(&self, mut numbers: Vec<(u64, u64)>) {
        numbers.iter_mut().for_each(|(number, _)| *number = self.id(*number).0);
        numbers.sort_unstable_by_key(|(number, _)| InodeTable::part_of(FileId(*number)));
        let mut gone = Vec::new();
        for some in numbers.chunk_by(|(a, _), (b, _)| InodeTable::part_of(FileId(*a)) == InodeTable::part_of(FileId(*b))) {
            let mut part = self.part(FileId(some[0].0));
            for (number, lookups) in some {
                let id = FileId(*number);
                let Some(entry) = part.get_mut(&id) else { continue };
                entry.lookups = entry.lookups.saturating_sub(*lookups);
                if entry.lookups == 0 {
                    gone.extend(part.remove(&id));
                }
            }
            if part.len() * 4 < part.capacity() {
                let room = part.len() * 2;
                part.shrink_to(room);
            }
        }
        // Dropped outside the locks.
        self.known.fetch_sub(gone.len(), Ordering::Relaxed);
    }

    /// Returns the number of inodes.
    pub(crate) fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// Calls `prune` for inodes to drop, until [`InodeTable::finish`]; runs on its own thread.
    pub(crate) fn shrink(&self, prune: impl FnMut(&[u64]) -> std::io::Result<()>) {
        let find = |id: FileId, serial: u64| self.get(id.0).filter(|inode| inode.serial == serial);
        self.shrinker.run(find, || self.len(), prune);
    }

    /// Ends the thread.
    pub(crate) fn finish(&self) {
        self.shrinker.finish();
    }
}
