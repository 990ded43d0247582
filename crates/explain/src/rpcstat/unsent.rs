//! Unsent bytes in the clients' sockets: calls that packets do not show yet.

use super::document::{Connection, Unsent};
use super::over_time::OverTime;
use crate::ExplainError;
use std::collections::HashMap;
use thalweg_trace::{CounterName, CounterOf, Source};

/// Unsent bytes of one connection's client, so far.
#[derive(Clone, Copy, Debug)]
struct UnsentBytes {
    since_ns: i64,
    bytes: u64,
}

/// Unsent bytes of connections with RPCs, if a recorder on the client's machine counted them; also added to the bins.
pub(super) fn unsent(
    source: &dyn Source,
    (start_ns, end_ns): (i64, i64),
    connections: &[Connection],
    over_time: &mut OverTime,
) -> Result<Option<Unsent>, ExplainError> {
    let is_client = |o: &&thalweg_trace::Object| o.attributes.iter().any(|(n, v)| n == "end" && v == "client");
    let of_name: HashMap<&str, &Connection> = connections.iter().map(|c| (c.name.as_str(), c)).collect();
    let clients = source.objects().iter().filter(is_client);
    let clients: HashMap<u64, &Connection> = clients.filter_map(|o| Some((o.object.number(), *of_name.get(o.name.as_str())?))).collect();
    let mut held: HashMap<u64, UnsentBytes> = HashMap::new();
    let (mut byte_ns, mut most) = (0.0, Unsent::default());
    for counter in source.counters(CounterName::TcpUnsentBytes)? {
        let CounterOf::Object(object) = counter.of else { continue };
        let Some(&connection) = clients.get(&object.number()) else { continue };
        let (at_ns, bytes) = (counter.at.ns().clamp(start_ns, end_ns), counter.value.max(0) as u64);
        if let Some(before) = held.insert(object.number(), UnsentBytes { since_ns: at_ns, bytes }) {
            byte_ns += before.bytes as f64 * (at_ns - before.since_ns) as f64;
        }
        if (start_ns..end_ns).contains(&counter.at.ns()) {
            let bin = over_time.at(at_ns);
            bin.unsent = bin.unsent.max(Some(bytes));
            let call_bytes = connection.bytes as f64 / connection.calls.max(1) as f64;
            most.max_bytes = most.max_bytes.max(bytes);
            most.max_calls = most.max_calls.max(bytes as f64 / call_bytes.max(1.0));
        }
    }
    if held.is_empty() {
        return Ok(None);
    }
    byte_ns += held.values().map(|h| h.bytes as f64 * (end_ns - h.since_ns) as f64).sum::<f64>();
    Ok(Some(Unsent { mean_bytes: byte_ns / (end_ns - start_ns).max(1) as f64, ..most }))
}
