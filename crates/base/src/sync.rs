//! The project's synchronisation primitives, named in one place so that a model checker can replace them: with the feature `shuttle` locks
//! and threads are the checker's, and tests run under many schedules ([`explore`]). Atomics stay the processor's, since no thread waits for
//! one.
//!
//! Locks survive a thread's panic: guarded data is changed in whole steps only, so the next holder finds it consistent, and one
//! connection's failure does not spread to all. The module also has helpers for cleaning up after panics.

#[cfg(feature = "shuttle")]
mod checked;

#[cfg(feature = "shuttle")]
pub use checked::thread;
#[cfg(feature = "shuttle")]
pub use checked::{Condvar, Mutex, MutexGuard, RwLock, WaitTimeoutResult, explore};
#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "shuttle"))]
pub use std::thread;

use std::any::Any;
use std::ops::{Deref, DerefMut};

/// Locks that report a holder's panic to the next holder, for data that a panic may leave half-changed.
pub mod poisoning {
    pub use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

/// Runs a closure when dropped, including by a panic.
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// A lock granted in order of arrival, so that a thread that holds it for long and re-acquires it immediately cannot starve the others.
#[derive(Debug, Default)]
pub struct Fair<T> {
    turns: Mutex<Turns>,
    turned: Condvar,
    value: Mutex<T>,
}

/// Ticket numbers: the next to be issued, and the one being served.
#[derive(Debug, Default)]
struct Turns {
    next: u64,
    now: u64,
}

impl<T> Fair<T> {
    /// Creates a free lock.
    pub fn new(value: T) -> Fair<T> {
        Fair { turns: Mutex::default(), turned: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for this thread's turn.
    pub fn lock(&self) -> Held<'_, T> {
        let mut turns = self.turns.lock();
        let ours = turns.next;
        turns.next += 1;
        while turns.now != ours {
            self.turned.wait(&mut turns);
        }
        drop(turns);
        Held { of: self, value: Some(self.value.lock()) }
    }

    /// Takes the lock if it is free and has no waiters.
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        let mut turns = self.turns.lock();
        if turns.next != turns.now {
            return None;
        }
        turns.next += 1;
        drop(turns);
        Some(Held { of: self, value: Some(self.value.lock()) })
    }
}

/// A [`Fair`] lock, held until this is dropped.
#[derive(Debug)]
pub struct Held<'a, T> {
    of: &'a Fair<T>,
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect("there until dropped")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("there until dropped")
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.of.turns.lock().now += 1;
        self.of.turned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_again_waits_behind_those_who_wait() {
        let lock = Fair::new(Vec::new());
        let held = lock.lock();
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn({
                    let lock = &lock;
                    move || lock.lock().push(number)
                });
                // Waits until this thread queues before the next one starts.
                while lock.turns.lock().next != number + 2 {
                    std::thread::yield_now();
                }
            }
            assert!(lock.try_lock().is_none(), "others wait");
            drop(held);
            lock.lock().push(8);
        });
        assert_eq!(*lock.lock(), (0..=8).collect::<Vec<u64>>());
        assert!(lock.try_lock().is_some());
    }
}
