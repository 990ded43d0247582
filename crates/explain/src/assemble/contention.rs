//! Threads of one process that wait for each other, with at most one running at a time.

use crate::facts::Parts;
use crate::limits::assemble as limits;

/// Threads of a process that took turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Number of threads involved.
    pub threads: usize,
    /// Time they waited for each other in locks, summed, in nanoseconds.
    pub locked_ns: u64,
}

impl Turns {
    /// The phrase that continues a sentence: `at most one of its 8 threads at a time`.
    pub(crate) fn words(self) -> String {
        format!("at most one of its {} threads at a time", self.threads)
    }
}

/// The turns of the process of this thread (any with its label), if several of its threads ran, and hardly ever two simultaneously, while
/// the others waited in locks. `None` on a machine with one processor, which allows no more anyway.
pub(crate) fn turns(parts: &Parts<'_>, label: u32) -> Option<Turns> {
    let of = parts.tables.actors.get(label as usize).filter(|actor| actor.thread && actor.pid != 0)?;
    if parts.tables.machines.get(of.machine as usize).is_none_or(|machine| machine.cpus < 2) || parts.tables.sampled {
        return None;
    }
    let threads = parts.tables.actors.iter().zip(&parts.seen.did);
    let threads = threads.filter(|(actor, did)| actor.pid == of.pid && actor.machine == of.machine && did.spans > 0);
    let ran_ns = |did: &crate::observe::observation::ThreadActivity| did.cpu_ns + did.uncovered_ns;
    let threads: Vec<_> = threads.map(|(_, did)| did).collect();
    let all_ns: u64 = threads.iter().map(|did| ran_ns(did)).sum();
    let taking_turns: Vec<_> = threads.into_iter().filter(|did| ran_ns(did) * limits::TURNS_PART >= all_ns).collect();
    if taking_turns.len() < 2 {
        return None;
    }
    // From the start of the second thread to the end of the second last: a thread alone takes no turns.
    let mut begins: Vec<i64> = taking_turns.iter().map(|did| did.first_start).collect();
    let mut ends: Vec<i64> = taking_turns.iter().map(|did| did.last_end).collect();
    begins.sort_unstable();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let together_ns = u64::try_from(ends[1] - begins[1]).ok().filter(|&ns| ns > 0)?;
    let ran: u64 = taking_turns.iter().map(|did| ran_ns(did)).sum();
    let locked_ns: u64 = taking_turns.iter().map(|did| did.lock_ns).sum();
    let others_ns = together_ns * (taking_turns.len() as u64 - 1);
    // If hardly any thread ran, they waited for work, or for a lock held across something else.
    let part = ran as f64 / together_ns as f64;
    let one_at_a_time = (limits::TURNS_TAKEN..=limits::TURNS_AT_ONCE).contains(&part);
    let waited = locked_ns as f64 >= others_ns as f64 * limits::TURNS_LOCKED;
    (one_at_a_time && waited).then_some(Turns { threads: taking_turns.len(), locked_ns })
}
