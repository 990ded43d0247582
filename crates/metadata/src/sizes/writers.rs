//! The writers of each file: counted in memory, evaluated in transactions.
//!
//! Inodes are changed only in transactions, which are serial; the counts here change before them. So a transaction that finds no writer is
//! right about everything answered before it, and a later transaction revises it.

use super::boots::Standing;
use crate::inode::Settlement;
use std::collections::HashMap;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::metadata::{End, FileId, Lengths};

/// Bound: separate completely written parts of a file that are tracked.
const PARTS: usize = 64;

/// The writers of all files.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    files: Mutex<HashMap<FileId, Writing>>,
}

/// A file that has writers or is being watched.
#[derive(Clone, Debug, Default)]
struct Writing {
    writers: u32,
    /// Number of watchers.
    watchers: u32,
    /// Grows whenever the file may have been changed.
    touches: u64,
    /// The row is open because of the writers counted here.
    ours: bool,
    /// The settlement before the first of these writers.
    base: Option<Settlement>,
    /// The count of machine starts at that time.
    boots: u32,
    /// The highest end of the bytes written by writers that have ended.
    end_bytes: u64,
    /// Parts completely written by writers that have ended: start and end, in no order.
    whole: Vec<(u64, u64)>,
    /// A writer wrote, and one of those that wrote did not sync its bytes.
    wrote: bool,
    unsynced: bool,
    /// The file was truncated since, so the ends do not determine its size.
    spoiled: bool,
    /// A writer has failed, or precedes this start, so its messages may arrive at any time.
    lost: bool,
}

/// The state of a row when the last writer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settles {
    /// Unchanged: there is another writer, or a lost one.
    Not,
    /// This settlement.
    To(Settlement),
    /// Nothing in flight, but only the I/O servers know the size; holds the machine starts and the round of the bytes, if known.
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

    /// Counts a writer, before its open is answered.
    pub(crate) fn begins(&self, id: FileId) {
        self.with(id, |w| {
            w.writers += 1;
            w.touches += 1;
        });
    }

    /// Called in the transaction that opens the row, which was not open: stores its settlement (`spoiled`: without a valid size) and the
    /// count of machine starts.
    pub(crate) fn opens(&self, id: FileId, (base, spoiled): (Option<Settlement>, bool), boots: u32) {
        self.with(id, |w| {
            let (writers, watchers, touches) = (w.writers, w.watchers, w.touches);
            *w = Writing { writers, watchers, touches, ours: true, base, spoiled, boots, ..Writing::default() };
        });
    }

    /// Called in the transaction that finds the row open: unless that is due to writers counted here, it is due to a lost one.
    pub(crate) fn finds_open(&self, id: FileId) {
        self.with(id, |w| w.lost |= !w.ours);
    }

    /// Counts the end of a writer; returns whether it was the last, so that a transaction should call [`Writers::settles`].
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

    /// Called in the transaction after the last writer has ended; returns the row's new state, with bytes to be synced in this round.
    /// `standing`: the state of the earlier bytes.
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

    /// Called after that transaction.
    pub(crate) fn settled(&self, id: FileId) {
        self.with(id, |w| {
            if w.writers == 0 {
                *w = Writing { watchers: w.watchers, touches: w.touches, ..Writing::default() };
            }
        });
    }

    /// Records that the file is truncated, or gets a new layout.
    pub(crate) fn touches(&self, id: FileId) {
        self.with(id, |w| {
            w.touches += 1;
            w.spoiled = true;
        });
    }

    /// Returns a file's settlement before its current writers.
    pub(crate) fn base(&self, id: FileId) -> Option<Settlement> {
        self.files.lock().get(&id)?.base.clone()
    }

    /// Watches a file: [`Watched::is_quiet`] then returns whether it may have been changed.
    pub(crate) fn watch(&self, id: FileId) -> Watched<'_> {
        self.with(id, |w| {
            w.watchers += 1;
            Watched { writers: self, id, touches: (w.writers == 0).then_some(w.touches) }
        })
    }
}

impl Writing {
    /// Derives the settlement after the writers from the one before.
    fn settlement(&self, base: &Settlement, round: u64, standing: Standing) -> Settlement {
        let size_bytes = base.size_bytes.max(self.end_bytes);
        let lengths = match &base.lengths {
            // Writes within the file do not shorten any datafile.
            known if self.end_bytes <= base.size_bytes => known.clone(),
            Lengths::Whole if self.is_whole_from(base.size_bytes) => Lengths::Whole,
            Lengths::AtLeast(_) | Lengths::Unknown | Lengths::Whole => Lengths::Unknown,
        };
        let (boots, unsynced) = match standing {
            // Other writes or syncs do not restore lost bytes.
            Standing::Doubtful => (base.boots, base.unsynced),
            _ if !self.wrote => (base.boots, base.unsynced),
            // A sync covers the whole file.
            Standing::Pending if !self.unsynced => (base.boots, None),
            Standing::Pending => (base.boots, Some(round)),
            // Restarts before these writers have lost nothing.
            Standing::Durable => (self.boots, self.unsynced.then_some(round)),
        };
        Settlement { size_bytes, boots, lengths, unsynced }
    }

    /// Returns whether the writers together have written everything from here to the highest end.
    fn is_whole_from(&self, start: u64) -> bool {
        let mut parts = self.whole.clone();
        parts.sort_unstable();
        let reached = parts.into_iter().fold(start, |reached, (from, to)| if from <= reached { reached.max(to) } else { reached });
        reached >= self.end_bytes
    }
}

/// A file being watched.
pub(crate) struct Watched<'a> {
    writers: &'a Writers,
    id: FileId,
    /// The change counter at the start; `None` if there was a writer.
    touches: Option<u64>,
}

impl Watched<'_> {
    /// Returns whether the file cannot have been changed since by an answered open or truncation.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writers.files.lock().get(&self.id).is_some_and(|w| w.writers == 0 && Some(w.touches) == self.touches)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.writers.with(self.id, |w| w.watchers -= 1);
    }
}
