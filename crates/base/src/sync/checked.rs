//! The primitives of [`super`] with shuttle's behind them, for tests that run under this model checker: it decides which thread goes on at each of
//! them, and finds a deadlock by itself. No time passes: who waits for a while waits until it is woken, so that a missing wake-up is a deadlock
//! and no delay.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, sync as checked};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Threads of the checker.
pub mod thread {
    pub use shuttle::thread::*;
    use std::time::Duration;

    /// Others go on first, however long they take.
    pub fn sleep(_: Duration) {
        yield_now();
    }
}

/// As `parking_lot`'s.
#[derive(Default)]
pub struct Mutex<T>(checked::Mutex<T>);

/// As `parking_lot`'s.
pub struct MutexGuard<'a, T>(Option<checked::MutexGuard<'a, T>>);

/// As `parking_lot`'s.
#[derive(Default)]
pub struct RwLock<T>(checked::RwLock<T>);

/// As `parking_lot`'s.
#[derive(Default)]
pub struct Condvar(checked::Condvar);

/// As `parking_lot`'s.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult(());

/// What a lock guards, though its last holder panicked.
fn whatever<T>(locked: Result<T, PoisonError<T>>) -> T {
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
    /// A free lock.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(checked::Mutex::new(value))
    }

    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(whatever(self.0.lock())))
    }

    /// Nothing, where another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if_free(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }

    /// The guarded value. The exclusive borrow shows that no other thread can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        whatever(self.0.get_mut())
    }

    /// What it guarded.
    pub fn into_inner(self) -> T {
        whatever(self.0.into_inner())
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
    /// A free lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(checked::RwLock::new(value))
    }

    /// Waits until no thread holds the lock for writing.
    pub fn read(&self) -> checked::RwLockReadGuard<'_, T> {
        whatever(self.0.read())
    }

    /// Waits until no thread holds the lock.
    pub fn write(&self) -> checked::RwLockWriteGuard<'_, T> {
        whatever(self.0.write())
    }

    /// Nothing, where another thread writes.
    pub fn try_read(&self) -> Option<checked::RwLockReadGuard<'_, T>> {
        if_free(self.0.try_read())
    }

    /// Nothing, where another thread reads or writes.
    pub fn try_write(&self) -> Option<checked::RwLockWriteGuard<'_, T>> {
        if_free(self.0.try_write())
    }

    /// The guarded value. The exclusive borrow shows that no other thread can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        whatever(self.0.get_mut())
    }
}

impl Condvar {
    /// A condition variable that no thread waits on.
    pub const fn new() -> Condvar {
        Condvar(checked::Condvar::new())
    }

    /// Waits until it is woken.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("locked, but in a wait");
        guard.0 = Some(whatever(self.0.wait(inner)));
    }

    /// The same.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// The same.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// Waits until it is woken and the condition no longer holds.
    pub fn wait_while_for<T>(&self, guard: &mut MutexGuard<'_, T>, condition: impl Fn(&mut T) -> bool, _: Duration) -> WaitTimeoutResult {
        while condition(guard) {
            self.wait(guard);
        }
        WaitTimeoutResult(())
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl WaitTimeoutResult {
    /// Never.
    pub fn timed_out(self) -> bool {
        false
    }
}

// What a lock guards is not shown: reading it would be a step of the schedule.

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

/// Schedules of each kind that a test is run under, unless `THALWEG_SCHEDULES` says another number.
const SCHEDULES: usize = 300;
/// Where schedules begin, unless `THALWEG_SCHEDULE_SEED` says otherwise: a failure comes again.
const SEED: u64 = 55;
/// How many of its switches a thread of the second kind of schedule makes at the worst moment.
const DEPTH: usize = 3;
/// Unoptimised code needs more than shuttle gives.
const STACK_BYTES: usize = 1 << 20;

/// Runs a test under many schedules: half of them random at every step, half with a few switches at chosen ones. A test panics, or all of its
/// threads wait: then the schedule is printed.
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
