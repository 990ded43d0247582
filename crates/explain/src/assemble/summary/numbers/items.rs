//! Work done for each of many items: a process, a sync.

use super::super::groups::Group;
use super::lives::{Lived, lives};
use super::raise::Behind;
use super::run::Run;
use super::words::{capital, number, times_each};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::again::lasting_names;
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::observation::Way;
use crate::observe::overlap::together_ns;
use std::collections::{BTreeMap, HashMap};
use thalweg_base::numbers::{count, duration, size};

const ONE_SYNC: &str = "one sync for all of them";
const SYNC_ONCE: &str = "sync once for many: one transaction for all, or syncfs(2) when the last file is written";

/// One sync or transaction for many, if syncs are not the main number but a fair part of the time.
pub(super) fn one_transaction(run: &Run<'_>) -> Option<Raise> {
    if run.of.share(Cause::is_sync) < limits::SYNCED_SHARE {
        return None;
    }
    if run.synced.transactions + run.synced.log >= limits::LEAST_ITEMS {
        return Some(Raise::all("sync_once", ONE_SYNC, SYNC_ONCE));
    }
    // Names made between syncs are part of what the syncs make durable.
    let of_syncs = |cause: Cause| cause.is_sync() || matches!(cause, Cause::ClientMetadata | Cause::ServerMetadata);
    let charged_ns = run.of.parts.wall_s() * 1e9 * run.of.share(of_syncs);
    let gained_ns = charged_ns + run.syncing_ns(End::Client) + run.syncing_ns(End::Server);
    let change = ONE_SYNC.to_owned();
    (run.synced.calls >= limits::LEAST_ITEMS).then_some(Raise { id: "sync_once", change, how: SYNC_ONCE, gained_ns })
}

/// Sequential waits for stable storage.
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
            let gained_ns = (group.ns as f64 + run.queued_after_ns(group) + run.syncing_ns(end)) * part;
            Raise { id: "sync_once", change: ONE_SYNC.to_owned(), how: SYNC_ONCE, gained_ns }
        }
        // The overhead of a transaction (a journal, its name, the pages) is also paid once.
        _ => Raise::all("sync_once", ONE_SYNC, SYNC_ONCE),
    };
    Some(made.raised_by(raise))
}

/// Sequential processes, one for each of many items.
pub(super) fn processes(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    // Programs started repeatedly to poll are no work.
    if !matches!(group.cause, Cause::ClientCpu | Cause::ClientMetadata | Cause::ClientMemory | Cause::ClientRunqueue | Cause::ClientRead) {
        return None;
    }
    one_after_the_other(run)
}

/// Sequential processes that fill the run, whatever each waits for.
pub(super) fn one_after_the_other(run: &Run<'_>) -> Option<Behind> {
    let all = many(run)?;
    let short: Vec<(i64, i64)> = all.iter().map(|lived| (lived.from, lived.until)).collect();
    let (n, shortest_ns) = (all.len() as u64, all.iter().map(Lived::ns).min().unwrap_or(0));
    let (sum_ns, around_ns) = (short.iter().map(|(from, until)| until - from).sum::<i64>(), around_work(run, &short));
    let from_to_ns = short.iter().map(|life| life.1).max().unwrap_or(0) - short.iter().map(|life| life.0).min().unwrap_or(0);
    let within = together_ns(short);
    let each_s = within as f64 / 1e9 / n as f64;
    let same = |items: u64| items.min(n) as f64 >= items.max(n) as f64 * limits::AS_MANY;
    let items = run.items.filter(|(items, _)| same(*items));
    let sentence = match items {
        Some((items, what)) => format!("A new process for each of {} {what}: {} × {}.", count(items), count(n), duration(each_s)),
        None => format!("{} processes, one after the other: {} each, including startup and exit.", count(n), duration(each_s)),
    };
    let made =
        Number { count: Some(n), each_s: Some(each_s), items: items.map(|(n, _)| n), ..number(NumberKind::ProcessPerItem, sentence) };
    // The time between them, to start the next and wait for it, is saved too.
    let gained_ns = (from_to_ns as f64 * (around_ns as f64 / sum_ns.max(1) as f64) - shortest_ns as f64).max(0.0);
    let how = "give one process many of them: several operands, a list on its standard input, or a loop inside the program";
    Some(made.raised_by(Raise { id: "start_once", change: "one process for all of them".to_owned(), how, gained_ns }))
}

/// The processes that lived for a small part of the run each and for most of it together: of any program if they are many; of one program
/// if they are few.
fn many(run: &Run<'_>) -> Option<Vec<Lived>> {
    let parts = run.of.parts;
    let wall_ns = (parts.end - parts.start) as f64;
    let of_part = |part: f64| lives(run).into_iter().filter(move |lived| (lived.ns() as f64) < wall_ns * part);
    let fills = |lived: &Vec<Lived>| {
        let within = together_ns(lived.iter().map(|lived| (lived.from, lived.until)).collect());
        within as f64 >= wall_ns * limits::LIVED_PART
    };
    let all: Vec<Lived> = of_part(limits::SHORT_LIVED).collect();
    if all.len() as u64 >= limits::LEAST_ITEMS {
        return Some(all).filter(fills);
    }
    let mut of: BTreeMap<&str, Vec<Lived>> = BTreeMap::new();
    for lived in of_part(limits::SHORT_LIVED_OF_FEW) {
        of.entry(parts.tables.actors[lived.track as usize].program()).or_default().push(lived);
    }
    of.into_values().filter(|lived| lived.len() as u64 >= limits::FEW_PROCESSES).filter(fills).max_by_key(Vec::len)
}

/// The time in which processes started and ended, in nanoseconds: before and after they used something of their own, a file or a
/// connection. Their whole lives if no such use was recorded, or if most reading was of files that several of them used: that work may be
/// saved too.
fn around_work(run: &Run<'_>, lives: &[(i64, i64)]) -> i64 {
    let parts = run.of.parts;
    if read_in_common(run, lives) {
        return lives.iter().map(|(from, until)| until - from).sum();
    }
    let files = [Way::ClientReads, Way::ClientWrites].into_iter().flat_map(|way| &parts.seen.stream(way).by_object);
    let files = files
        .flatten()
        .filter_map(|gathered| gathered.extent().map(|(first, last)| (first, last, gathered.bytes * limits::MOST_NS_PER_BYTE)));
    let connections = parts
        .seen
        .exchanges
        .of
        .values()
        .map(|exchange| (exchange.first, exchange.last, (exchange.bytes[0] + exchange.bytes[1]) * limits::NS_PER_BYTE_EXCHANGED));
    let mut used: Vec<(i64, i64, u64)> = files.chain(connections).collect();
    used.sort_unstable();
    let around = |&(from, until): &(i64, i64)| {
        let after = used.partition_point(|used| used.0 < from);
        let own = used[after..].iter().take_while(|used| used.0 <= until).filter(|used| used.1 <= until);
        let (first, last, most_ns) =
            own.fold((until, from, 0), |(first, last, sum), used| (first.min(used.0), last.max(used.1), sum + used.2));
        // Time beyond any plausible work on these bytes is not for them.
        until - from - (last - first).clamp(0, most_ns as i64)
    };
    lives.iter().map(around).sum()
}

/// Whether most reading is of files that several of these processes use. (A file that replaced another under its name counts as the same
/// file.)
fn read_in_common(run: &Run<'_>, lives: &[(i64, i64)]) -> bool {
    let parts = run.of.parts;
    let names = lasting_names(&parts.tables.objects);
    let mut of: HashMap<&str, (u64, i64, i64)> = HashMap::new();
    for (object, read) in parts.seen.stream(Way::ClientReads).by_object.iter().enumerate() {
        let Some((read, (first, last))) = read.as_ref().and_then(|read| Some((read, read.extent()?))) else { continue };
        let sum = of.entry(names[object]).or_insert((0, first, last));
        *sum = (sum.0 + read.bytes, sum.1.min(first), sum.2.max(last));
    }
    let several = |first: i64, last: i64| lives.iter().filter(|(from, until)| *from < last && first < *until).count() > 1;
    let shared: u64 = of.values().filter(|(_, first, last)| several(*first, *last)).map(|(bytes, ..)| bytes).sum();
    shared as f64 >= of.values().map(|(bytes, ..)| bytes).sum::<u64>().max(1) as f64 * limits::MOST_OF_ALL
}
