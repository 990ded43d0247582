//! What is done for each of many: a process, a sync.

use super::super::groups::Group;
use super::run::Run;
use super::words::{capital, number, times_each};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use crate::observe::overlap::together_ns;
use std::collections::HashMap;
use thalweg_trace::numbers::{count, duration, size};

/// Waits for stable storage, one after the other.
pub(super) fn syncs(run: &Run<'_>, group: &Group<'_>) -> Option<Number> {
    if !group.cause.is_sync() {
        return None;
    }
    let (n, bytes) = (run.synced.calls, run.of.size_bytes.unwrap_or(0));
    if n < limits::LEAST_ITEMS {
        return None;
    }
    let each_s = group.ns as f64 / 1e9 / n as f64;
    let items = run.items.filter(|(items, _)| n as f64 >= *items as f64 * limits::FOR_EACH);
    let times = format!("{} × {}", count(n), duration(each_s));
    let sentence = match items {
        Some((items, what)) => {
            format!("{} for each of {} {what}: {times}.", capital(&times_each(n as f64 / items as f64, "sync")), count(items))
        }
        None if bytes / n >= limits::SYNCED_BYTES => format!("One sync for each {}: {times}.", size(bytes / n)),
        None => format!("One sync after the other: {times}."),
    };
    let made = number(NumberKind::SyncsPerItem, sentence);
    Some(Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..made })
}

/// A process for each of many things, one after the other.
pub(super) fn processes(run: &Run<'_>, group: &Group<'_>) -> Option<Number> {
    // What is started again and again to look for something is no work.
    if !matches!(group.cause, Cause::ClientCpu | Cause::ClientMetadata | Cause::ClientMemory | Cause::ClientRunqueue | Cause::ClientRead) {
        return None;
    }
    let parts = run.of.parts;
    let wall_ns = parts.end - parts.start;
    let mut lives: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
    for (actor, life) in parts.tables.actors.iter().zip(&parts.facts.lives) {
        let Some((from, until)) = life.made().map(|(at, _)| at).zip(life.until) else { continue };
        if actor.thread && actor.end == End::Client && !actor.reached && !actor.mount && actor.leads() {
            let known = lives.entry((actor.machine, actor.pid)).or_insert((from, until));
            *known = (known.0.min(from), known.1.max(until));
        }
    }
    let short: Vec<(i64, i64)> =
        lives.into_values().filter(|(from, until)| until - from < (wall_ns as f64 * limits::SHORT_LIVED) as i64).collect();
    let n = short.len() as u64;
    let within = together_ns(short);
    if n < limits::LEAST_ITEMS || (within as f64) < wall_ns as f64 * limits::LIVED_PART {
        return None;
    }
    let each_s = within as f64 / 1e9 / n as f64;
    let same = |items: u64| items.min(n) as f64 >= items.max(n) as f64 * limits::AS_MANY;
    let items = run.items.filter(|(items, _)| same(*items));
    let sentence = match items {
        Some((items, what)) => format!("A new process for each of {} {what}: {} × {}.", count(items), count(n), duration(each_s)),
        None => format!("{} processes, one after the other: {} each, starting and ending with it.", count(n), duration(each_s)),
    };
    Some(Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..number(NumberKind::ProcessPerItem, sentence) })
}
