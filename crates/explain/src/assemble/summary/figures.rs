//! A row's subject, and its most important figures.

use super::groups::{Group, most_first, with_others};
use super::of::Of;
use super::operations::operations;
use super::tried;
use crate::assemble::activity::activity;
use crate::cause::{Cause, End};
use crate::facts::circumstances::Quota;
use crate::facts::names::{file_name, program};
use crate::limits::assemble::{SAMPLED_PART, SAMPLED_TENTHS};
use crate::limits::summary as limits;
use crate::observe::index::NONE;
use crate::observe::observation::{DeviceActivity, Way};
use crate::observe::wire::UnderWay;
use crate::waits::place::{Place, What};
use thalweg_base::numbers::{bit_rate, count, duration, size, whole_percent};

/// The subject of a group, and its figures.
pub(super) fn figures(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    use Cause as C;
    match group.cause {
        C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientSync | C::ServerSync => on_file(of, group),
        C::ClientMetadata | C::ServerMetadata => metadata(of, group),
        C::ClientCpu | C::ServerCpu => (group.who(), computed(of, group)),
        C::ClientRunqueue | C::ServerRunqueue => (queuer(of, group), queued(of, group)),
        C::ClientThink | C::ServerThink => (group.who(), times(group, pause(group), "")),
        C::ClientLock | C::ServerLock => (group.who(), times(group, wait(group), "")),
        C::NetworkBandwidth => (group.who(), moved(of, group)),
        C::NetworkLatency | C::NetworkRwnd | C::NetworkSndbuf | C::NetworkCwnd => (group.who(), windowed(of, group)),
        C::NetworkLoss if loss_narrowed(of, group) => (group.who(), windowed(of, group)),
        C::ServerUnknown => unrecorded(of, group),
        C::ClientMemory | C::ServerMemory => (group.who(), times(group, "wait", &behind(group))),
        C::Recorder => (group.who(), "held by the recorder".to_owned()),
        _ => (group.who(), times(group, "wait", "")),
    }
}

/// `25 reads, 17.5 ms each`, followed by `besides`. If one had nearly all of the time: `7 sleeps, the longest 1.30 s`.
fn times(group: &Group<'_>, noun: &str, besides: &str) -> String {
    if let Some(longest_s) = group.outlier_s() {
        return format!("{} {noun}s, the longest {}{besides}", count(group.count), duration(longest_s));
    }
    match group.count {
        // Pauses with most of their time charged elsewhere.
        0 => format!("{} of {noun}s{besides}", duration(group.ns as f64 / 1e9)),
        1 => format!("one {noun} of {}{besides}", duration(group.mean_s())),
        n => format!("{} {noun}s, {} each{besides}", count(n), duration(group.mean_s())),
    }
}

/// An unrecorded server by its address, if known, or else who waited for it.
fn unrecorded(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    match group.largest.place {
        Place::FarEnd { connection, .. } if tried::to_connect(of, connection).is_some() => {
            (format!("{}, no listener", group.who()), times(group, "pause", ""))
        }
        Place::Thread { .. } => (group.who(), times(group, wait(group), "")),
        Place::Unseen { .. } => (format!("{}, before it was recorded", group.who()), times(group, "wait", "")),
        Place::FarEnd { connection, .. } if connection != NONE => (format!("{}, not recorded", group.who()), times(group, "wait", "")),
        _ => (format!("{}, peer not recorded", group.who().replace(" > the far end", "")), times(group, "wait", "")),
    }
}

/// Waits for files and devices.
fn on_file(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    let idle = if has_network(of) && group.idle >= limits::IDLE { ", network idle" } else { "" };
    let busy = group.device().and_then(|name| busy(of, name)).filter(|_| idle.is_empty());
    let another = of.parts.most_at_device(group.largest);
    // If the line has no room for both, the device's other user stays.
    let busy = busy.map_or_else(String::new, |(name, part)| match another {
        Some((who, of_it)) => format!(", {name} {} for {who}, {} busy", whole_percent(of_it), whole_percent(part)),
        None => format!(", {name} {} busy", whole_percent(part)),
    });
    (subject(group), times(group, "wait", &format!("{idle}{busy}")))
}

/// The object waited for: a file, its device, or how many of them.
fn subject(group: &Group<'_>) -> String {
    let device = match group.devices.len() {
        0 => None,
        n => Some(group.device().map_or_else(|| format!("{n} devices"), str::to_owned)),
    };
    // Waits for a device alone name no file: the few that do were not the main object.
    let of_files_ns: u64 = group.files.iter().map(|(_, ns)| ns).sum();
    let file = match group.files.len() {
        n if n == 0 || device.is_some() && (of_files_ns as f64) < group.ns as f64 * limits::OF_FILES => None,
        n => Some(group.file().map_or_else(|| format!("{} files", count(n as u64)), |name| file_name(name).to_owned())),
    };
    match (file, device) {
        (Some(file), Some(device)) => format!("{file} on {device}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => group.who(),
    }
}

/// A device's name, and how busy it was.
pub(super) fn busy<'n>(of: &Of<'_>, name: &'n str) -> Option<(&'n str, f64)> {
    let (track, _) = device(of, name)?;
    of.parts.device_busy(track).map(|part| (name, part))
}

/// A device by its name: its track, and its work.
pub(super) fn device<'a>(of: &'a Of<'_>, name: &str) -> Option<(u32, &'a DeviceActivity)> {
    let mut devices = of.parts.seen.devices.iter().map(|(&track, did)| (track, did));
    devices.find(|(track, _)| of.parts.tables.actors[*track as usize].name == name)
}

/// Whether the run used a network at all.
pub(super) fn has_network(of: &Of<'_>) -> bool {
    !of.parts.tables.connections.is_empty()
}

fn metadata(of: &Of<'_>, group: &Group<'_>) -> (String, String) {
    let calls = operations(of, group);
    let sampled = of.parts.around.on_names(&group.members).is_some_and(|(all, _)| all > 0.0);
    if sampled || calls.len() > 1 {
        let most: Vec<String> = calls.iter().take(2).map(|(name, part)| format!("{} {name}", whole_percent(*part))).collect();
        return (group.who(), format!("metadata calls: {}", most.join(", ")));
    }
    match group.largest.place {
        Place::Thread { what: What::Blocked(_), .. } => (subject(group), times(group, "wait", &behind(group))),
        _ => (group.who(), times(group, "run", "")),
    }
}

/// The phrase for the work of the device behind it.
fn behind(group: &Group<'_>) -> String {
    group.behind.as_ref().map_or_else(String::new, |behind| format!(", {}", behind.words()))
}

/// The activity of most of the computing, by samples.
fn computed(of: &Of<'_>, group: &Group<'_>) -> String {
    match sampled(of, group) {
        Some((class, part)) => format!("{} of it {}", whole_percent(part), activity(&class)),
        None => times(group, "run", ""),
    }
}

/// The class of code with most samples and its part of them, if there are enough samples.
pub(super) fn sampled(of: &Of<'_>, group: &Group<'_>) -> Option<(String, f64)> {
    let (class, most, all) = of.parts.around.most_sampled(&group.members)?;
    (most * 10 >= all * SAMPLED_TENTHS && all * SAMPLED_PART >= group.ns).then(|| (class.to_owned(), most as f64 / all.max(1) as f64))
}

/// Who queued, and for what.
fn queuer(of: &Of<'_>, group: &Group<'_>) -> String {
    // The sentence says how many others there were.
    let name = queueing(of, group);
    let name = name.split_once(" and ").map_or(name.clone(), |(first, _)| format!("{first} and others"));
    format!("{name}, {}", group.who())
}

/// The programs that queued for a processor: the main one, and how many others.
pub(super) fn queueing(of: &Of<'_>, group: &Group<'_>) -> String {
    let path = of.parts.ledger.path.iter().filter(|run| group.has(run.entry));
    let waiting = most_first(path.map(|run| (program(of.parts.tables, of.meta, run.track), (run.end - run.start) as u64)));
    let most = |(_, ns): &(String, u64)| *ns as f64 >= group.ns as f64 * limits::MOST;
    match waiting.as_slice() {
        [] => "a program".to_owned(),
        [first, ..] if most(first) => first.0.clone(),
        [first, others @ ..] => with_others(&first.0, others.len()),
    }
}

/// Waits for a processor: who held it, or the quota that throttled the program.
fn queued(of: &Of<'_>, group: &Group<'_>) -> String {
    if group.largest.place.is_quota(of.parts.tables) {
        let Quota { stopped_ns, processors } = group.cause.end().map(|end| of.parts.around.quota_of(end)).unwrap_or_default();
        let allowed = processors.map_or_else(String::new, |n| format!("quota of {n} CPUs, "));
        return match stopped_ns {
            0 => format!("{allowed}{}", times(group, "wait", "")),
            // The threads of a group are stopped separately.
            ns if ns as f64 > of.parts.wall_s() * 1e9 => {
                format!("{allowed}throttled for {}, all threads together", duration(ns as f64 / 1e9))
            }
            ns => format!("{allowed}throttled for {}", duration(ns as f64 / 1e9)),
        };
    }
    let held = match (of.parts.others_at_processors(group.largest), holder(of, group)) {
        (Some(others), _) => format!(", {} behind {}", whole_percent(others.part()), others.who(str::to_owned)),
        (None, Some((name, part))) => format!(", {name} held it in {}", whole_percent(part)),
        (None, None) => String::new(),
    };
    times(group, "wait", &held)
}

/// The program that held a processor or a lock for most of the time others waited for it, if for a quarter or more.
pub(super) fn holder(of: &Of<'_>, group: &Group<'_>) -> Option<(String, f64)> {
    let holders = group.members.iter().flat_map(|&i| &of.parts.ledger.entries[i].holders);
    let (name, ns) = most_first(holders.map(|&(actor, ns)| (program(of.parts.tables, of.meta, actor), ns))).into_iter().next()?;
    (ns * 4 >= group.ns).then(|| (name, (ns as f64 / group.ns.max(1) as f64).min(1.0)))
}

/// The name of a pause.
fn pause(group: &Group<'_>) -> &'static str {
    match group.largest.place {
        Place::Thread { what: What::Stopped, .. } => "stop",
        Place::Thread { what: What::Still(_), .. } => "standstill",
        Place::FarEnd { .. } | Place::TimeLimit { .. } => "wait",
        Place::Thread { what: What::Looking, .. } => "poll",
        // The sentence names what it waits for.
        place if place.is_for_something() => "wait",
        _ => "sleep",
    }
}

/// The name of one interval of a wait.
fn wait(group: &Group<'_>) -> &'static str {
    if matches!(group.largest.place, Place::Thread { what: What::LooksFor(_), .. }) { "pause" } else { "wait" }
}

/// The rate while bytes moved, and the waits.
fn moved(of: &Of<'_>, group: &Group<'_>) -> String {
    let rate = link_rate(of, group).map_or_else(String::new, |rate| format!("{} while sending, ", bit_rate(rate)));
    format!("{rate}{}", times(group, "wait", ""))
}

/// The rate of the channel's bursts, if known from the wire, and if this direction was waited for.
pub(super) fn link_rate(of: &Of<'_>, group: &Group<'_>) -> Option<f64> {
    let way = *of.parts.ways().first()?;
    // A burst into a queue went no faster over the link.
    let sustained = of.parts.on_wire.sustained().map_or(f64::INFINITY, |sustained| sustained.bytes_per_s());
    of.parts.burst_rate(way).map(|burst| burst.min(sustained)).filter(|_| sender(of, group).is_none_or(|end| end == sent_by(way)))
}

/// The end that sends in this direction.
fn sent_by(way: Way) -> End {
    match way {
        Way::ServerSends | Way::ClientReceives => End::Server,
        Way::ClientSends | Way::ClientWrites | Way::ClientReads => End::Client,
    }
}

/// The end that sent on a path; `None` if only one end was recorded.
fn sender(of: &Of<'_>, group: &Group<'_>) -> Option<End> {
    let Place::Wire(from, to) = group.largest.place else { return None };
    let end = |actor: u32| of.parts.tables.actors.get(actor as usize).map(|a| a.end);
    end(from).or_else(|| end(to).map(|end| if end == End::Client { End::Server } else { End::Client }))
}

/// Bytes in flight, if a window stopped them, or the round trip; and the waits.
fn windowed(of: &Of<'_>, group: &Group<'_>) -> String {
    let latency = group.cause == Cause::NetworkLatency;
    let waits = times(group, if latency { "transit" } else { "wait" }, "");
    match under_way(of, group) {
        Some(under_way) if latency => format!("{waits}{}", under_way.round_trip(", round trip ")),
        Some(under_way) => format!("{} in flight, {waits}", size(under_way.in_flight_bytes.unsigned_abs())),
        None => waits,
    }
}

/// The figures for a sentence: `12 KiB in flight, window 13 KiB, round trip 20 ms`.
pub(super) fn window(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let under_way = under_way(of, group)?;
    let bytes = |n: i64| size(n.unsigned_abs());
    let limit = match group.cause {
        Cause::NetworkRwnd => under_way.window_bytes.map(|n| format!(", window {}", bytes(n))),
        Cause::NetworkSndbuf => under_way.buffer_bytes.map(|n| format!(", send buffer {}", bytes(n))),
        Cause::NetworkCwnd => under_way.cwnd_bytes.map(|n| format!(", cwnd {}", bytes(n))),
        // A message fills no window: little in flight means nothing, and the number has the most in flight.
        _ => return Some(under_way.round_trip("round trip ")).filter(|said| !said.is_empty()),
    };
    let (in_flight, round_trip) = (bytes(under_way.in_flight_bytes), under_way.round_trip(", round trip "));
    Some(format!("{in_flight} in flight{}{round_trip}", limit.unwrap_or_default()))
}

impl UnderWay {
    /// `words` and the round trip; empty if it is not known.
    fn round_trip(&self, words: &str) -> String {
        self.round_trip_us.map_or_else(String::new, |us| format!("{words}{}", duration(us as f64 / 1e6)))
    }
}

/// Whether most of the time charged to lost packets passed without retransmissions: the window was small because of earlier losses.
pub(super) fn loss_narrowed(of: &Of<'_>, group: &Group<'_>) -> bool {
    sending(of, group).is_some_and(|s| of.parts.facts.wire.mostly_undisturbed(s.connection, s.end, &s.intervals))
}

/// Bytes in flight of the sender on a path: of several connections, the one that carried most.
fn under_way(of: &Of<'_>, group: &Group<'_>) -> Option<UnderWay> {
    let Sending { connection, end, intervals } = sending(of, group)?;
    of.parts.facts.wire.under_way(connection, end, &intervals)
}

/// One end of a connection, and the intervals in which the path lay on what it sent.
struct Sending {
    connection: u32,
    end: End,
    intervals: Vec<(i64, i64)>,
}

/// The end and connection that sent on a path, and the intervals: of several connections, the one that carried most.
fn sending(of: &Of<'_>, group: &Group<'_>) -> Option<Sending> {
    let end = sender(of, group)?;
    let ways = if end == End::Client { [Way::ClientSends; 2] } else { [Way::ServerSends, Way::ClientReceives] };
    let of_way = |way: Way| of.parts.seen.stream(way).by_object.iter().enumerate().filter_map(|(o, g)| Some((g.as_ref()?.bytes, o)));
    let most = ways.into_iter().flat_map(of_way).max()?;
    let path = of.parts.ledger.path.iter().rev().filter(|run| group.has(run.entry));
    let intervals = path.map(|run| (run.start, run.end)).collect();
    Some(Sending { connection: of.parts.tables.connection_of(most.1 as u32), end, intervals })
}
