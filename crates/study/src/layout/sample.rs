//! Points of a layout study, the subjects compared there, and the sample of a run.

use crate::worker::protocol::Digest;
use serde::{Deserialize, Serialize};
use thalweg_measure::CacheState;

/// The varied parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The pattern's name.
    pub pattern: String,
    /// Bytes of each rank.
    pub part_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
}

/// The subjects compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The series' name, or a peer's.
    pub series: String,
    /// The interface: `posix` (a local file), `library`, `mount`, `mpich`, `openmpi`, `command`.
    pub via: String,
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Writes a new file.
    Write,
    /// Overwrites the file.
    Rewrite,
    /// Reads the file.
    Read,
}

impl Operation {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Rewrite => "rewrite",
            Operation::Read => "read",
        }
    }
}

/// The sample of one run: each operation in order, on each node in rank order.
pub(crate) type Sample = Vec<Moved>;

/// One operation on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The operation.
    pub(crate) operation: Operation,
    /// The node.
    pub(crate) node: String,
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// Time of the transfers alone.
    pub(crate) transfer_s: f64,
    /// Time of the sync after them, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) sync_s: Option<f64>,
    /// The state of the caches before a read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cache: Option<CacheState>,
    /// The explanation, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) explanation: Option<Digest>,
}

impl Moved {
    /// Returns the time of transfers and sync together.
    pub(crate) fn synced_s(&self) -> f64 {
        self.transfer_s + self.sync_s.unwrap_or(0.0)
    }
}
