//! What is done for each of many: a process, a sync.

use super::super::about;
use super::super::groups::Group;
use super::super::of::Of;
use super::words::{capital, number, times_each};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use std::collections::HashMap;
use thalweg_trace::numbers::{count, duration, size};

/// How many files, entries or transactions a run dealt with, and what they are called; `None` where it was about other things, or few of them.
pub(super) fn of_run(of: &Of<'_>) -> Option<(u64, &'static str)> {
    let entries = of.round_trips.and_then(|trips| trips.per_entry.as_ref()).map(|entry| (entry.entries, "entries"));
    let transactions = (about::synced(of).transactions, "transactions");
    let own = about::is_own(of).then_some((of.transfers, "files"));
    let counted = || about::files(of).map(|done| (done.n, done.what));
    let known = entries.or(Some(transactions).filter(|(n, _)| *n >= limits::LEAST_ITEMS)).or(own).or_else(counted);
    known.filter(|(n, _)| *n >= limits::LEAST_ITEMS)
}

/// For how long any of these intervals was.
pub(super) fn within_ns(mut intervals: Vec<(i64, i64)>) -> i64 {
    intervals.sort_unstable();
    let (mut within, mut until) = (0, i64::MIN);
    for (first, last) in intervals {
        within += (last - first.max(until)).max(0);
        until = until.max(last);
    }
    within
}

/// Waits for stable storage, one after the other.
pub(super) fn syncs(of: &Of<'_>, group: &Group<'_>) -> Option<Number> {
    if !matches!(group.cause, Cause::ClientSync | Cause::ServerSync) {
        return None;
    }
    let synced = about::synced(of);
    let n: u64 = of.parts.seen.syncs.of.values().map(crate::observe::observation::Synced::calls).sum();
    if n < limits::LEAST_ITEMS {
        return None;
    }
    let each_s = group.ns as f64 / 1e9 / n as f64;
    let items = Some((synced.transactions, "transactions")).filter(|(n, _)| *n >= limits::LEAST_ITEMS).or_else(|| of_run(of));
    let items = items.filter(|(items, _)| n as f64 >= *items as f64 * limits::FOR_EACH);
    let times = format!("{} × {}", count(n), duration(each_s));
    let sentence = match items {
        Some((items, what)) => {
            format!("{} for each of {} {what}: {times}.", capital(&times_each(n as f64 / items as f64, "sync")), count(items))
        }
        None if of.size_bytes.is_some_and(|bytes| bytes / n >= limits::SYNCED_BYTES) => {
            format!("One sync for each {}: {times}.", size(of.size_bytes.unwrap_or(0) / n))
        }
        None => format!("One sync after the other: {times}."),
    };
    let made = number(NumberKind::SyncsPerItem, sentence);
    Some(Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..made })
}

/// A process for each of many things, one after the other.
pub(super) fn processes(of: &Of<'_>, group: &Group<'_>) -> Option<Number> {
    // What is started again and again to look for something is no work.
    if !matches!(group.cause, Cause::ClientCpu | Cause::ClientMetadata | Cause::ClientMemory | Cause::ClientRunqueue | Cause::ClientRead) {
        return None;
    }
    let (tables, wall_ns) = (of.parts.tables, of.parts.end - of.parts.start);
    let mut lives: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
    for (actor, life) in tables.actors.iter().zip(&of.parts.facts.lives) {
        let Some((from, until)) = life.made().map(|(at, _)| at).zip(life.until) else { continue };
        if actor.thread && actor.end == End::Client && !actor.reached && !actor.mount && actor.leads() {
            let known = lives.entry((actor.machine, actor.pid)).or_insert((from, until));
            *known = (known.0.min(from), known.1.max(until));
        }
    }
    let short: Vec<(i64, i64)> =
        lives.into_values().filter(|(from, until)| until - from < (wall_ns as f64 * limits::SHORT_LIVED) as i64).collect();
    let n = short.len() as u64;
    let within = within_ns(short);
    if n < limits::LEAST_ITEMS || (within as f64) < wall_ns as f64 * limits::LIVED_PART {
        return None;
    }
    let each_s = within as f64 / 1e9 / n as f64;
    let same = |items: u64| items.min(n) as f64 >= items.max(n) as f64 * limits::AS_MANY;
    let items = of_run(of).filter(|(items, _)| same(*items));
    let sentence = match items {
        Some((items, what)) => format!("A new process for each of {} {what}: {} × {}.", count(items), count(n), duration(each_s)),
        None => format!("{} processes, one after the other: {} each, starting and ending with it.", count(n), duration(each_s)),
    };
    Some(Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..number(NumberKind::ProcessPerItem, sentence) })
}
