//! What is said to the metadata service about advisory locks and append turns.
//!
//! A client that locks has two connections besides its others. The first is its life: it says who the client is
//! ([`LockOperation::Hello`]), all requests about locks go over it one after the other and are answered at once, and
//! when it ends, everything the client held is free. A request that has to wait is answered with
//! [`LockReply::Queued`]; over the second connection the client asks which of its waiting requests have been granted
//! ([`LockOperation::Grants`]), and that question alone is answered late. So any number of waiting threads costs the
//! service one.

use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// Locks of different spaces do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockSpace {
    /// Those of `flock`: whole files, of an open file.
    Flock,
    /// Those of `fcntl`: ranges, of a process.
    Record,
    /// Turns to write at a file's end or to truncate it.
    Append,
}

/// Who else may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Others that share.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A range of a file, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// Which.
    pub file: FileId,
    /// The space.
    pub space: LockSpace,
    /// Whose, within the client.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte; `u64::MAX`: however long the file becomes.
    pub end: u64,
}

impl LockRange {
    /// All of a file.
    pub fn whole(file: FileId, space: LockSpace, owner: u64) -> LockRange {
        LockRange { file, space, owner, start: 0, end: u64::MAX }
    }
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRequest {
    /// Of what, and whose.
    pub range: LockRange,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// The process, for others who ask who holds it.
    pub pid: u32,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldLock {
    /// The client that holds it.
    pub client: u64,
    /// Its owner there.
    pub owner: u64,
    /// Its process there.
    pub pid: u32,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
}

/// What is asked about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOperation {
    /// This connection is the client's life from now on: [`LockReply::Done`].
    Hello {
        /// Random, one for each life of a client.
        client: u64,
    },
    /// Asks for the locks that were held when the service went away: [`LockReply::Refused`].
    Claim {
        /// Which.
        locks: Vec<LockRequest>,
        /// These are the last.
        last: bool,
    },
    /// Asks which waiting requests have been granted, and waits for one: [`LockReply::Tickets`]. On a connection that
    /// has not said [`LockOperation::Hello`].
    Grants {
        /// Whose.
        client: u64,
        /// How long to wait at most.
        wait_ms: u32,
    },
    /// Asks for a lock: [`LockReply::Done`] when it is granted, [`LockReply::Queued`] when it has to wait and may.
    Lock {
        /// Which.
        request: LockRequest,
        /// What a later grant calls it; `None`: it does not wait.
        ticket: Option<u64>,
    },
    /// Waits no longer: [`LockReply::Cancelled`].
    Cancel {
        /// The request's.
        ticket: u64,
        /// The request.
        request: LockRequest,
    },
    /// Frees what is held of a range: [`LockReply::Done`].
    Unlock {
        /// Which.
        range: LockRange,
    },
    /// Frees all that an owner holds of a file, in the spaces of programs: [`LockReply::Done`].
    UnlockAll {
        /// Of what.
        file: FileId,
        /// Whose.
        owner: u64,
    },
    /// Asks who stands in the way of a lock: [`LockReply::Held`].
    Test {
        /// Of this one.
        request: LockRequest,
    },
}

/// An answer about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockReply {
    /// It is done; a lock is granted.
    Done,
    /// It waits.
    Queued,
    /// These have been granted since the last answer.
    Tickets(Vec<u64>),
    /// Whether it had been granted before it was cancelled; then the lock is held.
    Cancelled {
        /// It had.
        granted: bool,
    },
    /// Who stands in the way.
    Held(Option<HeldLock>),
    /// What was claimed of these could not be given again.
    Refused(Vec<LockRange>),
}
