//! The times of a layout study, one line each: see [`crate::log`].

use crate::log::OfStudy;
use serde::{Deserialize, Serialize};
use thalweg_measure::CacheState;

/// The version of the lines.
pub const SCHEMA: &str = "thalweg.layout-study/1";

/// What the lines belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The store's identity.
    pub store: String,
    /// The nodes, in the order of ranks.
    pub nodes: Vec<String>,
    /// Where the disks and links can be told apart from others: what the user said of them.
    pub label: String,
}

impl OfStudy for Header {
    fn describe(&self) -> String {
        format!("{}, nodes {}", self.label, self.nodes.join(", "))
    }
}

/// What is measured: a point of a curve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The series' name, or a peer's.
    pub series: String,
    /// Through what: `posix` (a local file), `library`, `mount`, `mpich`, `openmpi`, `command`.
    pub via: String,
    /// The pattern's name.
    pub pattern: String,
    /// Bytes of each rank.
    pub part_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Into a new file.
    Write,
    /// Over what is there.
    Rewrite,
    /// Out of it.
    Read,
}

impl Way {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Write => "write",
            Way::Rewrite => "rewrite",
            Way::Read => "read",
        }
    }
}

/// One node's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Which way.
    pub way: Way,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Whose.
    pub node: String,
    /// Bytes it moved.
    pub bytes: u64,
    /// Time of the transfers alone.
    pub transfer_s: f64,
    /// Time of the sync after them; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sync_s: Option<f64>,
    /// The state of the caches before a read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// What the run's recording says held it up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// When it ended, seconds since 1970.
    pub at_unix_s: u64,
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

impl Line {
    /// Transfers and sync together.
    pub fn synced_s(&self) -> f64 {
        self.transfer_s + self.sync_s.unwrap_or(0.0)
    }
}
