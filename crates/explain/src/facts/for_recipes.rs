//! How to make a change with this program: by its recipe, from its command and the facts of the run.

use crate::cause::End;
use crate::facts::Parts;
use crate::facts::mounts::Mount;
use crate::facts::names::program;
use crate::limits::replay as limits;
use crate::observe::observation::Way;
use crate::observe::tables::Object;
use crate::waits::place::{Place, What};
use std::collections::{BTreeSet, HashMap};
use thalweg_recipes::Fact;
use thalweg_trace::{Meta, Role, SpanKind};

/// The port of an NFS server.
const NFS_PORT: &str = ":2049";

/// The facts that recipes may use.
pub(crate) fn facts(meta: &Meta, parts: &Parts<'_>, mounts: &[Mount]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut know = |name: &'static str, value: String| facts.push(Fact { name, value });
    if let Some(mount) = mounts.first() {
        know("mount", mount.point.clone());
        know("servers", mount.store.servers.len().to_string());
        if mount.store.strict {
            know("strict", mount.point.clone());
        }
    }
    let far_ends = parts.tables.objects.iter().filter_map(|object| object.name.split_once(" > ")).map(|(_, server)| server);
    if let Some(server) = far_ends.filter_map(|server| server.strip_suffix(NFS_PORT)).next() {
        know("nfs", server.to_owned());
    }
    if !parts.tables.connections.is_empty() {
        know("network", parts.tables.connections.len().to_string());
    }
    let processors = parts.tables.machines.first().map_or(1, |machine| machine.cpus);
    if processors > 1 {
        know("processors", processors.to_string());
    }
    let read = parts.seen.stream(Way::ClientReads).all.bytes;
    if read > 0 {
        know("read_bytes", read.to_string());
        let in_percent = |way: Way| (u128::from(parts.seen.stream(way).all.bytes) * 100 / u128::from(read)).to_string();
        know("sent_of_read", in_percent(Way::ClientSends));
        know("written_of_read", in_percent(Way::ClientWrites));
        know("part_mib", read.div_ceil(u64::from(processors.max(1))).div_ceil(1 << 20).to_string());
    }
    if let Some(disk) = read_ahead_of(parts) {
        know("disk", disk.to_owned());
    }
    let workers = workers(parts);
    if workers > 0 {
        know("workers", workers.to_string());
    }
    if let Some(asked) = parts.seen.questions.under_way(End::Server, parts.tables) {
        know("asks_on", asked.count.to_string());
    }
    if let Some(object) = truncated(parts) {
        know("truncates", parts.tables.objects.get(object as usize).map_or_else(String::new, |object| object.name.clone()));
    }
    let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<String>>().join(" ");
    for (name, names) in
        [("modules", modules(meta, parts)), ("programs", programs(meta, parts, End::Client)), ("peers", programs(meta, parts, End::Server))]
    {
        if !names.is_empty() {
            know(name, joined(names));
        }
    }
    facts
}

/// The file whose truncation the run waited for most, if it matters.
fn truncated(parts: &Parts<'_>) -> Option<u32> {
    let wall_ns = (parts.end - parts.start).max(0) as u64;
    let waits = parts.ledger.entries.iter().filter_map(|entry| match entry.place {
        Place::Thread { what: What::Blocked(SpanKind::FileTruncate), object, .. } => Some((object, entry.runs.total_ns)),
        _ => None,
    });
    waits.filter(|(_, ns)| *ns >= wall_ns / limits::TRUNCATES_PART).max_by_key(|(_, ns)| *ns).map(|(object, _)| object)
}

/// Number of the command's threads, besides each process's first, that were in file calls for a hundredth of the run, or asked name
/// servers.
fn workers(parts: &Parts<'_>) -> usize {
    let wall_ns = (parts.end - parts.start).max(0) as u64;
    let asks = parts.seen.questions.ask_by_datagram();
    let actors = parts.tables.actors.iter().enumerate();
    let beside = actors.filter(|(_, actor)| actor.thread && actor.end == End::Client && !actor.leads() && actor.role != Role::Recorder);
    let is_worker = |track: usize| parts.seen.did[track].file_ns >= wall_ns / limits::WORKS_PART || asks.contains(&(track as u32));
    beside.filter(|(track, _)| is_worker(*track)).count()
}

/// Directories of Python and Node packages.
const PACKAGES: [&str; 3] = ["/site-packages/", "/dist-packages/", "/node_modules/"];

/// The modules that the command's script imports, and the packages of files that were seen.
fn modules(meta: &Meta, parts: &Parts<'_>) -> BTreeSet<String> {
    let said = meta.attributes.iter().filter(|(name, _)| name == "command.modules");
    let said = said.flat_map(|(_, modules)| modules.split(' ')).map(str::to_owned);
    let package = |object: &Object| {
        let inside = PACKAGES.iter().find_map(|place| object.name.split_once(place))?.1;
        let name = inside.split(['/', '.']).next().filter(|name| !name.is_empty())?;
        Some(name.to_owned())
    };
    said.chain(parts.tables.objects.iter().filter_map(package)).collect()
}

/// The programs at one end that moved a fair part of its bytes: those that the command started, or those that served it.
fn programs(meta: &Meta, parts: &Parts<'_>, end: End) -> BTreeSet<String> {
    let mut bytes: HashMap<u32, u64> = HashMap::new();
    for moved in parts.seen.moved[end as usize].iter().flatten().filter(|moved| moved.pid != 0) {
        *bytes.entry(moved.pid).or_default() += moved.bytes;
    }
    let most = bytes.values().copied().max().unwrap_or(0);
    let is_of_run = |pid: u32| bytes.get(&pid).is_some_and(|&moved| moved > 0 && moved.saturating_mul(limits::FAIR_PART) >= most);
    let actors = parts.tables.actors.iter().enumerate();
    let there = actors.filter(|(_, actor)| actor.thread && actor.end == end && !actor.mount && actor.role != Role::Recorder);
    let names = there.filter(|(_, actor)| is_of_run(actor.pid)).map(|(track, _)| program(parts.tables, meta, track as u32));
    names.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace)).collect()
}

/// The disk with most reads, if they went through the page cache, which reads ahead.
fn read_ahead_of<'p>(parts: &'p Parts<'_>) -> Option<&'p str> {
    let past_the_cache = |object: &Object| object.attribute("direct") == Some("yes");
    if parts.tables.objects.iter().any(past_the_cache) {
        return None;
    }
    let devices = parts.seen.devices.iter().filter(|(_, did)| did.read_bytes > 0);
    let (&track, _) = devices.max_by_key(|(track, did)| (did.read_bytes, std::cmp::Reverse(**track)))?;
    // An emulated device is not this machine's.
    Some(parts.tables.actors[track as usize].name.as_str()).filter(|name| !name.contains(' '))
}
