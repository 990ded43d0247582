//! What is asked of a tree's copy, what becomes of it, and what all its parts know.

use super::privileges::LeftOut;
use crate::copy::control::Control;
use crate::copy::draft;
use crate::copy::{Quiet, Sparse, Tuning};
use crate::files::{DataClient, Store};
use crate::metadata::MetadataClient;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_trace::TraceHandle;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// Where a tree comes from or goes to.
#[derive(Clone)]
pub enum TreeEnd {
    /// A directory of this machine.
    Local(PathBuf),
    /// A directory of a store, by its path from the root.
    Store(TreeStore, Vec<u8>),
}

/// A store, as trees are copied from and to it.
#[derive(Clone)]
pub struct TreeStore {
    /// Its names.
    pub names: MetadataClient,
    /// Its bytes.
    pub data: Arc<DataClient>,
}

impl TreeStore {
    pub(super) fn store(&self) -> Store {
        Store { names: Arc::new(self.names.clone()), data: Arc::clone(&self.data) }
    }
}

/// A tree to be copied. The directory that it goes to does not exist yet, unless `force` says that it may.
#[derive(Clone)]
pub struct TreeJob {
    /// From.
    pub from: TreeEnd,
    /// To.
    pub to: TreeEnd,
    /// The layout of files made in a store.
    pub layout: LayoutChoice,
    /// Batches under way at a time, to begin with.
    pub workers: u32,
    /// How the bytes of large files flow.
    pub tuning: Tuning,
    /// Whether everything is to be durable at the end, and each file before it has its name.
    pub sync: bool,
    /// Whether existing files are replaced, and existing directories are copied into.
    pub force: bool,
    /// Whether owner, all mode bits and times are kept. Otherwise what is made is ours, of now, and as the umask lets it be.
    pub preserve: bool,
    /// Whether device nodes are copied too, and, where mode bits are kept, set-user and set-group bits. Otherwise they are left out and counted:
    /// a machine that honours them must not get them from somebody who only writes to a store.
    pub privileges: bool,
    /// What becomes of holes.
    pub sparse: Sparse,
    /// Whether symbolic links of a local source stand for what they point to.
    pub follow: bool,
    /// Reached by a tuner while the tree is copied: the numbers of all its large files, and `workers`.
    pub control: Arc<Control>,
}

/// What became of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOutcome {
    /// Files copied.
    pub files: u64,
    /// Their sizes.
    pub size_bytes: u64,
    /// Of that, what is in holes, and was not moved.
    pub hole_bytes: u64,
    /// Directories made or copied into, without the tree's own.
    pub directories: u64,
    /// Symbolic links, pipes, sockets and devices made.
    pub others: u64,
    /// Entries that were not copied; each was reported.
    pub failed: u64,
    /// Directories that could not be read to their end; each was reported.
    pub unread: u64,
    /// Files that were written to while they were copied (their size stayed): their copies may be of no single moment.
    pub modified: u64,
    /// What was not copied, and need not be an error.
    pub left_out: LeftOut,
}

/// Sees how a tree's copy goes, and can stop it. Called from the copy's workers, several at a time.
pub trait TreeObserver: Sync {
    /// Adds bytes that are to be copied.
    fn found(&self, _size_bytes: u64) {}
    /// Takes off bytes that lie in holes and are not copied.
    fn holes(&self, _size_bytes: u64) {}
    /// Adds bytes that have arrived.
    fn moved(&self, _size_bytes: u64) {}
    /// An entry was not copied. Its path is below the tree; that of the tree itself is empty.
    fn failed(&self, _path: &[u8], _error: &Error) {}
    /// What had this name (`NAME.partial`, below the tree) was not made by a copy: it was left alone.
    fn left_alone(&self, _path: &[u8]) {}
    /// Whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

impl TreeObserver for Quiet {}

/// What all parts of a copy know.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) job: &'a TreeJob,
    pub(super) observer: &'a dyn TreeObserver,
    pub(super) mode: &'a TraceHandle,
}

impl Context<'_> {
    /// Whether to go on.
    pub(super) fn check(&self) -> Result<()> {
        if self.observer.cancelled() { Err(Error::new(ErrorKind::Cancelled, "stopped on request")) } else { Ok(()) }
    }

    /// Adds bytes that have arrived.
    pub(super) fn moved(&self, bytes: u64) {
        self.job.control.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.observer.moved(bytes);
    }

    /// The bits that a file or directory is made with.
    pub(super) fn mode_of(&self, mode: u32) -> u32 {
        if self.job.preserve { mode & 0o7777 } else { mode & 0o777 & !draft::umask() }
    }
}
