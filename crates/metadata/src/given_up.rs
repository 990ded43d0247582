//! Histories that were given up when backups were restored: what I/O servers have witnessed of them is no sign of lost metadata.
//!
//! The row remembers, for each restore, the last change in the backup and the highest epoch that was used until then. A server that
//! witnessed something between the two goes on from the present start, whenever it comes back. Later epochs are not covered, so a copy of
//! the directory that is put back by hand is still found to be older.

use crate::database::{Table, View};
use crate::inode::{decode, encode};
use thalweg_wire::Result;
use thalweg_wire::protocol::common::Witnessed;

/// Key in [`Table::State`].
pub(crate) const GIVEN_UP: &[u8] = b"namespace.given_up";
/// Bound: restores that are remembered, the last ones.
const RESTORES: usize = 256;

/// The histories that were given up: the last change in the backup, and the last epoch given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenUp(Vec<(Witnessed, u64)>);

impl GivenUp {
    /// Reads the row.
    ///
    /// # Errors
    /// It cannot be decoded.
    pub(crate) fn read(view: &(impl View + ?Sized)) -> Result<GivenUp> {
        let value = view.get(Table::State, GIVEN_UP)?;
        value.map_or_else(|| Ok(GivenUp::default()), |value| GivenUp::decode(&value))
    }

    pub(crate) fn decode(value: &[u8]) -> Result<GivenUp> {
        decode(Table::State, GIVEN_UP, value).map(GivenUp)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(&self.0)
    }

    /// Adds everything after `last`, up to the end of epoch `until`.
    pub(crate) fn add(&mut self, last: Witnessed, until: u64) {
        self.0.push((last, until));
        let surplus = self.0.len().saturating_sub(RESTORES);
        self.0.drain(..surplus);
    }

    /// Returns whether what a server witnessed was given up.
    pub(crate) fn has(&self, seen: Witnessed) -> bool {
        self.0.iter().any(|(last, until)| {
            let is_later = seen.start.epoch > last.start.epoch || seen.start == last.start && seen.change > last.change;
            is_later && seen.start.epoch <= *until
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::common::ServiceStart;

    #[test]
    fn only_what_came_between_a_backup_and_its_restore_is_given_up() {
        let at = |epoch, start, change| Witnessed { start: ServiceStart { epoch, start }, change };
        let mut given_up = GivenUp::default();
        given_up.add(at(3, 13, 100), 5);
        let given_up = GivenUp::decode(&given_up.encode()).unwrap();
        for gone in [at(3, 13, 101), at(4, 14, 0), at(5, 99, 7)] {
            assert!(given_up.has(gone), "{gone:?}");
        }
        for kept in [at(3, 13, 100), at(3, 77, 500), at(2, 12, 500), at(6, 16, 0)] {
            assert!(!given_up.has(kept), "{kept:?}");
        }
    }
}
