//! A store as a file system: the state shared by all handlers, and their answers.

use crate::circuit_breaker::{CircuitBreaker, TimedOutCalls};
use crate::errors::{HandlerResult, Refusal};
use crate::fuse::device::Device;
use crate::fuse::interrupts::AbandonedChanges;
use crate::fuse::reply::Lifetimes;
use crate::handles::deferred_release::DeferredReleases;
use crate::handles::directories::Directories;
use crate::handles::files::Handles;
use crate::handles::losses::Losses;
use crate::inodes::inode::Inode;
use crate::inodes::local_changes::LocalChanges;
use crate::inodes::lookup_ahead::LookupAhead;
use crate::inodes::revalidation::StaleRetries;
use crate::inodes::shared_file::SyncHabit;
use crate::inodes::spaces::Spaces;
use crate::inodes::table::InodeTable;
use crate::log::Log;
use crate::options::Options;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_client::locks::LockClient;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::walk::Walker;
use thalweg_client::wire::limits;
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FilePath};
use thalweg_client::{DataClient, RequestMemory, View};
use thalweg_trace::{TraceHandle, Tracer};

/// A store as a file system.
pub(crate) struct FileSystem {
    /// Options of the mount.
    pub options: Options,
    /// Metadata client.
    pub names: MetadataClient,
    /// Locks and append turns of programs on this mount.
    pub locks: LockClient,
    /// Last number given to a lock owner.
    pub lock_owners: AtomicU64,
    /// Data client.
    pub data: Arc<DataClient>,
    /// Inodes the kernel knows.
    pub table: InodeTable,
    /// Threads that got ESTALE and are about to look the name up again.
    pub retries: StaleRetries,
    /// Open files.
    pub handles: Handles,
    /// Files closed here that the service was not notified of yet.
    pub deferred_releases: DeferredReleases,
    /// Files that have lost bytes through this mount.
    pub losses: Losses,
    /// Open directories.
    pub directories: Directories,
    /// Walkers for reading directories.
    pub walkers: Walkers,
    /// Directories whose names are looked up in order.
    pub lookup_ahead: LookupAhead,
    /// Recent changes through this mount.
    pub local_changes: LocalChanges,
    /// I/O servers that failed recently.
    pub breaker: CircuitBreaker,
    /// Programs' calls that have waited for such a server.
    pub timed_out_calls: TimedOutCalls,
    /// Number of kernel requests by operation.
    pub requests: RequestCounts,
    /// Whether programs here sync what they write.
    pub habit: SyncHabit,
    /// Requests of ended programs that may still change something.
    pub abandoned: Arc<AbandonedChanges>,
    /// Recent answers about free space.
    pub spaces: Spaces,
    /// The FUSE device, for invalidating kernel caches.
    pub device: Arc<Device>,
    /// Log for details that an errno does not carry.
    pub log: Log,
    /// Trace handle; off unless the mount is recorded.
    pub trace: TraceHandle,
}

/// Walkers for reading directories.
pub(crate) struct Walkers {
    /// Names only.
    pub names: Walker,
    /// Names, attributes and sizes.
    pub whole: Walker,
    /// Names, attributes and sizes, with a smaller window: for programs that stat one file after another and process each.
    pub singly: Walker,
}

/// Number of kernel requests by operation.
pub(crate) struct RequestCounts([AtomicU64; 64]);

impl Default for RequestCounts {
    fn default() -> RequestCounts {
        RequestCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl RequestCounts {
    /// Returns the number for an operation, one of [`crate::fuse::abi::opcode`].
    pub(crate) fn count(&self, opcode: u32) -> u64 {
        self.0.get(opcode as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts a request.
    pub(crate) fn add(&self, opcode: u32) {
        if let Some(count) = self.0.get(opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// State of a thread that serves requests.
pub(crate) struct Worker {
    /// Tracer of the thread.
    pub tracer: Tracer,
    /// Buffer the request was received in, if the request's bytes begin at its start: a write.
    pub received: Option<Arc<RequestMemory>>,
    /// Buffer for answers.
    pub out: Vec<u8>,
    /// Thread that made the request; 0 if it is in an invisible namespace.
    pub thread: u32,
    /// When the request arrived; the servers are asked later.
    pub began: Instant,
    /// State of the directory in which the request changed names.
    pub directory: Option<DirectoryAfter>,
}

/// A directory after a change of its names.
pub(crate) struct DirectoryAfter {
    /// The directory.
    pub directory: FileId,
    /// Attributes, if the reply had them.
    pub attributes: Option<Attributes>,
    /// Name created, if any.
    pub name: Option<Vec<u8>>,
}

impl Worker {
    /// Creates the state of a new thread.
    pub(crate) fn new(tracer: Tracer) -> Worker {
        Worker { tracer, received: None, out: Vec::new(), thread: 0, began: Instant::now(), directory: None }
    }
}

/// Kinds of answers.
pub(crate) enum Answer {
    /// No answer is expected.
    Nothing,
    /// Success without data.
    Done,
    /// The data in the worker's `out`.
    Out,
    /// Bytes of a file, not copied.
    View(View),
}

impl FileSystem {
    /// Returns how long the kernel may cache names and attributes.
    pub(crate) fn lifetimes(&self) -> Lifetimes {
        let lifetime = self.options.lifetime();
        Lifetimes { entry: lifetime, attributes: lifetime }
    }

    /// Returns the inode with the kernel's number `number`.
    pub(crate) fn inode(&self, number: u64) -> HandlerResult<Arc<Inode>> {
        self.table.get(number).ok_or(Refusal::plain(libc::ESTALE))
    }

    /// Returns the place of a name in a directory.
    pub(crate) fn place(&self, directory: u64, name: &[u8]) -> HandlerResult<FilePath> {
        if name.len() > limits::NAME_BYTES {
            return Err(Refusal::plain(libc::ENAMETOOLONG));
        }
        Ok(FilePath { from: self.table.id(directory), path: name.to_vec() })
    }

    /// Returns the place of the inode with the kernel's number `number`.
    pub(crate) fn place_of(&self, number: u64) -> FilePath {
        FilePath::of(self.table.id(number))
    }

    /// Logs a refusal with an ambiguous errno.
    pub(crate) fn log_refusal(&self, what: &str, refusal: &Refusal) {
        // The errno is clear if the file was removed.
        if let Some(cause) = refusal.cause.as_ref().filter(|cause| cause.kind() != thalweg_client::wire::ErrorKind::Stale) {
            self.log.line(format_args!("{what}: {cause}"));
        }
    }
}
