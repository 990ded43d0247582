//! What the process on a node is told and answers: one line of JSON each, over its standard input and output.
//!
//! A pipe is all that is needed, so a node is reached by whatever starts a command on it: `ssh`, `ip netns exec`, `srun`. Each order
//! has one answer; between `Prepare` and `Go` stands the barrier.

use crate::access::Access;
use crate::raw::Digest;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_measure::CacheState;
use thalweg_store::protocol::metadata::{LayoutChoice, StoreMap};

/// A file, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// A path of the node: its own disk, or a mount.
    Path(PathBuf),
    /// A path in the store, through the client library.
    Store(String),
}

/// What is timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The node's process moves bytes itself.
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

/// What a node's process is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Connect to a store; the label of the node.
    Connect {
        /// `HOST:PORT` of the metadata service.
        store: String,
        /// The node's label.
        node: String,
        /// Silence after which a server is given up.
        timeout_s: f64,
    },
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
        /// Everything on their file systems is to be on media, so that disks are idle.
        directories: Vec<PathBuf>,
        /// So much memory is to be at hand.
        memory_bytes: u64,
    },
    /// Remove a file, if it is there.
    Remove(At),
    /// Mount the store there.
    Mount {
        /// `thal://HOST:PORT`.
        store: String,
        /// An empty directory, made if it is not there.
        mount_point: PathBuf,
    },
    /// Take a mount down.
    Unmount(PathBuf),
    /// Listen on this address, and take what is sent to nowhere.
    Listen(String),
    /// Send to that address for so long.
    Stream {
        /// `HOST:PORT`.
        to: String,
        /// Seconds.
        seconds: f64,
    },
    /// About listings.
    Ls(crate::ls::protocol::Order),
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// Connected to a store; who is who in it.
    Connected(StoreMap),
    /// It is not; why.
    Failed(String),
    /// A file was made; its number in the store, if it is in one.
    Made(Option<u64>),
    /// Ready to go.
    Ready,
    /// It went.
    Ran {
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
    /// About listings.
    Ls(crate::ls::protocol::Answer),
}
