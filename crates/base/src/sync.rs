//! The one place that names the primitives of synchronisation, so that a model checker can stand in for them: with the
//! feature `shuttle` locks and threads are this checker's, and tests run under many schedules ([`explore`]). Atomics stay the processor's, since no
//! thread waits for one.
//!
//! Locks outlive a thread that panicked: what they guard is changed in whole steps only, so the next holder finds it consistent, and
//! one connection's failure does not become every connection's. And what else panics leave to do.

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

/// Locks that report a panic to the next holder, for what may be half-changed by one.
pub mod poisoning {
    pub use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

/// Does something when it is dropped, by a panic as well.
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// A lock that is given to those who wait for it in the order in which they came: who holds it for long, and comes again at once, does not
/// take it from who has waited all the time.
#[derive(Debug, Default)]
pub struct Fair<T> {
    turns: Mutex<Turns>,
    turned: Condvar,
    value: Mutex<T>,
}

/// Turns are numbered: the next one to be given out, and the one whose turn it is.
#[derive(Debug, Default)]
struct Turns {
    next: u64,
    now: u64,
}

impl<T> Fair<T> {
    /// The lock is free and has no waiters.
    pub fn new(value: T) -> Fair<T> {
        Fair { turns: Mutex::default(), turned: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for its turn.
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

    /// Nothing, where it is held or waited for.
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
                // Each waits before the next one comes.
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
