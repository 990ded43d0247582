//! Numbers that identify files, targets, lots and requests.

use serde::{Deserialize, Serialize};

/// A target's number: its index among all targets of the store, in the order of `store.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetId(pub u32);

impl std::fmt::Display for TargetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a request that changes something, so that a retry is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestNumber {
    /// The client's random number, unique to it.
    pub client: u64,
    /// Which of the client's connections; less than [`crate::limits::LINES`]. Requests on one line wait for each other's replies.
    pub line: u8,
    /// Increases with each request on the line.
    pub number: u64,
}

/// A lot's number, from 1. Never reused within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LotId(pub u32);

impl std::fmt::Display for LotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A file's or directory's number. Never reused within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

impl FileId {
    /// The root directory.
    pub const ROOT: FileId = FileId(1);
    /// Bits below the epoch.
    const EPOCH_SHIFT: u32 = 40;

    /// Returns the `n`th number of an epoch.
    ///
    /// # Panics
    /// When the number does not exist: see [`FileId::exists`].
    pub const fn new(epoch: u64, n: u64) -> FileId {
        assert!(FileId::exists(epoch, n), "numbers of 24 and 40 bits");
        FileId(epoch << FileId::EPOCH_SHIFT | n)
    }

    /// Whether epoch and `n` fit into a number.
    pub const fn exists(epoch: u64, n: u64) -> bool {
        epoch >> (64 - FileId::EPOCH_SHIFT) == 0 && n >> FileId::EPOCH_SHIFT == 0
    }

    /// Returns the epoch: the start of the metadata service that assigned this number.
    pub const fn epoch(self) -> u64 {
        self.0 >> FileId::EPOCH_SHIFT
    }
}

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
