//! The explanation: each part of the quiet time and the time in which bytes moved, with its place and evidence.

use super::document::{Connections, Conversation};
use super::gather::Gathered;
use super::part::{PARTS, Part};
use super::sentence::{about, answers_of, sentence};
use crate::assemble::of_packets::{self, channels, path, throughput};
use crate::assemble::summary;
use crate::assemble::verdict::verdict;
use crate::cause::Cause;
use crate::document::*;
use crate::observe::curve::phases;
use crate::rule::{Applied, RuleId};
use thalweg_base::numbers::{count, duration, size};
use thalweg_trace::Source;

pub(super) fn explained(source: &dyn Source, connections: &Connections, gathered: &Gathered, why: bool) -> Explanation {
    let meta = source.meta();
    let wall_s = (gathered.end_ns - gathered.start_ns) as f64 / 1e9;
    let (sent, received) = (connections.sent_bytes, connections.received_bytes);
    let size_bytes = Some(sent.max(received)).filter(|b| *b > 0);
    let has_length = gathered.end_ns - gathered.start_ns > 1;
    let rate_bytes_per_s = size_bytes.filter(|_| has_length).map(|b| b as f64 / wall_s);
    let bins = bins(gathered);
    let charges = charges(connections, gathered, wall_s, why);
    let mut verdict = verdict(&charges, |_| None);
    let sentence = sentence(connections, gathered, wall_s);
    verdict.sentence.clone_from(&sentence);
    let remark = "no known RPC protocol: explained from TCP alone; thalweg record, on either machine, says what it did";
    let mut summary = summary::of_packets(&meta.command, about(connections, wall_s, rate_bytes_per_s), &charges, &verdict, remark);
    summary.innocent = innocent(connections);
    summary.sentence = sentence;
    let curve = if received > sent { &gathered.received_curve } else { &gathered.sent_curve };
    let gatherer = if received > sent { &gathered.received } else { &gathered.sent };
    let transfers = transfers(connections, wall_s);
    Explanation {
        repeated: None,
        schema: SCHEMA.to_owned(),
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        dropped_events: meta.dropped_events,
        start_ns: gathered.start_ns,
        wall_s,
        size_bytes,
        rate_bytes_per_s,
        emulated: None,
        summary,
        verdict,
        path: path(&bins, curve.bin_s(), wall_s, &charges, |part| {
            let cause = PARTS.get(part).map_or(Cause::NetworkBandwidth, |part| part.cause());
            charges.iter().position(|c| c.cause == cause)
        }),
        transfers,
        unlisted_transfers: None,
        phases: gatherer.extent().map_or_else(Vec::new, |(first, last)| phases(curve, gathered.start_ns, gathered.end_ns, first, last)),
        channels: channels(&[("all to servers", &gathered.sent), ("all from servers", &gathered.received)], wall_s),
        throughput: Some(throughput(curve)),
        tracks: Vec::new(),
        round_trips: None,
        connections: Some(connections.clone()),
        reliable: true,
        unreliable_because: None,
        what_if: Vec::new(),
        advice: Vec::new(),
        model: Model {
            replayed_wall_s: None,
            error: None,
            reason: Some("packets show no program whose work could be replayed; record the command".to_owned()),
        },
        notes: notes(source, connections),
        critical_path: charges,
    }
}

fn notes(source: &dyn Source, connections: &Connections) -> Vec<String> {
    let mut notes = of_packets::notes(source);
    notes.push(
        "Only packets were recorded, and no known RPC protocol: time without bytes is charged to the end that sent next. What the server did is server.unknown, \
         what the client did is unknown: thalweg record, on either machine, says it."
            .to_owned(),
    );
    let unknown = connections.listed.iter().filter(|c| c.handshake_s.is_none() && !c.failed).count();
    if unknown > 0 {
        let many = if unknown == 1 { "Of 1 connection".to_owned() } else { format!("Of {} connections", count(unknown as u64)) };
        notes.push(format!("{many} the start was not captured: windows are not known (their scale is in the SYN), and round trips only where later packets show them."));
    }
    notes
}

/// Nanoseconds of each part in each fine bin; the last: bytes moved.
fn bins(gathered: &Gathered) -> Vec<[f64; PARTS.len() + 1]> {
    let bin_ns = gathered.sent_curve.bin_s() * 1e9;
    let of = |index: usize| {
        let mut all = [0.0; PARTS.len() + 1];
        gathered.quiet.iter().zip(&mut all).for_each(|(curve, ns)| *ns = curve.bins[index].clamp(0.0, bin_ns));
        let quiet: f64 = all.iter().sum();
        all[PARTS.len()] = (bin_ns - quiet).max(0.0);
        all
    };
    (0..gathered.sent_curve.bins.len()).map(of).collect()
}

/// Cause, rule and seconds of each part; the last: bytes moved.
fn parts(gathered: &Gathered, wall_s: f64) -> Vec<(Option<Part>, f64)> {
    let alone = |part: Part| gathered.tracks.values().map(|sums| sums.alone_ns[part as usize]).sum::<i64>().max(0) as f64 / 1e9;
    let mut parts: Vec<(Option<Part>, f64)> = PARTS.iter().map(|part| (Some(*part), alone(*part))).collect();
    let quiet_s: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    parts.push((None, (wall_s - quiet_s).max(0.0)));
    parts
}

fn charges(connections: &Connections, gathered: &Gathered, wall_s: f64, why: bool) -> Vec<Charge> {
    let parts = parts(gathered, wall_s);
    let all: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    let mut charges: Vec<Charge> = parts
        .iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|&(part, seconds)| {
            let seconds = wall_s * seconds / all;
            let rule = part.map_or(RuleId::TurnsMoving, Part::rule);
            Charge {
                cause: part.map_or(Cause::NetworkBandwidth, Part::cause),
                place: place(part, connections),
                seconds,
                share: seconds / wall_s,
                slack_s: 0.0,
                basis: Basis::Recorded,
                inferred_s: 0.0,
                via: None,
                quota: false,
                evidence: evidence(part, connections),
                hottest: Vec::new(),
                waits: Vec::new(),
                rules: if why { vec![Applied { rule, seconds, rests_on: Vec::new() }] } else { Vec::new() },
            }
        })
        .collect();
    charges.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    charges
}

/// The part of a conversation.
fn of_part(part: Option<Part>, c: &Conversation) -> f64 {
    match part {
        Some(Part::Server) => c.server_s,
        Some(Part::Client) => c.client_s,
        Some(Part::RoundTrip) => c.round_trip_s,
        Some(Part::Loss) => c.loss_s,
        Some(Part::Window) => c.window_s,
        None => c.sent_bytes.saturating_add(c.received_bytes) as f64,
    }
}

fn ends(c: &Conversation) -> (&str, &str) {
    let (client, server) = c.name.split_once(" > ").unwrap_or(("the client", "the server"));
    // The client's port does not matter.
    (client.rsplit_once(':').map_or(client, |(host, _)| host), server)
}

fn place(part: Option<Part>, connections: &Connections) -> String {
    let most = connections.listed.iter().max_by(|a, b| of_part(part, a).total_cmp(&of_part(part, b)));
    let Some((client, server)) = most.map(ends) else { return "connections".to_owned() };
    let others = |end: fn(&Conversation) -> &str, own: &str| match connections.listed.iter().any(|c| end(c) != own) {
        true => " and others",
        false => "",
    };
    match part {
        Some(Part::Server) => format!("server {server}{}", others(|c| ends(c).1, server)),
        Some(Part::Client) => format!("client {client}{}", others(|c| ends(c).0, client)),
        _ => format!("{client} > {server}{}", others(|c| ends(c).1, server)),
    }
}

fn evidence(part: Option<Part>, c: &Connections) -> String {
    let handshakes = c.listed.iter().filter_map(|c| c.handshake_s);
    let handshake = handshakes.min_by(f64::total_cmp).map_or_else(String::new, |s| format!(", {} in the fastest handshake", duration(s)));
    match part {
        Some(Part::Server) => {
            format!("{}nothing in transit, and the server sent next", answers_of(c).map_or_else(String::new, |a| a + ", "))
        }
        Some(Part::Client) => "no bytes in transit; the client sent next, or neither end did".to_owned(),
        Some(Part::RoundTrip) => format!("{} turns in transit and back{handshake}", count(c.round_trips)),
        Some(Part::Loss) => format!("{} segments sent again, {} after a timeout", count(c.tcp_retransmissions), count(c.tcp_timeouts)),
        Some(Part::Window) => format!("the receiver's window was full, {} times closed", count(c.zero_windows)),
        None => format!("{} to servers, {} from them, without a pause of 1 ms", size(c.sent_bytes), size(c.received_bytes)),
    }
}

/// Resources that did not limit.
fn innocent(c: &Connections) -> Vec<Innocent> {
    let mut innocent = Vec::new();
    if c.tcp_retransmissions == 0 {
        innocent.push(Innocent { what: "loss".to_owned(), figure: "nothing sent again".to_owned() });
    }
    let known = c.listed.iter().any(|c| c.server_window_bytes.is_some() || c.client_window_bytes.is_some());
    if known && c.zero_windows == 0 && c.listed.iter().all(|c| c.window_s == 0.0) {
        innocent.push(Innocent { what: "windows".to_owned(), figure: "none was full".to_owned() });
    }
    innocent
}

fn transfers(connections: &Connections, wall_s: f64) -> Vec<Transfer> {
    let Some((client, server)) = connections.listed.first().map(ends) else { return Vec::new() };
    let (sent, received) = (connections.sent_bytes, connections.received_bytes);
    let (from, to, size_bytes) = if received > sent { (server, client, received) } else { (client, server, sent) };
    let requests = connections.round_trips;
    vec![Transfer { from: from.to_owned(), to: Some(to.to_owned()), size_bytes, requests, start_s: 0.0, wall_s }]
}
