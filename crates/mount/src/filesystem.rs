//! A store as a file system: what all handlers share, and what they answer with.

use crate::circuit_breaker::{CircuitBreaker, TimedOutCalls};
use crate::errors::{Answered, Refusal};
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
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, Place};
use thalweg_client::{DataClient, RequestMemory, View};
use thalweg_trace::{TraceHandle, Tracer};

/// A store as a file system.
pub(crate) struct FileSystem {
    /// How it is mounted.
    pub options: Options,
    /// Calls on names.
    pub names: MetadataClient,
    /// Locks and turns of programs here.
    pub locks: LockClient,
    /// Numbers that owners of locks were given.
    pub lock_owners: AtomicU64,
    /// Calls on bytes.
    pub data: Arc<DataClient>,
    /// The inodes that the kernel knows.
    pub table: InodeTable,
    /// Threads that got ESTALE and are on their way to look a name up again.
    pub retries: StaleRetries,
    /// Open files.
    pub handles: Handles,
    /// Files that were closed here, which the service has not heard of yet.
    pub deferred_releases: DeferredReleases,
    /// Files that have lost bytes here.
    pub losses: Losses,
    /// Open directories.
    pub directories: Directories,
    /// What reads directories.
    pub walkers: Walkers,
    /// Directories whose names are looked up in order.
    pub lookup_ahead: LookupAhead,
    /// What was changed through this mount lately.
    pub local_changes: LocalChanges,
    /// I/O servers that did not answer lately.
    pub breaker: CircuitBreaker,
    /// Programs' calls that have waited for such a server.
    pub timed_out_calls: TimedOutCalls,
    /// How often the kernel has asked each kind of thing.
    pub requests: RequestCounts,
    /// Whether programs here sync what they write.
    pub habit: SyncHabit,
    /// Requests of programs that have ended, which may still change something.
    pub abandoned: Arc<AbandonedChanges>,
    /// Space that programs asked for lately.
    pub spaces: Spaces,
    /// For making the kernel forget.
    pub device: Arc<Device>,
    /// For what an errno does not say.
    pub log: Log,
    /// How threads record; off unless the mount records itself.
    pub mode: TraceHandle,
}

/// What reads directories.
pub(crate) struct Walkers {
    /// Names only.
    pub names: Walker,
    /// Names, attributes and sizes.
    pub whole: Walker,
    /// The same, less far ahead: for programs that ask for one file after another, and do something with each.
    pub singly: Walker,
}

/// How often the kernel has asked each kind of thing.
pub(crate) struct RequestCounts([AtomicU64; 64]);

impl Default for RequestCounts {
    fn default() -> RequestCounts {
        RequestCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl RequestCounts {
    /// How often this: one of [`crate::fuse::abi::opcode`].
    pub(crate) fn count(&self, opcode: u32) -> u64 {
        self.0.get(opcode as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Once more.
    pub(crate) fn add(&self, opcode: u32) {
        if let Some(count) = self.0.get(opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a thread that answers requests has for itself.
pub(crate) struct Worker {
    /// Its tracer.
    pub tracer: Tracer,
    /// What was received for a request whose bytes are all that is in it from its beginning on: a write.
    pub received: Option<Arc<RequestMemory>>,
    /// Answers are put together here.
    pub out: Vec<u8>,
    /// The program's thread that asks now; 0 where it cannot be seen from here.
    pub thread: u32,
    /// When it did: what is asked of servers for it is asked later.
    pub began: Instant,
    /// How a directory is after what it did to names in it.
    pub directory: Option<DirectoryAfter>,
}

/// How a directory is after a change of names in it.
pub(crate) struct DirectoryAfter {
    /// Which.
    pub directory: FileId,
    /// Its attributes, where the answer brought them.
    pub attributes: Option<Attributes>,
    /// The name that was made, if one was.
    pub name: Option<Vec<u8>>,
}

impl Worker {
    /// One without anything yet.
    pub(crate) fn new(tracer: Tracer) -> Worker {
        Worker { tracer, received: None, out: Vec::new(), thread: 0, began: Instant::now(), directory: None }
    }
}

/// An answer.
pub(crate) enum Answer {
    /// None is expected.
    Nothing,
    /// It is done.
    Done,
    /// The worker's `out`.
    Out,
    /// Bytes of a file, where they are.
    View(View),
}

impl FileSystem {
    /// How long the kernel may rely on what it is given.
    pub(crate) fn lifetimes(&self) -> Lifetimes {
        let lifetime = self.options.lifetime();
        Lifetimes { entry: lifetime, attributes: lifetime }
    }

    /// The inode that the kernel calls `number`.
    pub(crate) fn inode(&self, number: u64) -> Answered<Arc<Inode>> {
        self.table.get(number).ok_or(Refusal::plain(libc::ESTALE))
    }

    /// A name in a directory.
    pub(crate) fn place(&self, directory: u64, name: &[u8]) -> Answered<Place> {
        if name.len() > limits::NAME_BYTES {
            return Err(Refusal::plain(libc::ENAMETOOLONG));
        }
        Ok(Place { from: self.table.id(directory), path: name.to_vec() })
    }

    /// The inode that the kernel calls `number`, for the service.
    pub(crate) fn place_of(&self, number: u64) -> Place {
        Place::of(self.table.id(number))
    }

    /// A refusal whose errno does not say enough goes to the log.
    pub(crate) fn log_refusal(&self, what: &str, refusal: &Refusal) {
        // That something is gone is said by its errno.
        if let Some(cause) = refusal.cause.as_ref().filter(|cause| cause.kind() != thalweg_client::wire::ErrorKind::Stale) {
            self.log.line(format_args!("{what}: {cause}"));
        }
    }
}
