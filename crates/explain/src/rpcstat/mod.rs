//! RPCs of a recording: throughput, pending queue, response times, retransmissions, bursts and gaps, drain cycles, and the cause of each
//! stall.
//!
//! **In:** any recording with `rpc.call` spans, by any recorder. **Out:** an [`RpcStat`]. One sweep backward through the spans ([`sweep`])
//! shows at each instant what was pending and in transit; the rest are bins and sums of that, so that memory does not depend on the
//! recording's length.
//!
//! A recording of connections only, without threads, is explained here too ([`charge`]): by who was waited for.

mod calls_within;
pub(crate) mod charge;
mod close_ups;
pub mod document;
mod drains;
mod live;
mod over_time;
mod quiet;
mod responses;
mod sentence;
mod sweep;
mod unsent;
mod waits;

pub use document::RpcStat;
pub use live::Interval;

use crate::assemble::round_trips::round_trips_of_calls;
use crate::document::{Answerer, RoundTrips};
use crate::error::ExplainError;
use crate::limits::rpcstat as limits;
use crate::observe::channels::Gatherer;
use crate::observe::curve::{Curve, phases};
use crate::observe::overlap::Overlap;
use document::{Bursts, Connection, MAX_CONNECTIONS, Outcome, Pending, SlowStart};
use drains::Drains;
use over_time::OverTime;
use quiet::{QuietIntervals, Summary};
use responses::Responses;
use std::collections::{BTreeSet, HashMap, HashSet};
use sweep::{Edge, Passing, State, Watcher};
use thalweg_trace::{Counter, CounterName, CounterOf, Mark, MarkKind, ObjectKind, Source, SpanKind, TrackKind};

/// Everything gathered in one sweep.
struct Gathered {
    end_ns: i64,
    start_ns: i64,
    over_time: OverTime,
    responses: Responses,
    quiet: QuietIntervals,
    drains: Drains,
    sent: Gatherer,
    received: Gatherer,
    by_track: HashMap<u64, (u64, u64)>,
    /// Calls from sending to answer.
    asking: Overlap,
    /// Time in which messages moved.
    moving: Curve,
}

impl Gathered {
    fn new(start_ns: i64, end_ns: i64) -> Gathered {
        Gathered {
            start_ns,
            end_ns,
            over_time: OverTime::new(start_ns, end_ns),
            responses: Responses::default(),
            quiet: QuietIntervals::new(start_ns, end_ns),
            drains: Drains::default(),
            sent: Gatherer::default(),
            received: Gatherer::default(),
            by_track: HashMap::new(),
            asking: Overlap::default(),
            moving: Curve::new(start_ns, end_ns, limits::FINE_BINS),
        }
    }

    fn call(&mut self, span: &Passing) {
        let ns = span.end_ns.saturating_sub(span.start_ns).max(0) as u64;
        self.responses.call(span.object, ns, span.bytes, span.result);
        let track = self.by_track.entry(span.track).or_default();
        *track = (track.0 + 1, track.1.saturating_add(span.bytes));
        self.over_time.at(span.start_ns).calls += 1;
        if !matches!(responses::outcome(span.result), Outcome::Unanswered | Outcome::NotCaptured) {
            self.asking.add(span.start_ns, span.end_ns);
            let bin = self.over_time.at(span.end_ns);
            bin.replies += 1;
            bin.response_total_ns = bin.response_total_ns.saturating_add(ns);
            bin.response_max_ns = bin.response_max_ns.max(ns);
            self.over_time.response(span.end_ns, ns);
        }
    }
}

impl Watcher for Gathered {
    fn passing(&mut self, span: &Passing) {
        let (start, end) = (span.start_ns.max(self.start_ns), span.end_ns.min(self.end_ns));
        match span.kind {
            SpanKind::NetSend => {
                self.over_time.sent.spread(start, end, span.bytes as f64);
                self.sent.add(start.min(end), end, span.bytes);
            }
            SpanKind::NetReceive => {
                self.over_time.received.spread(start, end, span.bytes as f64);
                self.received.add(start.min(end), end, span.bytes);
            }
            _ => self.call(span),
        }
    }

    fn interval(&mut self, from_ns: i64, to_ns: i64, state: State) {
        self.over_time.pending(from_ns, to_ns, state);
        self.quiet.interval(from_ns, to_ns, state);
        if !state.is_quiet() {
            self.moving.spread(from_ns, to_ns, to_ns.saturating_sub(from_ns) as f64);
        }
    }

    fn edge(&mut self, at_ns: i64, edge: Edge, request: u64, after: State) {
        self.quiet.edge(edge, request);
        self.drains.edge(at_ns, edge, after);
    }
}

/// Summarises the RPCs of a recording; if it has several runs, those of the longest.
pub fn rpcstat(source: &dyn Source) -> Result<RpcStat, ExplainError> {
    rpcstat_in_bins(source, |_| document::MAX_BINS)
}

/// Summarises them with as many bins in its series as `bins` returns for the number of calls: the largest power of two up to that, at most
/// 1,024.
pub fn rpcstat_in_bins(source: &dyn Source, bins: impl FnOnce(u64) -> usize) -> Result<RpcStat, ExplainError> {
    match crate::runs::longest(source) {
        Some(run) => of_one_run(&run.within(source)?, bins),
        None => of_one_run(source, bins),
    }
}

fn of_one_run(source: &dyn Source, bins: impl FnOnce(u64) -> usize) -> Result<RpcStat, ExplainError> {
    let (mut document, times) = read(source)?;
    document.series = times.over_time.series(bins(document.calls));
    let two_parts = times.two_parts;
    document.close_ups = close_ups::close_ups(source, &document, two_parts)?;
    Ok(document)
}

/// Whether calls count from their sending: packets show no others.
fn sent_only(source: &dyn Source) -> bool {
    source.tracks().iter().any(|track| track.kind == TrackKind::Connection)
}

/// Whether the recording has only packets.
fn packets_alone(source: &dyn Source) -> bool {
    source.tracks().iter().all(|track| track.kind == TrackKind::Connection)
}

/// Marks of retransmissions. If packets show them, another recorder's marks are ignored.
fn marks(source: &dyn Source) -> Result<Vec<Mark>, ExplainError> {
    let mut marks = source.marks()?;
    if sent_only(source) {
        let of_packets = source.tracks().iter().filter(|track| track.kind == TrackKind::Connection);
        let of_packets: HashSet<u64> = of_packets.map(|track| track.track.number()).collect();
        marks.retain(|mark| of_packets.contains(&mark.track.number()));
    }
    Ok(marks)
}

/// Why there are no RPCs, and what would record them.
fn no_rpcs(source: &dyn Source) -> String {
    let serves = |o: &&thalweg_trace::Object| o.kind == ObjectKind::Connection && o.name.contains(" > ");
    let ports = source.objects().iter().filter(serves).filter_map(|o| o.name.rsplit_once(':').map(|(_, port)| port));
    let ports: BTreeSet<u16> = ports.filter_map(|port| port.parse().ok()).collect();
    let asked: Vec<String> = ports.iter().take(limits::MOST_PORTS).map(|port| format!("--port {port}")).collect();
    match asked.is_empty() {
        false if !packets_alone(source) => format!(
            "the recording holds connections and no RPCs: its recorder ({}) sees how many bytes a program sends, and not what they are. Packets \
             show RPCs: beside `thalweg record`, run `thalweg rpcstat --interface any {} -o packets.thw`; then `thalweg rpcstat \
             packets.thw`, or merge the two (`thalweg merge`) first, which also shows what waits in the client's sockets",
            source.meta().recorder,
            asked.join(" ")
        ),
        _ => "the recording holds no RPCs".to_owned(),
    }
}

/// The document, and its basis over time.
fn read(source: &dyn Source) -> Result<(RpcStat, Times), ExplainError> {
    let (start_ns, end_ns) = axis(source)?;
    let mut seen = Gathered::new(start_ns, end_ns);
    sweep::sweep(source, start_ns, end_ns, &mut seen)?;
    let (calls, unanswered, errors) = seen.responses.totals();
    if calls == 0 {
        return Err(ExplainError::Nothing(no_rpcs(source)));
    }
    let marks = marks(source)?;
    take_marks(&mut seen, &marks);
    let connections = connections(source, &mut seen)?;
    let unsent = unsent::unsent(source, (seen.start_ns, seen.end_ns), &connections, &mut seen.over_time)?;
    let count = |kind: MarkKind| marks.iter().filter(|m| m.kind == kind).count() as u64;
    let Summary { quiet, stalls, waits, whose } = seen.quiet.finish(start_ns, &seen.over_time, &marks);
    let (usual_ns, nearly_all_ns) = (seen.responses.quantile_ns(0.5), seen.responses.quantile_ns(limits::NEARLY_ALL_CALLS));
    let (drain_cycles, two_parts) = seen.drains.finish(start_ns, &seen.over_time, usual_ns, nearly_all_ns);
    let bytes = |gatherer: &Gatherer| Some(gatherer.bytes).filter(|b| *b > 0);
    let mut document = RpcStat {
        schema: document::SCHEMA.to_owned(),
        recorder: source.meta().recorder.clone(),
        start_ns,
        wall_s: (end_ns - start_ns) as f64 / 1e9,
        sentence: String::new(),
        calls,
        unanswered,
        not_captured: seen.responses.not_captured(),
        errors,
        retransmissions: count(MarkKind::RpcRetransmit),
        timeouts: count(MarkKind::RpcTimeout),
        tcp_retransmissions: count(MarkKind::TcpRetransmit),
        tcp_timeouts: count(MarkKind::TcpTimeout),
        sent_bytes: bytes(&seen.sent),
        received_bytes: bytes(&seen.received),
        pending: Pending { sent_only: sent_only(source), unsent, ..seen.over_time.queue() },
        procedures: seen.responses.procedures(source),
        bursts: bursts(&seen.sent, &seen.received),
        quiet,
        stalls,
        drain_cycles,
        slow_start: slow_start(&seen.over_time, &seen.sent, &seen.received, start_ns, end_ns),
        waits,
        close_ups: Vec::new(),
        series: document::Series::default(),
        round_trips: None,
        connections,
        recorded: recorded(source),
        notes: crate::assemble::of_packets::notes(source),
    };
    document.sentence = sentence::sentence(&document);
    document.round_trips = round_trips(&document, &seen.asking);
    let Gathered { over_time, sent, received, moving, .. } = seen;
    Ok((document, Times { start_ns, end_ns, over_time, whose, two_parts, moving, sent, received }))
}

/// The interval. For packets it is that of the RPCs: the rest of the capture began and ended arbitrarily.
fn axis(source: &dyn Source) -> Result<(i64, i64), ExplainError> {
    let whole = crate::interval::interval(source)?;
    let meta = source.meta();
    let said = |wanted: &str| meta.attributes.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse::<i64>().ok());
    Ok(match (said("rpc.first_ns"), said("rpc.last_ns")) {
        // One nanosecond more, so that a single message has a length. Merged recordings have another's axis.
        (Some(first), Some(last)) if packets_alone(source) && whole.0 <= first && first <= last && last < whole.1 => (first, last + 1),
        _ => whole,
    })
}

/// The round trips of a walk's calls, which carry no data: how many were sequential, and how many in flight.
fn round_trips(document: &RpcStat, asking: &Overlap) -> Option<RoundTrips> {
    /// Procedures called once for each entry of a walk.
    const OF_ENTRIES: &[&str] = &["lookup", "getattr"];
    let (bytes, _) = document.most_bytes();
    if bytes / document.calls.max(1) > limits::WALK_BYTES_EACH {
        return None;
    }
    let is_of_entries = |name: &str| OF_ENTRIES.iter().any(|of| name.eq_ignore_ascii_case(of));
    let entries = document.procedures.iter().filter(|p| is_of_entries(&p.name)).map(|p| p.answered).max();
    let entries = entries.filter(|&n| n >= limits::FEWEST_ENTRIES)?;
    let network_s = document.connections.first().and_then(|c| c.srtt_s);
    let servers: HashMap<&str, (u64, f64)> = document.procedures.iter().fold(HashMap::new(), |mut servers, p| {
        let (count, total_s) = servers.entry(p.server.as_str()).or_default();
        (*count, *total_s) = (*count + p.answered, *total_s + p.total_s);
        servers
    });
    let busy_s = asking.busy_ns as f64 / 1e9;
    let mut to: Vec<Answerer> = servers
        .into_iter()
        .map(|(name, (count, total_s))| Answerer {
            name: name.to_owned(),
            count,
            at_once: total_s / busy_s.max(f64::MIN_POSITIVE),
            median_s: asking.lengths.quantile_ns(0.5) as f64 / 1e9,
        })
        .collect();
    to.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    to.truncate(crate::document::MAX_ANSWERERS);
    round_trips_of_calls(asking, Some(entries), network_s, to)
}

/// The document's basis over time.
struct Times {
    start_ns: i64,
    end_ns: i64,
    over_time: OverTime,
    whose: quiet::QuietByCause,
    two_parts: Option<drains::TwoParts>,
    moving: Curve,
    sent: Gatherer,
    received: Gatherer,
}

fn take_marks(seen: &mut Gathered, marks: &[Mark]) {
    for mark in marks {
        let bin = seen.over_time.at(mark.at.ns());
        match mark.kind {
            MarkKind::RpcRetransmit => {
                bin.retransmissions += 1;
                if let Some(object) = mark.object {
                    seen.responses.again(object.number());
                }
            }
            MarkKind::RpcTimeout => bin.timeouts += 1,
            MarkKind::TcpRetransmit => bin.tcp_retransmissions += 1,
            _ => {}
        }
    }
}

/// The connections with most calls; adds TCP counters of their clients' ends to the bins.
fn connections(source: &dyn Source, seen: &mut Gathered) -> Result<Vec<Connection>, ExplainError> {
    let is_client = |o: &&thalweg_trace::Object| o.attributes.iter().any(|(n, v)| n == "end" && v == "client");
    let clients: HashMap<u64, &str> = source.objects().iter().filter(is_client).map(|o| (o.object.number(), o.name.as_str())).collect();
    let of_client = |counter: &Counter| match counter.of {
        CounterOf::Object(object) => clients.get(&object.number()).copied(),
        CounterOf::Track(_) => None,
    };
    for counter in source.counters(CounterName::TcpInFlightBytes)?.iter().filter(|c| of_client(c).is_some()) {
        let bin = seen.over_time.at(counter.at.ns());
        bin.in_flight = bin.in_flight.max(Some(counter.value.max(0) as u64));
    }
    for counter in source.counters(CounterName::TcpReceiveWindowBytes)?.iter().filter(|c| of_client(c).is_some()) {
        let bin = seen.over_time.at(counter.at.ns());
        let value = counter.value.max(0) as u64;
        bin.receive_window = Some(bin.receive_window.map_or(value, |least| least.min(value)));
    }
    // Packets show no congestion window, and only an estimate of the RPC window; finding them takes a read of all counters each.
    if !packets_alone(source) {
        for counter in source.counters(CounterName::TcpCwndBytes)?.iter().filter(|c| of_client(c).is_some()) {
            let bin = seen.over_time.at(counter.at.ns());
            bin.cwnd = bin.cwnd.max(Some(counter.value.max(0) as u64));
        }
    }
    if !sent_only(source) {
        for counter in source.counters(CounterName::RpcWindow)? {
            let bin = seen.over_time.at(counter.at.ns());
            bin.window = bin.window.max(Some(counter.value.max(0) as u64));
        }
    }
    let mut srtt: HashMap<&str, i64> = HashMap::new();
    for counter in &source.counters(CounterName::TcpSrttUs)? {
        if let Some(name) = of_client(counter) {
            srtt.insert(name, counter.value);
        }
    }
    let names: HashMap<u64, &str> = source.tracks().iter().map(|t| (t.track.number(), t.name.as_str())).collect();
    let mut all: Vec<Connection> = seen
        .by_track
        .iter()
        .map(|(track, &(calls, bytes))| {
            let name = names.get(track).copied().unwrap_or("unnamed");
            Connection { name: name.to_owned(), calls, bytes, srtt_s: srtt.get(name).map(|us| *us as f64 / 1e6) }
        })
        .collect();
    all.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    all.truncate(MAX_CONNECTIONS);
    Ok(all)
}

fn bursts(sent: &Gatherer, received: &Gatherer) -> Bursts {
    let (direction, gatherer) = if received.bytes > sent.bytes { ("received", received) } else { ("sent", sent) };
    let gathered = gatherer.finish();
    let mut lengths: Vec<u64> = gathered.gaps.iter().map(|g| (g.end - g.start) as u64).collect();
    lengths.sort_unstable();
    let quantile = |part| crate::observe::quantile::of_sorted(&lengths, part).map(|ns| ns as f64 / 1e9);
    let burst_s = gathered.burst_ns as f64 / 1e9;
    Bursts {
        direction: direction.to_owned(),
        bursts: if gathered.sends == 0 { 0 } else { lengths.len() as u64 + 1 },
        burst_bytes_per_s: (burst_s > 0.0).then(|| gathered.bytes as f64 / burst_s),
        gaps: lengths.len() as u64,
        gaps_total_s: lengths.iter().sum::<u64>() as f64 / 1e9,
        gap_median_s: quantile(0.5),
        gap_p99_s: quantile(0.99),
    }
}

/// Whether the start was slower than the rest, and who was waited for in it.
fn slow_start(over_time: &OverTime, sent: &Gatherer, received: &Gatherer, start_ns: i64, end_ns: i64) -> Option<SlowStart> {
    let (gatherer, curve) = if received.bytes > sent.bytes { (received, &over_time.received) } else { (sent, &over_time.sent) };
    let (first, last) = gatherer.extent()?;
    let found = phases(curve, start_ns, end_ns, first, last);
    let ramp = found.iter().find(|p| p.name == crate::document::PhaseName::Ramp)?;
    let at = |s: f64| over_time.index(start_ns.saturating_add((s * 1e9) as i64));
    let (from, to, last) = (at(ramp.start_s), at(ramp.end_s), over_time.index(last));
    if to <= from || last <= to {
        return None;
    }
    let rate = |from: usize, to: usize| curve.bins[from..to].iter().sum::<f64>() / ((to - from) as f64 * curve.bin_s());
    let (bytes_per_s, later_bytes_per_s) = (rate(from, to), rate(to, last));
    if bytes_per_s > limits::SLOW_START * later_bytes_per_s {
        return None;
    }
    let bins = &over_time.bins[from..to];
    let wall_ns = bins.len() as f64 * curve.bin_s() * 1e9;
    let empty_share = bins.iter().map(|b| b.empty_ns).sum::<f64>() / wall_ns;
    let peak = bins.iter().map(|b| b.pending_max).max().unwrap_or(0) as f64;
    let mean = bins.iter().map(|b| b.pending_ns).sum::<f64>() / wall_ns;
    let full_share = if peak > 0.0 { (mean / peak).clamp(0.0, 1.0) } else { 0.0 };
    Some(SlowStart { until_s: ramp.end_s, bytes_per_s, later_bytes_per_s, full_share, empty_share })
}

fn recorded(source: &dyn Source) -> Vec<(String, String)> {
    let attributes = source.meta().attributes.iter();
    attributes.filter_map(|(n, v)| n.strip_prefix("capture.").map(|n| (n.to_owned(), v.clone()))).collect()
}
