//! A bound on the memory that all connections of a server take for payloads together.

use std::sync::{Condvar, Mutex, PoisonError};

/// So many bytes, shared by all connections.
pub struct Budget {
    left: Mutex<u64>,
    given_back: Condvar,
    whole: u64,
}

/// Bytes taken from a budget until it is dropped.
pub struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    /// `bytes` in all.
    pub fn new(bytes: u64) -> Budget {
        Budget { left: Mutex::new(bytes), given_back: Condvar::new(), whole: bytes }
    }

    /// Takes `bytes`, waiting until there are so many. More than the whole is the whole.
    pub fn take(&self, bytes: u64) -> Share<'_> {
        let bytes = bytes.min(self.whole);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left < bytes {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= bytes;
        Share { budget: self, bytes }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.given_back.notify_all();
    }
}
