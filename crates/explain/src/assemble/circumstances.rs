//! What was seen around a charge, besides its own intervals: who held the processor, what a quota stopped, what samples of
//! the running threads say, how busy the device was, and why something is not known. Each adds a few words to the evidence.

use crate::ExplainError;
use crate::assemble::Parts;
use crate::assemble::ceiling::end_of;
use crate::cause::{Cause, End};
use crate::observe::cast::Cast;
use crate::observe::index::NONE;
use crate::walk::ledger::{Entry, Ledger, Place, What};
use std::collections::HashMap;
use thalweg_trace::numbers::{byte_rate, count, duration, whole_percent};
use thalweg_trace::{CounterName, CounterOf, ObjectKind, Source, SpanKind};

/// Of a track sampled for less, samples say nothing of where it ran.
const ENOUGH_SAMPLED_NS: u64 = 10_000_000;

/// What samples and quotas say, read after the walk.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// By entry of the ledger: sampled time by class.
    sampled: HashMap<u32, HashMap<u16, u64>>,
    /// Names of classes of code.
    classes: HashMap<u16, String>,
    /// By end: what a processor quota did to it.
    quotas: [Quota; 2],
    /// By track: which part of its running samples found in calls that put data on media; where there are enough to tell.
    syncing: HashMap<u32, f64>,
}

/// What a processor quota did to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quota {
    /// How long it stopped it.
    pub stopped_ns: u64,
    /// How many processors it allows, where that was told.
    pub processors: Option<f64>,
}

impl Circumstances {
    /// Reads them for the path that was charged.
    pub fn read(source: &dyn Source, cast: &mut Cast, ledger: &Ledger) -> Result<Circumstances, ExplainError> {
        let mut known = Circumstances { quotas: quotas(source, cast)?, ..Circumstances::default() };
        for (name, value) in &source.meta().attributes {
            if let Some(number) = name.strip_prefix("class.").and_then(|n| n.parse().ok()) {
                known.classes.insert(number, value.clone());
            }
        }
        let sync = known.classes.iter().find(|(_, name)| *name == "sync").map(|(&class, _)| class);
        let mut syncing: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut path = ledger.path.iter().rev().peekable();
        for sample in source.samples()? {
            let at = sample.at.ns();
            while path.peek().is_some_and(|run| run.end <= at) {
                path.next();
            }
            let track = sample.track.map_or(NONE, |t| cast.tracks.get(t.number()));
            if track == NONE {
                continue;
            }
            let (in_sync, all) = syncing.entry(track).or_default();
            *all += sample.weight_ns;
            *in_sync += if Some(sample.class) == sync { sample.weight_ns } else { 0 };
            if let Some(run) = path.peek()
                && run.start <= at
                && run.track == track
            {
                *known.sampled.entry(run.entry).or_default().entry(sample.class).or_default() += sample.weight_ns;
            }
        }
        if sync.is_some() {
            let enough = syncing.into_iter().filter(|(_, (_, all))| *all >= ENOUGH_SAMPLED_NS);
            known.syncing = enough.map(|(track, (sync, all))| (track, sync as f64 / all as f64)).collect();
        }
        Ok(known)
    }

    /// What a processor quota did to an end.
    pub fn quota_of(&self, end: End) -> Quota {
        self.quotas[end as usize]
    }

    /// Which part of a track's running was in calls that put data on media; `None` where too few samples tell.
    pub fn syncing(&self, track: u32) -> Option<f64> {
        self.syncing.get(&track).copied()
    }

    /// What there is to say of a charge made of these entries (with their numbers in the ledger).
    pub fn of(&self, parts: &Parts<'_>, cause: Cause, members: &[usize]) -> Vec<String> {
        let entries: Vec<&Entry> = members.iter().map(|&i| &parts.ledger.entries[i]).collect();
        let mut said = Vec::new();
        if matches!(cause, Cause::ClientRunqueue | Cause::ServerRunqueue | Cause::Recorder) {
            said.extend(holder(parts, &entries));
            said.extend(self.quota(cause));
        }
        if matches!(cause, Cause::ClientCpu | Cause::ServerCpu) {
            said.extend(self.sampled_as(members, &entries));
        }
        said.extend(device(parts, &entries));
        said.extend(crate::observe::ranks::who(parts, members));
        if cause == Cause::Unknown {
            said.extend(entries.iter().max_by_key(|e| e.runs.total_ns).map(|e| why_unknown(e.place)));
        }
        said
    }

    fn quota(&self, cause: Cause) -> Option<String> {
        let Quota { stopped_ns, processors } = self.quota_of(end_of(cause)?);
        (stopped_ns > 0).then(|| match processors {
            Some(n) => format!("a quota of {n} processors stopped it for {}", duration(stopped_ns as f64 / 1e9)),
            None => format!("a processor quota stopped it for {}", duration(stopped_ns as f64 / 1e9)),
        })
    }

    /// What most of the sampled running time was in.
    fn sampled_as(&self, members: &[usize], entries: &[&Entry]) -> Option<String> {
        const ENOUGH: u64 = 20;
        let mut sums: HashMap<u16, u64> = HashMap::new();
        for sampled in members.iter().filter_map(|&i| self.sampled.get(&(i as u32))) {
            sampled.iter().for_each(|(&class, &ns)| *sums.entry(class).or_default() += ns);
        }
        let all: u64 = sums.values().sum();
        let charged: u64 = entries.iter().map(|e| e.runs.total_ns).sum();
        let (&class, &most) = sums.iter().max_by_key(|&(&class, &ns)| (ns, std::cmp::Reverse(class)))?;
        // A few samples, or of a small part only, say nothing of the rest.
        if most * 10 < all * 3 || all * ENOUGH < charged {
            return None;
        }
        let doing = doing(self.classes.get(&class)?);
        Some(format!("{} of it {doing}", whole_percent(most as f64 / all as f64)))
    }
}

/// What a class of code does, after "71 % of it".
fn doing(class: &str) -> String {
    match class {
        "user" => "in the program's own code".to_owned(),
        "read" => "copying in read(2)".to_owned(),
        "write" => "copying in write(2)".to_owned(),
        "send" => "sending on connections".to_owned(),
        "receive" => "receiving from connections".to_owned(),
        "sync" => "in fsync(2)".to_owned(),
        "softirq" => "in the kernel's network and block interrupts".to_owned(),
        "fault" => "faulting pages in".to_owned(),
        "other" => "elsewhere in the kernel".to_owned(),
        other => format!("in {other}"),
    }
}

/// What quotas did to each end: all its processes' together.
fn quotas(source: &dyn Source, cast: &mut Cast) -> Result<[Quota; 2], ExplainError> {
    let told = source.meta().attributes.iter().find(|(n, _)| n == "cgroup.cpu_quota").and_then(|(_, v)| v.parse().ok());
    let mut ends = [Quota { processors: told, ..Quota::default() }, Quota::default()];
    let mut values: HashMap<u32, (i64, i64)> = HashMap::new();
    for counter in source.counters(CounterName::CpuThrottledNs)? {
        if let CounterOf::Track(track) = counter.of {
            let range = values.entry(cast.tracks.get(track.number())).or_insert((counter.value, counter.value));
            *range = (range.0.min(counter.value), range.1.max(counter.value));
        }
    }
    for (track, (least, most)) in values {
        let Some(actor) = cast.actors.get(track as usize) else { continue };
        ends[actor.end as usize].stopped_ns += most.abs_diff(least);
    }
    Ok(ends)
}

/// Who held the processor for most of the time that others queued for it.
fn holder(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let mut held: HashMap<&str, u64> = HashMap::new();
    for &(label, ns) in entries.iter().flat_map(|e| &e.holders) {
        *held.entry(&parts.cast.actors.get(label as usize)?.label).or_default() += ns;
    }
    let all: u64 = entries.iter().map(|e| e.runs.total_ns).sum();
    let (name, most) = held.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name)))?;
    (most * 4 >= all).then(|| format!("the processor was held by `{name}` in {} of it", whole_percent((most as f64 / all as f64).min(1.0))))
}

/// How busy the device was that threads were blocked on.
fn device(parts: &Parts<'_>, entries: &[&Entry]) -> Option<String> {
    let largest = entries.iter().max_by_key(|e| e.runs.total_ns)?;
    let Place::Thread { label, what: What::Blocked(_), object } = largest.place else { return None };
    let thing = parts.cast.things.get(object as usize)?;
    let name = if thing.kind == ObjectKind::Device { thing.name.as_str() } else { thing.attribute("device")? };
    let machine = parts.cast.actors.get(label as usize)?.machine;
    let of_that_name = |track: u32| parts.cast.actors.get(track as usize).is_some_and(|a| a.name == name && a.machine == machine);
    let (_, did) = parts.seen.devices.iter().find(|&(&track, _)| of_that_name(track))?;
    let (first, last) = did.all.extent()?;
    let busy_ns = did.all.finish().busy_ns;
    let busy = (busy_ns as f64 / (parts.end - parts.start).max(1) as f64).min(1.0);
    let moved = did.all.bytes as f64 * 1e9 / (last - first).max(1) as f64;
    let median = duration(did.requests.quantile_ns(0.5) as f64 / 1e9);
    let (busy, moved, requests) = (whole_percent(busy), byte_rate(moved), count(did.requests.count));
    Some(format!("{name} busy {busy} of the time at {moved}, {requests} requests of median {median}"))
}

/// Why time could not be charged.
fn why_unknown(place: Place) -> String {
    match place {
        Place::Thread { what: What::Blocked(SpanKind::WaitLock), .. } => {
            "waiting for another thread, and who that was cannot be seen by looking from time to time; record with a recorder that can \
             (`thalweg doctor`)"
                .to_owned()
        }
        Place::Thread { what: What::Blocked(kind), .. } if crate::observe::ranks::is_mpi(kind) => {
            "waiting for ranks of which nothing was recorded".to_owned()
        }
        Place::Thread { what: What::Blocked(_), .. } => "asleep in the kernel, where the recorder could not see what for".to_owned(),
        Place::FarEnd { .. } => "nothing was recorded of who was waited for".to_owned(),
        _ => "no rule covers it".to_owned(),
    }
}

/// Which end an unrecorded one is, and how to record it, in a sentence.
pub fn how_to_record(cast: &Cast, end: End, connection: u32) -> String {
    let name = cast.connections.get(connection as usize).and_then(|n| n.split_once(" > "));
    let host_and_port = |address: &str| address.rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned()));
    let server = name.and_then(|(_, server)| host_and_port(server));
    let client = name.and_then(|(client, _)| host_and_port(client));
    let here = matches!((&client, &server), (Some((c, _)), Some((s, _))) if c == s || s.starts_with("127.") || s == "[::1]");
    match (end, server) {
        (End::Client, Some((_, port))) if here => format!(
            "The server was not recorded, so its part is server.unknown. Record it as well, since it runs on this machine: \
             `thalweg explain --also {port} -- COMMAND`; for a store, copy with --record."
        ),
        (End::Client, Some((host, port))) => format!(
            "The server was not recorded, so its part is server.unknown. Record it as well. On {host}: `thalweg record --server --port {port} --for 60s -o server.thw` \
             while the command runs here; then `thalweg merge client.thw server.thw` and explain that. For a store, copy with --record against \
             servers that allow it."
        ),
        (End::Server, _) if name.is_some() => {
            "The client was not recorded: its part is client.think where it did not send. Run the command \
             there under `thalweg record`, and `thalweg merge` both recordings."
                .to_owned()
        }
        _ => "The server was not recorded, so its part is server.unknown. Record it as well: start the recorder on its machine \
             too, or, for a store, copy with --record against servers that allow it, and explain both recordings together."
            .to_owned(),
    }
}
