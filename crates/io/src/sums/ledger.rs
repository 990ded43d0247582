//! What all sums of a target share: this run, the counts, and the datafiles whose sums are due for something.

use super::counts::Counts;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::random_u64;
use thalweg_wire::protocol::io::DatafileId;

/// What all sums of a target share.
pub(crate) struct Ledger {
    /// This run of a server: sums it has written are trusted while it runs.
    pub(super) run: u64,
    /// Whether datafiles of this target have sums.
    is_on: AtomicBool,
    /// Whether this run has given sums to a target that had none: those that are missing are no damage.
    is_adding: AtomicBool,
    /// Whether the file system takes attributes, as far as is known.
    pub(super) takes_attributes: AtomicBool,
    due: Mutex<Due>,
    /// States kept because their mark could not be changed: a new look at it would trust them.
    held: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    pub(crate) counts: Counts,
}

#[derive(Default)]
struct Due {
    /// Dirty datafiles, and since when.
    dirty: HashMap<DatafileId, Instant>,
    /// Whether a dirty datafile found no place since some were taken.
    is_over: bool,
    /// Datafiles whose sums are to be recomputed.
    unverified: HashSet<DatafileId>,
}

impl Ledger {
    pub(super) fn new(is_on: bool) -> Ledger {
        Ledger {
            run: random_u64() | 1,
            is_on: is_on.into(),
            is_adding: false.into(),
            takes_attributes: true.into(),
            due: Mutex::default(),
            held: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Whether datafiles of this target have sums.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Gives sums to the datafiles of this target from now on.
    pub(super) fn turn_on(&self) {
        self.is_adding.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Counts blocks whose recomputed sum differed, unless they had none.
    pub(super) fn are_recomputed(&self, differed: u64) {
        if !self.is_adding.load(Ordering::Acquire) {
            self.counts.are_recomputed(differed);
        }
    }

    /// Keeps a datafile's state for as long as the server runs.
    pub(super) fn hold(&self, state: Arc<dyn Any + Send + Sync>) {
        let mut held = self.held.lock();
        if !held.iter().any(|other| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&state))) {
            held.push(state);
        }
    }

    /// Notes that a datafile is dirty. One too many stays dirty until it is changed again.
    pub(super) fn is_dirty(&self, id: DatafileId) {
        let mut due = self.due.lock();
        match due.dirty.len() < limits::SUMS_DUE || due.dirty.contains_key(&id) {
            true => _ = due.dirty.entry(id).or_insert_with(Instant::now),
            false => due.is_over = true,
        }
    }

    /// Notes that a datafile's sums are to be recomputed. One too many is recomputed when it is opened again.
    pub(super) fn is_unverified(&self, id: DatafileId) {
        let mut due = self.due.lock();
        if due.unverified.len() < limits::SUMS_DUE {
            due.unverified.insert(id);
        }
    }

    /// Forgets a datafile that was removed.
    pub(super) fn forget(&self, id: DatafileId) {
        let mut due = self.due.lock();
        due.dirty.remove(&id);
        due.unverified.remove(&id);
    }

    /// Takes the datafiles to be recomputed.
    pub(super) fn take_unverified(&self) -> Vec<DatafileId> {
        self.due.lock().unverified.drain().collect()
    }

    /// Takes the datafiles that have been dirty for this long.
    pub(super) fn take_dirty(&self, since: Duration) -> Vec<DatafileId> {
        let mut due = self.due.lock();
        let taken: Vec<DatafileId> = due.dirty.iter().filter(|(_, noted)| noted.elapsed() >= since).map(|(id, _)| *id).collect();
        for id in &taken {
            due.dirty.remove(id);
        }
        due.is_over = false;
        taken
    }

    /// Whether a datafile was changed after [`Ledger::take_dirty`], or may have been.
    pub(super) fn is_dirty_again(&self, id: DatafileId) -> bool {
        let due = self.due.lock();
        due.is_over || due.dirty.contains_key(&id)
    }

    /// Returns how many datafiles are dirty and how many unverified, as far as is known.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let due = self.due.lock();
        (due.dirty.len() as u64, due.unverified.len() as u64)
    }
}
