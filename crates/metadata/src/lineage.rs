//! Which starts of the service there were before this one, and how far the log had come in each: whether the metadata is older than what an
//! I/O server's targets have been notified of.
//!
//! Every start ends with its last change. A target that was notified of a later start, of a later change of a start, or of another start of
//! the same epoch was notified by metadata that is not here: this directory was lost, or an older copy of it was put back. That is found
//! at a start, of the servers that answer; or when a server says what it was notified of, which may be many starts later.
//!
//! Somebody may accept it ([`Seen::accepts_older`]): then what each server was notified of is remembered as such. It is not enough to remember
//! that older metadata was accepted once: a copy of this directory that is put back later is as old as any other.

use super::database::{Table, Transaction, View};
use super::inode::{decode, encode};
use serde::{Deserialize, Serialize};
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::{Error, ErrorKind, Result};

/// Key in [`Table::State`].
const LINEAGE: &[u8] = b"namespace.lineage";
/// Starts that are remembered: a server that was away for longer is held against the epoch alone.
const STARTS: usize = 256;

/// What the I/O servers' targets have been notified of.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// By the servers' names, of those that answer.
    pub servers: Vec<(String, Witnessed)>,
    /// Whether a database that is older than that is taken all the same: its files are those that there were.
    pub accepts_older: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    /// Starts that have ended, each with the last change of it, in order.
    ended: Vec<Witnessed>,
    /// What servers had been notified of when it was accepted that this metadata is older.
    accepted: Vec<(String, Witnessed)>,
}

/// The metadata is older than what a server was notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    server: String,
    seen: Witnessed,
    /// How far this metadata has come.
    here: Witnessed,
}

impl Older {
    /// What a server was notified of, and how far this metadata has come.
    pub(crate) fn finding(&self) -> String {
        let Older { server, seen, here } = self;
        let (epoch, change) = (seen.start.epoch, seen.change);
        let reported = if change > 0 {
            format!("{server} was notified of change {change} in start {epoch}")
        } else {
            format!("{server} has datafiles of start {epoch}")
        };
        let come = if here.start == seen.start {
            format!("this metadata has come to change {} of it", here.change)
        } else if here.start.epoch == epoch {
            "this metadata was used in another start of that number".to_owned()
        } else {
            format!("this metadata was last used in start {}", here.start.epoch)
        };
        format!("{reported} of the metadata service, and {come}")
    }

    /// What the server was notified of.
    pub(crate) fn seen(&self) -> Witnessed {
        self.seen
    }

    /// The same, and what that means for somebody who has accepted it.
    pub fn missing(&self) -> String {
        format!(
            "{}. Files made, renamed, truncated or removed since are as they were before; datafiles with numbers that are still to be given are \
             in the targets' set-aside directories",
            self.finding()
        )
    }

    /// The refusal of a start, or of a server.
    pub(crate) fn refusal(&self) -> Error {
        Error::new(
            ErrorKind::Absent,
            format!(
                "the metadata is older than the datafiles: {}. The metadata directory was lost, or an older copy was put back: put the newest one \
                 back, or start the metadata service with --accept-older-metadata to go on with this one (files made, renamed, truncated or \
                 removed since are as they were before; what it does not know is lost)",
                self.finding()
            ),
        )
    }
}

impl Lineage {
    /// As it is kept.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub(crate) fn read(view: &(impl View + ?Sized)) -> Result<Lineage> {
        let value = view.get(Table::State, LINEAGE)?;
        Ok(value.map(|value| decode(Table::State, LINEAGE, &value)).transpose()?.unwrap_or_default())
    }

    /// Keeps it.
    pub(crate) fn keep(&self, t: &mut dyn Transaction) {
        t.put(Table::State, LINEAGE, encode(self));
    }

    /// A start has ended, with this change.
    pub(crate) fn end(&mut self, last: Witnessed) {
        if last.start.epoch == 0 {
            return;
        }
        self.ended.push(last);
        let surplus = self.ended.len().saturating_sub(STARTS);
        self.ended.drain(..surplus);
    }

    /// Whether this metadata, in its present start if there is one, is older than what a server was notified of; `None`: it is not, or that was
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
            // It was notified before the first start that is remembered.
            (None, _) => return None,
        };
        let is_older = here.start.is_behind(seen.start) || here.start == seen.start && here.change < seen.change;
        is_older.then(|| Older { server: server.to_owned(), seen, here })
    }

    /// Goes on all the same.
    pub(crate) fn accept(&mut self, older: &Older) {
        self.accepted.retain(|(server, _)| *server != older.server);
        self.accepted.push((older.server.clone(), older.seen));
    }

    /// Whether somebody has accepted that this server was notified of what is not here.
    pub(crate) fn has_accepted(&self, server: &str, seen: Witnessed) -> bool {
        self.accepted.iter().any(|(name, accepted)| name == server && *accepted == seen)
    }

    /// The epoch of the next start. It is higher than all that servers have seen, so that no number is given twice; but not than one that was
    /// made up: those that made files of it up have them set aside.
    pub(crate) fn next(&self, last: ServiceStart, older: &[Older]) -> u64 {
        let seen = older.iter().map(|older| older.seen.start.epoch).filter(|seen| is_plausible(*seen, last.epoch));
        seen.max().unwrap_or(0).max(last.epoch) + 1
    }
}

/// Whether the service can have been in this epoch, since a copy of it was last used in that one.
fn is_plausible(epoch: u64, since: u64) -> bool {
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
            "io2 was notified of change 12 in start 1 of the metadata service, and this metadata has come to change 9 of it"
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
        // A start between those that are here.
        lineage.end(at(4, 14, 50));
        assert!(lineage.older("io0", at(3, 13, 1), None).is_some());
        // This directory, put back when servers have gone on.
        assert!(lineage.older("io0", at(5, 15, 1), None).is_some());
    }

    #[test]
    fn the_next_epoch_is_higher_than_all_that_were_and_not_than_those_made_up() {
        let lineage = Lineage::default();
        let last = ServiceStart { epoch: 7, start: 1 };
        let older = |epoch| Older { server: "io0".into(), seen: at(epoch, 0, 0), here: at(7, 1, 0) };
        assert_eq!(lineage.next(last, &[]), 8);
        assert_eq!(lineage.next(last, &[older(7), older(9), older(8)]), 10);
        assert_eq!(lineage.next(last, &[older(9), older(0xff_ffff)]), 10);
        assert_eq!(lineage.next(last, &[older(0xff_ffff)]), 8);
    }
}
