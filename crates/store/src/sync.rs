//! Locks that outlive a thread that panicked: what they guard is changed in whole steps only, so the next holder finds
//! it consistent, and one connection's failure does not become every connection's. And what else panics leave to do.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not an earlier holder panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something when it is dropped, by a panic as well.
pub(crate) struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
