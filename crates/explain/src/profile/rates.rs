//! Bytes moved meanwhile, if recorded: tables of two runs are compared at their rates.

use super::document::Rate;
use super::times::Times;
use crate::ExplainError;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{ABSENT, CounterName, CounterOf, HostId, Role, Source, SpanKind};

/// Calls that move bytes, with their names.
const KINDS: [SpanKind; 4] = [SpanKind::NetReceive, SpanKind::NetSend, SpanKind::FileRead, SpanKind::FileWrite];

/// The rates of each machine, the largest first.
pub(super) fn rates(source: &dyn Source, times: &BTreeMap<HostId, Times>) -> Result<BTreeMap<HostId, Vec<Rate>>, ExplainError> {
    let of_interest = |track: &&thalweg_trace::Track| matches!(track.role, Role::Client | Role::Server);
    let hosts: HashMap<u64, HostId> = source.tracks().iter().filter(of_interest).map(|t| (t.track.number(), t.host)).collect();
    let mut bytes: BTreeMap<(HostId, &'static str), u64> = BTreeMap::new();
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            let (kind, size) = (batch.kind[row], batch.size_bytes[row]);
            if size == ABSENT || !KINDS.contains(&kind) {
                continue;
            }
            if let Some(&host) = hosts.get(&batch.track[row]) {
                let sum = bytes.entry((host, kind.name())).or_default();
                *sum = sum.saturating_add(size);
            }
        }
    }
    if bytes.is_empty() {
        from_counters(source, &mut bytes)?;
    }
    let mut rates: BTreeMap<HostId, Vec<Rate>> = BTreeMap::new();
    for ((host, what), bytes) in bytes {
        let Some(times) = times.get(&host) else { continue };
        let wall_s = times.end_ns.saturating_sub(times.start_ns) as f64 / 1e9;
        if bytes > 0 && wall_s > 0.0 {
            rates.entry(host).or_default().push(Rate { what: what.to_owned(), bytes, bytes_per_s: bytes as f64 / wall_s });
        }
    }
    rates.values_mut().for_each(|rates| rates.sort_by_key(|rate| std::cmp::Reverse(rate.bytes)));
    Ok(rates)
}

/// TCP's counts, if no calls were recorded.
fn from_counters(source: &dyn Source, bytes: &mut BTreeMap<(HostId, &'static str), u64>) -> Result<(), ExplainError> {
    let hosts: HashMap<u64, HostId> = source.objects().iter().map(|object| (object.object.number(), object.host)).collect();
    let kinds = [(CounterName::TcpReceivedBytes, SpanKind::NetReceive), (CounterName::TcpAckedBytes, SpanKind::NetSend)];
    for (name, kind) in kinds {
        let mut ends: HashMap<u64, (i64, i64)> = HashMap::new();
        for counter in source.counters(name)? {
            if let CounterOf::Object(object) = counter.of {
                ends.entry(object.number()).or_insert((counter.value, counter.value)).1 = counter.value;
            }
        }
        for (object, (first, last)) in ends {
            if let Some(&host) = hosts.get(&object) {
                let sum = bytes.entry((host, kind.name())).or_default();
                *sum = sum.saturating_add(last.saturating_sub(first).max(0) as u64);
            }
        }
    }
    Ok(())
}
