//! A lot at one target: what is promised of it here, and what its datafiles take.
//!
//! Two numbers are kept. *Used* is what the datafiles have, as the file system says. *Taken* is that and what writes may add that are in
//! flight or were not looked at since ([`super::account`]): a write takes its length, in whole blocks, before it begins, and what it did not
//! need is given back afterwards. Nothing is written while taken
//! would pass the share, so that used never does. Both are changed by one atomic addition each, and in the order that errs on the
//! safe side for what others compute from them: what a write adds is free no longer before it counts as used, and what is about to be given
//! back counts as given back before it is free ([`Lot::giving`]).
//!
//! A lot has an entry here from its first datafile or its share on; it stays as long as the target is open.

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

/// A share as it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub share: LotShare,
    pub least: Option<Level>,
    pub deadline: Deadline,
    /// What holds it.
    pub level: Level,
    pub expired: bool,
}

impl Held {
    /// Whether another says the same; by how much the service's message was slower this time makes no difference.
    pub(super) fn says(&self, other: &Held) -> bool {
        let plain = |held: &Held| (held.least, held.level, held.expired);
        self.share == other.share && plain(self) == plain(other) && !other.deadline.is_much_later(&self.deadline)
    }
}

/// What a share is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is none.
    Nothing = 0,
    /// It is promised.
    Promised = 1,
    /// Its time is over.
    Expired = 2,
}

/// See the module.
pub(crate) struct Lot {
    pub(crate) id: LotId,
    /// Which of its datafiles' names are durable.
    pub(crate) names: UnsyncedNames,
    /// Its directory at the target, open for looking up names in it, while it is promised.
    directory: RwLock<Option<Arc<OwnedFd>>>,
    used: AtomicU64,
    taken: AtomicU64,
    /// What changes in flight may give back.
    giving: AtomicU64,
    /// The share's bytes.
    share_bytes: AtomicU64,
    standing: AtomicU8,
    held: RwLock<Option<Arc<Held>>>,
    /// Its name and owner, which never change.
    whose: OnceLock<(String, String)>,
    pub(super) accounts: Accounts,
    /// Datafiles that have something pending.
    pending: Mutex<Vec<Key>>,
    /// Writes that wait for others in flight to end.
    waiting: AtomicU32,
    ended: (Mutex<()>, Condvar),
    /// For more of its promise at other targets.
    pub(super) more: Question,
}

/// Bytes that a write has taken, until it says what it added.
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

    /// A datafile of it has so many bytes, as its target is opened: what it has more or less at the next look is the difference.
    pub(super) fn counted(&mut self, key: Key, bytes: u64) {
        *self.used.get_mut() += bytes;
        *self.taken.get_mut() += bytes;
        self.accounts.counted(key, bytes);
    }

    /// The share, if there is one.
    pub(super) fn held(&self) -> Option<Arc<Held>> {
        self.held.read().clone()
    }

    /// Its name and owner, once a share of it was held here.
    pub(super) fn whose(&self) -> Option<(&str, &str)> {
        self.whose.get().map(|(name, owner)| (name.as_str(), owner.as_str()))
    }

    /// Holds this one from now on.
    pub(super) fn hold(&self, held: Option<Held>) {
        if let Some(held) = &held {
            self.whose.get_or_init(|| (held.share.name.clone(), held.share.owner.clone()));
        }
        let standing = match &held {
            None => Standing::Nothing,
            Some(held) if held.expired => Standing::Expired,
            Some(_) => Standing::Promised,
        };
        // It may be another one, made anew, when something is promised again.
        *self.directory.write() = None;
        let mut place = self.held.write();
        self.share_bytes.store(held.as_ref().map_or(0, |held| held.share.share_bytes), SeqCst);
        self.standing.store(standing as u8, SeqCst);
        *place = held.map(Arc::new);
    }

    /// Its directory, kept open; `open` opens it, where there is one.
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

    /// Bytes that its datafiles take.
    pub(super) fn used(&self) -> u64 {
        self.used.load(SeqCst)
    }

    /// The same, and what writes in flight may add.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(SeqCst)
    }

    /// What is promised and not used.
    pub(super) fn promised(&self) -> u64 {
        match self.standing() {
            Standing::Promised => self.share_bytes.load(SeqCst).saturating_sub(self.used().saturating_sub(self.giving.load(SeqCst))),
            _ => 0,
        }
    }

    /// What it says of itself.
    pub(super) fn report(&self, target: TargetId) -> Option<LotUse> {
        let held = self.held()?;
        let (used_bytes, level, expired) = (self.used(), held.level, held.expired);
        Some(LotUse { share: held.share.clone(), target, used_bytes, level, expired })
    }

    /// Takes so much of the share; `None`: it has not that much left.
    pub(super) fn take(&self, bytes: u64) -> Option<Charge<'_>> {
        let within = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.share_bytes.load(SeqCst));
        self.taken.fetch_update(SeqCst, SeqCst, within).ok()?;
        let charge = Charge { lot: self, bytes };
        // The share may have become smaller in between: then either this sees that, or who makes it smaller sees what was taken.
        (self.taken() <= self.share_bytes.load(SeqCst)).then_some(charge)
    }

    /// The same for exactly what a write adds, after those writes in flight that took more than they need and are in its way; `look` is
    /// for datafiles that were not looked at ([`Lot::look_at_pending`]).
    pub(super) fn take_exactly(&self, bytes: u64, look: impl Fn()) -> Option<Charge<'_>> {
        /// A write in flight ends, or its connection is given up: this is only against waiting for ever.
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

    /// Takes so much, whatever the share says.
    pub(super) fn take_beyond(&self, bytes: u64) -> Charge<'_> {
        self.taken.fetch_add(bytes, SeqCst);
        Charge { lot: self, bytes }
    }

    /// Changes the share's size, unless it would be below what is taken.
    pub(super) fn shrink(&self, to_bytes: u64) -> bool {
        let before = self.share_bytes.swap(to_bytes, SeqCst);
        let fits = self.taken() <= to_bytes;
        if !fits {
            self.share_bytes.store(before, SeqCst);
        }
        fits
    }

    /// A datafile of it has so much more or less than before, of which so much was taken.
    fn settle(&self, before: u64, now: u64, taken: u64) {
        // Negative differences wrap, and so do sums.
        self.used.fetch_add(now.wrapping_sub(before), SeqCst);
        self.taken.fetch_add(now.wrapping_sub(before).wrapping_sub(taken), SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            let _ended = self.ended.0.lock();
            self.ended.1.notify_all();
        }
    }

    /// What was written for `charge` is in the datafile: it is looked at now, or later.
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
                // Most were looked at since, or are there twice.
                let mut once = HashSet::new();
                let is_pending = |key: Key| self.accounts.find(key).is_some_and(|account| account.lock().pending > 0);
                pending.retain(|key| once.insert(*key) && is_pending(*key));
            }
        }
    }

    /// Counts what a datafile has now.
    fn look(&self, state: &mut State, now: impl FnOnce() -> Option<Blocks>) {
        let before = state.bytes;
        state.look(now);
        self.settle(before, state.bytes, std::mem::take(&mut state.pending));
    }

    /// A datafile may have other blocks than before.
    pub(super) fn count(&self, account: &Account, now: impl FnOnce() -> Option<Blocks>) {
        self.look(&mut account.lock(), now);
    }

    /// Looks at all datafiles that have something pending.
    pub(super) fn look_at_pending(&self, now: impl Fn(Key) -> Option<Blocks>) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for key in pending {
            // (What left the lot, or was forgotten, was looked at then.)
            if let Some(account) = self.accounts.find(key) {
                let mut state = account.lock();
                if state.pending > 0 {
                    self.look(&mut state, || now(key));
                }
            }
        }
    }

    /// Does something that may give blocks of a datafile back, and counts what it did.
    pub(super) fn give<T>(&self, account: &Account, now: impl FnOnce() -> Option<Blocks>, work: impl FnOnce() -> T) -> T {
        let mut state = account.lock();
        let before = state.bytes;
        self.giving.fetch_add(before, SeqCst);
        let done = work();
        self.look(&mut state, now);
        self.giving.fetch_sub(before, SeqCst);
        done
    }

    /// A datafile leaves it: what it had is free for others.
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
    /// Looks at the datafile again: file systems give some blocks only when they write back.
    pub(crate) fn look(&self, file: &File) {
        self.lot.count(&self.account, || Blocks::of(file));
    }

    /// Does something that may give blocks back.
    pub(crate) fn give<T>(&self, file: &File, work: impl FnOnce() -> T) -> T {
        self.lot.give(&self.account, || Blocks::of(file), work)
    }
}

impl Charge<'_> {
    /// So much was taken.
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
