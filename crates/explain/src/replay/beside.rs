//! Processes that continue beside what a change removes: those that the command started, and that ended before it did.
//!
//! A process waiting for a lock held by another process of the command is not all of the command: the holder's own work takes its time in
//! any case. A wait for a child that had already ended is not recorded, so the replay does not know that its end was needed; it is assumed
//! to be.

use crate::cause::{Cause, End};
use crate::facts::Parts;
use crate::observe::lives::Life;
use crate::observe::observation::ThreadActivity;
use crate::waits::place::Place;
use std::collections::HashSet;
use thalweg_trace::linux::SIGNAL_STATUS;

/// A process of the command.
#[derive(Clone, Debug, PartialEq)]
struct Beside {
    /// Time it was started, in nanoseconds from the start of the run.
    from_ns: f64,
    /// Time it worked: ran, queued for a processor, and waited for files.
    worked_ns: f64,
    /// Time it slept, or waited for something unknown.
    slept_ns: f64,
    /// By cause, the path's charges before it was started.
    before_ns: Vec<f64>,
}

/// The processes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Besides {
    processes: Vec<Beside>,
    wall_ns: f64,
}

impl Besides {
    /// Reads them from the facts.
    pub(crate) fn of(parts: &Parts<'_>) -> Besides {
        let actors = parts.tables.actors.iter().zip(&parts.facts.lives).zip(&parts.seen.did).enumerate();
        let own = actors.filter(|(track, ((actor, _), _))| {
            actor.leads() && actor.end == End::Client && !actor.reached && *track != parts.tables.main as usize
        });
        let waiting = waiting_programs(parts);
        let processes =
            own.filter_map(|(_, ((actor, life), did))| Beside::of(parts, (life, did), !waiting.contains(actor.program()))).collect();
        Besides { processes, wall_ns: (parts.end - parts.start).max(1) as f64 }
    }

    /// The part of the wall time that other processes need, if a change of this kind removes these causes.
    pub(super) fn least(&self, id: &str, removed: &[Cause]) -> f64 {
        if !matches!(id, "no_lock" | "no_think") {
            return 0.0;
        }
        let least_ns = |process: &Beside| process.least_ns(removed) + if id == "no_lock" { process.slept_ns } else { 0.0 };
        self.processes.iter().map(least_ns).fold(0.0, f64::max) / self.wall_ns
    }
}

/// The programs that waited for a lock: their sleeps may have been between attempts.
fn waiting_programs<'a>(parts: &'a Parts<'_>) -> HashSet<&'a str> {
    let of_locks = parts.ledger.entries.iter().filter(|entry| matches!(entry.cause, Cause::ClientLock | Cause::ServerLock));
    let labels = of_locks.filter_map(|entry| match entry.place {
        Place::Thread { label, .. } => Some(label),
        Place::Held { waiter, .. } | Place::HeldElsewhere { waiter, .. } => Some(waiter),
        _ => None,
    });
    labels.filter_map(|label| Some(parts.tables.actors.get(label as usize)?.program())).collect()
}

impl Beside {
    fn of(parts: &Parts<'_>, (life, did): (&Life, &ThreadActivity), sleeps_for_itself: bool) -> Option<Beside> {
        let (from, until) = (life.made()?.0.max(parts.start), life.until?);
        // A process ended by a signal may no longer have been needed.
        if until > parts.end || life.status.is_none_or(|status| status > SIGNAL_STATUS) {
            return None;
        }
        let mut before_ns = vec![0.0; Cause::ALL.len()];
        for run in parts.ledger.path.iter().filter(|run| run.start < from) {
            before_ns[parts.ledger.entries[run.entry as usize].cause as usize] += (run.end.min(from) - run.start) as f64;
        }
        let lived_ns = (until - from) as f64;
        let worked_ns = ((did.cpu_ns + did.uncovered_ns + did.runqueue_ns + did.file_ns) as f64).min(lived_ns);
        let slept_ns = (lived_ns - worked_ns - (did.lock_ns + did.network_ns) as f64).max(0.0);
        let slept_ns = if sleeps_for_itself { slept_ns } else { 0.0 };
        Some(Beside { from_ns: (from - parts.start) as f64, worked_ns, slept_ns, before_ns })
    }

    fn least_ns(&self, removed: &[Cause]) -> f64 {
        let before_ns: f64 = removed.iter().map(|&cause| self.before_ns[cause as usize]).sum();
        (self.from_ns - before_ns).max(0.0) + self.worked_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_holder_does_is_left_where_nobody_waits_for_its_lock() {
        let mut before_ns = vec![0.0; Cause::ALL.len()];
        before_ns[Cause::ClientThink as usize] = 50.0;
        let holder = Beside { from_ns: 100.0, worked_ns: 700.0, slept_ns: 100.0, before_ns };
        let all = Besides { processes: vec![holder], wall_ns: 1_000.0 };
        let least = |id: &str, removed: Cause| all.least(id, &[removed]);
        assert_eq!(least("no_lock", Cause::ClientLock), 0.9);
        assert_eq!(least("no_think", Cause::ClientThink), 0.75);
        assert_eq!(least("rtt.half", Cause::NetworkLatency), 0.0);
    }
}
