//! Round trips: how many requests were made, how many of them sequentially, and what one of them, and the time per entry of a walk,
//! consists of.
//!
//! A walk of a directory is slow because it asks for little, waits for the answer, and asks for the next. So it is measured in requests,
//! not bytes. Requests are what the client recorded (`rpc.call`); without those, its sends, the turns of its threads, and how often the
//! critical path left the client and came back; for a file system on a disk, the disk's requests. Entries are those that the application's
//! requests delivered, or (in a capture) files looked up.

mod sentence;

use crate::cause::Cause;
use crate::document::{Answerer, MAX_ANSWERERS, Part, PerEntry, RoundTrips, Trip};
use crate::facts::Parts;
use crate::limits::assemble as limits;
use crate::observe::asking::Asking;
use crate::observe::observation::Way;
use crate::observe::overlap::Overlap;
use crate::observe::tables::Tables;
use sentence::sentence;
use std::collections::HashMap;
use thalweg_trace::Meta;

/// The round trips of a recorded run; `None` if there are next to none, or they carry data.
pub(crate) fn round_trips(parts: &Parts<'_>, meta: &Meta) -> Option<RoundTrips> {
    let asking = &parts.seen.asking;
    let entries = entries(asking, meta);
    let bytes: u64 = [Way::ClientSends, Way::ServerSends].into_iter().map(|way| parts.seen.stream(way).all.bytes).sum();
    let bytes = bytes.max(parts.seen.stream(Way::ClientReceives).all.bytes);
    let small = |count: u64| entries.is_some() || bytes / count.max(1) <= limits::MOST_BYTES_EACH;
    let away = parts.ledger.away;
    if asking.calls.count() >= limits::FEWEST_QUESTIONS && small(asking.calls.count()) {
        let calls = &asking.calls;
        let made = MeasuredRequests {
            trip: Trip::Calls,
            count: calls.count(),
            in_a_row: away.from_client,
            first: calls.first,
            last: calls.last,
            calls: Some(calls),
        };
        return made.round_trips(parts, entries, answerers(parts.tables, asking));
    }
    let exchanged = asking.exchanged();
    if let Some((first, last)) = exchanged.from_to
        && exchanged.sends >= limits::FEWEST_QUESTIONS
        && small(exchanged.sends)
    {
        let in_a_row = away.from_client.max(exchanged.rounds());
        // A thread can send for long before it receives anything, and a path can stay with a server: then the number of rounds is unknown.
        if entries.is_none() && (in_a_row as f64) < exchanged.sends as f64 * limits::SURE_ROUNDS {
            return None;
        }
        let made = MeasuredRequests { trip: Trip::Exchanges, count: exchanged.sends, in_a_row, first, last, calls: None };
        return made.round_trips(parts, entries, Vec::new());
    }
    let disk = &asking.disk;
    if exchanged.from_to.is_none() && disk.count() >= limits::FEWEST_QUESTIONS && asks_for_names(parts) {
        let made = MeasuredRequests {
            trip: Trip::Disk,
            count: disk.count(),
            in_a_row: away.from_disk,
            first: disk.first,
            last: disk.last,
            calls: Some(disk),
        };
        return made.round_trips(parts, entries, disks(parts));
    }
    None
}

/// Round trips of calls alone, in a recording without threads: the calls' times show how many were sequential.
pub(crate) fn round_trips_of_calls(calls: &Overlap, entries: Option<u64>, network_s: Option<f64>, to: Vec<Answerer>) -> Option<RoundTrips> {
    if calls.count() < limits::FEWEST_QUESTIONS || calls.last <= calls.first {
        return None;
    }
    let asking_s = (calls.last - calls.first) as f64 / 1e9;
    let in_a_row = calls.in_a_row.max(1);
    let each_s = asking_s / in_a_row as f64;
    let median_s = calls.lengths.quantile_ns(0.5) as f64 / 1e9;
    let waited = calls.busy_ns as f64 / 1e9 / in_a_row as f64;
    let network_s = network_s.map(|s| s.min(waited));
    let mut of_each: Vec<Part> = network_s.map(|seconds| Part { cause: Cause::NetworkLatency, seconds }).into_iter().collect();
    of_each.push(Part { cause: Cause::ServerUnknown, seconds: (waited - network_s.unwrap_or(0.0)).max(0.0) });
    of_each.push(Part { cause: Cause::Unknown, seconds: (each_s - waited).max(0.0) });
    of_each.retain(|part| part.seconds > 0.0);
    let mut made = RoundTrips {
        of: Trip::Calls,
        count: calls.count(),
        in_a_row,
        at_once: calls.at_once(),
        most_at_once: Some(calls.most_at_once),
        median_s: Some(median_s),
        asking_s,
        each_s,
        per_entry: entries.map(|entries| per_entry(entries, calls.count(), in_a_row, asking_s, &of_each)),
        of_each,
        to,
        sentence: String::new(),
    };
    made.sentence = sentence(&made);
    Some(made)
}

/// Number of entries of the run, if known.
fn entries(asking: &Asking, meta: &Meta) -> Option<u64> {
    let said = meta.attributes.iter().find(|(name, _)| name == "walk.entries").and_then(|(_, n)| n.parse().ok());
    said.or(Some(asking.delivered)).filter(|&n| n > 0)
}

/// Whether waits for files were for names and attributes rather than for data.
fn asks_for_names(parts: &Parts<'_>) -> bool {
    let charged = |cause: Cause| parts.ledger.entries.iter().filter(|e| e.cause == cause).map(|e| e.runs.total_ns).sum::<u64>();
    charged(Cause::ClientMetadata) > charged(Cause::ClientRead) + charged(Cause::ClientWrite) + charged(Cause::ClientSync)
}

/// The requests of a run.
struct MeasuredRequests<'a> {
    trip: Trip,
    count: u64,
    in_a_row: u64,
    first: i64,
    last: i64,
    calls: Option<&'a Overlap>,
}

impl MeasuredRequests<'_> {
    fn round_trips(&self, parts: &Parts<'_>, entries: Option<u64>, to: Vec<Answerer>) -> Option<RoundTrips> {
        if self.last <= self.first {
            return None;
        }
        let asking_s = (self.last - self.first) as f64 / 1e9;
        // If the path never left the client, requests were answered before anyone waited.
        let in_a_row = self.in_a_row.clamp(1, self.count);
        let charged = charged(parts, self.first, self.last);
        let of_each = charged.into_iter().map(|(cause, ns)| Part { cause, seconds: ns as f64 / 1e9 / in_a_row as f64 }).collect();
        let mut made = RoundTrips {
            of: self.trip,
            count: self.count,
            in_a_row,
            at_once: self.calls.map_or(Some(self.count as f64 / in_a_row as f64), Overlap::at_once),
            most_at_once: self.calls.map(|calls| calls.most_at_once),
            median_s: self.calls.map(|calls| calls.lengths.quantile_ns(0.5) as f64 / 1e9),
            asking_s,
            each_s: asking_s / in_a_row as f64,
            of_each,
            to,
            per_entry: None,
            sentence: String::new(),
        };
        made.per_entry = entries.map(|entries| per_entry(entries, self.count, in_a_row, asking_s, &made.of_each));
        made.sentence = sentence(&made);
        Some(made)
    }
}

fn per_entry(entries: u64, count: u64, in_a_row: u64, asking_s: f64, of_each: &[Part]) -> PerEntry {
    let n = entries as f64;
    let part = |part: &Part| Part { cause: part.cause, seconds: part.seconds * in_a_row as f64 / n };
    PerEntry {
        entries,
        questions: count as f64 / n,
        round_trips: in_a_row as f64 / n,
        seconds: asking_s / n,
        parts: of_each.iter().map(part).collect(),
    }
}

/// The charges of the critical path between two instants, most time first.
fn charged(parts: &Parts<'_>, first: i64, last: i64) -> Vec<(Cause, i64)> {
    let mut sums: HashMap<Cause, i64> = HashMap::new();
    for run in &parts.ledger.path {
        let ns = run.end.min(last) - run.start.max(first);
        if ns > 0 {
            *sums.entry(parts.ledger.entries[run.entry as usize].cause).or_default() += ns;
        }
    }
    let mut sums: Vec<(Cause, i64)> = sums.into_iter().collect();
    sums.sort_by_key(|&(cause, ns)| (std::cmp::Reverse(ns), cause));
    sums
}

fn answerer(name: String, calls: &Overlap) -> Answerer {
    Answerer { name, count: calls.count(), at_once: calls.at_once().unwrap_or(0.0), median_s: calls.lengths.quantile_ns(0.5) as f64 / 1e9 }
}

/// Who answered, most requests first.
fn answerers(tables: &Tables, asking: &Asking) -> Vec<Answerer> {
    let name = |server: u32| tables.ends(server).map_or_else(|| "a server".to_owned(), |(_, address)| address.to_owned());
    most(asking.by_server.iter().map(|(&server, calls)| answerer(name(server), calls)).collect())
}

fn disks(parts: &Parts<'_>) -> Vec<Answerer> {
    let name = |track: u32| parts.tables.actors.get(track as usize).map_or_else(|| "a disk".to_owned(), |a| a.name.clone());
    let of = parts.seen.devices.iter().filter(|(_, did)| did.read_bytes > 0).map(|(&track, did)| Answerer {
        name: name(track),
        count: did.requests.count,
        at_once: did.requests.total_ns as f64 / (did.all.finish().busy_ns as f64).max(1.0),
        median_s: did.requests.quantile_ns(0.5) as f64 / 1e9,
    });
    most(of.collect())
}

fn most(mut to: Vec<Answerer>) -> Vec<Answerer> {
    to.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    to.truncate(MAX_ANSWERERS);
    to
}
