//! What is measured of a layout: points, the subjects that are compared there, and what one run of one gives.

use crate::worker::protocol::Digest;
use serde::{Deserialize, Serialize};
use thalweg_measure::CacheState;

/// What is varied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The pattern's name.
    pub pattern: String,
    /// Bytes of each rank.
    pub part_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The series' name, or a peer's.
    pub series: String,
    /// Through what: `posix` (a local file), `library`, `mount`, `mpich`, `openmpi`, `command`.
    pub via: String,
}

/// Bytes into a file, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Into a new file.
    Write,
    /// Over what is there.
    Rewrite,
    /// Out of it.
    Read,
}

impl Operation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Rewrite => "rewrite",
            Operation::Read => "read",
        }
    }
}

/// What one run gives: each operation in turn, of each node in the order of ranks.
pub(crate) type Sample = Vec<Moved>;

/// One operation of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// Which operation.
    pub(crate) operation: Operation,
    /// Whose.
    pub(crate) node: String,
    /// Bytes it moved.
    pub(crate) bytes: u64,
    /// Time of the transfers alone.
    pub(crate) transfer_s: f64,
    /// Time of the sync after them; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) sync_s: Option<f64>,
    /// The state of the caches before a read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cache: Option<CacheState>,
    /// What the recording says held it up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) explanation: Option<Digest>,
}

impl Moved {
    /// Transfers and sync together.
    pub(crate) fn synced_s(&self) -> f64 {
        self.transfer_s + self.sync_s.unwrap_or(0.0)
    }
}
