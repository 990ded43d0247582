//! Lots: space reserved for an owner, of a size and for a time (after NeST, HPDC 2002).
//!
//! A lot is a row of the metadata, with a share on each of its targets. Its number is in the layout of each of its files and in
//! their [`super::io::DatafileId`]s, so that a target knows the share a write draws on without a message. The used part of a
//! share is not stored: a target counts its datafiles' blocks when it starts.

use super::numbers::{LotId, TargetId};
use serde::{Deserialize, Serialize};

/// How a share is protected from other programs on the same file system. Later levels promise more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// The store gives the space to no other use; other programs may take it.
    Admission,
    /// A preallocated file holds the space and shrinks as the lot fills: other programs may take the space freed in the meantime.
    Ballast,
    /// ext4's reserved blocks: unprivileged programs cannot take it.
    Kernel,
    /// The store has the file system to itself.
    Own,
}

impl Level {
    /// Returns the name shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Level::Admission => "admission",
            Level::Ballast => "ballast",
            Level::Kernel => "kernel",
            Level::Own => "own",
        }
    }
}

/// A lot's share on one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotShare {
    /// The lot.
    pub lot: LotId,
    /// The lot's name, for errors.
    pub name: String,
    /// The lot's owner.
    pub owner: String,
    /// Promised on this target.
    pub share_bytes: u64,
    /// Size of the whole lot, for errors.
    pub size_bytes: u64,
    /// When the promise ends, ns since 1970.
    pub until_ns: i64,
    /// Beyond the lot's size, writes are best effort while there is room; if false, refused.
    pub elastic: bool,
}

/// A target's share of a lot, and its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotUse {
    /// The share.
    pub share: LotShare,
    /// The target.
    pub target: TargetId,
    /// Allocated blocks of the lot's datafiles on the target.
    pub used_bytes: u64,
    /// The level at which the share is held.
    pub level: Level,
    /// The lot has expired: nothing is promised any more.
    pub expired: bool,
}

/// A request to an I/O server about lots, for the store's own credential only. Idempotent by the lot's number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareRequest {
    /// Stores a share durably, replacing the lot's previous one, if there is room for the promised and unused part:
    /// [`super::io::IoReply::Lots`] with this share. Otherwise [`crate::error::ErrorKind::NoSpace`] with the numbers, and the
    /// previous share stays.
    Keep {
        /// The target.
        target: TargetId,
        /// The share.
        share: LotShare,
        /// Refuse if this level is unavailable.
        least: Option<Level>,
        /// The service's clock, ns since 1970: the share's remaining time is counted from here, independent of the target's
        /// clock.
        now_ns: i64,
    },
    /// Forgets a share durably; its datafiles stay, without a promise. [`super::io::IoReply::Done`].
    Release {
        /// The target.
        target: TargetId,
        /// The lot.
        lot: LotId,
    },
    /// Lists all shares of this server: [`super::io::IoReply::Lots`].
    List,
}

/// The state of a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LotState {
    /// The service is asking its targets for the space.
    Creating,
    /// The space is promised.
    Active,
    /// It has expired: its files stay until the room is needed.
    Expired,
    /// It is being removed, with its files.
    Removing,
}

/// A lot, as stored in the metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lot {
    /// Its number.
    pub id: LotId,
    /// Its name: unique in the store.
    pub name: String,
    /// Owner: a credential's owner.
    pub owner: String,
    /// Total promised size.
    pub size_bytes: u64,
    /// Creation, ns since 1970.
    pub created_ns: i64,
    /// When the promise ends, ns since 1970.
    pub until_ns: i64,
    /// Beyond its size, best effort while there is room.
    pub elastic: bool,
    /// The minimum level requested.
    pub least: Option<Level>,
    /// State.
    pub state: LotState,
    /// Promised bytes on each target.
    pub shares: Vec<(TargetId, u64)>,
}

/// A lot, with the current reports of its targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotReport {
    /// The lot.
    pub lot: Lot,
    /// The use of each target that answered.
    pub uses: Vec<LotUse>,
    /// Directories whose new files go into the lot, as paths from the root, as far as known.
    pub directories: Vec<Vec<u8>>,
}

/// A request to the metadata service about lots: [`super::metadata::MetadataReply::Lots`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LotOperation {
    /// Reserves space. [`crate::error::ErrorKind::NoSpace`] says how much there is, and when the request would fit.
    Create {
        /// The lot's name.
        name: String,
        /// The owner; `None`: the sender. Another owner requires the store's own credential.
        owner: Option<String>,
        /// Size.
        size_bytes: u64,
        /// Duration from now, ns.
        for_ns: u64,
        /// Beyond its size, best effort.
        elastic: bool,
        /// Refuse if only a lower level is available.
        least: Option<Level>,
        /// The targets; empty: all.
        targets: Vec<TargetId>,
    },
    /// Returns all lots the sender may see, or the named one with its directories.
    Show {
        /// The lot; `None`: all.
        name: Option<String>,
    },
    /// Sets the remaining duration.
    Renew {
        /// The lot.
        name: String,
        /// Duration from now, ns; 0: end now (its files stay, best effort).
        for_ns: u64,
    },
    /// Changes the size, but not below the space used.
    Resize {
        /// The lot.
        name: String,
        /// New size.
        size_bytes: u64,
    },
    /// Removes the lot, with its files or leaving them as ordinary files (`files` false: refused while it has any).
    Remove {
        /// The lot.
        name: String,
        /// Remove its files too.
        files: bool,
    },
    /// An I/O server asks for unused promise of a lot to be moved to one of its targets: answered when the target's share was
    /// changed or cannot be ([`crate::error::ErrorKind::Quota`]). For the store's own credential only.
    MoveHere {
        /// The lot.
        lot: LotId,
        /// The target that needs it.
        target: TargetId,
        /// Minimum needed there beyond its present share.
        bytes: u64,
    },
    /// An I/O server needs room at a target: expired lots with space there are removed, oldest first, until it suffices; answered
    /// when done, with the removed lots. For the store's own credential only.
    Reclaim {
        /// The target.
        target: TargetId,
        /// Room needed.
        bytes: u64,
    },
}
