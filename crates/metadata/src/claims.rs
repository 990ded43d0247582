//! Exclusive claims: one thread at a time works on each intent, and on each lot.

use std::collections::HashSet;
use std::hash::Hash;
use thalweg_base::sync::{Condvar, Mutex};

/// The set of claimed keys.
pub(super) struct Claims<K> {
    taken: Mutex<HashSet<K>>,
    freed: Condvar,
}

impl<K> Default for Claims<K> {
    fn default() -> Claims<K> {
        Claims { taken: Mutex::default(), freed: Condvar::new() }
    }
}

/// A claim, released when dropped.
pub(super) struct Claim<'a, K: Copy + Eq + Hash>(&'a Claims<K>, K);

impl<K: Copy + Eq + Hash> Claims<K> {
    /// Waits until the key is free, and claims it.
    pub(super) fn claim(&self, what: K) -> Claim<'_, K> {
        let mut taken = self.taken.lock();
        while !taken.insert(what) {
            self.freed.wait(&mut taken);
        }
        Claim(self, what)
    }

    /// Claims the key; `None` if it is taken.
    pub(super) fn try_claim(&self, what: K) -> Option<Claim<'_, K>> {
        let free = self.taken.lock().insert(what);
        // Constructed only if it is ours, since dropping a claim releases it.
        if free { Some(Claim(self, what)) } else { None }
    }
}

impl<K: Copy + Eq + Hash> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        self.0.taken.lock().remove(&self.1);
        self.0.freed.notify_all();
    }
}
