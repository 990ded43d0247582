//! A row's subject, and the figures that matter most about it.

use super::Of;
use super::groups::{Group, most_first};
use super::names::{file_name, program};
use crate::assemble::circumstances::Quota;
use crate::cause::Cause;
use crate::limits::assemble::{SAMPLED_PART, SAMPLED_TENTHS};
use crate::limits::summary as limits;
use crate::walk::ledger::{Place, What};
use thalweg_trace::numbers::{bit_rate, count, duration, whole_percent};

/// Who or what a group is about, and its figures.
pub(super) fn figures(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    use Cause as C;
    match group.cause {
        C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientSync | C::ServerSync => on_file(of, group),
        C::ClientMetadata | C::ServerMetadata => metadata(of, group),
        C::ClientCpu | C::ServerCpu => (group.who(), computed(of, group)),
        C::ClientRunqueue | C::ServerRunqueue => (group.who(), queued(of, group)),
        C::ClientThink | C::ServerThink => (group.who(), times(group, pause(group), "")),
        C::ClientLock | C::ServerLock => (group.who(), times(group, "wait", "")),
        C::NetworkBandwidth => (group.who(), moved(of, group)),
        C::NetworkLatency => (group.who(), times(group, "transit", "")),
        C::ServerUnknown => (format!("{}, not recorded", group.who()), times(group, "wait", "")),
        C::Recorder => (group.who(), "held by the recorder".to_owned()),
        _ => (group.who(), times(group, "wait", "")),
    }
}

/// `25 reads, 17.5 ms each`, and what is to be said besides.
fn times(group: &Group<'_>, noun: &str, besides: &str) -> String {
    match group.count {
        1 => format!("one {noun} of {}{besides}", duration(group.mean_s())),
        n => format!("{} {noun}s, {} each{besides}", count(n), duration(group.mean_s())),
    }
}

/// Waits for files and devices.
fn on_file(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    let idle = if has_network(of) && group.idle >= limits::IDLE { ", network idle" } else { "" };
    let busy = group.device().and_then(|name| busy(of, name)).filter(|_| idle.is_empty());
    let busy = busy.map_or_else(String::new, |(name, part)| format!(", {name} {} busy", whole_percent(part)));
    (subject(group), times(group, "wait", &format!("{idle}{busy}")))
}

/// What was waited for: a file, its device, or how many of them.
fn subject(group: &Group<'_>) -> String {
    let device = match group.devices.len() {
        0 => None,
        n => Some(group.device().map_or_else(|| format!("{n} devices"), str::to_owned)),
    };
    let file = match group.files.len() {
        0 => None,
        n => Some(group.file().map_or_else(|| format!("{} files", count(n as u64)), |name| file_name(name).to_owned())),
    };
    match (file, device) {
        (Some(file), Some(device)) => format!("{file} on {device}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => group.who(),
    }
}

/// How busy a device was, with its name.
fn busy<'n>(of: &Of<'_>, name: &'n str) -> Option<(&'n str, f64)> {
    let device = of.parts.seen.devices.keys().find(|&&track| of.parts.tables.actors[track as usize].name == name)?;
    of.parts.device_busy(*device).map(|part| (name, part))
}

/// Whether the run was about a network at all.
pub(super) fn has_network(of: &Of<'_>) -> bool {
    !of.parts.tables.connections.is_empty()
}

fn metadata(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    if let Some((all, calls)) = of.parts.around.on_names(&group.members).filter(|(all, _)| *all > 0.0) {
        let most: Vec<String> = calls
            .iter()
            .filter(|(name, _)| *name != "other")
            .take(2)
            .map(|(name, part)| format!("{} {name}", whole_percent(part / all)))
            .collect();
        let most = if most.is_empty() { "of many kinds".to_owned() } else { most.join(", ") };
        return (group.who(), format!("calls on names, {most}"));
    }
    match group.largest.place {
        Place::Thread { what: What::Blocked(_), .. } => (subject(group), times(group, "wait", "")),
        _ => (group.who(), times(group, "run", "")),
    }
}

/// What most of the computing was, as samples have it.
fn computed(of: &Of<'_>, group: &Group<'_>) -> String {
    match sampled(of, group) {
        Some((class, part)) => format!("{} of it {}", whole_percent(part), activity(&class)),
        None => times(group, "run", ""),
    }
}

/// The class of code that most samples were in and the part of them, where there are enough to say.
pub(super) fn sampled(of: &Of<'_>, group: &Group<'_>) -> Option<(String, f64)> {
    let (class, most, all) = of.parts.around.most_sampled(&group.members)?;
    (most * 10 >= all * SAMPLED_TENTHS && all * SAMPLED_PART >= group.ns).then(|| (class.to_owned(), most as f64 / all.max(1) as f64))
}

fn activity(class: &str) -> String {
    match class {
        "user" => "in its own code".to_owned(),
        "read" => "copying in read(2)".to_owned(),
        "write" => "copying in write(2)".to_owned(),
        "send" => "sending".to_owned(),
        "receive" => "receiving".to_owned(),
        "sync" => "in fsync(2)".to_owned(),
        "softirq" => "in network and block interrupts".to_owned(),
        "fault" => "faulting pages in".to_owned(),
        "other" => "elsewhere in the kernel".to_owned(),
        other => format!("in {other}"),
    }
}

/// Waits for a processor: what had it, or the quota that held the program back.
fn queued(of: &Of<'_>, group: &Group<'_>) -> String {
    if group.largest.place.is_quota(of.parts.tables) {
        let Quota { stopped_ns, processors } = group.cause.end().map(|end| of.parts.around.quota_of(end)).unwrap_or_default();
        let allowed = processors.map_or_else(String::new, |n| format!("quota of {n} CPUs, "));
        return match stopped_ns {
            0 => format!("{allowed}{}", times(group, "wait", "")),
            ns => format!("{allowed}stopped for {}", duration(ns as f64 / 1e9)),
        };
    }
    let held = holder(of, group).map_or_else(String::new, |(name, part)| format!(", {name} held it in {}", whole_percent(part)));
    times(group, "wait", &held)
}

/// The program that held a processor or a lock for most of the time that others waited for it, where that is a quarter or more.
pub(super) fn holder(of: &Of<'_>, group: &Group<'_>) -> Option<(String, f64)> {
    let holders = group.members.iter().flat_map(|&i| &of.parts.ledger.entries[i].holders);
    let (name, ns) = most_first(holders.map(|&(actor, ns)| (program(of.parts.tables, of.meta, actor), ns))).into_iter().next()?;
    (ns * 4 >= group.ns).then(|| (name, (ns as f64 / group.ns.max(1) as f64).min(1.0)))
}

/// What a pause is called.
fn pause(group: &Group<'_>) -> &'static str {
    match group.largest.place {
        Place::Thread { what: What::Stopped, .. } => "stop",
        Place::Thread { what: What::Still(_), .. } => "standstill",
        Place::FarEnd { .. } => "wait",
        Place::Thread { what: What::Looking, .. } => "poll",
        _ => "sleep",
    }
}

/// How fast bytes moved while they did.
fn moved(of: &Of<'_>, group: &Group<'_>) -> String {
    let rate = link_rate(of).map_or_else(String::new, |rate| format!("{} while it moved data; ", bit_rate(rate)));
    format!("{rate}{}", times(group, "wait", ""))
}

/// The rate at which the channel carried its bursts, where that is known from the wire.
pub(super) fn link_rate(of: &Of<'_>) -> Option<f64> {
    let way = *of.parts.ways().first()?;
    of.parts.burst_rate(way)
}
