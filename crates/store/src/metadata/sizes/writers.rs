//! Who may be changing which file's bytes: counted in memory, decided in transactions.
//!
//! What is in the inode is changed only in transactions, which are one after the other; the counts here change before them. So a
//! transaction that finds no writer is right about everything that was answered before it, and one that begins later undoes it.

use crate::protocol::metadata::{End, FileId};
use crate::sync::locked;
use std::collections::HashMap;
use std::sync::Mutex;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    files: Mutex<HashMap<FileId, Writing>>,
}

/// One file that somebody may change, or that somebody watches.
#[derive(Clone, Copy, Debug, Default)]
struct Writing {
    writers: u32,
    /// How many want to know whether it was touched.
    watchers: u32,
    /// Grows whenever it may have been changed.
    touches: u64,
    /// The row says open because of writers that are counted here.
    ours: bool,
    /// Before the first of these writers: its size, and since which machine starts.
    base: Option<(u64, u32)>,
    /// Where the last byte ends that a writer which has ended wrote.
    end_bytes: u64,
    /// It was truncated since: the ends do not tell its size.
    spoiled: bool,
    /// A writer has gone, or was there before this start, and what it has sent may arrive at any time.
    lost: bool,
}

/// What a row becomes when the last writer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settles {
    /// There is another writer, or one that was lost.
    Not,
    /// To this size since these machine starts.
    To(u64, u32),
    /// Nothing is in flight, but the size is at the I/O servers alone.
    Unknown,
}

impl Writers {
    fn with<T>(&self, id: FileId, work: impl FnOnce(&mut Writing) -> T) -> T {
        let mut files = locked(&self.files);
        let writing = files.entry(id).or_default();
        let answer = work(writing);
        if writing.writers == 0 && writing.watchers == 0 {
            files.remove(&id);
        }
        answer
    }

    /// Somebody is about to be told that it has the file open for writing.
    pub fn begins(&self, id: FileId) {
        self.with(id, |w| {
            w.writers += 1;
            w.touches += 1;
        });
    }

    /// In the transaction that opens the row: it was not open, and this is what it said of the size.
    pub fn opens(&self, id: FileId, base: Option<(u64, u32)>) {
        self.with(id, |w| *w = Writing { ours: true, base, end_bytes: 0, spoiled: false, lost: false, ..*w });
    }

    /// In the transaction that would open the row: it is open already. Unless that is because of writers that are counted here, it
    /// is because of one that was lost.
    pub fn finds_open(&self, id: FileId) {
        self.with(id, |w| w.lost |= !w.ours);
    }

    /// A writer has ended; whether it was the last, and a transaction should ask [`Writers::settles`].
    pub fn ended(&self, id: FileId, end: End) -> bool {
        let mut files = locked(&self.files);
        let Some(w) = files.get_mut(&id) else { return false };
        w.writers = w.writers.saturating_sub(1);
        w.touches += 1;
        match end {
            End::Read => {}
            End::Written { end_bytes } => w.end_bytes = w.end_bytes.max(end_bytes),
            End::Unknown => w.lost = true,
        }
        w.writers == 0
    }

    /// In the transaction after the last writer has ended.
    pub fn settles(&self, id: FileId) -> Settles {
        match locked(&self.files).get(&id) {
            Some(Writing { writers: 0, ours: true, lost: false, base, end_bytes, spoiled, .. }) => match base {
                Some((size_bytes, boots)) if !spoiled => Settles::To((*size_bytes).max(*end_bytes), *boots),
                _ => Settles::Unknown,
            },
            _ => Settles::Not,
        }
    }

    /// After that transaction.
    pub fn settled(&self, id: FileId) {
        self.with(id, |w| {
            if w.writers == 0 {
                *w = Writing { watchers: w.watchers, touches: w.touches, ..Writing::default() };
            }
        });
    }

    /// The file is truncated, or is laid out anew.
    pub fn touches(&self, id: FileId) {
        self.with(id, |w| {
            w.touches += 1;
            w.spoiled = true;
        });
    }

    /// From now on, [`Watched::is_quiet`] says whether the file may have been changed.
    pub fn watch(&self, id: FileId) -> Watched<'_> {
        self.with(id, |w| {
            w.watchers += 1;
            Watched { writers: self, id, touches: (w.writers == 0).then_some(w.touches) }
        })
    }
}

/// A file that is watched.
pub(crate) struct Watched<'a> {
    writers: &'a Writers,
    id: FileId,
    /// As of the beginning; `None`: somebody was writing.
    touches: Option<u64>,
}

impl Watched<'_> {
    /// Whether nobody can have changed it since it is watched, by an open or a truncation that was answered.
    pub fn is_quiet(&self) -> bool {
        locked(&self.writers.files).get(&self.id).is_some_and(|w| w.writers == 0 && Some(w.touches) == self.touches)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.writers.with(self.id, |w| w.watchers -= 1);
    }
}
