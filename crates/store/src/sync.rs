//! Locks that outlive a thread that panicked: what they guard is changed in whole steps only, so the next holder finds
//! it consistent, and one connection's failure does not become every connection's.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not an earlier holder panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
