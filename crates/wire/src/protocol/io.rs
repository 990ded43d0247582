//! What is said to an I/O server: about datafiles, never about names.

use super::common::BootVerifier;
use super::datafiles;
use serde::{Deserialize, Serialize};

pub use super::common::Refusal;
pub use super::datafiles::{DatafileId, DatafileSize};
use super::lots::{Level, LotUse, ShareRequest};
pub use super::numbers::{FileId, LotId, TargetId};

/// What survives what, once a write has been answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// In the page cache of the server's kernel. Survives a killed server process; not power loss. A caller that wants more
    /// asks for a sync later, and compares the boot verifiers of both answers.
    #[default]
    Returned,
    /// As `Returned`, and already on its way to stable storage: for callers that will ask for a sync when all is written, so that
    /// the disk works while the network does.
    Underway,
    /// On the target's stable storage, with everything needed to find it there. Survives power loss.
    Synced,
}

/// Requests of [`crate::transport::Kind::Io`]. Sizes and offsets are bytes. Lists are at most [`crate::limits::BATCH`] long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoRequest {
    /// Which targets are here: [`IoReply::Targets`].
    Targets,
    /// Writes the payload at `offset` of a datafile, which comes into being with its first byte: [`IoReply::Written`].
    /// All of it is verified before any of it is stored.
    Write {
        /// Where.
        datafile: DatafileId,
        /// At which byte of it.
        offset: u64,
        /// When to answer.
        durability: Durability,
    },
    /// Reads: [`IoReply::Read`] with the bytes as payload. Fewer than asked for: the datafile ends there.
    Read {
        /// From where.
        datafile: DatafileId,
        /// From which byte of it.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Puts datafiles on stable storage: [`IoReply::Synced`]. One that does not exist has nothing to sync.
    Sync {
        /// Which.
        datafiles: Vec<DatafileId>,
    },
    /// Sizes of datafiles: [`IoReply::Sizes`], in the same order. One that does not exist has size 0.
    Glimpse {
        /// Which.
        #[serde(with = "datafiles::packed_datafiles")]
        datafiles: Vec<DatafileId>,
    },
    /// Cuts datafiles off, or extends them with a hole: [`IoReply::Done`].
    Truncate {
        /// Which, and their new sizes. Size 0 of one that does not exist: nothing to do.
        datafiles: Vec<(DatafileId, u64)>,
    },
    /// Removes datafiles: [`IoReply::Done`]. One that does not exist is removed already.
    Remove {
        /// Which.
        datafiles: Vec<DatafileId>,
    },
    /// Space on the targets here: [`IoReply::Space`].
    Statfs,
    /// Gives ranges of datafiles space, or takes it away: [`IoReply::Written`]. It is durable when the datafiles are synced.
    Allocate {
        /// Which, and in each the offset and length in bytes (at least 1).
        datafiles: Vec<(DatafileId, u64, u64)>,
        /// What becomes of the ranges.
        how: Allocate,
    },
    /// Looks for data or a hole: [`IoReply::Found`], in the same order. One that does not exist has size 0.
    Seek {
        /// Which, and from which byte on.
        datafiles: Vec<(DatafileId, u64)>,
        /// For what.
        what: Seek,
    },
    /// Many short writes: [`IoReply::WrittenMany`]. The payload holds their bytes one after the other, at most
    /// [`crate::limits::MANY_BYTES`], and is verified before any of it is stored; then each succeeds or fails by itself.
    WriteMany {
        /// Where each goes: the datafile, the offset, how many bytes.
        writes: Vec<(DatafileId, u64, u64)>,
        /// When to answer.
        durability: Durability,
    },
    /// Many short reads, at most [`crate::limits::MANY_BYTES`] in all: [`IoReply::ReadMany`] with the bytes that there were as
    /// payload, one after the other.
    ReadMany {
        /// From where each comes: the datafile, the offset, how many bytes.
        reads: Vec<(DatafileId, u64, u64)>,
    },
    /// Puts everything that was answered before on stable storage, on every target here: [`IoReply::Synced`].
    SyncAll,
    /// Which parts of datafiles are not holes: [`IoReply::DataMaps`], in the same order. One that does not exist has size 0.
    DataMap {
        /// Which, and in each from which byte to which.
        datafiles: Vec<(DatafileId, u64, u64)>,
    },
    /// About shares of lots.
    Share(ShareRequest),
    /// As `Write`, where the datafile ends at `offset` or before, else [`IoReply::GoesOn`]. A client that appends, and was stopped for longer than its
    /// turn lasts, overwrites nothing that another one appended meanwhile.
    Append {
        /// Where.
        datafile: DatafileId,
        /// At which byte of it.
        offset: u64,
        /// When to answer.
        durability: Durability,
    },
}

/// What becomes of a range. With `KeepSize` in the name nothing gets longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Allocate {
    /// It has space, and the file ends behind it at least. What was there stays.
    Extend,
    /// It has space, which may be behind the end. What was there stays.
    KeepSize,
    /// It has no space, and reads as 0.
    PunchHole,
    /// It reads as 0, with or without space, and the file ends behind it at least.
    ZeroRange,
    /// It reads as 0, as far as the file reaches.
    ZeroRangeKeepSize,
}

/// What is looked for. Holes are what the target's file system knows as such; the end is followed by a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Seek {
    /// Bytes that are not in a hole.
    Data,
    /// A hole, or the end.
    Hole,
}

/// What was found in a datafile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The first such byte, in bytes from the datafile's beginning. `None`: there is no data from there on.
    pub at: Option<u64>,
    /// The datafile's size.
    pub size_bytes: u64,
}

/// The parts of a datafile that are not holes, in order. Holes are what the target's file system knows as such.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataMap {
    /// The datafile's size.
    pub size_bytes: u64,
    /// The map ends here: before the end that was asked for, where there are more than [`crate::limits::MAP_RANGES`] in a reply.
    pub known_to: u64,
    /// Where each begins, and how long it is.
    pub data: Vec<(u64, u64)>,
}

/// Space on one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpace {
    /// Which.
    pub target: TargetId,
    /// Its directory on the server.
    pub directory: String,
    /// Size of the file system it is on.
    pub total_bytes: u64,
    /// Of that, free for the store, with what is promised to lots and not used.
    pub available_bytes: u64,
    /// Files that can still be made on it.
    pub available_files: u64,
    /// Identifies the file system: targets with one number share its space.
    pub file_system: u64,
    /// Promised to lots on this file system by this server's process, and not used yet.
    pub promised_bytes: u64,
    /// How a lot would be held here, unless it asks for more.
    pub level: Level,
}

/// Replies of [`crate::transport::Kind::Io`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum IoReply {
    /// Numbers of the targets here.
    Targets(Vec<TargetId>),
    /// By which start of the server the bytes were taken.
    Written {
        verifier: BootVerifier,
    },
    Read,
    /// By which start of the server they were synced: what was written under another one may be lost.
    Synced {
        verifier: BootVerifier,
    },
    Sizes(#[serde(with = "datafiles::packed_sizes")] Vec<DatafileSize>),
    Space(Vec<TargetSpace>),
    Done,
    Found(Vec<Found>),
    /// By which start of the server those were taken that are not refused, in the order asked.
    WrittenMany {
        verifier: BootVerifier,
        each: Vec<Result<(), Refusal>>,
    },
    /// How many bytes each read has in the payload, in the order asked: fewer than asked for where the datafile ends.
    ReadMany(Vec<Result<u64, Refusal>>),
    DataMaps(Vec<DataMap>),
    /// What targets here have of lots.
    Lots(Vec<LotUse>),
    /// The datafile goes on where something was to be appended: nothing was written.
    GoesOn,
}
