//! What each datafile of a lot is known to take, so that a change of it counts once, whichever of several open copies it came through.
//!
//! Looking costs a system call, as much as a twentieth of a short write. So what a write has taken of the share beforehand stays with the account
//! as *pending*, and the datafile is looked at when that comes to [`limits::LOT_PENDING_BYTES`], or somebody wants to know: who asks how much
//! is used, or finds the share used up.
//!
//! A datafile's account is found by its number. It outlives the open datafile: file systems give some blocks only when they write back
//! (ext4's index blocks) or take some back later (XFS's preallocation), and the next look finds the difference. There are at most
//! [`limits::LOT_ACCOUNTS`] for a lot; past that, those that nobody has open are looked at for the last time and forgotten.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::FileId;

/// Tables, each with a lock of its own.
const PARTS: usize = 16;

/// A datafile of a lot: its file, and which of that it is.
pub(super) type Key = (FileId, u32);

/// One datafile's.
#[derive(Default)]
pub(crate) struct Account(Mutex<State>);

/// What is known of a datafile.
#[derive(Default)]
pub(super) struct State {
    /// What it takes.
    pub bytes: u64,
    /// What was taken of the share for writes that were not looked at.
    pub pending: u64,
    /// It has no name any more: what is written to it is nobody's.
    pub is_gone: bool,
}

impl Account {
    /// Held while the datafile is looked at, and while it gives something back.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// Looks at the datafile; `None`: it cannot be looked at.
    pub(super) fn look(&mut self, now: impl FnOnce() -> Option<Blocks>) {
        let Some(now) = (!self.is_gone).then(now).flatten() else { return };
        (self.bytes, self.is_gone) = (if now.has_name { now.bytes } else { 0 }, !now.has_name);
    }
}

/// What a file takes.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub bytes: u64,
    pub has_name: bool,
}

impl Blocks {
    /// Of a file that was made just now.
    pub(super) const NONE: Blocks = Blocks { bytes: 0, has_name: true };

    /// Of an open file.
    pub(super) fn of(file: &File) -> Option<Blocks> {
        let found = rustix::fs::fstat(file).ok()?;
        Some(Blocks { bytes: (found.st_blocks as u64).saturating_mul(512), has_name: found.st_nlink > 0 })
    }
}

/// Spreads numbers that the metadata service gives one after the other: nobody chooses them, and each new file is looked up.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing (Knuth, volume 3, 6.4); the map takes bits from both ends.
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Part = HashMap<Key, Arc<Account>, BuildHasherDefault<Spread>>;

/// Those of a lot.
#[derive(Default)]
pub(super) struct Accounts([Mutex<Part>; PARTS]);

impl Accounts {
    fn part(&self, key: Key) -> &Mutex<Part> {
        &self.0[(key.0.0 ^ u64::from(key.1)) as usize % PARTS]
    }

    /// That of a datafile of which `found` says what it takes; `surplus` is what happens to those that are forgotten.
    pub(super) fn of(&self, key: Key, found: impl FnOnce() -> Blocks, surplus: impl Fn(Key, &Account)) -> Arc<Account> {
        let mut part = self.part(key).lock();
        let Blocks { bytes, has_name } = found();
        if let Some(account) = part.get(&key)
            && (!has_name || !account.lock().is_gone)
        {
            return Arc::clone(account);
        }
        let account = Arc::new(Account(Mutex::new(State { bytes: if has_name { bytes } else { 0 }, pending: 0, is_gone: !has_name })));
        if has_name {
            if part.len() >= limits::LOT_ACCOUNTS / PARTS {
                // A few at a time: each is a look at the file system.
                let unused = part.iter().filter(|(_, account)| Arc::strong_count(account) == 1).map(|(key, _)| *key);
                for key in unused.take(8).collect::<Vec<_>>() {
                    part.remove(&key).iter().for_each(|account| surplus(key, account));
                }
            }
            part.insert(key, Arc::clone(&account));
        }
        account
    }

    /// That of a datafile that had so many bytes when its target was opened, of as many as are remembered.
    pub(super) fn counted(&self, key: Key, bytes: u64) {
        let mut part = self.part(key).lock();
        if part.len() < limits::LOT_ACCOUNTS / PARTS {
            part.insert(key, Arc::new(Account(Mutex::new(State { bytes, ..State::default() }))));
        }
    }

    /// That of a datafile, if it has one.
    pub(super) fn find(&self, key: Key) -> Option<Arc<Account>> {
        self.part(key).lock().get(&key).cloned()
    }

    /// The datafile is gone, and so is this account, if it is still the one.
    pub(super) fn forget(&self, key: Key, account: &Arc<Account>) {
        let mut part = self.part(key).lock();
        if part.get(&key).is_some_and(|known| Arc::ptr_eq(known, account)) {
            part.remove(&key);
        }
    }
}
