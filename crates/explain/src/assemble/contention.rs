//! Threads of one process that wait for each other: many of them, of which no more than one ran at a time.

use crate::facts::Parts;
use crate::limits::assemble as limits;

/// Threads of a process that took turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    /// How many threads had a part in it.
    pub threads: usize,
    /// For how long they waited for each other in locks, together, in nanoseconds.
    pub locked_ns: u64,
}

impl Turns {
    /// As a sentence goes on: `at most one of its 8 threads at a time`.
    pub(crate) fn words(self) -> String {
        format!("at most one of its {} threads at a time", self.threads)
    }
}

/// Of the process that this thread (any with its label) is of: whether several of its threads ran, and hardly ever two at once, while the others
/// waited in locks. A machine with one processor gives no more anyway.
pub(crate) fn turns(parts: &Parts<'_>, label: u32) -> Option<Turns> {
    let of = parts.tables.actors.get(label as usize).filter(|actor| actor.thread && actor.pid != 0)?;
    if parts.tables.machines.get(of.machine as usize).is_none_or(|machine| machine.cpus < 2) || parts.tables.sampled {
        return None;
    }
    let threads = parts.tables.actors.iter().zip(&parts.seen.did);
    let threads = threads.filter(|(actor, did)| actor.pid == of.pid && actor.machine == of.machine && did.spans > 0);
    let ran_ns = |did: &crate::observe::observation::Did| did.cpu_ns + did.uncovered_ns;
    let threads: Vec<_> = threads.map(|(_, did)| did).collect();
    let all_ns: u64 = threads.iter().map(|did| ran_ns(did)).sum();
    let taking_turns: Vec<_> = threads.into_iter().filter(|did| ran_ns(did) * limits::TURNS_PART >= all_ns).collect();
    if taking_turns.len() < 2 {
        return None;
    }
    // From when the second of them was there until the second last had ended: what one does alone is no turn.
    let mut begins: Vec<i64> = taking_turns.iter().map(|did| did.first_start).collect();
    let mut ends: Vec<i64> = taking_turns.iter().map(|did| did.last_end).collect();
    begins.sort_unstable();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let together_ns = u64::try_from(ends[1] - begins[1]).ok().filter(|&ns| ns > 0)?;
    let ran: u64 = taking_turns.iter().map(|did| ran_ns(did)).sum();
    let locked_ns: u64 = taking_turns.iter().map(|did| did.lock_ns).sum();
    let others_ns = together_ns * (taking_turns.len() as u64 - 1);
    // (Where hardly anybody ran, they waited for work, or for a lock held across something else.)
    let part = ran as f64 / together_ns as f64;
    let one_at_a_time = (limits::TURNS_TAKEN..=limits::TURNS_AT_ONCE).contains(&part);
    let waited = locked_ns as f64 >= others_ns as f64 * limits::TURNS_LOCKED;
    (one_at_a_time && waited).then_some(Turns { threads: taking_turns.len(), locked_ns })
}
