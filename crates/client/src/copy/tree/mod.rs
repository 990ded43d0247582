//! Copying whole trees: into a store, out of one, between two.
//!
//! A small file costs no bandwidth, only round trips and system calls, so what is copied together is asked for together. A
//! **batch** is what a walk through the source finds next: directories, and up to some hundred files of a few MiB in all. It takes three
//! round trips, however many files are in it:
//!
//! | | into a store | out of one |
//! |---|---|---|
//! | 1 | make the directories, and the files as `NAME.partial` (one message) | read the bytes (one message to each I/O server) |
//! | 2 | write the bytes (one message to each I/O server) | only of files that came short: ask whether they are still there (one message) |
//! | 3 | give the files their names and attributes, and close them (one message) | |
//!
//! Several **workers** each have a batch under way, so that local files, the network and all servers work at the same time, and a long
//! round trip is no hindrance. The walk goes on between batches, in bounded memory. A batch waits only for the directories of
//! batches before it. A file of more than [`SMALL_BYTES`] ends its batch and moves as any single copy does, while the other workers go on.
//!
//! What goes wrong with one entry is reported with its path, and does not stop the others. A file has its name when it is whole, and on
//! media if that was asked for; what is not whole is taken away, also when the copy is stopped. Only a metadata service that is gone, or
//! a source or target that cannot be used at all, ends the copy.

mod batch;
mod local_sink;
mod local_source;
mod privileges;
mod requests;
mod store_sink;
mod store_source;
mod whole;
mod workers;

use super::control::Control;
use crate::files::{DataClient, Store};
use crate::metadata::MetadataClient;
use batch::Batch;
pub use privileges::LeftOut;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_trace::{SpanId, TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// The largest file that is copied together with others.
pub const SMALL_BYTES: u64 = 1 << 20;
/// Entries in a batch at most: the closing message has one operation for each.
pub(super) const BATCH_ENTRIES: usize = 256;
/// Bytes of all small files in a batch, at most. (With the last one, no more than one request to an I/O server holds.)
pub(super) const BATCH_BYTES: u64 = thalweg_wire::limits::MANY_BYTES - SMALL_BYTES;

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
    fn store(&self) -> Store {
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
    pub tuning: super::Tuning,
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
    pub sparse: super::Sparse,
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
    /// So many more bytes are to be copied.
    fn found(&self, _size_bytes: u64) {}
    /// So many of them are in holes, and need not be.
    fn holes(&self, _size_bytes: u64) {}
    /// So many more bytes have arrived.
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

impl TreeObserver for super::Quiet {}

/// Makes the copy, traced as `mode` says; all tracers are dropped when it returns.
///
/// # Errors
/// Nothing could be copied, or not go on: the source is no directory, the target cannot be made, the metadata service is gone, it was
/// stopped. What was copied before stays. An entry that could not be copied is no error here: it is reported, and counted.
pub fn copy_tree(job: &TreeJob, observer: &dyn TreeObserver, mode: &TraceHandle) -> Result<TreeOutcome> {
    let context = Context { job, observer, mode };
    let mut tracer = mode.thread("main");
    let source: Box<dyn TreeSource + '_> = match &job.from {
        TreeEnd::Local(path) => Box::new(local_source::LocalTree::open(path, job.follow)?),
        TreeEnd::Store(store, path) => Box::new(store_source::StoreTree::open(&mut tracer, store, path)?),
    };
    let sink: Box<dyn TreeSink + '_> = match &job.to {
        TreeEnd::Local(path) => Box::new(local_sink::LocalTarget::new(context, path)),
        TreeEnd::Store(store, path) => Box::new(store_sink::StoreTarget::new(context, store, path)),
    };
    let copied = workers::run(context, &mut tracer, &*source, &*sink);
    job.control.end(mode, tracer.track());
    copied
}

/// What all parts of a copy know.
#[derive(Clone, Copy)]
struct Context<'a> {
    job: &'a TreeJob,
    observer: &'a dyn TreeObserver,
    mode: &'a TraceHandle,
}

impl Context<'_> {
    /// Whether to go on.
    fn check(&self) -> Result<()> {
        if self.observer.cancelled() { Err(Error::new(ErrorKind::Cancelled, "stopped on request")) } else { Ok(()) }
    }

    /// So many more bytes have arrived.
    fn moved(&self, bytes: u64) {
        self.job.control.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.observer.moved(bytes);
    }

    /// The bits that a file or directory is made with.
    fn mode_of(&self, mode: u32) -> u32 {
        if self.job.preserve { mode & 0o7777 } else { mode & 0o777 & !super::draft::umask() }
    }
}

/// Where a tree comes from.
trait TreeSource: Sync {
    /// Fills a batch with what comes next, as long as there is room for it. `false`: there is no more. An error ends the copy.
    fn next(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<bool>;

    /// Reads the bytes of the batch's small files, and targets of links. What fails is noted there.
    fn load(&self, tracer: &mut Tracer, batch: &mut Batch, span: Option<SpanId>) -> Result<()>;

    /// The parts of a small file of so many bytes that are not holes.
    fn data_map(&self, tracer: &mut Tracer, item: &batch::Item, size_bytes: u64) -> Result<Vec<Range<u64>>>;

    /// A large file, open for reading.
    fn large(&self, tracer: &mut Tracer, item: &batch::Item) -> Result<whole::Source>;

    /// Its name, for recordings.
    fn name(&self) -> String;
}

/// Where a tree goes to.
trait TreeSink: Sync {
    /// Whether what is made can be given to any user.
    fn keeps_owners(&self) -> bool {
        true
    }

    /// Makes the tree's own directory.
    fn begin(&self, tracer: &mut Tracer) -> Result<()>;

    /// Makes everything that a batch has; what fails is noted there. Calls `made` as soon as its directories are there. An error ends the copy.
    fn put(
        &self,
        tracer: &mut Tracer,
        batch: &mut Batch,
        source: &dyn TreeSource,
        span: Option<SpanId>,
        made: &mut dyn FnMut(&mut Batch),
    ) -> Result<()>;

    /// Everything is there: gives directories the attributes that they could not have while they were filled, and syncs names.
    fn finish(&self, tracer: &mut Tracer, failed: &mut dyn FnMut(&[u8], &Error)) -> Result<()>;

    /// Its name, for recordings.
    fn name(&self) -> String;
}

/// How long a silent I/O server is left alone that closed or refused a connection: it may be starting again.
const LEFT_ALONE: Duration = Duration::from_secs(2);
