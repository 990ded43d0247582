//! Who works on what: one thread at a time on each intent, and on each lot.

use std::collections::HashSet;
use std::hash::Hash;
use thalweg_base::sync::{Condvar, Mutex};

/// What is being worked on.
pub(super) struct Claims<K> {
    taken: Mutex<HashSet<K>>,
    freed: Condvar,
}

impl<K> Default for Claims<K> {
    fn default() -> Claims<K> {
        Claims { taken: Mutex::default(), freed: Condvar::new() }
    }
}

/// Given up when it is dropped.
pub(super) struct Claim<'a, K: Copy + Eq + Hash>(&'a Claims<K>, K);

impl<K: Copy + Eq + Hash> Claims<K> {
    /// Waits until nobody else works on it.
    pub(super) fn claim(&self, what: K) -> Claim<'_, K> {
        let mut taken = self.taken.lock();
        while !taken.insert(what) {
            self.freed.wait(&mut taken);
        }
        Claim(self, what)
    }

    /// `None`: somebody works on it.
    pub(super) fn try_claim(&self, what: K) -> Option<Claim<'_, K>> {
        let free = self.taken.lock().insert(what);
        // Made only when it is ours: dropping a claim gives it up.
        if free { Some(Claim(self, what)) } else { None }
    }
}

impl<K: Copy + Eq + Hash> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        self.0.taken.lock().remove(&self.1);
        self.0.freed.notify_all();
    }
}
