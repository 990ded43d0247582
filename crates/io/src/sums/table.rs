//! The datafiles of a target whose sums are in use.

use super::kept::SumState;
use super::ledger::Ledger;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::io::DatafileId;

/// Parts of the table, each with its own lock.
const PARTS: usize = 64;

/// The sums of one target.
pub(crate) struct Table {
    open: [Mutex<HashMap<DatafileId, Weak<SumState>>>; PARTS],
    ledger: Ledger,
}

impl Deref for Table {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Table {
    pub(crate) fn new(is_on: bool) -> Table {
        Table { open: [(); PARTS].map(|()| Mutex::default()), ledger: Ledger::new(is_on) }
    }

    /// Gives sums to the datafiles of this target from now on; those that are there have none yet.
    pub(crate) fn turn_on(&self) {
        self.ledger.turn_on();
        for part in &self.open {
            // Not under the part's lock: a writer may hold a state for long.
            let open: Vec<_> = part.lock().iter().filter_map(|(id, kept)| Some((*id, kept.upgrade()?))).collect();
            for (id, kept) in open {
                kept.turn_on();
                self.release(id, &mut Some(kept));
            }
        }
    }

    fn part(&self, id: DatafileId) -> &Mutex<HashMap<DatafileId, Weak<SumState>>> {
        &self.open[(id.file.0 ^ u64::from(id.index)) as usize % PARTS]
    }

    /// Returns what is known of a datafile's sums, shared by all open copies of it. Call before opening the datafile.
    pub(crate) fn get(&self, id: DatafileId) -> Arc<SumState> {
        let mut part = self.part(id).lock();
        let known = part.get(&id).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let kept = Arc::new(SumState::default());
            part.insert(id, Arc::downgrade(&kept));
            kept
        })
    }

    /// Gives back what [`Table::get`] returned.
    pub(crate) fn release(&self, id: DatafileId, kept: &mut Option<Arc<SumState>>) {
        let mut part = self.part(id).lock();
        let Some(kept) = kept.take() else { return };
        let is_this = part.get(&id).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&kept)));
        if is_this && Arc::strong_count(&kept) == 1 {
            part.remove(&id);
        }
    }

    /// Forgets a datafile that was removed: another under its number has sums of its own.
    pub(crate) fn forget(&self, id: DatafileId) {
        self.part(id).lock().remove(&id);
        self.ledger.forget(id);
    }

    /// Takes the datafiles that have been dirty for this long. A change that comes later notes its datafile again.
    pub(super) fn take_dirty(&self, since: Duration) -> Vec<DatafileId> {
        let taken = self.ledger.take_dirty(since);
        for id in &taken {
            // An open copy notes its next change only if this says so.
            let mut kept = self.part(*id).lock().get(id).and_then(Weak::upgrade);
            if let Some(kept) = &kept {
                kept.is_taken();
            }
            self.release(*id, &mut kept);
        }
        taken
    }
}
