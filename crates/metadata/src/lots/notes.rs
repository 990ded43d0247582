//! A log of reclaimed lots: the last entries, and a line on standard error for each.

use std::collections::VecDeque;
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;

/// The last entries.
#[derive(Default)]
pub(super) struct Notes(Mutex<VecDeque<String>>);

impl Notes {
    /// Adds an entry.
    pub(super) fn add(&self, note: String) {
        eprintln!("thalweg metadata: {note}");
        let mut notes = self.0.lock();
        if notes.len() == limits::LOT_NOTES {
            notes.pop_front();
        }
        notes.push_back(note);
    }

    /// Returns the last entries, in order.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}
