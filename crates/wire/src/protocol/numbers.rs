//! The numbers of files and targets.

use serde::{Deserialize, Serialize};

/// A target's number: its place among all targets of the store, in the order of `store.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetId(pub u32);

impl std::fmt::Display for TargetId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a request that changes something, by which one that is sent again is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestNumber {
    /// The client's, random: nobody else uses it.
    pub client: u64,
    /// Which of the client's connections; less than [`crate::limits::LINES`]. Requests of one wait for each other's answers.
    pub line: u8,
    /// Grows from request to request of the line.
    pub number: u64,
}

/// A lot's number, from 1. Never used again within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LotId(pub u32);

impl std::fmt::Display for LotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A file's or directory's number. Never used again within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

impl FileId {
    /// The root directory.
    pub const ROOT: FileId = FileId(1);
    /// Bits of a number below its epoch.
    const EPOCH_SHIFT: u32 = 40;

    /// The `n`th number of this epoch.
    ///
    /// # Panics
    /// When there is no such number: see [`FileId::exists`].
    pub const fn new(epoch: u64, n: u64) -> FileId {
        assert!(FileId::exists(epoch, n), "numbers of 24 and 40 bits");
        FileId(epoch << FileId::EPOCH_SHIFT | n)
    }

    /// Whether there is an `n`th number of this epoch.
    pub const fn exists(epoch: u64, n: u64) -> bool {
        epoch >> (64 - FileId::EPOCH_SHIFT) == 0 && n >> FileId::EPOCH_SHIFT == 0
    }

    /// The start of the metadata service that gave this number.
    pub const fn epoch(self) -> u64 {
        self.0 >> FileId::EPOCH_SHIFT
    }
}

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
