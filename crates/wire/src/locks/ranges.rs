//! The locked byte ranges of one file: POSIX record-lock arithmetic.
//!
//! The ranges of one owner never overlap, and adjacent ranges of one kind are merged. A new lock replaces the owner's locks in
//! its range: locking a part in another mode splits a range, unlocking the middle leaves both ends. Only other owners' locks
//! conflict.

use crate::protocol::locks::{HeldLock, LockKind};

/// The holder of a lock: an owner at a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Holder {
    /// The client.
    pub client: u64,
    /// The owner at that client.
    pub owner: u64,
}

/// The locks on one file in one space, ordered by first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    held: Vec<HeldLock>,
}

fn holder_of(held: &HeldLock) -> Holder {
    Holder { client: held.client, owner: held.owner }
}

/// Whether different holders cannot hold both kinds at the same time.
pub(super) fn exclude(one: LockKind, other: LockKind) -> bool {
    one == LockKind::Exclusive || other == LockKind::Exclusive
}

/// Whether two inclusive ranges overlap.
pub(super) fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

impl Ranges {
    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the file has no locks.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Iterates over the locks.
    pub fn iter(&self) -> impl Iterator<Item = &HeldLock> {
        self.held.iter()
    }

    /// Returns the locks that conflict with a lock on this inclusive range.
    pub(super) fn conflicts(&self, holder: Holder, kind: LockKind, start: u64, end: u64) -> impl Iterator<Item = &HeldLock> {
        self.held
            .iter()
            .take_while(move |held| held.start <= end)
            .filter(move |held| held.end >= start && exclude(held.kind, kind) && holder_of(held) != holder)
    }

    /// Whether the holder has the whole range locked in this kind.
    pub(super) fn covers(&self, holder: Holder, kind: LockKind, start: u64, end: u64) -> bool {
        let mut needed = start;
        for held in self.held.iter().filter(|h| holder_of(h) == holder && h.kind == kind && h.end >= start) {
            if held.start > needed {
                return false;
            }
            if held.end >= end {
                return true;
            }
            needed = needed.max(held.end + 1);
        }
        false
    }

    /// Returns how many ranges [`Ranges::set`] would add: at most 2, negative where ranges merge or go.
    pub(super) fn growth(&self, lock: &HeldLock, locked: bool) -> isize {
        let own: Vec<HeldLock> = self.held.iter().filter(|h| holder_of(h) == holder_of(lock)).copied().collect();
        set_own(own.clone(), lock, locked).len() as isize - own.len() as isize
    }

    /// Locks the range for a holder, or frees it if `locked` is false. The caller checks for conflicts.
    pub fn set(&mut self, lock: &HeldLock, locked: bool) {
        let (own, others): (Vec<HeldLock>, Vec<HeldLock>) = self.held.iter().copied().partition(|h| holder_of(h) == holder_of(lock));
        self.held = others;
        self.held.extend(set_own(own, lock, locked));
        self.held.sort_by_key(|held| held.start);
    }

    /// Frees all locks for which `which` is true.
    pub(super) fn free(&mut self, which: impl Fn(&HeldLock) -> bool) {
        self.held.retain(|held| !which(held));
    }
}

/// Returns one holder's ranges after a lock was set or freed.
fn set_own(own: Vec<HeldLock>, lock: &HeldLock, locked: bool) -> Vec<HeldLock> {
    let mut parts = Vec::with_capacity(own.len() + 2);
    for held in own {
        if !overlap((held.start, held.end), (lock.start, lock.end)) {
            parts.push(held);
            continue;
        }
        if held.start < lock.start {
            parts.push(HeldLock { end: lock.start - 1, ..held });
        }
        if held.end > lock.end {
            parts.push(HeldLock { start: lock.end + 1, ..held });
        }
    }
    if locked {
        parts.push(*lock);
    }
    parts.sort_by_key(|held| held.start);
    let mut merged: Vec<HeldLock> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.kind == part.kind && last.end.checked_add(1) == Some(part.start) => {
                *last = HeldLock { end: part.end, pid: lock.pid, ..*last };
            }
            _ => merged.push(part),
        }
    }
    merged
}
