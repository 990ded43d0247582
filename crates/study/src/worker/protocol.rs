//! What a worker of a study is sent, and answers. How it is started, how messages travel and what silence means is
//! [`thalweg_measure::Workers`]'s; here are the kinds of work.
//!
//! Between `Prepare` and `Go` stands the barrier: all are ready before any starts.

use crate::access::Access;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_client::wire::protocol::metadata::{LayoutChoice, StoreMap};
use thalweg_measure::CacheState;

/// A file, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum At {
    /// A path of the node: its own disk, or a mount.
    Path(PathBuf),
    /// A path in the store, through the client library.
    Store(String),
}

/// What is timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// The worker moves bytes itself.
    Move {
        /// The file.
        at: At,
        /// Which bytes.
        access: Access,
        /// Out of the file, or into it.
        read: bool,
        /// Transfers in flight (through the library; a path is read and written as programs do: one after the other).
        in_flight: u32,
        /// Whether to keep a recording for [`Order::Explain`].
        record: bool,
    },
    /// A command moves them.
    Command {
        /// With its arguments.
        argv: Vec<String>,
        /// How many bytes it moves.
        bytes: u64,
    },
}

/// What names are used for: the tests of `mdtest`, by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The directories that the workers work in are made.
    TreeCreation,
    /// Directories are made in them.
    DirectoryCreation,
    /// Their attributes are asked for.
    DirectoryStat,
    /// They are removed.
    DirectoryRemoval,
    /// Files are made, written where there are bytes to write, and closed.
    FileCreation,
    /// Their attributes are asked for.
    FileStat,
    /// They are opened, read whole, and closed.
    FileRead,
    /// They are removed.
    FileRemoval,
    /// The directories that the workers worked in are removed.
    TreeRemoval,
}

impl Phase {
    /// All, in the order in which they are done.
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

    /// Its name, as `mdtest` has it.
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

    /// By how many strides (`mdtest -N`) a worker's names are another's than those that it made: none of these phases meets in a
    /// worker what it had to do with before.
    pub(crate) fn strides(self) -> u32 {
        match self {
            Phase::TreeCreation | Phase::DirectoryCreation | Phase::FileCreation | Phase::TreeRemoval => 0,
            Phase::DirectoryStat | Phase::FileStat => 1,
            Phase::FileRead => 2,
            Phase::DirectoryRemoval | Phase::FileRemoval => 3,
        }
    }

    /// Whether it is about the directories that the workers work in.
    pub(crate) fn is_of_tree(self) -> bool {
        matches!(self, Phase::TreeCreation | Phase::TreeRemoval)
    }
}

/// How names are used: one curve's point of `mdtest`'s patterns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamesPoint {
    /// From where.
    pub location: String,
    /// Through a mount (with system calls), or by the library.
    pub mounted: bool,
    /// Whether all workers use one directory.
    pub shared: bool,
    /// Workers at a time.
    pub workers: u32,
    /// Operations in one request.
    pub batch: u32,
    /// Bytes written into each file when it is made (`mdtest -w`), and read again (`-e`); 0: none, and directories are made too.
    pub bytes: u32,
    /// Whose files a worker asks for, reads and removes (`mdtest -N`): of the worker so many further on. 0: its own.
    pub stride: u32,
}

impl NamesPoint {
    /// What is done at it, in order.
    pub fn phases(&self) -> impl Iterator<Item = Phase> {
        let has_bytes = self.bytes > 0;
        Phase::ALL.into_iter().filter(move |phase| match phase {
            Phase::DirectoryCreation | Phase::DirectoryStat | Phase::DirectoryRemoval => !has_bytes,
            Phase::FileRead => has_bytes,
            _ => true,
        })
    }

    /// How many names a phase is about, where each worker has so many.
    pub(crate) fn names_in(&self, phase: Phase, each: u64) -> u64 {
        match phase.is_of_tree() {
            true if self.shared => 1,
            true => u64::from(self.workers),
            false => each * u64::from(self.workers),
        }
    }

    /// Whether a phase goes through another mount than the one through which names were made: only so is what another worker made
    /// news to the kernel that is asked for it.
    pub(crate) fn is_elsewhere(&self, phase: Phase) -> bool {
        self.mounted && self.stride > 0 && phase.strides() > 0
    }
}

/// What a worker is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Connect to a store; the label of the node.
    Connect {
        /// `HOST:PORT` of the metadata service.
        store: String,
        /// The node's label.
        node: String,
        /// Silence after which a server is given up.
        timeout_s: f64,
        /// The file with the credential, if it is not to be searched for.
        credential: Option<PathBuf>,
    },
    /// Mount the store there, by a process of our own.
    Mount {
        /// `thal://HOST:PORT`.
        store: String,
        /// An empty directory, made if it is not there.
        mount_point: PathBuf,
    },
    /// Take the mount down.
    Unmount,
    /// Make an empty file with this layout, in place of what has its name.
    Make {
        /// Where.
        at: At,
        /// How; absent for a file of the node's own disk.
        layout: Option<LayoutChoice>,
    },
    /// Get ready: open, have memory touched.
    Prepare(Work),
    /// Do it.
    Go,
    /// Say what held the last run up.
    Explain,
    /// Put these files (those that are there) out of the page cache.
    Evict(Vec<PathBuf>),
    /// Get the machine to rest before a run.
    Settle {
        /// Everything on their file systems is to be durable, so that disks are idle.
        directories: Vec<PathBuf>,
        /// So much memory is to be at hand.
        memory_bytes: u64,
    },
    /// Remove a file, if it is there.
    Remove(At),
    /// Listen on this address, and take what is sent to nowhere.
    Listen(String),
    /// Send to that address for so long.
    Stream {
        /// `HOST:PORT`.
        to: String,
        /// Seconds.
        seconds: f64,
    },
    /// How long a request takes that costs nothing.
    RoundTrip,
    /// Make a directory with files in it, each with one byte on each of its datafiles.
    Populate {
        /// Which, from the store's root.
        directory: String,
        /// How many files.
        files: u64,
        /// Datafiles of each; 0: never written.
        datafiles: u32,
    },
    /// Walk a directory by the client library.
    Walk {
        /// Which.
        directory: String,
        /// The mechanism's name.
        mode: String,
        /// Entries that are read at most.
        most: Option<u64>,
        /// Bytes of each file: what every size is held against.
        bytes_each: u64,
    },
    /// Run a command and time it as a whole.
    Run {
        /// With its arguments.
        argv: Vec<String>,
        /// Whether lines of its output are to be counted.
        counted: bool,
    },
    /// One phase of `mdtest`'s patterns.
    Names {
        /// How.
        point: NamesPoint,
        /// What.
        phase: Phase,
        /// Below which directory: of the store, or of the mount.
        below: String,
        /// Names of each worker.
        each: u64,
    },
    /// Create, write and close small files, one after the other.
    Write {
        /// Into which directory, which is there.
        directory: String,
        /// How many.
        files: u32,
        /// Bytes of each.
        bytes: u64,
    },
    /// Begin to list a directory, again and again, so many times at once; answered when each has listed some of it.
    BeginListings {
        /// Which.
        directory: String,
        /// How many.
        listings: u32,
    },
    /// Stop that.
    EndListings,
}

/// What the library counts of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Requests, to all servers.
    pub requests: u64,
    /// The longest chain of requests that needed one another.
    pub round_trips: u64,
    /// Datafiles whose sizes I/O servers were asked for.
    pub glimpsed: u64,
    /// Sizes that the metadata service proved.
    pub from_metadata: u64,
    /// Entries that were there when the reader wanted them.
    pub hits: u64,
    /// Entries that were not.
    pub misses: u64,
    /// Entries that were asked for, and that nobody read.
    pub wasted: u64,
    /// The window at the end.
    pub window: u32,
}

/// What an explanation says, in a few words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The verdict's cause.
    pub cause: String,
    /// Where.
    pub place: String,
    /// Its share of the time.
    pub share: f64,
    /// The first charges: cause, place, share.
    pub charges: Vec<(String, String, f64)>,
    /// The verdict's sentence.
    pub sentence: String,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// It is done, and took so long.
    Took(f64),
    /// Connected to a store; who is who in it.
    Connected(StoreMap),
    /// A file was made; its number in the store, if it is in one.
    Made(Option<u64>),
    /// Bytes were moved.
    Moved {
        /// Time of the transfers alone.
        transfer_s: f64,
        /// Time of the sync after them.
        sync_s: Option<f64>,
        /// Bytes moved.
        bytes: u64,
        /// What a command wrote.
        output: Option<String>,
    },
    /// What held it up, if it was recorded.
    Explained(Option<Digest>),
    /// The state of the files' caches.
    Evicted(CacheState),
    /// Listening: `HOST:PORT`.
    Listening(String),
    /// Bytes per second that arrived.
    Streamed(f64),
    /// A directory was listed.
    Walked {
        /// Entries.
        entries: u64,
        /// Time.
        seconds: f64,
        /// Processor time of this process.
        cpu_s: f64,
        /// Bytes over the network, both ways.
        bytes: u64,
        /// What the library counted.
        counters: Counters,
    },
    /// A command ran.
    Ran {
        /// Time.
        seconds: f64,
        /// Processor time of it, and of the mount's process.
        cpu_s: f64,
        /// Bytes over the network, both ways.
        bytes: u64,
        /// Lines that it wrote.
        lines: u64,
        /// The last of them.
        last: String,
    },
    /// Small files were written: how long each took.
    Wrote(Vec<f64>),
    /// Listings were made: how many entries in all.
    Listed(u64),
}

impl Answer {
    /// How long it took.
    pub(crate) fn seconds(self) -> Result<f64> {
        if let Answer::Took(seconds) = self { Ok(seconds) } else { Err(strange()) }
    }
}

/// An answer to something else.
pub(crate) fn strange() -> Error {
    Error::Choice("an answer that does not belong to the order: a bug".into())
}
