//! The explanation of a recording with connections and no threads: a packet capture.
//!
//! There is no program to walk on, but the pending queue shows who was waited for. While messages move, the wire is charged, by TCP's
//! behaviour; while nothing moves, the server if calls were pending and it was its turn, the network while TCP retransmitted, the client
//! otherwise. What either end did cannot be seen: it is `server.unknown` and `unknown`, and a note says how to record it.

use super::document::{RpcStat, Stall, Who};
use super::{Times, read};
use crate::assemble::of_packets::{channels, path, throughput};
use crate::assemble::summary;
use crate::assemble::verdict::{of_places, verdict};
use crate::cause::Cause;
use crate::document::*;
use crate::error::ExplainError;
use crate::limits::rpcstat as limits;
use crate::observe::curve::phases;
use crate::rule::{Applied, RuleId};
use thalweg_base::numbers::{bit_rate, count, duration};
use thalweg_trace::{Source, TrackKind};

/// The charge of a bin's time, in the order of the parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Server,
    Client,
    Loss,
    Window,
    Moving,
    Unanswered,
}

const PARTS: [Part; 6] = [Part::Server, Part::Client, Part::Loss, Part::Window, Part::Moving, Part::Unanswered];

impl Part {
    fn cause(self) -> Cause {
        match self {
            Part::Server => Cause::ServerUnknown,
            Part::Client | Part::Unanswered => Cause::Unknown,
            Part::Loss => Cause::NetworkLoss,
            Part::Window => Cause::NetworkRwnd,
            Part::Moving => Cause::NetworkBandwidth,
        }
    }

    fn rule(self) -> RuleId {
        match self {
            Part::Server => RuleId::PacketsServer,
            Part::Client => RuleId::PacketsClient,
            Part::Loss => RuleId::PacketsLoss,
            Part::Window => RuleId::PacketsWindow,
            Part::Moving => RuleId::PacketsMoving,
            Part::Unanswered => RuleId::PacketsUnanswered,
        }
    }
}

/// Explains a recording without threads, if it has connections with RPCs; `None` otherwise.
pub(crate) fn explanation(source: &dyn Source, why: bool) -> Result<Option<Explanation>, ExplainError> {
    if !source.tracks().iter().any(|t| t.kind == TrackKind::Connection) {
        return Ok(None);
    }
    match read(source) {
        Ok((document, _)) if !document.has_length() => {
            Err(ExplainError::Nothing(format!("{} All of it happened at one instant: there is no time to charge", document.sentence)))
        }
        Ok((document, times)) => Ok(Some(explained(source, &document, &times, why))),
        Err(ExplainError::Nothing(problem)) => match crate::connections::explanation(source, why)? {
            Some(explanation) => Ok(Some(explanation)),
            None => Err(ExplainError::Nothing(problem)),
        },
        Err(error) => Err(error),
    }
}

/// Nanoseconds of each part in each fine bin.
fn bins(times: &Times) -> Vec<[f64; PARTS.len()]> {
    let bin_ns = times.moving.bin_s() * 1e9;
    let of = |index: usize| {
        let bin = &times.over_time.bins[index];
        let moving = times.moving.bins[index];
        let full = match (bin.in_flight, bin.receive_window) {
            (Some(in_flight), Some(window)) => in_flight as f64 >= limits::AT_WINDOW * window as f64,
            _ => false,
        };
        // Retransmissions in a bin are assumed to have cost the bytes moved in it.
        let (loss, window, rest) = match (bin.tcp_retransmissions > 0, full) {
            (true, _) => (moving, 0.0, 0.0),
            (false, true) => (0.0, moving, 0.0),
            _ => (0.0, 0.0, moving),
        };
        let whose = &times.whose;
        let all = [
            whose.server.bins[index],
            whose.client.bins[index],
            whose.network.bins[index] + loss,
            window,
            rest,
            whose.unanswered.bins[index],
        ];
        all.map(|ns| ns.clamp(0.0, bin_ns))
    };
    (0..times.moving.bins.len()).map(of).collect()
}

fn explained(source: &dyn Source, document: &RpcStat, times: &Times, why: bool) -> Explanation {
    let meta = source.meta();
    let bins = bins(times);
    let charges = charges(document, &bins, why);
    let (sent, received) = (document.sent_bytes.unwrap_or(0), document.received_bytes.unwrap_or(0));
    let size_bytes = Some(sent.max(received)).filter(|b| *b > 0);
    let rate_bytes_per_s = document.rate_bytes_per_s().filter(|rate| *rate > 0.0);
    let reason = "packets show no program whose work could be replayed; record the command".to_owned();
    let mut notes = document.notes.clone();
    notes.push(
        "Only packets were recorded: what the server did while calls were pending is server.unknown, and what the client did \
         between them is unknown: thalweg record, on either machine, says it."
            .to_owned(),
    );
    notes.push(document.sentence.clone());
    let verdict = Verdict { sentence: of_places(&charges), ..verdict(&charges, |_| None) };
    let calls = document.round_trips.as_ref().map_or_else(String::new, |trips| format!("{} calls in ", count(trips.count)));
    let rate = rate_bytes_per_s.map_or_else(String::new, |rate| format!(", {}", bit_rate(rate)));
    let about = format!("{calls}{}{rate}", duration(document.wall_s));
    let remark = "only packets were recorded: thalweg record, on either machine, says what it did";
    Explanation {
        repeated: None,
        schema: SCHEMA.to_owned(),
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        dropped_events: meta.dropped_events,
        start_ns: times.start_ns,
        wall_s: document.wall_s,
        size_bytes,
        rate_bytes_per_s,
        emulated: None,
        summary: summary::of_packets(&meta.command, about, &charges, &verdict, remark),
        verdict,
        path: path(&bins, times.moving.bin_s(), document.wall_s, &charges, |part| {
            charges.iter().position(|c| c.cause == PARTS[part].cause() && c.place == place(PARTS[part], document))
        }),
        transfers: transfers(document, sent, received),
        unlisted_transfers: None,
        phases: phases_of(times, received > sent),
        channels: channels(&[("all to servers", &times.sent), ("all from servers", &times.received)], document.wall_s),
        throughput: Some(throughput(if received > sent { &times.over_time.received } else { &times.over_time.sent })),
        tracks: Vec::new(),
        round_trips: document.round_trips.clone(),
        connections: None,
        reliable: true,
        unreliable_because: None,
        what_if: Vec::new(),
        advice: Vec::new(),
        model: Model { replayed_wall_s: None, error: None, reason: Some(reason) },
        notes,
        critical_path: charges,
    }
}

fn charges(document: &RpcStat, bins: &[[f64; PARTS.len()]], why: bool) -> Vec<Charge> {
    let mut sums = [0.0; PARTS.len()];
    bins.iter().for_each(|bin| bin.iter().zip(&mut sums).for_each(|(ns, sum)| *sum += ns));
    let all: f64 = sums.iter().sum();
    let mut charges: Vec<Charge> = PARTS
        .iter()
        .zip(sums)
        .filter(|(_, ns)| *ns > 0.0)
        .map(|(part, ns)| Charge {
            cause: part.cause(),
            place: place(*part, document),
            // The bins cover the wall time up to rounding; all of it is charged.
            seconds: document.wall_s * ns / all,
            share: ns / all,
            slack_s: 0.0,
            basis: Basis::Recorded,
            inferred_s: 0.0,
            via: None,
            quota: false,
            evidence: evidence(*part, document),
            hottest: Vec::new(),
            waits: Vec::new(),
            rules: if why {
                vec![Applied { rule: part.rule(), seconds: document.wall_s * ns / all, rests_on: Vec::new() }]
            } else {
                Vec::new()
            },
        })
        .collect();
    charges.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    charges
}

fn ends(document: &RpcStat) -> (String, String) {
    let name = document.connections.first().map_or("", |c| c.name.as_str());
    let (client, server) = name.split_once(" > ").unwrap_or(("the client", "the server"));
    // The client's port does not matter.
    (client.rsplit_once(':').map_or(client, |(host, _)| host).to_owned(), server.to_owned())
}

fn place(part: Part, document: &RpcStat) -> String {
    let (client, server) = ends(document);
    match part {
        Part::Server => format!("server {server}"),
        Part::Client => format!("client {client}"),
        Part::Loss | Part::Window | Part::Moving | Part::Unanswered => format!("{client} > {server}"),
    }
}

fn evidence(part: Part, document: &RpcStat) -> String {
    let of = |who: Who| -> Vec<&Stall> { document.stalls.longest.iter().filter(|s| s.who == who).collect() };
    let stalled = |who: Who| match document.stalls.by.iter().find(|by| by.who == who) {
        Some(by) => {
            format!("; {} stalls, longest {}", by.count, duration(of(who).iter().map(|s| s.length_s).fold(0.0, f64::max)))
        }
        None => String::new(),
    };
    match part {
        Part::Server => {
            let main = document.procedures.first();
            let response = main.map_or_else(String::new, |p| match p.median_s {
                Some(median_s) => format!("{} {}s, median response {}", count(p.answered), p.name, duration(median_s)),
                None => format!("{} {}s that were not answered", count(p.unanswered), p.name),
            });
            format!("{response}, nothing in transit while calls were pending{}", stalled(Who::Server))
        }
        Part::Client => format!("nothing in transit and nothing pending, or a call came next{}", stalled(Who::Client)),
        Part::Loss => format!(
            "{} segments sent again, {} after a timeout{}",
            document.tcp_retransmissions,
            document.tcp_timeouts,
            stalled(Who::Network)
        ),
        Part::Window => "bytes in flight filled the window that the receiver offered".to_owned(),
        Part::Moving => format!("{} and their replies in transit", super::sentence::calls(document.calls)),
        Part::Unanswered => format!("{} pending and never answered: lost, or not served", super::sentence::calls(document.unanswered)),
    }
}

fn transfers(document: &RpcStat, sent: u64, received: u64) -> Vec<Transfer> {
    let (client, server) = ends(document);
    let (from, to, size_bytes) = if received > sent { (server, client, received) } else { (client, server, sent) };
    vec![Transfer { from, to: Some(to), size_bytes, requests: document.calls, start_s: 0.0, wall_s: document.wall_s }]
}

fn phases_of(times: &Times, receives: bool) -> Vec<Phase> {
    let (gatherer, curve) = if receives { (&times.received, &times.over_time.received) } else { (&times.sent, &times.over_time.sent) };
    match gatherer.extent() {
        Some((first, last)) => phases(curve, times.start_ns, times.end_ns, first, last),
        None => Vec::new(),
    }
}
