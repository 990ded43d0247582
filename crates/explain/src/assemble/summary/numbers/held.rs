//! A lock held across other work: how many threads wait for it, and what its holder does meanwhile.
//!
//! The holder's work is charged as such, since it takes the time; the lock is why only one thread at a time does it.

use super::super::about::synced;
use super::super::figures::sampled;
use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::names::{base, brief, program};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::index::NONE;
use crate::observe::lock_wait::On;
use crate::observe::locks::Queue;
use crate::waits::place::{Place, What};
use thalweg_base::numbers::{count, duration};

const OUTSIDE: &str = "hold the lock for less: do the slow work outside of it, or split what it guards";

/// How many wait, for whom, and what the holder does.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let parts = run.of.parts;
    let (each, all) = across(run, group)?;
    let path = &parts.ledger.path;
    let mut asked: Vec<(i64, i64)> = path.iter().filter(|on| group.has(on.entry)).map(|on| (on.start, on.end)).collect();
    asked.sort_unstable();
    let tracks: Vec<(u32, i64, i64)> = path.iter().map(|on| (on.track, on.start, on.end)).collect();
    let queue = parts.seen.lock_waits.queue(&asked, &tracks)?;
    let is_lock = matches!(queue.on, On::File | On::Mutex) || is_held(group);
    let waiting = queue.waiting.round() as u64;
    if waiting == 0 || queue.all <= waiting || !is_lock && !may_be_lock(run, &queue, waiting) {
        return None;
    }
    let (n, each_s) = done(run, group, &queue);
    let times = if n == 1 { duration(each_s) } else { format!("{} × {}", count(n), duration(each_s)) };
    let (under, or_work) = (lock(run, &queue, is_lock), if is_lock { "" } else { ", or for work)" });
    let sentence = format!("On average {} waited for {under} held across each {each}{or_work}: {times}.", who(run, &queue, waiting));
    let made = Number { count: Some(n), each_s: Some(each_s), ..number(NumberKind::LockHeld, sentence) };
    // Work that is passed on may depend on earlier work; and if the lock itself is charged, a replay without it says more.
    if !is_lock && group.cause.end() != Some(End::Client) {
        return Some(made.raised_by(Raise::more_at_once(run, group)));
    }
    if !is_lock || is_held(group) {
        return Some(made.into());
    }
    let at_once = at_once(run, group, &queue, waiting + 1);
    let change = format!("{all} outside the lock, {} at a time", count(at_once));
    Some(made.raised_by(Raise::part(group, 1.0 - 1.0 / at_once as f64, "lock.outside", change, OUTSIDE)))
}

/// Whether threads that woke each other may have done so for a lock, if the object is unknown. Idle threads of a pool wait for each other
/// too: some runtimes park them on plain futexes, one of them works longer than the rest, or there are more threads than requests.
fn may_be_lock(run: &Run<'_>, queue: &Queue, waiting: u64) -> bool {
    let parts = run.of.parts;
    let serves = parts.tables.actors.get(queue.of as usize).is_some_and(|actor| actor.end == End::Server);
    let asked = || parts.seen.questions.under_way(End::Client, parts.tables).map_or(0, |asked| asked.usual);
    let is_fair = queue.longest * queue.all as f64 <= limits::FAIR_PART;
    waiting >= limits::SEVERAL_WAIT && queue.on != On::Futex && is_fair && (!serves || asked() > waiting)
}

/// How often the work was done, and the time of each: of one kind of place, if it is charged to several holders. A sync is several waits
/// with computing between them, and one stretch of computing is several runs: for both, the time the lock was held counts.
fn done(run: &Run<'_>, group: &Group<'_>, queue: &Queue) -> (u64, f64) {
    let held_s = queue.held_ns as f64 / 1e9;
    let (stretches, calls) = (queue.holds.max(1), synced(run.of).calls.max(1));
    match group.cause {
        Cause::ClientSync | Cause::ServerSync => return (calls, held_s / calls as f64),
        Cause::ClientCpu if computes_in_sync(run, group) => return (calls, held_s / calls as f64),
        Cause::ClientCpu => return (stretches, held_s / stretches as f64),
        // (A thread of a runtime sleeps for all of its tasks: its sleeps are not theirs.)
        _ if queue.tasks => return (stretches, held_s / stretches as f64),
        _ => {}
    }
    let kind = |place: Place| matches!(place, Place::Held { what: What::Blocked(_), .. });
    let alike = |place: Place| place == group.largest.place || is_held(group) && kind(place) == kind(group.largest.place);
    let entries = group.members.iter().map(|&at| &run.of.parts.ledger.entries[at]).filter(|entry| alike(entry.place));
    let (n, ns) = entries.fold((0, 0), |(n, ns), entry| (n + entry.runs.count, ns + entry.runs.total_ns));
    (n, ns as f64 / 1e9 / n.max(1) as f64)
}

/// How many could work simultaneously: when computing, at most the number of processors.
fn at_once(run: &Run<'_>, group: &Group<'_>, queue: &Queue, all: u64) -> u64 {
    let tables = run.of.parts.tables;
    let machine = tables.actors.get(queue.of as usize).and_then(|actor| tables.machines.get(actor.machine as usize));
    match machine {
        Some(machine) if group.cause == Cause::ClientCpu => all.min(u64::from(machine.cpus)).max(1),
        _ => all,
    }
}

/// Whether the lock itself is charged.
fn is_held(group: &Group<'_>) -> bool {
    matches!(group.largest.place, Place::Held { .. })
}

/// Whether the computing was mostly syncs.
fn computes_in_sync(run: &Run<'_>, group: &Group<'_>) -> bool {
    sampled(run.of, group).is_some_and(|(class, part)| part >= limits::MOSTLY_SYNC && class.starts_with("sync"))
}

/// The work done under the lock: the name of one, and of all.
fn across(run: &Run<'_>, group: &Group<'_>) -> Option<(&'static str, &'static str)> {
    use Cause as C;
    let (sleep, computing, sync) = (("sleep", "the sleeps"), ("stretch of computing", "the computing"), ("sync", "the syncs"));
    Some(match group.cause {
        C::ClientSync | C::ServerSync => sync,
        C::ClientRead | C::ServerRead => ("read", "the reads"),
        C::ClientWrite | C::ServerWrite => ("write", "the writes"),
        C::ClientThink if !group.is_stopped() => sleep,
        C::ServerThink | C::ServerUnknown | C::ServerCpu | C::NetworkLatency => ("request", "the requests"),
        C::ClientCpu if computes_in_sync(run, group) => sync,
        C::ClientCpu => computing,
        C::ClientLock | C::ServerLock => match group.largest.place {
            Place::Held { what: What::Blocked(_), .. } => sleep,
            Place::Held { .. } => computing,
            _ => return None,
        },
        _ => return None,
    })
}

fn who(run: &Run<'_>, queue: &Queue, waiting: u64) -> String {
    let all = count(queue.all);
    if queue.file != NONE {
        return format!("{} of {all} processes", count(waiting));
    }
    let program = program(run.of.parts.tables, run.of.meta, queue.of);
    let of = if queue.tasks { "goroutines" } else { "threads" };
    format!("{} of {all} {of} of {}", count(waiting), brief(&program))
}

fn lock(run: &Run<'_>, queue: &Queue, is_lock: bool) -> String {
    match run.of.parts.tables.objects.get(queue.file as usize).and_then(|object| object.name.split_once(' ')) {
        Some((kind, path)) => format!("the {kind} on {},", brief(base(path))),
        None if queue.tasks => "a mutex".to_owned(),
        None if is_lock => "a lock".to_owned(),
        None => "another to wake them (for a lock".to_owned(),
    }
}
