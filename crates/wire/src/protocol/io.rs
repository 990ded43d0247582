//! Requests to an I/O server: datafiles, never names.

use super::common::BootVerifier;
use super::datafiles;
use serde::{Deserialize, Serialize};

pub use super::common::Refusal;
pub use super::datafiles::{DatafileId, DatafileSize};
use super::lots::{Level, LotUse, ShareRequest};
pub use super::numbers::{FileId, LotId, TargetId};
use super::scrub::{ScrubPage, ScrubRecord, ScrubRequest};

/// The durability of an answered write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// In the page cache of the server's kernel. Survives a crash of the server process, not power loss. Callers that need more
    /// sync later and compare the boot verifiers of both replies.
    #[default]
    Returned,
    /// `Returned`, with write-back already started: for callers that will sync at the end, so that disk and network overlap.
    Underway,
    /// On the target's stable storage, with all metadata needed to find it. Survives power loss.
    Synced,
}

/// Requests of [`crate::transport::Kind::Io`]. Sizes and offsets are bytes. Lists hold at most [`crate::limits::BATCH`] entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoRequest {
    /// Lists the targets of this server: [`IoReply::Targets`].
    Targets,
    /// Writes the payload at `offset` of a datafile, creating it with its first byte: [`IoReply::Written`]. The whole payload is
    /// verified before any of it is stored.
    Write {
        /// The datafile.
        datafile: DatafileId,
        /// First byte.
        offset: u64,
        /// The durability to reach before answering.
        durability: Durability,
    },
    /// Reads: [`IoReply::Read`] with the bytes as payload. A short read means the end of the datafile.
    Read {
        /// The datafile.
        datafile: DatafileId,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Syncs datafiles to stable storage: [`IoReply::Synced`]. A missing datafile has nothing to sync.
    Sync {
        /// The datafiles.
        datafiles: Vec<DatafileId>,
    },
    /// Returns sizes of datafiles, in order: [`IoReply::Sizes`]. A missing datafile has size 0.
    Glimpse {
        /// The datafiles.
        #[serde(with = "datafiles::packed_datafiles")]
        datafiles: Vec<DatafileId>,
    },
    /// Truncates datafiles, or extends them with a hole: [`IoReply::Done`].
    Truncate {
        /// The datafiles with their new sizes. Size 0 of a missing one is a no-op.
        datafiles: Vec<(DatafileId, u64)>,
    },
    /// Removes datafiles: [`IoReply::Done`]. A missing one counts as removed.
    Remove {
        /// The datafiles.
        datafiles: Vec<DatafileId>,
    },
    /// Returns the space on this server's targets: [`IoReply::Space`].
    Statfs,
    /// Allocates or frees ranges of datafiles: [`IoReply::Written`]. Durable once the datafiles are synced.
    Allocate {
        /// The datafiles, each with offset and length in bytes (at least 1).
        datafiles: Vec<(DatafileId, u64, u64)>,
        /// What to do with the ranges.
        how: Allocate,
    },
    /// Finds the next data or hole, in order: [`IoReply::Found`]. A missing datafile has size 0.
    Seek {
        /// The datafiles, each with the byte to start from.
        datafiles: Vec<(DatafileId, u64)>,
        /// What to look for.
        what: Seek,
    },
    /// Writes several short pieces in one message: [`IoReply::WrittenMany`]. The payload is their concatenated bytes, at most
    /// [`crate::limits::MANY_BYTES`], verified before any of it is stored; each write then succeeds or fails on its own.
    WriteMany {
        /// Datafile, offset and length of each write.
        writes: Vec<(DatafileId, u64, u64)>,
        /// The durability to reach before answering.
        durability: Durability,
    },
    /// Reads several short pieces in one message, at most [`crate::limits::MANY_BYTES`] in all: [`IoReply::ReadMany`] with the concatenated
    /// bytes as payload.
    ReadMany {
        /// Datafile, offset and length of each read.
        reads: Vec<(DatafileId, u64, u64)>,
    },
    /// Syncs everything answered before on every target of this server: [`IoReply::Synced`].
    SyncAll,
    /// Returns the parts of datafiles that are not holes, in order: [`IoReply::DataMaps`]. A missing datafile has size 0.
    DataMap {
        /// The datafiles, each with the first byte and the end.
        datafiles: Vec<(DatafileId, u64, u64)>,
    },
    /// Shares of lots.
    Share(ShareRequest),
    /// Like `Write`, if the datafile ends at or before `offset`; otherwise [`IoReply::GoesOn`]. If a client was stopped for longer than its
    /// append turn, it therefore overwrites nothing that another client appended meanwhile.
    Append {
        /// The datafile.
        datafile: DatafileId,
        /// First byte.
        offset: u64,
        /// The durability to reach before answering.
        durability: Durability,
    },
    /// Scrubs.
    Scrub(ScrubRequest),
}

/// What [`IoRequest::Allocate`] does with a range. `KeepSize` variants never extend the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Allocate {
    /// Allocate, and extend the file to the end of the range. Data stays.
    Extend,
    /// Allocate, also beyond the end of the file. Data stays.
    KeepSize,
    /// Free the space; the range reads as 0.
    PunchHole,
    /// Zero the range, whether it keeps its space or not, and extend the file to the end of the range.
    ZeroRange,
    /// Zero the range as far as the file reaches.
    ZeroRangeKeepSize,
}

/// What [`IoRequest::Seek`] looks for. Holes are those known to the target's file system; the end of the file counts as a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Seek {
    /// A byte outside holes.
    Data,
    /// A hole, or the end of the file.
    Hole,
}

/// The result of [`IoRequest::Seek`] in one datafile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeekResult {
    /// Offset of the first match within the datafile. `None`: no data from there on.
    pub at: Option<u64>,
    /// The datafile's size.
    pub size_bytes: u64,
}

/// The parts of a datafile that are not holes, in order. Holes are those known to the target's file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataMap {
    /// The datafile's size.
    pub size_bytes: u64,
    /// End of the map: before the requested end if a reply would exceed [`crate::limits::MAP_RANGES`].
    pub known_to: u64,
    /// Offset and length of each part.
    pub data: Vec<(u64, u64)>,
}

/// Space on one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpace {
    /// The target.
    pub target: TargetId,
    /// Its directory on the server.
    pub directory: String,
    /// Size of its file system.
    pub total_bytes: u64,
    /// Free for the store, including space promised to lots and not used.
    pub available_bytes: u64,
    /// Files that can still be created.
    pub available_files: u64,
    /// Identifies the file system: targets with the same number share its space.
    pub file_system: u64,
    /// Promised to lots on this file system by this server process, and not used yet.
    pub promised_bytes: u64,
    /// The level at which a lot would be held here by default.
    pub level: Level,
    /// What the checksums of its datafiles have shown since its server was started; `None`: they have none.
    pub checksums: Option<Checksums>,
    /// Its last scrub, or the one under way.
    pub scrub: Option<ScrubRecord>,
}

/// What the checksums of a target's datafiles have shown since its server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksums {
    /// Requests refused because a block did not match its checksum.
    pub damaged: u64,
    /// Datafiles written lately, whose checksums are not on stable storage yet.
    pub dirty: u64,
    /// Datafiles opened since whose checksums may be incomplete after a crash, and are to be recomputed.
    pub unverified: u64,
    /// Their blocks whose recomputed checksum differed.
    pub recomputed: u64,
    /// Datafiles whose checksums could not be stored, or were damaged themselves.
    pub unsummed: u64,
}

/// Replies of [`crate::transport::Kind::Io`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum IoReply {
    /// Numbers of this server's targets.
    Targets(Vec<TargetId>),
    /// The start of the server that took the bytes.
    Written {
        verifier: BootVerifier,
    },
    Read,
    /// The start of the server that synced them; writes that were answered during another start may be lost.
    Synced {
        verifier: BootVerifier,
    },
    Sizes(#[serde(with = "datafiles::packed_sizes")] Vec<DatafileSize>),
    Space(Vec<TargetSpace>),
    Done,
    Found(Vec<SeekResult>),
    /// The start of the server that took the accepted writes, and each result in order.
    WrittenMany {
        verifier: BootVerifier,
        each: Vec<Result<(), Refusal>>,
    },
    /// Length of each read within the payload, in order: short where the datafile ends.
    ReadMany(Vec<Result<u64, Refusal>>),
    DataMaps(Vec<DataMap>),
    /// What this server's targets hold for lots.
    Lots(Vec<LotUse>),
    /// The datafile extends beyond the append offset; nothing was written.
    GoesOn,
    /// What a scrub found.
    Scrub(Box<ScrubPage>),
}
