//! The earlier starts of the service and the last change of each: detects metadata that is older than what I/O servers' targets have
//! witnessed.
//!
//! Every start ends with its last change. A target that witnessed a later start, a later change of a start, or another start of the same
//! epoch was notified by metadata that is not here: this directory was lost, or replaced by an older copy. This is detected at a start, for
//! the servers that respond, or when a server reports what it witnessed, which may be many starts later.
//!
//! The operator can accept this ([`WitnessReports::accepts_older`]); then what each server had witnessed is stored. Storing only that older
//! metadata was once accepted would not suffice: a copy of this directory restored later is older again.

use super::database::{Table, Transaction, View};
use super::inode::{decode, encode};
use serde::{Deserialize, Serialize};
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::{Error, ErrorKind, Result};

/// Key in [`Table::State`].
pub(crate) const LINEAGE: &[u8] = b"namespace.lineage";
/// Bound: starts that are remembered. A server that was away for longer is checked against the epoch alone.
const STARTS: usize = 256;

/// What the I/O servers' targets have witnessed.
#[derive(Clone, Debug, Default)]
pub struct WitnessReports {
    /// The responding servers by name.
    pub servers: Vec<(String, Witnessed)>,
    /// Whether to accept a database that is older than that, with the files it has.
    pub accepts_older: bool,
}

/// The earlier starts, and what was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    /// Starts that have ended, each with its last change, in order.
    ended: Vec<Witnessed>,
    /// What servers had witnessed when this metadata was accepted although it is older.
    accepted: Vec<(String, Witnessed)>,
}

/// The finding that the metadata is older than what a server witnessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    server: String,
    seen: Witnessed,
    /// The last change of this metadata.
    here: Witnessed,
}

impl Older {
    /// Describes what the server witnessed, and this metadata's last change.
    pub(crate) fn finding(&self) -> String {
        let Older { server, seen, here } = self;
        let (epoch, change) = (seen.start.epoch, seen.change);
        let reported = if change > 0 {
            format!("{server} was notified of change {change} in start {epoch}")
        } else {
            format!("{server} has datafiles of start {epoch}")
        };
        let come = if here.start == seen.start {
            format!("this metadata ends at change {} of it", here.change)
        } else if here.start.epoch == epoch {
            "this metadata has another start of that number".to_owned()
        } else {
            format!("this metadata was last used in start {}", here.start.epoch)
        };
        format!("{reported} of the metadata service, and {come}")
    }

    /// Returns the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns what the server witnessed.
    pub(crate) fn seen(&self) -> Witnessed {
        self.seen
    }

    /// Describes the finding and its consequences once accepted.
    pub fn missing(&self) -> String {
        format!(
            "{}. Files created, renamed, truncated or removed since are as they were before; datafiles whose numbers will be given again \
             are in the targets' set-aside directories",
            self.finding()
        )
    }

    /// Returns the error that refuses the start, or the server.
    pub(crate) fn refusal(&self) -> Error {
        Error::new(
            ErrorKind::Absent,
            format!(
                "the metadata is older than the datafiles: {}. The metadata directory was lost or replaced by an older copy: put the newest \
                 one back, or start the metadata service with --accept-older-metadata to continue with this one (files created, renamed, \
                 truncated or removed since are as they were before; files that it does not know are lost)",
                self.finding()
            ),
        )
    }
}

impl Lineage {
    /// Reads the stored lineage.
    ///
    /// # Errors
    /// The row cannot be decoded.
    pub(crate) fn read(view: &(impl View + ?Sized)) -> Result<Lineage> {
        let value = view.get(Table::State, LINEAGE)?;
        Ok(value.map(|value| decode(Table::State, LINEAGE, &value)).transpose()?.unwrap_or_default())
    }

    /// Stores the lineage.
    pub(crate) fn keep(&self, t: &mut dyn Transaction) {
        t.put(Table::State, LINEAGE, encode(self));
    }

    /// Records the last change of a start that has ended.
    pub(crate) fn end(&mut self, last: Witnessed) {
        if last.start.epoch == 0 {
            return;
        }
        self.ended.push(last);
        let surplus = self.ended.len().saturating_sub(STARTS);
        self.ended.drain(..surplus);
    }

    /// Checks what a server witnessed against this metadata and its current start, if any; `None` if the metadata is not older, or that was
    /// accepted.
    pub(crate) fn older(&self, server: &str, seen: Witnessed, now: Option<ServiceStart>) -> Option<Older> {
        if seen.start.epoch == 0 || now == Some(seen.start) || self.has_accepted(server, seen) {
            return None;
        }
        let ended = self.ended.iter().rev().find(|ended| ended.start.epoch <= seen.start.epoch).copied();
        let here = match (ended, now) {
            (_, Some(now)) if seen.start.epoch >= now.epoch => Witnessed { start: now, change: 0 },
            (Some(ended), _) => ended,
            (None, _) if self.ended.is_empty() => Witnessed::default(),
            // It witnessed a start before the first one remembered.
            (None, _) => return None,
        };
        let is_older = here.start.is_behind(seen.start) || here.start == seen.start && here.change < seen.change;
        is_older.then(|| Older { server: server.to_owned(), seen, here })
    }

    /// Accepts the finding.
    pub(crate) fn accept(&mut self, older: &Older) {
        self.accepted.retain(|(server, _)| *server != older.server);
        self.accepted.push((older.server.clone(), older.seen));
    }

    /// Returns whether it was accepted that this server witnessed what is not here.
    pub(crate) fn has_accepted(&self, server: &str, seen: Witnessed) -> bool {
        self.accepted.iter().any(|(name, accepted)| name == server && *accepted == seen)
    }

    /// Returns the epoch of the next start: higher than all that servers have witnessed, so that numbers are not reused, but ignoring
    /// implausible ones. Datafiles of implausible epochs are set aside by their servers.
    pub(crate) fn next(&self, last: ServiceStart, older: &[Older]) -> u64 {
        let seen = older.iter().map(|older| older.seen.start.epoch).filter(|seen| is_plausible(*seen, last.epoch));
        seen.max().unwrap_or(0).max(last.epoch) + 1
    }
}

/// Returns whether the service can have reached this epoch, given the epoch in which this copy was last used.
pub(crate) fn is_plausible(epoch: u64, since: u64) -> bool {
    epoch <= since.saturating_add(limits::PLAUSIBLE_STARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, start: u64, change: u64) -> Witnessed {
        Witnessed { start: ServiceStart { epoch, start }, change }
    }

    #[test]
    fn what_is_older_than_a_server_was_notified_of_is_found_at_a_start_and_later() {
        let mut lineage = Lineage::default();
        for ended in [at(1, 11, 9), at(2, 12, 20)] {
            lineage.end(ended);
        }
        let now = ServiceStart { epoch: 3, start: 13 };
        let fine = [at(0, 0, 0), at(1, 11, 9), at(1, 11, 0), at(1, 0, 0), at(2, 12, 20)];
        let older = [at(1, 11, 10), at(1, 99, 0), at(2, 12, 21), at(2, 99, 1), at(4, 1, 0), at(0xff_ffff, 0, 0)];
        for now in [None, Some(now)] {
            assert!(fine.iter().all(|seen| lineage.older("io0", *seen, now).is_none()));
            assert!(older.iter().all(|seen| lineage.older("io0", *seen, now).is_some()));
        }
        assert!(lineage.older("io0", at(3, 13, 500), Some(now)).is_none(), "the present start's own changes");
        assert!(lineage.older("io0", at(3, 14, 0), Some(now)).is_some(), "another start of this epoch");
        assert!(lineage.older("io0", at(3, 13, 0), None).is_some(), "a start that is not here");
        let found = lineage.older("io2", at(1, 11, 12), None).unwrap();
        assert_eq!(
            found.finding(),
            "io2 was notified of change 12 in start 1 of the metadata service, and this metadata ends at change 9 of it"
        );
    }

    #[test]
    fn acceptance_is_of_what_a_server_was_notified_of_then_and_of_nothing_else() {
        let mut lineage = Lineage::default();
        lineage.end(at(1, 11, 9));
        let seen = at(0xff_ffff, 0, 0);
        lineage.accept(&lineage.older("io0", seen, None).unwrap());
        assert!(lineage.has_accepted("io0", seen) && lineage.older("io0", seen, None).is_none());
        assert!(lineage.older("io1", seen, None).is_some());
        // A start between the existing ones.
        lineage.end(at(4, 14, 50));
        assert!(lineage.older("io0", at(3, 13, 1), None).is_some());
        // This directory, restored after servers have witnessed more.
        assert!(lineage.older("io0", at(5, 15, 1), None).is_some());
    }

    #[test]
    fn the_next_epoch_is_higher_than_all_plausible_ones() {
        let lineage = Lineage::default();
        let last = ServiceStart { epoch: 7, start: 1 };
        let older = |epoch| Older { server: "io0".into(), seen: at(epoch, 0, 0), here: at(7, 1, 0) };
        assert_eq!(lineage.next(last, &[]), 8);
        assert_eq!(lineage.next(last, &[older(7), older(9), older(8)]), 10);
        assert_eq!(lineage.next(last, &[older(9), older(0xff_ffff)]), 10);
        assert_eq!(lineage.next(last, &[older(0xff_ffff)]), 8);
    }
}
