//! Open datafiles kept for the next request, so that a stream of flow buffers does not open its file for each buffer.
//!
//! The lock covers look-ups and updates only, never a system call: a datafile being opened or removed is marked busy, and only
//! threads that want the same one wait. Datafiles of one target are thus opened and created in parallel, none is opened twice,
//! and none is kept after its removal.

use super::datafile::Datafile;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_wire::Result;
use thalweg_wire::descriptors::{Counted, Shares};
use thalweg_wire::protocol::io::DatafileId;

/// Maximum open datafiles per target, descriptors permitting.
pub(super) const OPEN_DATAFILES: usize = 512;

/// The open datafiles of one target.
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
    /// Threads that wait for a busy datafile: without any, no wake-up is sent.
    waiting: u32,
}

enum Entry {
    /// A thread is opening or removing it.
    Busy,
    Open(Arc<Datafile>),
}

/// Marks a datafile busy while this exists.
struct Busy<'a> {
    all: &'a OpenDatafiles,
    id: DatafileId,
    /// Its state afterwards; `None`: not open.
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
    /// Waits until no thread is opening or removing this datafile.
    fn not_busy(&self, id: DatafileId) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while matches!(state.datafiles.get(&id), Some(Entry::Busy)) {
            state.waiting += 1;
            self.free.wait(&mut state);
            state.waiting -= 1;
        }
        state
    }

    /// Returns a datafile that is already open.
    pub(super) fn get(&self, id: DatafileId) -> Option<Arc<Datafile>> {
        match self.state.lock().datafiles.get(&id) {
            Some(Entry::Open(datafile)) => Some(Arc::clone(datafile)),
            _ => None,
        }
    }

    /// Returns an open datafile, opening and keeping it if necessary.
    pub(super) fn get_or_open(&self, id: DatafileId, open: impl FnOnce() -> Result<Option<Datafile>>) -> Result<Option<Arc<Datafile>>> {
        let mut state = self.not_busy(id);
        if let Some(Entry::Open(datafile)) = state.datafiles.get(&id) {
            return Ok(Some(Arc::clone(datafile)));
        }
        // Each may have a file of checksums open too.
        let most = OPEN_DATAFILES.min((Shares::now().datafiles / 2).max(1));
        // Two are closed for one opened, in case targets added since have reduced the share.
        let surplus: Vec<Entry> = (0..2).map_while(|_| if state.datafiles.len() >= most { state.surplus() } else { None }).collect();
        state.datafiles.insert(id, Entry::Busy);
        drop(state);
        let mut busy = Busy { all: self, id, opened: None };
        // Closing is a system call too.
        drop(surplus);
        busy.opened = open()?.map(Arc::new);
        Ok(busy.opened.clone())
    }

    /// Runs `work` while the datafile cannot be found open. Requests that found it before finish on their open copy.
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
    /// Removes an unused entry. Any will do: the next request for it opens it again.
    fn surplus(&mut self) -> Option<Entry> {
        let unused = |entry: &Entry| matches!(entry, Entry::Open(datafile) if Arc::strong_count(datafile) == 1);
        let id = self.datafiles.iter().find(|(_, entry)| unused(entry)).map(|(id, _)| *id)?;
        self.datafiles.remove(&id)
    }
}
