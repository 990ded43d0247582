//! Who may be changing which file's bytes: counted in memory, decided in transactions.
//!
//! What is in the inode is changed only in transactions, which are one after the other; the counts here change before them. So a
//! transaction that finds no writer is right about everything that was answered before it, and one that begins later undoes it.

use super::boots::Standing;
use crate::inode::Settlement;
use std::collections::HashMap;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::metadata::{End, FileId, Lengths};

/// Parts of a file that its writers say they have written whole, and that do not touch, at most: more are not distinguished.
const PARTS: usize = 64;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    files: Mutex<HashMap<FileId, Writing>>,
}

/// One file that somebody may change, or that somebody watches.
#[derive(Clone, Debug, Default)]
struct Writing {
    writers: u32,
    /// How many want to know whether it was touched.
    watchers: u32,
    /// Grows whenever it may have been changed.
    touches: u64,
    /// The row says open because of writers that are counted here.
    ours: bool,
    /// What was known of it before the first of these writers.
    base: Option<Settlement>,
    /// The count of machine starts then.
    boots: u32,
    /// Where the last byte ends that a writer which has ended wrote.
    end_bytes: u64,
    /// Parts that writers which have ended wrote whole: where each begins and ends, in no order.
    whole: Vec<(u64, u64)>,
    /// Some of them wrote, and one of those did not sync what it had written.
    wrote: bool,
    unsynced: bool,
    /// It was truncated since: the ends do not give its size.
    spoiled: bool,
    /// A writer has gone, or was there before this start, and what it has sent may arrive at any time.
    lost: bool,
}

/// What a row becomes when the last writer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settles {
    /// There is another writer, or one that was lost.
    Not,
    /// To this.
    To(Settlement),
    /// Nothing is in flight, but the size is at the I/O servers alone; bytes are of these machine starts and of this round, if that is known.
    Unknown(Option<(u32, Option<u64>)>),
}

impl Writers {
    fn with<T>(&self, id: FileId, work: impl FnOnce(&mut Writing) -> T) -> T {
        let mut files = self.files.lock();
        let writing = files.entry(id).or_default();
        let answer = work(writing);
        if writing.writers == 0 && writing.watchers == 0 {
            files.remove(&id);
        }
        answer
    }

    /// Somebody is about to be answered that it has the file open for writing.
    pub(crate) fn begins(&self, id: FileId) {
        self.with(id, |w| {
            w.writers += 1;
            w.touches += 1;
        });
    }

    /// In the transaction that opens the row: it was not open, and this is what it said (`spoiled`: but not the size); and the count of
    /// machine starts.
    pub(crate) fn opens(&self, id: FileId, (base, spoiled): (Option<Settlement>, bool), boots: u32) {
        self.with(id, |w| {
            let (writers, watchers, touches) = (w.writers, w.watchers, w.touches);
            *w = Writing { writers, watchers, touches, ours: true, base, spoiled, boots, ..Writing::default() };
        });
    }

    /// In the transaction that would open the row: it is open already. Unless that is because of writers that are counted here, it
    /// is because of one that was lost.
    pub(crate) fn finds_open(&self, id: FileId) {
        self.with(id, |w| w.lost |= !w.ours);
    }

    /// A writer has ended; whether it was the last, and a transaction should ask [`Writers::settles`].
    pub(crate) fn ended(&self, id: FileId, end: End) -> bool {
        let mut files = self.files.lock();
        let Some(w) = files.get_mut(&id) else { return false };
        w.writers = w.writers.saturating_sub(1);
        w.touches += 1;
        match end {
            End::Read => {}
            End::Written { end_bytes, whole_from_bytes, is_synced } => {
                w.end_bytes = w.end_bytes.max(end_bytes);
                w.wrote = true;
                w.unsynced |= !is_synced;
                if whole_from_bytes < end_bytes && w.whole.len() < PARTS {
                    w.whole.push((whole_from_bytes, end_bytes));
                }
            }
            End::Unknown => w.lost = true,
        }
        w.writers == 0
    }

    /// In the transaction after the last writer has ended; what it wrote is put on stable storage by this round. `standing`: of what was
    /// there before.
    pub(crate) fn settles(&self, id: FileId, round: u64, standing: impl FnOnce(&Settlement) -> Standing) -> Settles {
        match self.files.lock().get(&id) {
            Some(w @ Writing { writers: 0, ours: true, lost: false, .. }) => match &w.base {
                Some(base) => {
                    let settlement = w.settlement(base, round, standing(base));
                    if w.spoiled { Settles::Unknown(Some((settlement.boots, settlement.unsynced))) } else { Settles::To(settlement) }
                }
                None => Settles::Unknown(None),
            },
            _ => Settles::Not,
        }
    }

    /// After that transaction.
    pub(crate) fn settled(&self, id: FileId) {
        self.with(id, |w| {
            if w.writers == 0 {
                *w = Writing { watchers: w.watchers, touches: w.touches, ..Writing::default() };
            }
        });
    }

    /// The file is truncated, or is laid out anew.
    pub(crate) fn touches(&self, id: FileId) {
        self.with(id, |w| {
            w.touches += 1;
            w.spoiled = true;
        });
    }

    /// What was known of a file before those who write it now.
    pub(crate) fn base(&self, id: FileId) -> Option<Settlement> {
        self.files.lock().get(&id)?.base.clone()
    }

    /// From now on, [`Watched::is_quiet`] says whether the file may have been changed.
    pub(crate) fn watch(&self, id: FileId) -> Watched<'_> {
        self.with(id, |w| {
            w.watchers += 1;
            Watched { writers: self, id, touches: (w.writers == 0).then_some(w.touches) }
        })
    }
}

impl Writing {
    /// What the writers have made of what was known before them.
    fn settlement(&self, base: &Settlement, round: u64, standing: Standing) -> Settlement {
        let size_bytes = base.size_bytes.max(self.end_bytes);
        let lengths = match &base.lengths {
            // Nothing that was written within the file makes a datafile shorter.
            known if self.end_bytes <= base.size_bytes => known.clone(),
            Lengths::Whole if self.is_whole_from(base.size_bytes) => Lengths::Whole,
            Lengths::AtLeast(_) | Lengths::Unknown | Lengths::Whole => Lengths::Unknown,
        };
        let (boots, unsynced) = match standing {
            // What was lost before is not there again because something else was written, or synced.
            Standing::Doubtful => (base.boots, base.unsynced),
            _ if !self.wrote => (base.boots, base.unsynced),
            // A sync of a file syncs all of it.
            Standing::Pending if !self.unsynced => (base.boots, None),
            Standing::Pending => (base.boots, Some(round)),
            // Restarts before these writers began have taken nothing.
            Standing::Durable => (self.boots, self.unsynced.then_some(round)),
        };
        Settlement { size_bytes, boots, lengths, unsynced }
    }

    /// Whether the writers together have written everything from here to the last end.
    fn is_whole_from(&self, start: u64) -> bool {
        let mut parts = self.whole.clone();
        parts.sort_unstable();
        let reached = parts.into_iter().fold(start, |reached, (from, to)| if from <= reached { reached.max(to) } else { reached });
        reached >= self.end_bytes
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
    pub(crate) fn is_quiet(&self) -> bool {
        self.writers.files.lock().get(&self.id).is_some_and(|w| w.writers == 0 && Some(w.touches) == self.touches)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.writers.with(self.id, |w| w.watchers -= 1);
    }
}
