//! Requests to the metadata service about advisory locks and append turns.
//!
//! A client that locks has two more connections. The first represents its life: it carries the client's number
//! ([`LockOperation::Hello`]) and all lock requests, each answered immediately, and when it ends, all the client's locks are
//! freed. A request that has to wait is answered with [`LockReply::Queued`]; over the second connection the client asks which of
//! its waiting requests were granted ([`LockOperation::Grants`]), the only request that the service answers late. Any number of
//! waiting threads thus costs the service one.

use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// A space of locks; locks of different spaces never conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockSpace {
    /// `flock`: whole files, owned by an open file.
    Flock,
    /// `fcntl`: byte ranges, owned by a process.
    Record,
    /// Turns to append to a file or to truncate it.
    Append,
}

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with no other lock.
    Exclusive,
}

/// A range of a file, with the owner who locks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// The file.
    pub file: FileId,
    /// The space.
    pub space: LockSpace,
    /// The owner, within the client.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX`: to the end, however far the file grows.
    pub end: u64,
}

impl LockRange {
    /// Returns the range of the whole file.
    pub fn whole(file: FileId, space: LockSpace, owner: u64) -> LockRange {
        LockRange { file, space, owner, start: 0, end: u64::MAX }
    }
}

/// A requested lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRequest {
    /// Range and owner.
    pub range: LockRange,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// The process id, reported to others that test the lock.
    pub pid: u32,
}

/// A held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldLock {
    /// The client.
    pub client: u64,
    /// The owner at that client.
    pub owner: u64,
    /// The process id at that client.
    pub pid: u32,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive.
    pub end: u64,
}

/// A request about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOperation {
    /// Makes this connection the client's life: [`LockReply::Done`].
    Hello {
        /// Random, one for each life of a client.
        client: u64,
    },
    /// Claims locks that were held when the service went away: [`LockReply::Refused`].
    Claim {
        /// The locks.
        locks: Vec<LockRequest>,
        /// No more claims follow.
        last: bool,
    },
    /// Waits for a queued request to be granted: [`LockReply::Tickets`]. On a connection without [`LockOperation::Hello`].
    Grants {
        /// The client.
        client: u64,
        /// Maximum wait.
        wait_ms: u32,
    },
    /// Requests a lock: [`LockReply::Done`] when granted, [`LockReply::Queued`] when it has to wait and may.
    Lock {
        /// The lock.
        request: LockRequest,
        /// The number by which a later grant names it; `None`: do not wait.
        ticket: Option<u64>,
    },
    /// Stops waiting: [`LockReply::Cancelled`].
    Cancel {
        /// The request's ticket.
        ticket: u64,
        /// The request.
        request: LockRequest,
    },
    /// Unlocks a range: [`LockReply::Done`].
    Unlock {
        /// The range.
        range: LockRange,
    },
    /// Frees all of an owner's `flock` and `fcntl` locks on a file: [`LockReply::Done`].
    UnlockAll {
        /// The file.
        file: FileId,
        /// The owner.
        owner: u64,
    },
    /// Tests for a conflicting lock: [`LockReply::Held`].
    Test {
        /// The lock to test.
        request: LockRequest,
    },
}

/// A reply about locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockReply {
    /// Done; for a lock request, granted.
    Done,
    /// The request waits.
    Queued,
    /// Requests granted since the last reply.
    Tickets(Vec<u64>),
    /// The request was cancelled.
    Cancelled {
        /// Whether it was granted first; the lock is then held.
        granted: bool,
    },
    /// A conflicting lock, if any.
    Held(Option<HeldLock>),
    /// Claims that could not be restored.
    Refused(Vec<LockRange>),
}
