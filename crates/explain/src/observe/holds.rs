//! Threads of one process that are never in a long wait simultaneously, though none is recorded waiting for another.
//!
//! Unrelated threads are now and then asleep, or at a disk, together: how often follows from the lengths of their waits. If they never are,
//! something lets one of them through at a time. A mutex, a pipe or a connection would show in the others' waits. If these only run, or
//! queue for a processor, they wait for their turn by running: a spin lock, whose holder is the one that sleeps or is at the disk.
//!
//! Threads that share one processor take turns on it without any lock, so they must have run on more than one.
//!
//! Rejected: samples concentrated at few instructions as a sign. Copying memory, or summing a vector, looks the same.

use crate::limits::observe as limits;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::{HashMap, HashSet};
use thalweg_trace::SpanKind;

/// A stretch in which only one thread of its process was in a long wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The thread.
    pub track: u32,
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
}

/// Waits of the command's threads that are not for each other.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Long waits at files and disks, and sleeps.
    long: Vec<Hold>,
    /// By thread: time it waited for others, in ns.
    for_others_ns: HashMap<u32, i64>,
}

impl Holds {
    /// Adds a span of one of the command's threads.
    #[inline]
    pub(crate) fn note(&mut self, span: &LiveSpan) {
        use SpanKind as K;
        let ns = span.end - span.start;
        match span.kind {
            K::WaitLock | K::WaitNetwork | K::NetReceive | K::NetSend | K::WaitOther => {
                *self.for_others_ns.entry(span.track).or_default() += ns;
            }
            K::WaitTimer | K::WaitDisk | K::FileSync | K::FileRead | K::FileWrite
                if ns >= limits::LONG_HOLD_NS && self.long.len() < limits::MOST_HOLDS =>
            {
                self.long.push(Hold { track: span.track, start: span.start, end: span.end });
            }
            _ => {}
        }
    }

    /// The alternating stretches of a process whose threads enter long waits one at a time, in order of time; empty if there is no such
    /// process. `ran` gives a thread's time running, and running or queued, in nanoseconds.
    pub(crate) fn in_turn(&self, tables: &Tables, wall_ns: i64, ran: impl Fn(u32) -> (u64, u64)) -> Vec<Hold> {
        if self.long.len() >= limits::MOST_HOLDS {
            return Vec::new();
        }
        let mut processes: HashMap<(u32, u32), Vec<Hold>> = HashMap::default();
        for hold in &self.long {
            let actor = &tables.actors[hold.track as usize];
            processes.entry((actor.machine, actor.pid)).or_default().push(*hold);
        }
        let mut processes: Vec<Vec<Hold>> = processes.into_values().collect();
        processes.sort_unstable_by_key(|holds| std::cmp::Reverse((holds.len(), holds[0].track)));
        let found = processes.into_iter().find_map(|holds| {
            let holds = merged(holds);
            let tracks: HashSet<u32> = holds.iter().map(|hold| hold.track).collect();
            let runs = |track: &u32| {
                let own_ns: i64 = holds.iter().filter(|hold| hold.track == *track).map(|hold| hold.end - hold.start).sum();
                let for_others_ns = self.for_others_ns.get(track).copied().unwrap_or(0);
                let rest_ns = (wall_ns - own_ns) as f64;
                for_others_ns as f64 <= wall_ns as f64 * limits::WAITS_FOR_OTHERS
                    && ran(*track).1 as f64 >= rest_ns * limits::RUNS_MEANWHILE
            };
            let ran_ns: u64 = tracks.iter().map(|&track| ran(track).0).sum();
            let beside = ran_ns as f64 >= wall_ns as f64 * limits::RAN_BESIDE;
            (tracks.len() > 1 && beside && tracks.iter().all(runs) && exclude_each_other(&holds, &tracks, wall_ns)).then(|| turns(&holds))
        });
        found.filter(|turns| turns.len() >= limits::MANY_TURNS).unwrap_or_default()
    }
}

/// The holds in order of time, with overlapping ones of one thread merged.
fn merged(mut holds: Vec<Hold>) -> Vec<Hold> {
    holds.sort_unstable_by_key(|hold| (hold.track, hold.start));
    let mut merged: Vec<Hold> = Vec::with_capacity(holds.len());
    for hold in holds {
        match merged.last_mut() {
            Some(last) if last.track == hold.track && last.end >= hold.start => last.end = last.end.max(hold.end),
            _ => merged.push(hold),
        }
    }
    merged.sort_unstable_by_key(|hold| (hold.start, hold.track));
    merged
}

/// Whether the holds coincide for a small part of the time that chance would give.
fn exclude_each_other(holds: &[Hold], tracks: &HashSet<u32>, wall_ns: i64) -> bool {
    let (mut none, mut one) = (1.0, 0.0);
    for track in tracks {
        let own_ns: i64 = holds.iter().filter(|hold| hold.track == *track).map(|hold| hold.end - hold.start).sum();
        let part = (own_ns as f64 / wall_ns as f64).min(1.0);
        (one, none) = (one * (1.0 - part) + none * part, none * (1.0 - part));
    }
    let expected_ns = (1.0 - none - one) * wall_ns as f64;
    let (mut until, mut together_ns, mut all_ns) = (holds.first().map_or(0, |hold| hold.start), 0, 0);
    for hold in holds {
        together_ns += (until.min(hold.end) - hold.start).max(0);
        all_ns += hold.end - hold.start;
        until = until.max(hold.end);
    }
    let mean_ns = all_ns as f64 / holds.len().max(1) as f64;
    expected_ns >= mean_ns * limits::EXPECTED_TOGETHER && together_ns as f64 <= expected_ns * limits::SELDOM_TOGETHER
}

/// Merges consecutive holds of one thread into one turn.
fn turns(holds: &[Hold]) -> Vec<Hold> {
    let mut turns: Vec<Hold> = Vec::new();
    for hold in holds {
        match turns.last_mut() {
            Some(last) if last.track == hold.track => last.end = last.end.max(hold.end),
            _ => turns.push(*hold),
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(holds: Vec<Hold>) -> bool {
        let holds = merged(holds);
        let tracks: HashSet<u32> = holds.iter().map(|hold| hold.track).collect();
        let wall_ns = holds.iter().map(|hold| hold.end).max().unwrap_or(0);
        exclude_each_other(&holds, &tracks, wall_ns)
    }

    #[test]
    fn threads_that_never_sleep_together_exclude_each_other_and_those_that_sometimes_do_are_on_their_own() {
        let in_turn = (0..400).map(|n| Hold { track: n as u32 % 4, start: n * 18, end: n * 18 + 7 }).collect();
        assert!(excluded(in_turn));
        // Each sleeps equally long, but at its own pace.
        let apart =
            (0..100).flat_map(|n| (0..4).map(move |t| Hold { track: t, start: n * (70 + i64::from(t)), end: n * (70 + i64::from(t)) + 7 }));
        assert!(!excluded(apart.collect()));
        let few = (0..12).map(|n| Hold { track: n as u32 % 4, start: n * 18, end: n * 18 + 7 }).collect();
        assert!(!excluded(few), "of so few it may be chance");
    }
}
