//! Scrubbing: a walk over everything a target has, in pages that the client asks for at its own rate.
//!
//! The server keeps nothing between two pages: a scrub goes on from any [`ScrubCursor`], also after either end was restarted.

use super::datafiles::DatafileId;
use super::numbers::{FileId, LotId, TargetId};
use serde::{Deserialize, Serialize};

/// A request of a scrub, for the store's own credential only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScrubRequest {
    /// Reads and verifies what is next: [`super::io::IoReply::Scrub`].
    Page {
        /// The target.
        target: TargetId,
        /// Where to begin.
        from: ScrubCursor,
        /// Bytes to read at most; at least one piece is read.
        most_bytes: u64,
    },
    /// Reads and verifies one datafile: [`super::io::IoReply::Scrub`], whose `next` has another file at the end.
    Datafile {
        /// The datafile.
        datafile: DatafileId,
        /// First byte; a multiple of a block.
        offset: u64,
        /// Bytes to read at most; at least one piece is read.
        most_bytes: u64,
    },
    /// Moves datafiles of files that do not exist to the target's `set-aside` directory: [`super::io::IoReply::Done`].
    SetAside {
        /// The target.
        target: TargetId,
        /// The datafiles. A missing one is a no-op.
        datafiles: Vec<DatafileId>,
    },
    /// Gives checksums to the datafiles of a target that an earlier release made: [`super::io::IoReply::Done`]. They are computed by the
    /// next scrub, and that of each datafile that is changed before.
    AddChecksums {
        /// The target.
        target: TargetId,
    },
    /// Counts the space of all lots on a target again, from its datafiles: [`super::io::IoReply::Done`].
    Recount {
        /// The target.
        target: TargetId,
    },
    /// Records durably how far a scrub has come: [`super::io::IoReply::Done`].
    Record {
        /// The target.
        target: TargetId,
        /// The scrub.
        scrub: ScrubRecord,
    },
}

/// A place in a target: this datafile or the next one, from this byte on. Datafiles outside lots come first, then lot by lot; within each
/// by the last byte of the file's number, then by number and index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubCursor {
    /// The lot.
    pub lot: Option<LotId>,
    /// The file.
    pub file: u64,
    /// Index among the file's datafiles.
    pub index: u32,
    /// First byte.
    pub offset: u64,
}

impl ScrubCursor {
    /// The order of datafiles in a scrub.
    pub fn order(&self) -> (Option<LotId>, u8, u64, u32) {
        (self.lot, self.file as u8, self.file, self.index)
    }

    /// Returns the place of a datafile.
    pub fn of(lot: Option<LotId>, file: FileId, index: u32) -> ScrubCursor {
        ScrubCursor { lot, file: file.0, index, offset: 0 }
    }
}

/// What a scrub found on a target, from one cursor to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubPage {
    /// Where to go on; `None`: the end.
    pub next: Option<ScrubCursor>,
    /// Bytes read.
    pub read_bytes: u64,
    /// The datafiles. A long one is in several pages.
    pub datafiles: Vec<ScrubbedDatafile>,
    /// Paths below the target's directory that no server has made.
    pub strange: Vec<String>,
}

/// What was found of a datafile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedDatafile {
    /// The datafile.
    pub id: DatafileId,
    /// Its path at the server.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Space allocated to it.
    pub allocated_bytes: u64,
    /// The state of its checksums.
    pub sums: SumsState,
    /// Ranges of bytes that do not match their checksum.
    pub damaged: Vec<(u64, u64)>,
    /// Blocks that differed, of those whose checksums were recomputed.
    pub recomputed: u64,
    /// What else is wrong with it: it cannot be read, or has not the size it had.
    pub problem: Option<String>,
    /// Whether this is its last page.
    pub is_whole: bool,
}

/// The state of a datafile's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SumsState {
    /// Its target has none.
    Off,
    /// They are verified.
    Verified,
    /// They may be incomplete after a crash, or were missing: recomputed.
    Unverified,
    /// There are checksums only: the datafile itself is missing.
    Alone,
}

/// The last scrub of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// When it began, ns since 1970.
    pub started_ns: i64,
    /// When it ended; 0: it has not.
    pub ended_ns: i64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Datafiles examined.
    pub datafiles: u64,
    /// Problems found.
    pub findings: u64,
    /// How far it has come, if it has not ended.
    pub at: Option<ScrubCursor>,
    /// When the last one before it ended; 0: none.
    pub before_ns: i64,
    /// Interval between scrubs, ns; 0: they are not scheduled.
    pub every_ns: i64,
}
