//! Orders to a worker of a study, and its answers. [`thalweg_measure::Workers`] starts workers, carries messages and handles timeouts.
//!
//! `Prepare` and `Go` form a barrier: all workers are ready before any starts.

use crate::access::Access;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_client::wire::protocol::metadata::{LayoutChoice, StoreMap};
use thalweg_measure::CacheState;

/// A file from a node's point of view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum At {
    /// A path on the node: its own disk, or a mount.
    Path(PathBuf),
    /// A path in the store, through the client library.
    Store(String),
}

/// A task to time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// The worker moves bytes itself.
    Move {
        /// The file.
        at: At,
        /// The bytes to move.
        access: Access,
        /// Whether to read the file, or write it.
        read: bool,
        /// Transfers in flight through the library. (A path is read and written one transfer after the other.)
        in_flight: u32,
        /// Whether to keep a recording for [`Order::Explain`].
        record: bool,
    },
    /// A command moves the bytes.
    Command {
        /// The command with its arguments.
        argv: Vec<String>,
        /// Bytes it moves.
        bytes: u64,
    },
}

/// A phase of `mdtest`, by its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Creates the workers' directories.
    TreeCreation,
    /// Creates directories in them.
    DirectoryCreation,
    /// Queries the directories' attributes.
    DirectoryStat,
    /// Removes the directories.
    DirectoryRemoval,
    /// Creates files, writes their bytes if any, and closes them.
    FileCreation,
    /// Queries the files' attributes.
    FileStat,
    /// Opens, reads and closes the files.
    FileRead,
    /// Removes the files.
    FileRemoval,
    /// Removes the workers' directories.
    TreeRemoval,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 9] = [
        Phase::TreeCreation,
        Phase::DirectoryCreation,
        Phase::DirectoryStat,
        Phase::DirectoryRemoval,
        Phase::FileCreation,
        Phase::FileStat,
        Phase::FileRead,
        Phase::FileRemoval,
        Phase::TreeRemoval,
    ];

    /// Returns its name in `mdtest`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::TreeCreation => "tree creation",
            Phase::DirectoryCreation => "directory creation",
            Phase::DirectoryStat => "directory stat",
            Phase::DirectoryRemoval => "directory removal",
            Phase::FileCreation => "file creation",
            Phase::FileStat => "file stat",
            Phase::FileRead => "file read",
            Phase::FileRemoval => "file removal",
            Phase::TreeRemoval => "tree removal",
        }
    }

    /// Returns the number of strides (`mdtest -N`) between a worker and the maker of its names: in no phase does a worker use names that it
    /// has used before.
    pub(crate) fn strides(self) -> u32 {
        match self {
            Phase::TreeCreation | Phase::DirectoryCreation | Phase::FileCreation | Phase::TreeRemoval => 0,
            Phase::DirectoryStat | Phase::FileStat => 1,
            Phase::FileRead => 2,
            Phase::DirectoryRemoval | Phase::FileRemoval => 3,
        }
    }

    /// Whether it is on the workers' own directories.
    pub(crate) fn is_of_tree(self) -> bool {
        matches!(self, Phase::TreeCreation | Phase::TreeRemoval)
    }
}

/// A point of `mdtest`'s patterns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamesPoint {
    /// The location.
    pub location: String,
    /// Whether through a mount (with system calls), or the library.
    pub mounted: bool,
    /// Whether all workers use one directory.
    pub shared: bool,
    /// Number of workers.
    pub workers: u32,
    /// Operations per request.
    pub batch: u32,
    /// Bytes written to each new file (`mdtest -w`) and read again (`-e`); 0: none, and directories are created too.
    pub bytes: u32,
    /// Distance to the worker whose files a worker queries, reads and removes (`mdtest -N`). 0: its own.
    pub stride: u32,
}

impl NamesPoint {
    /// Returns its phases, in order.
    pub fn phases(&self) -> impl Iterator<Item = Phase> {
        let has_bytes = self.bytes > 0;
        Phase::ALL.into_iter().filter(move |phase| match phase {
            Phase::DirectoryCreation | Phase::DirectoryStat | Phase::DirectoryRemoval => !has_bytes,
            Phase::FileRead => has_bytes,
            _ => true,
        })
    }

    /// Returns the number of names in a phase, with `each` names per worker.
    pub(crate) fn names_in(&self, phase: Phase, each: u64) -> u64 {
        match phase.is_of_tree() {
            true if self.shared => 1,
            true => u64::from(self.workers),
            false => each * u64::from(self.workers),
        }
    }

    /// Whether a phase uses another mount than the one names were made through: only then are they not in the kernel's cache.
    pub(crate) fn is_elsewhere(&self, phase: Phase) -> bool {
        self.mounted && self.stride > 0 && phase.strides() > 0
    }
}

/// An order to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Connect to a store.
    Connect {
        /// `HOST:PORT` of the metadata service.
        store: String,
        /// The node's label.
        node: String,
        /// Timeout for a server, in seconds.
        timeout_s: f64,
        /// The file with the credential, unless the worker is to search for it.
        credential: Option<PathBuf>,
    },
    /// Mount the store, by a process of the worker.
    Mount {
        /// `thal://HOST:PORT`.
        store: String,
        /// An empty directory, created if needed.
        mount_point: PathBuf,
    },
    /// Unmount.
    Unmount,
    /// Make an empty file with this layout, replacing an existing one.
    Make {
        /// The file.
        at: At,
        /// The layout; absent for a file on the node's own disk.
        layout: Option<LayoutChoice>,
    },
    /// Get ready: open files, touch memory.
    Prepare(Task),
    /// Run the prepared task.
    Go,
    /// Explain the last run.
    Explain,
    /// Evict these files (those that exist) from the page cache.
    Evict(Vec<PathBuf>),
    /// Sync disks and touch memory before a run.
    Settle {
        /// Directories whose file systems are synced, so that disks are idle.
        directories: Vec<PathBuf>,
        /// Bytes of memory to touch.
        memory_bytes: u64,
    },
    /// Remove a file, if it exists.
    Remove(At),
    /// Listen on this address, and discard a stream.
    Listen(String),
    /// Send a stream to an address.
    Stream {
        /// `HOST:PORT`.
        to: String,
        /// Duration in seconds.
        seconds: f64,
    },
    /// Measure the time of a request that costs the server nothing.
    RoundTrip,
    /// Make a directory with files in it, each with one byte on each of its datafiles.
    Populate {
        /// Path of the directory from the store's root.
        directory: String,
        /// Number of files.
        files: u64,
        /// Datafiles per file; 0: never written.
        datafiles: u32,
    },
    /// Walk a directory with the client library.
    Walk {
        /// The directory.
        directory: String,
        /// The mechanism's name.
        mode: String,
        /// Maximum number of entries to read.
        most: Option<u64>,
        /// Expected size of every file in bytes.
        bytes_each: u64,
    },
    /// Run a command and time it.
    Run {
        /// The command with its arguments.
        argv: Vec<String>,
        /// Whether to count the lines of its output.
        counted: bool,
    },
    /// One phase of `mdtest`'s patterns.
    Names {
        /// The point.
        point: NamesPoint,
        /// The phase.
        phase: Phase,
        /// The parent directory in the store or the mount.
        below: String,
        /// Names per worker.
        each: u64,
    },
    /// Create, write and close small files, one after the other.
    Write {
        /// An existing directory.
        directory: String,
        /// Number of files.
        files: u32,
        /// Bytes per file.
        bytes: u64,
    },
    /// Start concurrent listings of a directory, each repeated; answered when each has listed some entries.
    BeginListings {
        /// The directory.
        directory: String,
        /// Number of concurrent listings.
        listings: u32,
    },
    /// Stop the listings.
    EndListings,
}

/// The library's counters of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Requests to all servers.
    pub requests: u64,
    /// The longest chain of dependent requests.
    pub round_trips: u64,
    /// Datafiles whose sizes were queried at I/O servers.
    pub glimpsed: u64,
    /// Sizes from the metadata service.
    pub from_metadata: u64,
    /// Entries that had been prefetched when read.
    pub hits: u64,
    /// Entries that had not.
    pub misses: u64,
    /// Entries that were prefetched and never read.
    pub wasted: u64,
    /// The window at the end.
    pub window: u32,
}

/// A short form of an explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The verdict's cause.
    pub cause: String,
    /// The verdict's place.
    pub place: String,
    /// Its share of the time.
    pub share: f64,
    /// The largest charges: cause, place, share.
    pub charges: Vec<(String, String, f64)>,
    /// The verdict's sentence.
    pub sentence: String,
}

/// An answer of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Done in this time, in seconds.
    Took(f64),
    /// Connected to a store with this map.
    Connected(StoreMap),
    /// Made a file; with its number in the store, if it is in one.
    Made(Option<u64>),
    /// Moved bytes.
    Moved {
        /// Time of the transfers alone.
        transfer_s: f64,
        /// Time of the sync after them.
        sync_s: Option<f64>,
        /// Bytes moved.
        bytes: u64,
        /// Output of a command.
        output: Option<String>,
    },
    /// The explanation, if the run was recorded.
    Explained(Option<Digest>),
    /// The state of the page cache.
    Evicted(CacheState),
    /// Listening on `HOST:PORT`.
    Listening(String),
    /// Bytes per second that arrived.
    Streamed(f64),
    /// Listed a directory.
    Walked {
        /// Entries.
        entries: u64,
        /// Time.
        seconds: f64,
        /// CPU time of this process.
        cpu_s: f64,
        /// Bytes over the network, both ways.
        bytes: u64,
        /// The library's counters.
        counters: Counters,
    },
    /// Ran a command.
    Ran {
        /// Time.
        seconds: f64,
        /// CPU time of the command and the mount's process.
        cpu_s: f64,
        /// Bytes over the network, both ways.
        bytes: u64,
        /// Lines of its output.
        lines: u64,
        /// The last line.
        last: String,
    },
    /// Wrote small files in these times, in seconds.
    Wrote(Vec<f64>),
    /// Total entries listed.
    Listed(u64),
}

impl Answer {
    /// Returns the time in seconds.
    pub(crate) fn seconds(self) -> Result<f64> {
        if let Answer::Took(seconds) = self { Ok(seconds) } else { Err(strange()) }
    }
}

/// Returns the error for an answer that does not match the order.
pub(crate) fn strange() -> Error {
    Error::Choice("an answer that does not belong to the order: a bug".into())
}
