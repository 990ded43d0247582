//! Facts of a run that several kinds of numbers need, computed once.

use super::super::about::{self, Synced};
use super::super::groups::Group;
use super::super::of::Of;
use super::turns::Turns;
use super::words::waits_for_answers;
use crate::cause::{Cause, End};
use crate::limits::numbers as limits;

/// A run.
pub(super) struct Run<'a> {
    /// The basis of its summary.
    pub(super) of: &'a Of<'a>,
    /// Its syncs.
    pub(super) synced: Synced,
    /// Number of files, entries or transactions, and their name; `None` if the run was about other things, or few of them.
    pub(super) items: Option<(u64, &'static str)>,
    turns: Option<Turns>,
}

impl<'a> Run<'a> {
    /// Computes them for a summary.
    pub(super) fn of(of: &'a Of<'a>) -> Run<'a> {
        let synced = about::synced(of);
        Run { of, items: items(of, &synced), synced, turns: Turns::of(of) }
    }

    /// Time that threads of one end ran in syncs, by samples, in nanoseconds.
    pub(super) fn syncing_ns(&self, end: End) -> f64 {
        let parts = self.of.parts;
        let computes = |cause: Cause| matches!(cause, Cause::ClientCpu | Cause::ServerCpu) && cause.end() == Some(end);
        let members: Vec<usize> = (0..parts.ledger.entries.len()).filter(|&at| computes(parts.ledger.entries[at].cause)).collect();
        let ns: u64 = members.iter().map(|&at| parts.ledger.entries[at].runs.total_ns).sum();
        ns as f64 * parts.around.part_sampled(&members, |class| class.starts_with("sync"))
    }

    /// Time waited for a processor directly after a group's waits, in nanoseconds: a thread that does not wait need not be woken.
    pub(super) fn queued_after_ns(&self, group: &Group<'_>) -> f64 {
        let ledger = &self.of.parts.ledger;
        let is_queue = |entry: u32| matches!(ledger.entries[entry as usize].cause, Cause::ClientRunqueue | Cause::ServerRunqueue);
        let later_first = ledger.path.windows(2).filter(|pair| group.has(pair[1].entry) && is_queue(pair[0].entry));
        later_first.map(|pair| (pair[0].end - pair[0].start) as f64).sum()
    }

    /// Its turns, if the cause is waiting for answers.
    pub(super) fn turns_of(&self, group: &Group<'_>) -> Option<&Turns> {
        self.turns.as_ref().filter(|_| waits_for_answers(group.cause))
    }
}

fn items(of: &Of<'_>, synced: &Synced) -> Option<(u64, &'static str)> {
    let are_many = |(n, _): &(u64, &str)| *n >= limits::LEAST_ITEMS;
    let entries = of.round_trips.and_then(|trips| trips.per_entry.as_ref()).map(|entry| (entry.entries, "entries"));
    let transactions = Some((synced.transactions, "transactions")).filter(are_many);
    let own = about::is_own(of).then_some((of.transfers, "files"));
    let counted = || about::files(of).map(|done| (done.n, done.what));
    entries.or(transactions).or(own).or_else(counted).filter(are_many)
}
