//! From the sampled spans to a [`Copy`]: its shape (how many requests, connections, buffers) and the cost
//! of each of its stages, as if each ran on an undisturbed processor.

use super::copy::{Copy, Cost, Costs};
use super::engine::Processors;
use super::load::{Load, Trend, ran, slowdown};
use crate::assemble::Parts;
use crate::cause::End;
use crate::observe::channels::PAYLOAD_BYTES;
use crate::observe::observation::Way;
use crate::observe::quantile::of_sorted;
use crate::observe::span::LiveSpan;
use std::collections::{HashMap, HashSet};
use thalweg_trace::SpanKind;

/// A run that can be replayed, and what of it the replay does not cover.
#[derive(Clone, Debug)]
pub(crate) struct Calibrated {
    /// The copy.
    pub copy: Copy,
    /// Wall time before the first request began and after the last ended.
    pub around_ns: f64,
    /// Wall time from the first request's begin to the last one's end.
    pub flow_ns: f64,
}

/// Which part a thread plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Requester,
    Near,
    Far,
}

/// Sums over the sample.
#[derive(Debug, Default)]
struct Sums {
    costs: HashMap<(Part, Stage), Cost>,
    payload_bytes: f64,
    buffers: f64,
    requests: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Read,
    Compute,
    Transport,
    Write,
    Each,
    Sync,
}

/// The run, calibrated; or why it cannot be.
pub(crate) fn calibrate(parts: &Parts<'_>, meta: &thalweg_trace::Meta) -> Result<Calibrated, String> {
    let cast = parts.cast;
    let runs = parts.seen.sample.runs();
    let inward = match parts.ways().first() {
        Some(Way::ClientSends) => true,
        Some(Way::ServerSends) => false,
        Some(Way::ClientReceives) => return Err("the server was not recorded, so what its stages cost is not known".into()),
        _ => return Err("no payload was seen on any connection, and the model is one of copies over connections".into()),
    };
    if !cast.has_servers {
        return Err("the server was not recorded, so what its stages cost is not known".into());
    }
    let players = players(parts, runs, inward)?;
    let (first, last) = parts.seen.asked.values().fold((i64::MAX, i64::MIN), |(f, l), a| (f.min(a.start), l.max(a.end)));
    let size_bytes: u64 = parts.seen.asked.values().map(|a| a.bytes).sum();
    let requests: u64 = parts.seen.asked.values().map(|a| a.requests).sum();
    let client = cast.actors[cast.main as usize].machine;
    let server = players.iter().find(|(_, p)| **p == Part::Far).map_or(client, |(&t, _)| cast.actors[t as usize].machine);
    let slowdown = observed_slowdown(parts, runs);
    let sums = sums(parts, runs, &players, inward, slowdown);
    if sums.payload_bytes <= 0.0 || sums.requests <= 0.0 || sums.buffers <= 0.0 || requests == 0 {
        return Err("the recording holds no whole request".into());
    }
    let attribute =
        |name: &str| meta.attributes.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.parse::<f64>().ok()).filter(|v| *v >= 1.0);
    let request_bytes = (size_bytes as f64 / requests as f64).max(1.0);
    let (servers, connections) = connections(parts, &players);
    let buffer_bytes = attribute("buffer_bytes").unwrap_or(sums.payload_bytes / sums.buffers).min(request_bytes);
    let processors = |machine: u32| Processors { count: cast.machines[machine as usize].cpus.max(1), slowdown, foreign: 0.0 };
    let per_byte = 1.0 / sums.payload_bytes;
    let costs = |part: Part, each: f64| Costs {
        read: sums.of(part, Stage::Read).times(per_byte),
        compute: sums.of(part, Stage::Compute).times(per_byte),
        transport: sums.of(part, Stage::Transport).times(per_byte),
        write: sums.of(part, Stage::Write).times(per_byte),
        each: sums.of(part, Stage::Each).times(1.0 / each),
        sync: sums.of(part, Stage::Sync).times(1.0 / sums.buffers),
    };
    let mut copy = Copy {
        inward,
        size_bytes: size_bytes as f64,
        request_bytes,
        requests: in_flight(runs).max(1),
        buffer_bytes,
        depth: attribute("depth").map_or_else(|| depth(runs, &players), |d| d as usize).clamp(1, 4096),
        servers,
        streams: (connections / servers).max(1),
        requester: costs(Part::Requester, sums.requests),
        near: costs(Part::Near, sums.buffers),
        far: costs(Part::Far, sums.buffers),
        processors: [processors(client), processors(server)],
        one_machine: client == server,
        wake_ns: wake_ns(parts, runs),
    };
    let queued_ns: u64 = players.keys().map(|&t| parts.seen.did[t as usize].runqueue_ns).sum();
    add_foreign_load(&mut copy, queued_ns as f64);
    let flow_ns = (last.min(parts.end) - first.max(parts.start)).max(1) as f64;
    Ok(Calibrated { copy, around_ns: (parts.end - parts.start) as f64 - flow_ns, flow_ns })
}

/// Where threads waited longer for processors than they would have among themselves, others ran beside
/// them: as many as make up for the difference. Bisected, since waiting grows with them.
fn add_foreign_load(copy: &mut Copy, observed_queued_ns: f64) {
    const MOST: f64 = 16.0;
    let queued = |copy: &mut Copy, foreign: f64| {
        copy.processors.iter_mut().for_each(|p| p.foreign = foreign);
        copy.replay().map_or(f64::INFINITY, |(_, queued)| queued)
    };
    if queued(copy, 0.0) >= observed_queued_ns * 0.95 {
        copy.processors.iter_mut().for_each(|p| p.foreign = 0.0);
        return;
    }
    let (mut low, mut high) = (0.0, MOST);
    for _ in 0..10 {
        let middle = (low + high) / 2.0;
        if queued(copy, middle) < observed_queued_ns { low = middle } else { high = middle }
    }
    copy.processors.iter_mut().for_each(|p| p.foreign = (low + high) / 2.0);
}

/// Who plays which part: threads with requests, client's and server's threads that carry payload.
fn players(parts: &Parts<'_>, runs: &[Vec<LiveSpan>], inward: bool) -> Result<HashMap<u32, Part>, String> {
    let mut players = HashMap::new();
    for span in runs.iter().flatten() {
        let end = parts.cast.actors[span.track as usize].end;
        let carries =
            matches!((span.kind, inward, end), (SpanKind::NetSend, true, End::Client) | (SpanKind::NetReceive, false, End::Client));
        let serves =
            matches!((span.kind, inward, end), (SpanKind::NetReceive, true, End::Server) | (SpanKind::NetSend, false, End::Server));
        if carries && span.bytes() >= PAYLOAD_BYTES {
            players.insert(span.track, Part::Near);
        } else if serves && span.bytes() >= PAYLOAD_BYTES {
            players.insert(span.track, Part::Far);
        }
    }
    // A program of one thread asks and carries: its reading is a request's, the rest a connection's.
    for span in runs.iter().flatten().filter(|s| s.kind == SpanKind::AppRequest) {
        players.entry(span.track).or_insert(Part::Requester);
    }
    let has = |part| players.values().any(|&p| p == part);
    match (has(Part::Near), has(Part::Far), parts.seen.asked.is_empty()) {
        (_, _, true) => Err("the recording names no requests, so their stages cannot be told apart".into()),
        (true, true, _) => Ok(players),
        _ => Err("no connection was recorded at both ends".into()),
    }
}

/// Servers and connections that carried payload.
fn connections(parts: &Parts<'_>, players: &HashMap<u32, Part>) -> (usize, usize) {
    let near = players.values().filter(|&&p| p == Part::Near).count();
    let labels: HashSet<&str> =
        players.iter().filter(|(_, p)| **p == Part::Far).map(|(&t, _)| parts.cast.actors[t as usize].label.as_str()).collect();
    let servers = labels.len().clamp(1, near.max(1));
    (servers, near.max(1))
}

/// The most requests that were under way at once.
fn in_flight(runs: &[Vec<LiveSpan>]) -> usize {
    runs.iter().map(|r| most_at_once(r.iter().filter(|s| s.kind == SpanKind::AppRequest))).max().unwrap_or(1)
}

/// The most flow buffers of one connection that were under way at once.
fn depth(runs: &[Vec<LiveSpan>], players: &HashMap<u32, Part>) -> usize {
    let near = players.iter().filter(|(_, p)| **p == Part::Near).map(|(&t, _)| t);
    let calls = |r: &[LiveSpan], t: u32| most_at_once(r.iter().filter(|s| s.kind == SpanKind::RpcCall && s.track == t && s.bytes() > 0));
    near.flat_map(|t| runs.iter().map(move |r| calls(r, t))).max().unwrap_or(1)
}

fn most_at_once<'a>(spans: impl Iterator<Item = &'a LiveSpan>) -> usize {
    let mut changes: Vec<(i64, i32)> = spans.flat_map(|s| [(s.start, 1), (s.end, -1)]).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most as usize
}

/// How much running beside others slows work down, from all work with bytes.
fn observed_slowdown(parts: &Parts<'_>, runs: &[Vec<LiveSpan>]) -> f64 {
    let mut trends: HashMap<(u32, SpanKind), Trend> = HashMap::new();
    for run in runs {
        for machine in 0..parts.cast.machines.len() as u32 {
            let load = Load::of(parts.cast, run, machine);
            let most = f64::from(parts.cast.machines[machine as usize].cpus.max(1) - 1);
            for span in run.iter().filter(|s| parts.cast.actors[s.track as usize].machine == machine) {
                let Some(others) = load.others(span) else { continue };
                let (Some((cpu, _, _)), true) = (span.division(), span.bytes() >= 32 << 10) else { continue };
                let label = parts.ledger.label(span.track);
                trends.entry((label, span.kind)).or_default().add(others.min(most), cpu as f64 / span.bytes() as f64, cpu as f64);
            }
        }
    }
    slowdown(&trends.into_values().collect::<Vec<_>>())
}

impl Sums {
    fn of(&self, part: Part, stage: Stage) -> Cost {
        self.costs.get(&(part, stage)).copied().unwrap_or_default()
    }

    fn add(&mut self, part: Part, stage: Stage, cpu_ns: f64, wait_ns: f64) {
        let cost = self.costs.entry((part, stage)).or_default();
        cost.cpu_ns += cpu_ns;
        cost.wait_ns += wait_ns;
    }
}

fn sums(parts: &Parts<'_>, runs: &[Vec<LiveSpan>], players: &HashMap<u32, Part>, inward: bool, slowdown: f64) -> Sums {
    let mut sums = Sums::default();
    let requesters: HashSet<u32> = runs.iter().flatten().filter(|s| s.kind == SpanKind::AppRequest).map(|s| s.track).collect();
    for run in runs {
        let loads: Vec<Load> = (0..parts.cast.machines.len() as u32).map(|m| Load::of(parts.cast, run, m)).collect();
        let mut threads: HashMap<u32, OwnWork> = HashMap::new();
        for span in run {
            let Some(&part) = players.get(&span.track) else { continue };
            if span.kind == SpanKind::AppRequest {
                sums.requests += 1.0;
            }
            if !span.is_activity() {
                continue;
            }
            let thread = threads.entry(span.track).or_default();
            if span.is_container() {
                thread.containers.push((span.start, span.end, span.division().map_or(0, |(cpu, _, _)| cpu)));
                continue;
            }
            thread.leaves.push((span.start, span.end, span.division().map_or(0, |(cpu, _, _)| cpu)));
            let machine = parts.cast.actors[span.track as usize].machine;
            let most = f64::from(parts.cast.machines[machine as usize].cpus.max(1) - 1);
            let others = loads[machine as usize].others(span).unwrap_or(0.0).min(most);
            let (cpu, _, blocked) = span.division().unwrap_or((0, 0, 0));
            let cpu_ns = cpu as f64 / (1.0 + slowdown * others);
            let payload = span.bytes() >= PAYLOAD_BYTES;
            let carries = payload && matches!((span.kind, part), (SpanKind::NetSend, Part::Near | Part::Requester)) == inward;
            if payload && is_payload_at(span, part, inward) {
                sums.payload_bytes += span.bytes() as f64;
                sums.buffers += 1.0;
            }
            let (stage, wait_ns) = stage_of(span, carries, blocked as f64);
            // A program of one thread reads for the request.
            let part = if requesters.contains(&span.track) && matches!(stage, Stage::Read | Stage::Write) { Part::Requester } else { part };
            sums.add(part, stage, cpu_ns, wait_ns);
        }
        for (track, thread) in threads {
            sums.add(players[&track], Stage::Each, thread.cpu_ns(), 0.0);
        }
    }
    sums
}

/// Payload is counted once, where the client hands it over or takes it.
fn is_payload_at(span: &LiveSpan, part: Part, inward: bool) -> bool {
    part == Part::Near && span.kind == if inward { SpanKind::NetSend } else { SpanKind::NetReceive }
}

/// The stage a span is a part of, and how much of its blocked time is a device's and not somebody else's doing.
fn stage_of(span: &LiveSpan, carries: bool, blocked: f64) -> (Stage, f64) {
    match span.kind {
        SpanKind::FileRead => (Stage::Read, blocked),
        SpanKind::FileWrite => (Stage::Write, blocked),
        SpanKind::FileSync => (Stage::Sync, blocked),
        SpanKind::AppChecksum => (Stage::Compute, 0.0),
        SpanKind::NetSend | SpanKind::NetReceive if carries || span.bytes() >= PAYLOAD_BYTES => (Stage::Transport, 0.0),
        _ => (Stage::Each, 0.0),
    }
}

/// What a thread did between its spans. Within a container its CPU time tells; outside, pauses too
/// long for running alone are not counted.
#[derive(Debug, Default)]
struct OwnWork {
    leaves: Vec<(i64, i64, u64)>,
    containers: Vec<(i64, i64, u64)>,
}

impl OwnWork {
    fn cpu_ns(mut self) -> f64 {
        const LONGEST_NS: i64 = 200_000;
        self.leaves.sort_unstable();
        self.containers.sort_unstable_by_key(|c| (c.0, std::cmp::Reverse(c.1)));
        let mut outermost: Vec<(i64, i64, u64)> = Vec::new();
        for container in self.containers {
            if outermost.last().is_none_or(|o| container.0 >= o.1) {
                outermost.push(container);
            }
        }
        let within = |at: i64| {
            let next = outermost.partition_point(|o| o.0 <= at);
            next.checked_sub(1).filter(|&i| at < outermost[i].1)
        };
        let mut own: f64 = outermost.iter().map(|o| o.2 as f64).sum();
        let mut until = None;
        for &(start, end, cpu) in &self.leaves {
            if within(start).is_some() {
                own -= cpu as f64;
            }
            if let Some(until) = until
                && start > until
                && start - until < LONGEST_NS
                && within(until).is_none()
            {
                own += (start - until) as f64;
            }
            until = until.max(Some(end));
        }
        own.max(0.0)
    }
}

/// From a reply's leaving to its receiver's running again: the 40th percentile. Many of the slower ones also queued; with the lower
/// quartile replays come out too short, with the median too long.
fn wake_ns(parts: &Parts<'_>, runs: &[Vec<LiveSpan>]) -> f64 {
    let mut lags = Vec::new();
    for run in runs {
        let mut received: HashMap<u64, i64> = HashMap::new();
        for span in run.iter().filter(|s| s.request != 0) {
            match (span.kind, parts.cast.actors[span.track as usize].end) {
                (SpanKind::NetReceive, End::Client) if span.division().is_some_and(|(c, _, b)| b > c) => {
                    received.insert(span.request, span.end - ran(span).map_or(0, |(from, to, _)| to - from));
                }
                (SpanKind::NetSend, End::Server) => {
                    if let Some(at) = received.get(&span.request) {
                        lags.push((at - span.end).max(0) as u64);
                    }
                }
                _ => {}
            }
        }
    }
    lags.sort_unstable();
    of_sorted(&lags, 0.4).unwrap_or(15_000).clamp(2_000, 200_000) as f64
}
