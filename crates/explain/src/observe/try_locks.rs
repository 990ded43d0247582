//! Threads that try repeatedly to take a lock, by the function in which samples found them.
//!
//! A failed try is not recorded: it is no system call. But the name of a function that only tries shows the thread's purpose. Rejected: any
//! function with most of a thread's samples. Most of those are work.

use crate::ExplainError;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::tables::Tables;
use std::collections::{BTreeMap, HashSet};
use thalweg_trace::{Sample, Source};

/// Functions that take a lock if it is free, and otherwise return, or poll until it is.
const TRIES: [&str; 6] = [
    "pthread_mutex_trylock",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "sem_trywait",
];

/// A thread that tried for a lock, the only other thread of its process, and the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The trying thread.
    pub track: u32,
    /// The thread that had the lock.
    pub holder: u32,
    /// Start.
    pub first: i64,
    /// End.
    pub last: i64,
}

/// Finds them in `samples`, which are not of a profile. In a process with more threads, the holder would be unknown.
pub(crate) fn read(source: &dyn Source, samples: &[Sample], tables: &mut Tables, lives: &[Life]) -> Result<Vec<Tried>, ExplainError> {
    if samples.iter().all(|sample| sample.stack.is_none()) {
        return Ok(Vec::new());
    }
    let tries = |frame: &String| TRIES.iter().any(|name| frame.contains(name));
    let stacks: HashSet<u32> =
        source.stacks()?.iter().filter(|stack| stack.frames.first().is_some_and(tries)).map(|stack| stack.stack).collect();
    let mut of_track: BTreeMap<u32, Vec<(i64, bool)>> = BTreeMap::new();
    for sample in samples.iter().filter(|_| !stacks.is_empty()) {
        let track = sample.track.map_or(NONE, |track| tables.tracks.get(track.number()));
        if track != NONE {
            let tries = sample.stack.is_some_and(|stack| stacks.contains(&stack));
            of_track.entry(track).or_default().push((sample.at.ns(), tries));
        }
    }
    let tried = of_track.into_iter().filter_map(|(track, sampled)| {
        let trying = || sampled.iter().filter(|(_, tries)| *tries).map(|(at, _)| *at);
        let (first, last) = (trying().min()?, trying().max()?);
        let all = sampled.iter().filter(|(at, _)| (first..=last).contains(at)).count();
        let only_tries = trying().count() >= limits::MANY_TRIES && trying().count() as f64 >= all as f64 * limits::TRIES_PART;
        let holder = only_tries.then(|| only_other(tables, lives, track, (first, last))).flatten()?;
        Some(Tried { track, holder, first, last })
    });
    Ok(tried.collect())
}

/// The only other thread of a thread's process that lived throughout an interval, if there was exactly one.
fn only_other(tables: &Tables, lives: &[Life], track: u32, (from, until): (i64, i64)) -> Option<u32> {
    let process = tables.process(track)?;
    let lived = |other: u32| !lives[other as usize].is_before(until) && !lives[other as usize].is_over(from);
    let mut others = tables.workers().filter(|&other| other != track && tables.process(other) == Some(process) && lived(other));
    let only = others.next()?;
    others.next().is_none().then_some(only)
}
