//! What is done for each of many: a process, a sync.

use super::super::groups::Group;
use super::raise::{Behind, Raise};
use super::run::Run;
use super::words::{capital, number, times_each};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use crate::observe::observation::Way;
use crate::observe::overlap::together_ns;
use std::collections::HashMap;
use thalweg_trace::numbers::{count, duration, size};

const ONE_SYNC: &str = "one sync for all of them";
const SYNC_ONCE: &str = "sync once for many: one transaction for all, or syncfs(2) when the last file is written";

/// One sync or transaction for many, where syncs are not what is led by, and a fair part of it.
pub(super) fn one_transaction(run: &Run<'_>) -> Option<Raise> {
    if run.of.share(Cause::is_sync) < limits::SYNCED_SHARE {
        return None;
    }
    if run.synced.transactions + run.synced.log >= limits::LEAST_ITEMS {
        return Some(Raise::all("sync_once", ONE_SYNC, SYNC_ONCE));
    }
    // Names that are made between syncs are a part of what these make durable.
    let of_syncs = |cause: Cause| cause.is_sync() || matches!(cause, Cause::ClientMetadata | Cause::ServerMetadata);
    let charged_ns = run.of.parts.wall_s() * 1e9 * run.of.share(of_syncs);
    let gained_ns = charged_ns + run.syncing_ns(End::Client) + run.syncing_ns(End::Server);
    let change = ONE_SYNC.to_owned();
    (run.synced.calls >= limits::LEAST_ITEMS).then_some(Raise { id: "sync_once", change, how: SYNC_ONCE, gained_ns })
}

/// Waits for stable storage, one after the other.
pub(super) fn syncs(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
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
    let made = Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..made };
    let raise = match run.synced.transactions {
        0 => {
            let end = group.cause.end().unwrap_or(End::Client);
            let part = 1.0 - 1.0 / n as f64;
            let gained_ns = (group.ns as f64 + run.syncing_ns(end)) * part;
            Raise { id: "sync_once", change: ONE_SYNC.to_owned(), how: SYNC_ONCE, gained_ns }
        }
        // What begins and ends a transaction (a journal, its name, the pages) is done once as well.
        _ => Raise::all("sync_once", ONE_SYNC, SYNC_ONCE),
    };
    Some(made.raised_by(raise))
}

/// A process for each of many things, one after the other.
pub(super) fn processes(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    // What is started again and again to look for something is no work.
    if !matches!(group.cause, Cause::ClientCpu | Cause::ClientMetadata | Cause::ClientMemory | Cause::ClientRunqueue | Cause::ClientRead) {
        return None;
    }
    let parts = run.of.parts;
    let wall_ns = parts.end - parts.start;
    let lives = lives(run);
    let short: Vec<(i64, i64)> =
        lives.into_iter().filter(|(from, until)| until - from < (wall_ns as f64 * limits::SHORT_LIVED) as i64).collect();
    let n = short.len() as u64;
    let (sum_ns, around_ns) = (short.iter().map(|(from, until)| until - from).sum::<i64>(), around_work(run, &short));
    let from_to_ns = short.iter().map(|life| life.1).max().unwrap_or(0) - short.iter().map(|life| life.0).min().unwrap_or(0);
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
    let made =
        Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..number(NumberKind::ProcessPerItem, sentence) };
    // What is done between them, to start the next and to wait for it, goes with them.
    let gained_ns = from_to_ns as f64 * (around_ns as f64 / sum_ns.max(1) as f64) * (1.0 - 1.0 / n as f64);
    let how = "give one process many of them: several operands, a list on its standard input, or a loop inside the program";
    Some(made.raised_by(Raise { id: "start_once", change: "one process for all of them".to_owned(), how, gained_ns }))
}

/// From when to when each process lived that began and ended while the command ran, and is part of it.
fn lives(run: &Run<'_>) -> Vec<(i64, i64)> {
    let parts = run.of.parts;
    let mut lives: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
    for (actor, life) in parts.tables.actors.iter().zip(&parts.facts.lives) {
        let Some((from, until)) = life.made().map(|(at, _)| at).zip(life.until) else { continue };
        if actor.thread && actor.end == End::Client && !actor.reached && !actor.mount && actor.leads() {
            let known = lives.entry((actor.machine, actor.pid)).or_insert((from, until));
            *known = (known.0.min(from), known.1.max(until));
        }
    }
    lives.into_values().collect()
}

/// For how long processes started and ended: before they used something that was theirs alone, a file or a connection, and after. All of their lives where
/// nothing of that kind was seen.
fn around_work(run: &Run<'_>, lives: &[(i64, i64)]) -> i64 {
    let parts = run.of.parts;
    let files = [Way::ClientReads, Way::ClientWrites].into_iter().flat_map(|way| &parts.seen.stream(way).by_object);
    let files = files.flatten().filter_map(|gathered| gathered.extent());
    let mut used: Vec<(i64, i64)> = files.chain(parts.seen.exchanges.of.values().map(|exchange| (exchange.first, exchange.last))).collect();
    used.sort_unstable();
    let around = |&(from, until): &(i64, i64)| {
        let after = used.partition_point(|used| used.0 < from);
        let own = used[after..].iter().take_while(|used| used.0 <= until).filter(|used| used.1 <= until);
        let (first, last) = own.fold((until, from), |(first, last), used| (first.min(used.0), last.max(used.1)));
        if first <= last { first - from + until - last } else { until - from }
    };
    lives.iter().map(around).sum()
}
