//! A lot at one target: its promise here, and the space its datafiles take.
//!
//! *Used* is the space of the datafiles according to the file system. *Taken* is that plus what writes may add that are in flight
//! or not looked at since ([`super::account`]): a write takes its length in whole blocks before it begins, and returns what it
//! did not need. No write starts if taken would exceed the share, so used never does. Both change by one atomic addition each, in
//! the order that is safe for the sums others compute: what a write adds stops being free before it counts as used, and what is
//! about to be freed counts as freed before it is ([`Lot::giving`]).
//!
//! A lot has an entry here from its first datafile or its share on, until the target is closed.

use super::account::{Account, Accounts, Blocks, Key, State};
use super::deadline::Deadline;
use super::more::Question;
use crate::unsynced::UnsyncedNames;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex, RwLock};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{LotId, TargetId};
use thalweg_wire::protocol::lots::{Level, LotShare, LotUse};

/// A share with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub share: LotShare,
    pub least: Option<Level>,
    pub deadline: Deadline,
    /// The level at which it is held.
    pub level: Level,
    pub expired: bool,
}

impl Held {
    /// Whether two shares are equivalent; a different message delay makes no difference.
    pub(super) fn says(&self, other: &Held) -> bool {
        let plain = |held: &Held| (held.least, held.level, held.expired);
        self.share == other.share && plain(self) == plain(other) && !other.deadline.is_much_later(&self.deadline)
    }
}

/// The state of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No share.
    Nothing = 0,
    /// Promised.
    Promised = 1,
    /// Expired.
    Expired = 2,
}

/// A lot at one target.
pub(crate) struct Lot {
    pub(crate) id: LotId,
    /// Which of its datafiles' names are durable.
    pub(crate) names: UnsyncedNames,
    /// Its directory at the target, kept open while the lot is promised.
    directory: RwLock<Option<Arc<OwnedFd>>>,
    used: AtomicU64,
    taken: AtomicU64,
    /// Bytes that changes in flight may free.
    giving: AtomicU64,
    /// Size of the share.
    share_bytes: AtomicU64,
    standing: AtomicU8,
    held: RwLock<Option<Arc<Held>>>,
    /// Its name and owner, which never change.
    whose: OnceLock<(String, String)>,
    pub(super) accounts: Accounts,
    /// Datafiles with pending bytes.
    pending: Mutex<Vec<Key>>,
    /// Writes waiting for others in flight to end.
    waiting: AtomicU32,
    ended: (Mutex<()>, Condvar),
    /// The request for more of its promise from other targets.
    pub(super) more: Question,
}

/// Bytes taken by a write until it is accounted.
pub(super) struct Charge<'a> {
    lot: &'a Lot,
    bytes: u64,
}

impl Lot {
    pub(super) fn new(id: LotId) -> Lot {
        Lot {
            id,
            names: UnsyncedNames::new(),
            directory: RwLock::new(None),
            used: 0.into(),
            taken: 0.into(),
            giving: 0.into(),
            share_bytes: 0.into(),
            standing: (Standing::Nothing as u8).into(),
            held: RwLock::new(None),
            whose: OnceLock::new(),
            accounts: Accounts::default(),
            pending: Mutex::default(),
            waiting: 0.into(),
            ended: (Mutex::new(()), Condvar::new()),
            more: Question::default(),
        }
    }

    /// Counts a datafile found when the target is opened; the next look adds the difference.
    pub(super) fn counted(&mut self, key: Key, bytes: u64) {
        *self.used.get_mut() += bytes;
        *self.taken.get_mut() += bytes;
        self.accounts.counted(key, bytes);
    }

    /// Returns the share, if there is one.
    pub(super) fn held(&self) -> Option<Arc<Held>> {
        self.held.read().clone()
    }

    /// Returns name and owner, once a share was held here.
    pub(super) fn whose(&self) -> Option<(&str, &str)> {
        self.whose.get().map(|(name, owner)| (name.as_str(), owner.as_str()))
    }

    /// Replaces the share.
    pub(super) fn hold(&self, held: Option<Held>) {
        if let Some(held) = &held {
            self.whose.get_or_init(|| (held.share.name.clone(), held.share.owner.clone()));
        }
        let standing = match &held {
            None => Standing::Nothing,
            Some(held) if held.expired => Standing::Expired,
            Some(_) => Standing::Promised,
        };
        // The directory may be a new one when something is promised again.
        *self.directory.write() = None;
        let mut place = self.held.write();
        self.share_bytes.store(held.as_ref().map_or(0, |held| held.share.share_bytes), SeqCst);
        self.standing.store(standing as u8, SeqCst);
        *place = held.map(Arc::new);
    }

    /// Returns its directory, kept open; `open` opens it if it exists.
    pub(super) fn directory(&self, open: impl FnOnce() -> Option<OwnedFd>) -> Option<Arc<OwnedFd>> {
        if self.standing() != Standing::Promised {
            return None;
        }
        let known = self.directory.read().clone();
        known.or_else(|| {
            let opened = Arc::new(open()?);
            *self.directory.write() = Some(Arc::clone(&opened));
            Some(opened)
        })
    }

    pub(super) fn standing(&self) -> Standing {
        match self.standing.load(SeqCst) {
            0 => Standing::Nothing,
            1 => Standing::Promised,
            _ => Standing::Expired,
        }
    }

    /// Returns the bytes its datafiles take.
    pub(super) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    /// Returns the used bytes plus those that writes in flight may add.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(SeqCst)
    }

    /// Returns the promised and unused bytes.
    pub(super) fn promised(&self) -> u64 {
        match self.standing() {
            Standing::Promised => self.share_bytes.load(SeqCst).saturating_sub(self.used().saturating_sub(self.giving.load(SeqCst))),
            _ => 0,
        }
    }

    /// Reports its share and use.
    pub(super) fn report(&self, target: TargetId) -> Option<LotUse> {
        let held = self.held()?;
        let (used_bytes, level, expired) = (self.used(), held.level, held.expired);
        Some(LotUse { share: held.share.clone(), target, used_bytes, level, expired })
    }

    /// Takes bytes from the share; `None`: not enough left.
    pub(super) fn take(&self, bytes: u64) -> Option<Charge<'_>> {
        let within = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.share_bytes.load(SeqCst));
        self.taken.fetch_update(SeqCst, SeqCst, within).ok()?;
        let charge = Charge { lot: self, bytes };
        // The share may have shrunk in between: then either this sees the new size, or the shrinking thread sees what was taken.
        (self.taken() <= self.share_bytes.load(SeqCst)).then_some(charge)
    }

    /// Takes exactly what a write adds, waiting for writes in flight that took more than they need; `look` updates datafiles not
    /// looked at since ([`Lot::look_at_pending`]).
    pub(super) fn take_exactly(&self, bytes: u64, look: impl Fn()) -> Option<Charge<'_>> {
        /// Writes in flight end, or their connection times out: this only guards against waiting forever.
        const LONGEST: Duration = Duration::from_secs(10);
        let begun = Instant::now();
        loop {
            if let Some(charge) = self.take(bytes) {
                return Some(charge);
            }
            look();
            let mut ended = self.ended.0.lock();
            self.waiting.fetch_add(1, SeqCst);
            let (used, taken) = (self.used(), self.taken());
            let is_full = used.saturating_add(bytes) > self.share_bytes.load(SeqCst);
            let waits = !is_full && taken > used && begun.elapsed() < LONGEST;
            if waits {
                self.ended.1.wait_for(&mut ended, Duration::from_millis(10));
            }
            self.waiting.fetch_sub(1, SeqCst);
            if !waits && (is_full || taken > used) {
                return None;
            }
        }
    }

    /// Takes bytes regardless of the share.
    pub(super) fn take_beyond(&self, bytes: u64) -> Charge<'_> {
        self.taken.fetch_add(bytes, SeqCst);
        Charge { lot: self, bytes }
    }

    /// Sets the share's size, unless more is taken; returns whether it did.
    pub(super) fn shrink(&self, to_bytes: u64) -> bool {
        let before = self.share_bytes.swap(to_bytes, SeqCst);
        let fits = self.taken() <= to_bytes;
        if !fits {
            self.share_bytes.store(before, SeqCst);
        }
        fits
    }

    /// Accounts for a datafile's change from `before` to `now` bytes, for which `taken` were taken.
    fn settle(&self, before: u64, now: u64, taken: u64) {
        // Negative differences wrap, and so do sums.
        self.used.fetch_add(now.wrapping_sub(before), SeqCst);
        self.taken.fetch_add(now.wrapping_sub(before).wrapping_sub(taken), SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            let _ended = self.ended.0.lock();
            self.ended.1.notify_all();
        }
    }

    /// Accounts for a write that used `charge`: looks at the datafile now, or later.
    pub(super) fn written(&self, (key, account): (Key, &Account), charge: Charge<'_>, now: impl FnOnce() -> Option<Blocks>) {
        let bytes = charge.into_bytes();
        let mut state = account.lock();
        let is_first = state.pending == 0;
        state.pending = state.pending.saturating_add(bytes);
        if state.is_gone || state.pending >= limits::LOT_PENDING_BYTES || self.waiting.load(SeqCst) > 0 {
            self.look(&mut state, now);
        } else if is_first && bytes > 0 {
            drop(state);
            let mut pending = self.pending.lock();
            pending.push(key);
            if pending.len() >= 2 * limits::LOT_ACCOUNTS {
                // Most were looked at since, or are listed twice.
                let mut once = HashSet::new();
                let is_pending = |key: Key| self.accounts.find(key).is_some_and(|account| account.lock().pending > 0);
                pending.retain(|key| once.insert(*key) && is_pending(*key));
            }
        }
    }

    /// Counts a datafile's present blocks.
    fn look(&self, state: &mut State, now: impl FnOnce() -> Option<Blocks>) {
        let before = state.bytes;
        state.look(now);
        self.settle(before, state.bytes, std::mem::take(&mut state.pending));
    }

    /// Recounts a datafile whose blocks may have changed.
    pub(super) fn count(&self, account: &Account, now: impl FnOnce() -> Option<Blocks>) {
        self.look(&mut account.lock(), now);
    }

    /// Looks at all datafiles with pending bytes.
    pub(super) fn look_at_pending(&self, now: impl Fn(Key) -> Option<Blocks>) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for key in pending {
            // Datafiles that left the lot, or whose account was dropped, were looked at then.
            if let Some(account) = self.accounts.find(key) {
                let mut state = account.lock();
                if state.pending > 0 {
                    self.look(&mut state, || now(key));
                }
            }
        }
    }

    /// Looks at all datafiles that have an account.
    pub(super) fn look_at_all(&self, now: impl Fn(Key) -> Option<Blocks>) {
        for (key, account) in self.accounts.all() {
            self.look(&mut account.lock(), || now(key));
        }
    }

    /// Corrects the use from `known` to `found` bytes, unless it changed meanwhile or may change: then the next count does.
    pub(super) fn correct(&self, known: u64, found: u64) {
        if self.used() == known && self.taken() == known {
            self.settle(known, found, 0);
        }
    }

    /// Runs work that may free a datafile's blocks, and accounts for it.
    pub(super) fn give<T>(&self, account: &Account, now: impl FnOnce() -> Option<Blocks>, work: impl FnOnce() -> T) -> T {
        let mut state = account.lock();
        let before = state.bytes;
        self.giving.fetch_add(before, SeqCst);
        let done = work();
        self.look(&mut state, now);
        self.giving.fetch_sub(before, SeqCst);
        done
    }

    /// Runs work that removes a datafile; frees its bytes if it succeeds.
    pub(super) fn give_all<E>(&self, account: &Account, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = account.lock();
        let before = state.bytes;
        self.giving.fetch_add(before, SeqCst);
        let done = work();
        if done.is_ok() {
            (state.bytes, state.is_gone) = (0, true);
            self.settle(before, 0, std::mem::take(&mut state.pending));
        }
        self.giving.fetch_sub(before, SeqCst);
        done
    }
}

/// An open datafile's lot, and its account there.
pub(crate) struct OfLot {
    pub lot: Arc<Lot>,
    pub key: Key,
    pub account: Arc<Account>,
}

impl OfLot {
    /// Looks at the datafile again: file systems allocate some blocks only at write-back.
    pub(crate) fn look(&self, file: &File) {
        self.lot.count(&self.account, || Blocks::of(file));
    }

    /// Runs work that may free blocks.
    pub(crate) fn give<T>(&self, file: &File, work: impl FnOnce() -> T) -> T {
        self.lot.give(&self.account, || Blocks::of(file), work)
    }
}

impl Charge<'_> {
    /// Returns the bytes without giving them back.
    fn into_bytes(self) -> u64 {
        let bytes = self.bytes;
        std::mem::forget(self);
        bytes
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.lot.settle(0, 0, self.bytes);
    }
}
