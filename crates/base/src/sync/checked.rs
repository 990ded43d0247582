//! The primitives of [`super`] on top of shuttle, for tests under this model checker: it chooses which thread runs at each operation, and
//! detects deadlocks. Time does not pass: a timed wait lasts until it is notified, so that a missing notification is a deadlock rather than
//! a delay.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, sync as checked};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Threads scheduled by the checker.
pub mod thread {
    pub use shuttle::thread::*;
    use std::time::Duration;

    /// Yields to all other threads, for as long as they can run.
    pub fn sleep(_: Duration) {
        yield_now();
    }
}

/// The checker's counterpart of `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T>(checked::Mutex<T>);

/// The checker's counterpart of `parking_lot::MutexGuard`.
pub struct MutexGuard<'a, T>(Option<checked::MutexGuard<'a, T>>);

/// The checker's counterpart of `parking_lot::RwLock`.
#[derive(Default)]
pub struct RwLock<T>(checked::RwLock<T>);

/// The checker's counterpart of `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(checked::Condvar);

/// The checker's counterpart of `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult(());

/// Returns the guarded value, even if the last holder panicked.
fn ignore_poison<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

fn if_free<T>(locked: Result<T, TryLockError<T>>) -> Option<T> {
    match locked {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T> Mutex<T> {
    /// Creates a free lock.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(checked::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(ignore_poison(self.0.lock())))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if_free(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }

    /// Returns the guarded value. The exclusive borrow shows that no other thread can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        ignore_poison(self.0.get_mut())
    }

    /// Returns the guarded value.
    pub fn into_inner(self) -> T {
        ignore_poison(self.0.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("locked, but in a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("locked, but in a wait")
    }
}

impl<T> RwLock<T> {
    /// Creates a free lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(checked::RwLock::new(value))
    }

    /// Waits until no thread holds the lock for writing.
    pub fn read(&self) -> checked::RwLockReadGuard<'_, T> {
        ignore_poison(self.0.read())
    }

    /// Waits until no thread holds the lock.
    pub fn write(&self) -> checked::RwLockWriteGuard<'_, T> {
        ignore_poison(self.0.write())
    }

    /// Takes the lock for reading if no thread holds it for writing.
    pub fn try_read(&self) -> Option<checked::RwLockReadGuard<'_, T>> {
        if_free(self.0.try_read())
    }

    /// Takes the lock for writing if it is free.
    pub fn try_write(&self) -> Option<checked::RwLockWriteGuard<'_, T>> {
        if_free(self.0.try_write())
    }

    /// Returns the guarded value. The exclusive borrow shows that no other thread can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        ignore_poison(self.0.get_mut())
    }
}

impl Condvar {
    /// Creates a condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(checked::Condvar::new())
    }

    /// Waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("locked, but in a wait");
        guard.0 = Some(ignore_poison(self.0.wait(inner)));
    }

    /// Waits for a notification; the timeout never elapses.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// Waits for a notification; the deadline never passes.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// Waits for notifications until the condition no longer holds.
    pub fn wait_while_for<T>(&self, guard: &mut MutexGuard<'_, T>, condition: impl Fn(&mut T) -> bool, _: Duration) -> WaitTimeoutResult {
        while condition(guard) {
            self.wait(guard);
        }
        WaitTimeoutResult(())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl WaitTimeoutResult {
    /// Always false.
    pub fn timed_out(self) -> bool {
        false
    }
}

// Does not show the guarded value: reading it would be a step of the schedule.

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Schedules of each kind that a test runs under, unless `THALWEG_SCHEDULES` is set.
const SCHEDULES: usize = 300;
/// Seed of the schedules, unless `THALWEG_SCHEDULE_SEED` is set; a fixed seed makes failures reproducible.
const SEED: u64 = 55;
/// Preemptions per schedule of the second kind (PCT's depth).
const DEPTH: usize = 3;
/// Unoptimised code needs a larger stack than shuttle's default.
const STACK_BYTES: usize = 1 << 20;

/// Runs a test under many schedules: half are random at every step, half have few preemptions at chosen steps. Prints the schedule if the
/// test panics or deadlocks.
pub fn explore(test: impl Fn() + Send + Sync + 'static) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let schedules = number("THALWEG_SCHEDULES").map_or(SCHEDULES, |number| number as usize);
    let seed = number("THALWEG_SCHEDULE_SEED").unwrap_or(SEED);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    Runner::new(RandomScheduler::new_from_seed(seed, schedules), config.clone()).run(move || test());
    Runner::new(PctScheduler::new_from_seed(seed, DEPTH, schedules), config).run(move || again());
}
