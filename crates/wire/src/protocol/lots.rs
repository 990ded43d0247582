//! Lots: space that is reserved for an owner, of a size and for a time (NeST's, HPDC 2002).
//!
//! A lot is a row of the metadata, and a share of it stands at each of its targets. The lot's number is in the layout of each of its
//! files and in each of their [`super::io::DatafileId`]s, so that a target knows which share a write draws on without a message.
//! How much of a share is used is nobody's counter on disk: a target counts its datafiles' blocks when it starts.

use super::numbers::{LotId, TargetId};
use serde::{Deserialize, Serialize};

/// How a share is held against other programs on the same file system. A later one promises more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// The store itself gives the space to nobody else; other programs may take it.
    Admission,
    /// A preallocated file keeps the space and shrinks as the lot fills: other programs may take what is free for a moment then.
    Ballast,
    /// ext4's reserved blocks: programs without privilege cannot take it.
    Kernel,
    /// The file system is the store's own: there are no other programs.
    Own,
}

impl Level {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Level::Admission => "admission",
            Level::Ballast => "ballast",
            Level::Kernel => "kernel",
            Level::Own => "own",
        }
    }
}

/// A share of a lot, as its target keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotShare {
    /// Which lot.
    pub lot: LotId,
    /// Its name, for errors.
    pub name: String,
    /// Whose it is.
    pub owner: String,
    /// What is promised on this target.
    pub share_bytes: u64,
    /// The whole lot's size, for errors.
    pub size_bytes: u64,
    /// Until when it is promised: nanoseconds since 1970.
    pub until_ns: i64,
    /// Beyond its size: as if it were no lot, while there is room. Otherwise refused.
    pub elastic: bool,
}

/// What a target has of a lot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotUse {
    /// The share.
    pub share: LotShare,
    /// Where.
    pub target: TargetId,
    /// Blocks of its datafiles there, in bytes.
    pub used_bytes: u64,
    /// How it is held.
    pub level: Level,
    /// Its time is over: nothing is promised any more.
    pub expired: bool,
}

/// What is asked of an I/O server about lots; only by the store's own credential. Idempotent by the lot's number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareRequest {
    /// Keeps a share, durably, in place of the one it has, if there is room for what is promised and not used:
    /// [`super::io::IoReply::Lots`] with this one. [`crate::error::ErrorKind::NoSpace`] with the numbers otherwise, and what was kept stays.
    Keep {
        /// Where.
        target: TargetId,
        /// What.
        share: LotShare,
        /// Refused where this level cannot be had.
        least: Option<Level>,
        /// What the service's clock says, in nanoseconds since 1970: how long it is until the share's date counts, whatever the target's
        /// clock says.
        now_ns: i64,
    },
    /// Forgets a share, durably; its datafiles stay as they are, and belong to no lot that promises anything. [`super::io::IoReply::Done`].
    Release {
        /// Where.
        target: TargetId,
        /// Which lot's.
        lot: LotId,
    },
    /// All shares here: [`super::io::IoReply::Lots`].
    List,
}

/// Where a lot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LotState {
    /// Its targets are being asked.
    Creating,
    /// It is promised.
    Active,
    /// Its time is over: its files stay as long as nobody needs the room.
    Expired,
    /// It is being removed, and its files with it.
    Removing,
}

/// A lot, as the metadata keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lot {
    /// Its number.
    pub id: LotId,
    /// Its name: unique in the store.
    pub name: String,
    /// Whose it is: a credential's owner.
    pub owner: String,
    /// What is promised in all.
    pub size_bytes: u64,
    /// Made: nanoseconds since 1970.
    pub created_ns: i64,
    /// Until when it is promised: nanoseconds since 1970.
    pub until_ns: i64,
    /// Beyond its size: best effort while there is room.
    pub elastic: bool,
    /// The least level that was asked for.
    pub least: Option<Level>,
    /// Where it is in its life.
    pub state: LotState,
    /// Its targets, and how much is promised on each.
    pub shares: Vec<(TargetId, u64)>,
}

/// A lot, and what its targets say of it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LotReport {
    /// The lot.
    pub lot: Lot,
    /// What each target has, of those that answered.
    pub uses: Vec<LotUse>,
    /// Directories whose new files are in it, as paths from the root, as far as known.
    pub directories: Vec<Vec<u8>>,
}

/// What is asked of the metadata service about lots: [`super::metadata::MetadataReply::Lots`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LotOperation {
    /// Reserves. [`crate::error::ErrorKind::NoSpace`] says how much there is, and when it would fit.
    Create {
        /// Its name.
        name: String,
        /// Whose it is to be; `None`: the asker's. Another's only by the store's own credential.
        owner: Option<String>,
        /// How much.
        size_bytes: u64,
        /// From now on, for how long, in nanoseconds.
        for_ns: u64,
        /// Beyond its size: best effort.
        elastic: bool,
        /// Refused where less can be had.
        least: Option<Level>,
        /// On these targets; empty: on all.
        targets: Vec<TargetId>,
    },
    /// All lots that the asker may see, or the one of this name with its directories.
    Show {
        /// Which; `None`: all.
        name: Option<String>,
    },
    /// It ends so long from now on.
    Renew {
        /// Which.
        name: String,
        /// In nanoseconds; 0: now (its files stay, best effort).
        for_ns: u64,
    },
    /// Changes its size; not below what is used.
    Resize {
        /// Which.
        name: String,
        /// Bytes.
        size_bytes: u64,
    },
    /// Removes it. Its files become ordinary ones (`files` false: refused while it has any), or go with it.
    Remove {
        /// Which.
        name: String,
        /// Its files, too.
        files: bool,
    },
    /// An I/O server asks for more of a lot's promise at one of its targets, which others have not used: answered when that target's
    /// share was changed, or cannot be ([`crate::error::ErrorKind::Quota`]). Only by the store's own credential.
    MoveHere {
        /// Which lot.
        lot: LotId,
        /// To which target.
        target: TargetId,
        /// How much is needed there at least beyond the share it has.
        bytes: u64,
    },
    /// An I/O server needs room at a target: expired lots that have some there are removed, the oldest first, as many as it takes;
    /// answered when that is done, with those that were. Only by the store's own credential.
    Reclaim {
        /// Where.
        target: TargetId,
        /// How much.
        bytes: u64,
    },
}
