//! What the process at a place is told about listings, and answers; carried by [`crate::protocol`].

use super::raw::{Counters, NamesPoint, Phase};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Make a directory with files in it, each with one byte on each of its datafiles.
    Populate {
        /// Which, from the store's root.
        directory: String,
        /// How many files.
        files: u64,
        /// Datafiles of each; 0: never written.
        datafiles: u32,
    },
    /// How long a request takes that costs nothing.
    RoundTrip,
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
    /// Mount the store there, by a process of our own.
    Mount {
        /// `thal://HOST:PORT`.
        store: String,
        /// An empty directory, made if it is not there.
        mount_point: PathBuf,
    },
    /// Take the mount down.
    Unmount,
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
    Begin {
        /// Which.
        directory: String,
        /// How many.
        listings: u32,
    },
    /// Stop that.
    End,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// So long.
    Took(f64),
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
