//! The evidence of a charge, in a few words: how often and how long it occurred, who held the CPU, what a quota stopped, what samples of
//! the running threads show, how busy the device was, why something is unknown.

use crate::assemble::activity::activity;
use crate::assemble::behind::behind;
use crate::assemble::contention::turns as turns_of;
use crate::cause::{Cause, End};
use crate::facts::Parts;
use crate::facts::circumstances::Quota;
use crate::facts::neighbours::Neighbours;
use crate::limits::assemble as limits;
use crate::observe::attempts::error_name;
use crate::observe::span::is_mpi;
use crate::observe::stalls::Stall;
use crate::path::ledger::Entry;
use crate::waits::place::{Place, What};
use foldhash::{HashMap, HashMapExt, HashSet};
use thalweg_base::numbers::{byte_rate, count, duration, whole_percent};
use thalweg_trace::{ObjectKind, SpanKind};

/// The evidence of a charge made of these ledger entries (by index). `idle` is the part of it within gaps of the channel.
pub(super) fn of(parts: &Parts<'_>, cause: Cause, members: &[usize], idle: f64) -> String {
    let entries: Vec<&Entry> = members.iter().map(|&i| &parts.ledger.entries[i]).collect();
    let times: u64 = entries.iter().map(|e| e.runs.count).sum();
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns).expect("a charge has entries");
    let median = largest.runs.quantile_ns(0.5);
    let longest = entries.iter().map(|e| e.runs.longest_ns).max().unwrap_or(0);
    let time = |ns: u64| duration(ns as f64 / 1e9);
    let what = noun(cause, largest.place);
    let mut said = match times {
        // Pauses with most of their time charged elsewhere.
        0 => format!("parts of {}, {} together", plural(what), time(largest.runs.total_ns)),
        1 => format!("one {what} of {}", time(longest)),
        _ => format!("{} {}, median {}", count(times), plural(what), time(median)),
    };
    if times > 1 && longest > median.saturating_mul(limits::OUTLIER_TIMES) && longest > limits::OUTLIER_NS {
        said.push_str(&format!(", longest {}", time(longest)));
    }
    if cause.is_network() {
        // Network charges are bytes in flight themselves, whether or not a thread was handing bytes over.
    } else if idle >= limits::IDLE_NEARLY_ALL {
        said.push_str(", with no data in transit");
    } else if idle >= limits::IDLE_PART {
        said.push_str(&format!(", with no data in transit for {} of it", whole_percent(idle)));
    }
    for more in via(parts, cause, members).into_iter().chain(around(parts, cause, members, &entries)) {
        said.push_str("; ");
        said.push_str(&more);
    }
    said
}

/// The thread of the same process that waited for this during most of it.
pub(super) fn via(parts: &Parts<'_>, cause: Cause, members: &[usize]) -> Option<String> {
    if matches!(cause, Cause::ClientRunqueue | Cause::ServerRunqueue | Cause::Recorder) {
        return None;
    }
    let entries = || members.iter().map(|&i| &parts.ledger.entries[i]);
    let mut waited: HashMap<&str, u64> = HashMap::new();
    for &(label, ns) in entries().flat_map(|e| &e.waiters) {
        *waited.entry(&parts.tables.actors.get(label as usize)?.label).or_default() += ns;
    }
    let all: u64 = entries().map(|e| e.runs.total_ns).sum();
    let (name, most) = waited.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name)))?;
    (most * 2 > all).then(|| format!("{name} waited for it: a lock held meanwhile, or work handed over"))
}

/// Facts around a charge, besides its own intervals.
fn around(parts: &Parts<'_>, cause: Cause, members: &[usize], entries: &[&Entry]) -> Vec<String> {
    let mut said = Vec::new();
    if matches!(cause, Cause::ClientRunqueue | Cause::ServerRunqueue | Cause::Recorder) {
        said.extend(holder(parts, entries, "the CPU"));
        let others = Neighbours::at_processors(parts.tables, parts.ledger, entries.iter().copied());
        said.extend(others.each().map(|each| format!("other programs had the CPU meanwhile: {each}")));
        said.extend(quota(parts, cause));
    }
    if matches!(cause, Cause::ClientLock | Cause::ServerLock) {
        said.extend(holder(parts, entries, "it"));
    }
    if matches!(cause, Cause::ClientCpu | Cause::ServerCpu) {
        said.extend(sampled_as(parts, members, entries));
        said.extend(turns(parts, entries));
    }
    if matches!(cause, Cause::ClientMetadata | Cause::ServerMetadata) {
        said.extend(calls_on_names(parts, members));
    }
    said.extend(failed(parts, entries));
    said.extend(stalls(parts, cause, members));
    said.extend(device(parts, entries));
    said.extend(behind(parts, cause, members).map(|behind| behind.words()));
    said.extend(shared(parts, entries));
    said.extend(rank(parts, members));
    said.extend(beside(parts, entries));
    if cause == Cause::Unknown {
        said.extend(entries.iter().max_by_key(|e| e.runs.total_ns).map(|e| why_unknown(e.place)));
    }
    said
}

/// The TCP stalls within the charge. Of the other end's work, only failing to accept is reported.
fn stalls(parts: &Parts<'_>, cause: Cause, members: &[usize]) -> Vec<String> {
    let members: HashSet<usize> = members.iter().copied().collect();
    let runs = parts.ledger.path.iter().filter(|run| members.contains(&(run.entry as usize)));
    let found = parts.facts.wire.stalls.within(runs.map(|run| (run.start, run.end)));
    let about =
        |stall: &Stall| cause.is_network() || matches!(stall, Stall::AcceptQueue | Stall::NotAccepted) && cause.end() == Some(End::Server);
    found.into_iter().filter(|(stall, _)| about(stall)).map(|(stall, often)| stall.words(often)).collect()
}

/// The name of one interval of a charge.
fn noun(cause: Cause, place: Place) -> &'static str {
    use Cause as C;
    match (cause, place) {
        (C::ClientRead | C::ServerRead, _) => "blocking read",
        (C::ClientWrite | C::ServerWrite, _) => "blocking write",
        (C::ClientSync | C::ServerSync, _) => "wait for stable storage",
        (C::ClientRunqueue | C::ServerRunqueue, _) => "run-queue wait",
        (_, Place::Thread { what: What::LooksFor(_), .. }) => "pause between attempts",
        (C::ClientLock | C::ServerLock, _) => "wait for a lock",
        (C::NetworkLatency, _) => "transit",
        (C::ClientThink | C::ServerThink, Place::Thread { what: What::Still(_), .. }) => {
            "stop: it neither ran, nor was runnable, nor waited for anything"
        }
        (C::ClientThink | C::ServerThink, Place::Thread { what: What::Stopped, .. }) => "stop by a signal",
        (C::ClientThink, Place::FarEnd { .. }) => "wait for the client, which sent nothing",
        (C::ClientThink | C::ServerThink, Place::TimeLimit { .. }) => "wait that its own timeout ended",
        (C::ClientThink | C::ServerThink, place) if place.is_for_something() => "wait for an event that did not come",
        (C::ClientThink | C::ServerThink, _) => "sleep",
        (C::ClientMemory | C::ServerMemory, _) => "wait for memory",
        (C::ClientCpu | C::ServerCpu, _) => "run",
        (C::ServerUnknown, _) => "wait for the server",
        (c, _) if c.is_network() => "wait for bytes in transit",
        _ => "interval",
    }
}

fn plural(noun: &str) -> String {
    match noun.split_once(": ") {
        Some((head, tail)) => format!("{head}s: {tail}"),
        None if noun.starts_with("stop by") => noun.replacen("stop", "stops", 1),
        None if noun.starts_with("pause between") => noun.replacen("pause", "pauses", 1),
        None if noun.starts_with("wait for") || noun.starts_with("wait that") => noun.replacen("wait", "waits", 1),
        None => format!("{noun}s"),
    }
}

/// How often the call tried between pauses failed, and with which error.
fn failed(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let attempts = &parts.seen.attempts;
    let (failed, call) = match entries.iter().max_by_key(|e| e.runs.total_ns)?.place {
        Place::Thread { what: What::LooksFor(_), object, .. } => (attempts.on(object)?, "calls"),
        Place::FarEnd { connection, .. } => (attempts.to_connect(parts.tables, connection)?, "attempts to connect"),
        _ => return None,
    };
    Some(format!("{} {call} failed with {}", count(failed.count), error_name(failed.error)))
}

/// The phrase for threads of the process taking turns.
fn turns(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns)?;
    let (Place::Thread { label, .. } | Place::Held { holder: label, .. }) = largest.place else { return None };
    let turns = turns_of(parts, label)?;
    Some(format!("{} (they waited for each other's locks for {})", turns.words(), duration(turns.locked_ns as f64 / 1e9)))
}

/// The effect of a processor quota.
fn quota(parts: &Parts<'_>, cause: Cause) -> Option<String> {
    let Quota { stopped_ns, processors } = parts.around.quota_of(cause.end()?);
    let stopped = duration(stopped_ns as f64 / 1e9);
    (stopped_ns > 0).then(|| match processors {
        Some(n) => format!("a quota of {n} CPUs throttled it for {stopped}"),
        None => format!("a CPU quota throttled it for {stopped}"),
    })
}

/// The activity of most of the sampled running time.
fn sampled_as(parts: &Parts<'_>, members: &[usize], entries: &[&Entry]) -> Option<String> {
    let (class, most, all) = parts.around.most_sampled(members)?;
    let charged: u64 = entries.iter().map(|e| e.runs.total_ns).sum();
    // A few samples, or samples of a small part, say nothing of the rest.
    let enough = most * 10 >= all * limits::SAMPLED_TENTHS && all * limits::SAMPLED_PART >= charged;
    enough.then(|| format!("{} of it {}", whole_percent(most as f64 / all as f64), activity(class)))
}

/// The calls on names and attributes, by samples of the running threads.
fn calls_on_names(parts: &Parts<'_>, members: &[usize]) -> Option<String> {
    let (all, calls) = parts.around.on_names(members).filter(|(all, _)| *all > 0.0)?;
    let names = calls
        .iter()
        .take(3)
        .filter(|(_, part)| part * limits::CALL_PART >= all)
        .map(|(name, part)| format!("{} {name}", whole_percent(part / all)));
    let names: Vec<String> = names.collect();
    Some(format!("of the samples in such calls {}; `--tier syscall` counts and times them", names.join(", ")))
}

/// The thread that held the processor or lock during most of the time that others waited.
fn holder(parts: &Parts<'_>, entries: &[&Entry], what: &str) -> Option<String> {
    let mut held: HashMap<&str, u64> = HashMap::new();
    for &(label, ns) in entries.iter().flat_map(|e| &e.holders) {
        *held.entry(&parts.tables.actors.get(label as usize)?.label).or_default() += ns;
    }
    let all: u64 = entries.iter().map(|e| e.runs.total_ns).sum();
    let (name, most) = held.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name)))?;
    (most * 4 >= all).then(|| format!("{what} was held by `{name}` in {} of it", whole_percent((most as f64 / all as f64).min(1.0))))
}

/// How busy the device was that threads were blocked on.
fn device(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns)?;
    let Place::Thread { label, what: What::Blocked(_), object } = largest.place else { return None };
    let object = parts.tables.objects.get(object as usize)?;
    let name = if object.kind == ObjectKind::Device { object.name.as_str() } else { object.attribute("device")? };
    let machine = parts.tables.actors.get(label as usize)?.machine;
    let of_that_name = |track: u32| parts.tables.actors.get(track as usize).is_some_and(|a| a.name == name && a.machine == machine);
    let (&track, did) = parts.seen.devices.iter().find(|&(&track, _)| of_that_name(track))?;
    let (first, last) = did.all.extent()?;
    let busy = parts.device_busy(track)?;
    let moved = did.all.bytes as f64 * 1e9 / (last - first).max(1) as f64;
    let median = duration(did.requests.quantile_ns(0.5) as f64 / 1e9);
    let (busy, moved, requests) = (whole_percent(busy), byte_rate(moved), count(did.requests.count));
    Some(format!("{name} busy {busy} of the time at {moved}, {requests} requests of median {median}"))
}

/// Other users of the device meanwhile.
fn shared(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns)?;
    parts.sharing.of_entry(parts.tables, largest)?.evidence()
}

/// Other users of the link meanwhile.
fn beside(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns)?;
    let shared = parts.link_of(largest).filter(|shared| !shared.neighbours.is_empty())?;
    let each = shared.neighbours.each().map_or_else(String::new, |each| format!(" ({each})"));
    Some(shared.words(|name| format!("`{name}`")) + &each)
}

/// The rank with most of a charge at ranks.
fn rank(parts: &Parts<'_>, members: &[usize]) -> Option<String> {
    let tables = parts.tables;
    let members: HashSet<usize> = members.iter().copied().collect();
    let mut of_track: HashMap<u32, i64> = HashMap::new();
    let mut all = 0;
    for run in parts.ledger.path.iter().filter(|run| members.contains(&(run.entry as usize))) {
        all += run.end - run.start;
        *of_track.entry(run.track).or_default() += run.end - run.start;
    }
    let is_rank = |track: &u32| tables.actors.get(*track as usize).is_some_and(|a| a.thread && a.label.ends_with("rank"));
    let (&track, &most) = of_track.iter().filter(|(track, _)| is_rank(track)).max_by_key(|&(&track, &ns)| (ns, track))?;
    let several = tables.actors.iter().filter(|a| a.thread && a.label.ends_with("rank")).count() > 1;
    (several && most * 2 > all)
        .then(|| format!("{} in {} of it", tables.actors[track as usize].name, whole_percent(most as f64 / all as f64)))
}

/// Why time could not be charged.
fn why_unknown(place: Place) -> String {
    match place {
        Place::Thread { what: What::Blocked(SpanKind::WaitLock), .. } => {
            "waiting for another thread; only the kernel recorder can see which one ended it (`thalweg doctor` says what that recorder needs)".to_owned()
        }
        Place::Thread { what: What::Blocked(kind), .. } if is_mpi(kind) => "waiting for ranks that were not recorded".to_owned(),
        Place::Thread { what: What::Blocked(_), .. } => "asleep in the kernel for a reason that the recorder could not see".to_owned(),
        Place::Hole { .. } => "it was not waiting, and no sample found it running: the machine itself may have been paused".to_owned(),
        Place::Unseen { .. } | Place::Given { .. } => "what the waker did before it ended this wait was not recorded".to_owned(),
        Place::FarEnd { .. } => "the peer it waited for was not recorded".to_owned(),
        _ => "no rule covers it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_of_a_thing_are_named_in_the_plural() {
        assert_eq!(plural("wait for stable storage"), "waits for stable storage");
        assert_eq!(plural("wait that its own timeout ended"), "waits that its own timeout ended");
    }
}
