//! Datafiles kept open for the next request, so that a stream of flow buffers does not open its file for each.
//!
//! The lock is held for looking and for noting, never for a system call: a datafile that is being opened (or removed) is marked busy, and
//! only who wants the same one waits. So datafiles of one target are opened and made in parallel, one is never opened twice, and
//! none is kept that was removed.

use super::datafile::Datafile;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_wire::Result;
use thalweg_wire::descriptors::{Counted, Shares};
use thalweg_wire::protocol::io::DatafileId;

/// Open datafiles kept for each target, as far as there are descriptors for them.
pub(super) const OPEN_DATAFILES: usize = 512;

/// Those of one target.
pub(super) struct OpenDatafiles {
    state: Mutex<State>,
    free: Condvar,
    _counted: Counted,
}

impl Default for OpenDatafiles {
    fn default() -> OpenDatafiles {
        OpenDatafiles { state: Mutex::default(), free: Condvar::new(), _counted: Counted::target() }
    }
}

#[derive(Default)]
struct State {
    datafiles: HashMap<DatafileId, Entry>,
    /// Threads that wait for one that is busy: nobody is woken where nobody waits.
    waiting: u32,
}

enum Entry {
    /// Somebody opens or removes it.
    Busy,
    Open(Arc<Datafile>),
}

/// A datafile is busy as long as this lives.
struct Busy<'a> {
    all: &'a OpenDatafiles,
    id: DatafileId,
    /// What it is afterwards; `None`: not open.
    opened: Option<Arc<Datafile>>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.all.state.lock();
        match self.opened.take() {
            Some(datafile) => state.datafiles.insert(self.id, Entry::Open(datafile)),
            None => state.datafiles.remove(&self.id),
        };
        if state.waiting > 0 {
            self.all.free.notify_all();
        }
    }
}

impl OpenDatafiles {
    /// Waits until nobody opens or removes this one.
    fn not_busy(&self, id: DatafileId) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while matches!(state.datafiles.get(&id), Some(Entry::Busy)) {
            state.waiting += 1;
            self.free.wait(&mut state);
            state.waiting -= 1;
        }
        state
    }

    /// One that is open already.
    pub(super) fn get(&self, id: DatafileId) -> Option<Arc<Datafile>> {
        match self.state.lock().datafiles.get(&id) {
            Some(Entry::Open(datafile)) => Some(Arc::clone(datafile)),
            _ => None,
        }
    }

    /// One that is open already, or is opened now and kept.
    pub(super) fn get_or_open(&self, id: DatafileId, open: impl FnOnce() -> Result<Option<Datafile>>) -> Result<Option<Arc<Datafile>>> {
        let mut state = self.not_busy(id);
        if let Some(Entry::Open(datafile)) = state.datafiles.get(&id) {
            return Ok(Some(Arc::clone(datafile)));
        }
        let most = OPEN_DATAFILES.min(Shares::now().datafiles);
        // Two go for one that comes, where targets that were added since have made the share smaller.
        let surplus: Vec<Entry> = (0..2).map_while(|_| if state.datafiles.len() >= most { state.surplus() } else { None }).collect();
        state.datafiles.insert(id, Entry::Busy);
        drop(state);
        let mut busy = Busy { all: self, id, opened: None };
        // Closing is a system call too.
        drop(surplus);
        busy.opened = open()?.map(Arc::new);
        Ok(busy.opened.clone())
    }

    /// Does something with a datafile while nobody can find it open. Requests that found it before finish on what they have.
    pub(super) fn without<T>(&self, id: DatafileId, work: impl FnOnce() -> T) -> T {
        let mut state = self.not_busy(id);
        let before = state.datafiles.insert(id, Entry::Busy);
        drop(state);
        let _busy = Busy { all: self, id, opened: None };
        drop(before);
        work()
    }
}

impl State {
    /// Takes one out that nobody uses. Any one will do: the next that needs it opens it again.
    fn surplus(&mut self) -> Option<Entry> {
        let unused = |entry: &Entry| matches!(entry, Entry::Open(datafile) if Arc::strong_count(datafile) == 1);
        let id = self.datafiles.iter().find(|(_, entry)| unused(entry)).map(|(id, _)| *id)?;
        self.datafiles.remove(&id)
    }
}
