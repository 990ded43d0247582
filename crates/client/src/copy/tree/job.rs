//! Options, result and shared context of a tree's copy.

use super::privileges::LeftOut;
use crate::copy::control::Control;
use crate::copy::draft;
use crate::copy::{Quiet, Sparse, Tuning};
use crate::files::{DataClient, Store};
use crate::metadata::MetadataClient;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_trace::TraceHandle;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// Source or destination of a tree.
#[derive(Clone)]
pub enum TreeEnd {
    /// A local directory.
    Local(PathBuf),
    /// A directory of a store, as a path from its root.
    Store(TreeStore, Vec<u8>),
}

/// Clients of a store, for copying trees.
#[derive(Clone)]
pub struct TreeStore {
    /// Metadata client.
    pub names: MetadataClient,
    /// Data client.
    pub data: Arc<DataClient>,
}

impl TreeStore {
    pub(super) fn store(&self) -> Store {
        Store { names: Arc::new(self.names.clone()), data: Arc::clone(&self.data) }
    }
}

/// A tree to copy. The destination must not exist, unless `force` is set.
#[derive(Clone)]
pub struct TreeJob {
    /// Source.
    pub from: TreeEnd,
    /// Destination.
    pub to: TreeEnd,
    /// Layout of files made in a store.
    pub layout: LayoutChoice,
    /// Initial number of batches in progress.
    pub workers: u32,
    /// Parameters for large files.
    pub tuning: Tuning,
    /// Whether each file must be durable before it gets its name, and everything before the copy completes.
    pub sync: bool,
    /// Whether to replace existing files and merge into existing directories.
    pub force: bool,
    /// Whether to preserve owner, mode and times. Otherwise new entries are owned by the caller, have the current time, and a mode limited
    /// by the umask.
    pub preserve: bool,
    /// Whether to copy device nodes and, with `preserve`, set-user and set-group bits. Otherwise they are left out and counted: a user who
    /// can only write to a store must not be able to pass them to a machine that honours them.
    pub privileges: bool,
    /// Handling of holes.
    pub sparse: Sparse,
    /// Whether to copy the targets of symbolic links in a local source.
    pub follow: bool,
    /// Whether bytes that are damaged at rest are left out, instead of failing their file. For a source in a store.
    pub skip_damaged: bool,
    /// Live parameters, for a tuner: those of all large files, and `workers`.
    pub control: Arc<Control>,
}

/// Result of a tree's copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOutcome {
    /// Files copied.
    pub files: u64,
    /// Total size of these files, in bytes.
    pub size_bytes: u64,
    /// Bytes of that in holes, not moved.
    pub hole_bytes: u64,
    /// Directories made or merged into, without the root.
    pub directories: u64,
    /// Symbolic links, pipes, sockets and devices made.
    pub others: u64,
    /// Entries that were not copied; each was reported.
    pub failed: u64,
    /// Files of which damaged bytes were left out; each was reported.
    pub damaged: u64,
    /// Directories that could not be read completely; each was reported.
    pub unread: u64,
    /// Files modified during the copy without changing size: their copies may mix two states.
    pub modified: u64,
    /// Attributes and entries left out without an error.
    pub left_out: LeftOut,
}

/// Receives the progress of a tree's copy, and can stop it. Called concurrently from the copy's workers.
pub trait TreeObserver: Sync {
    /// Adds bytes to copy.
    fn found(&self, _size_bytes: u64) {}
    /// Subtracts bytes in holes, which are not copied.
    fn holes(&self, _size_bytes: u64) {}
    /// Adds bytes that have arrived.
    fn moved(&self, _size_bytes: u64) {}
    /// Reports an entry that was not copied. The path is relative to the tree; empty: its root.
    fn failed(&self, _path: &[u8], _error: &Error) {}
    /// Reports the ranges of a file that are damaged at rest and were left out. The path is relative to the tree.
    fn damaged(&self, _path: &[u8], _ranges: &[Range<u64>]) {}
    /// Reports that this `NAME.partial`, relative to the tree, was not made by a copy and was left alone.
    fn left_alone(&self, _path: &[u8]) {}
    /// Whether to stop the copy.
    fn cancelled(&self) -> bool {
        false
    }
}

impl TreeObserver for Quiet {}

/// Context shared by all parts of a copy.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) job: &'a TreeJob,
    pub(super) observer: &'a dyn TreeObserver,
    pub(super) trace: &'a TraceHandle,
}

impl Context<'_> {
    /// Returns [`ErrorKind::Cancelled`] if the copy is to stop.
    pub(super) fn check(&self) -> Result<()> {
        if self.observer.cancelled() { Err(Error::new(ErrorKind::Cancelled, "stopped on request")) } else { Ok(()) }
    }

    /// Adds bytes that have arrived.
    pub(super) fn moved(&self, bytes: u64) {
        self.job.control.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.observer.moved(bytes);
    }

    /// Returns the mode to create a file or directory with.
    pub(super) fn mode_of(&self, mode: u32) -> u32 {
        if self.job.preserve { mode & 0o7777 } else { mode & 0o777 & !draft::umask() }
    }
}
