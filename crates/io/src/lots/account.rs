//! The known size of each datafile of a lot, so that a change counts once, whichever of several open copies it came through.
//!
//! Looking costs a system call, up to a twentieth of a short write. Space charged in advance for a write therefore stays in the
//! account as *pending*, and the datafile is looked at when that reaches [`limits::LOT_PENDING_BYTES`] or the exact use is
//! needed: for a report, or when the share is used up.
//!
//! A datafile's account is found by its number. It outlives the open datafile: file systems allocate some blocks only at
//! write-back (ext4's index blocks) or take some back later (XFS's preallocation), and the next look finds the difference. A lot
//! has at most [`limits::LOT_ACCOUNTS`]; beyond that, accounts of closed datafiles are looked at a last time and dropped.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::FileId;

/// Tables, each with its own lock.
const PARTS: usize = 16;

/// A datafile of a lot: its file, and its index.
pub(super) type Key = (FileId, u32);

/// The account of one datafile.
#[derive(Default)]
pub(crate) struct Account(Mutex<State>);

/// The known state of a datafile.
#[derive(Default)]
pub(super) struct State {
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Bytes charged for writes since the last look.
    pub pending: u64,
    /// Whether its name was removed: later writes are not charged.
    pub is_gone: bool,
}

impl Account {
    /// Locks the account while the datafile is looked at, or frees blocks.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// Updates the state from the datafile; `None` leaves it.
    pub(super) fn look(&mut self, now: impl FnOnce() -> Option<Blocks>) {
        let Some(now) = (!self.is_gone).then(now).flatten() else { return };
        (self.bytes, self.is_gone) = (if now.has_name { now.bytes } else { 0 }, !now.has_name);
    }
}

/// The blocks of a file.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub bytes: u64,
    pub has_name: bool,
}

impl Blocks {
    /// A file just created.
    pub(super) const NONE: Blocks = Blocks { bytes: 0, has_name: true };

    /// Reads an open file's blocks.
    pub(super) fn of(file: &File) -> Option<Blocks> {
        let found = rustix::fs::fstat(file).ok()?;
        Some(Blocks { bytes: (found.st_blocks as u64).saturating_mul(512), has_name: found.st_nlink > 0 })
    }
}

/// A hash for the consecutive numbers assigned by the metadata service: not chosen by clients, and looked up for each new file.
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
        // Fibonacci hashing (Knuth, volume 3, 6.4); the map uses bits from both ends.
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Part = HashMap<Key, Arc<Account>, BuildHasherDefault<Spread>>;

/// The accounts of a lot.
#[derive(Default)]
pub(super) struct Accounts([Mutex<Part>; PARTS]);

impl Accounts {
    fn part(&self, key: Key) -> &Mutex<Part> {
        &self.0[(key.0.0 ^ u64::from(key.1)) as usize % PARTS]
    }

    /// Returns a datafile's account, made from its blocks `found`; `surplus` is called with each account that is dropped.
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
                // A few at a time: each costs a system call.
                let unused = part.iter().filter(|(_, account)| Arc::strong_count(account) == 1).map(|(key, _)| *key);
                for key in unused.take(8).collect::<Vec<_>>() {
                    part.remove(&key).iter().for_each(|account| surplus(key, account));
                }
            }
            part.insert(key, Arc::clone(&account));
        }
        account
    }

    /// Adds an account for a datafile counted when its target was opened, unless the table is full.
    pub(super) fn counted(&self, key: Key, bytes: u64) {
        let mut part = self.part(key).lock();
        if part.len() < limits::LOT_ACCOUNTS / PARTS {
            part.insert(key, Arc::new(Account(Mutex::new(State { bytes, ..State::default() }))));
        }
    }

    /// Returns all accounts.
    pub(super) fn all(&self) -> Vec<(Key, Arc<Account>)> {
        let of = |part: &Mutex<Part>| part.lock().iter().map(|(key, account)| (*key, Arc::clone(account))).collect::<Vec<_>>();
        self.0.iter().flat_map(of).collect()
    }

    /// Returns a datafile's account, if there is one.
    pub(super) fn find(&self, key: Key) -> Option<Arc<Account>> {
        self.part(key).lock().get(&key).cloned()
    }

    /// Drops the account of a removed datafile, unless it was replaced.
    pub(super) fn forget(&self, key: Key, account: &Arc<Account>) {
        let mut part = self.part(key).lock();
        if part.get(&key).is_some_and(|known| Arc::ptr_eq(known, account)) {
            part.remove(&key);
        }
    }
}
