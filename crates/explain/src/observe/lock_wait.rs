//! One wait on a lock, and one stretch in which a thread or task held the lock.

use crate::observe::tables::Object;
use thalweg_trace::ObjectKind;

/// A wait that another thread ended, or of a task that another task ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub start: i64,
    pub end: i64,
    /// The thread or task that waited.
    pub track: u32,
    /// The thread or task that ended the wait.
    pub waker: u32,
    /// The thread on which the waker ran.
    pub thread: u32,
    pub on: On,
}

/// The object of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// A lock on a file.
    File,
    /// A certain mutex.
    Mutex,
    /// A plain futex: a mutex, or a thread parked by its runtime.
    Futex,
    /// Anything else: a condition, a semaphore.
    Other,
}

impl On {
    pub(super) fn of(object: &Object) -> On {
        match object.name.as_str() {
            _ if is_on_a_file(object) => On::File,
            "mutex" => On::Mutex,
            "futex" => On::Futex,
            _ => On::Other,
        }
    }
}

/// A stretch with one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub start: i64,
    pub end: i64,
    /// The thread or task.
    pub holder: u32,
    /// Where the holder ran when it let the next go on.
    pub thread: u32,
}

/// Whether an object is a lock on a file.
pub(crate) fn is_on_a_file(object: &Object) -> bool {
    object.kind == ObjectKind::Lock && object.name.split_once(' ').is_some_and(|(_, path)| path.contains('/'))
}
