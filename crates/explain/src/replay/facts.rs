//! Counters and attributes of a run, as far as the model needs them.

use super::build::Facts;
use super::regime::Regimes;
use crate::ExplainError;
use crate::cause::End;
use crate::facts::Parts;
use crate::facts::circumstances::Quota;
use crate::limits::replay as limits;
use crate::observe::index::NONE;
use std::collections::HashMap;
use thalweg_trace::{CounterName, CounterOf, Meta, ObjectId, Source};

/// Reads them.
pub(crate) fn facts(source: &dyn Source, parts: &Parts<'_>) -> Result<Facts, ExplainError> {
    let objects: HashMap<ObjectId, u32> = source.objects().iter().enumerate().map(|(i, o)| (o.object, i as u32)).collect();
    let by_connection = |name: CounterName, most: bool| -> Result<HashMap<u32, f64>, ExplainError> {
        let mut found: HashMap<u32, f64> = HashMap::new();
        for counter in source.counters(name)? {
            let CounterOf::Object(object) = counter.of else { continue };
            let connection = parts.tables.connection_of(objects.get(&object).copied().unwrap_or(NONE));
            if connection == NONE || counter.value <= 0 {
                continue;
            }
            let value = counter.value as f64;
            found.entry(connection).and_modify(|v| *v = if most { v.max(value) } else { v.min(value) }).or_insert(value);
        }
        Ok(found)
    };
    let mut min_rtt_us = by_connection(CounterName::TcpSrttUs, false)?;
    min_rtt_us.extend(by_connection(CounterName::TcpMinRttUs, false)?);
    let quota = [End::Client, End::Server].map(|end| {
        let Quota { stopped_ns, processors } = parts.around.quota_of(end);
        // A known quota that was not counted may have stopped threads for any time.
        let stopped_ns = Some(stopped_ns as f64).filter(|ns| *ns >= limits::QUOTA_STOPPED_NS);
        stopped_ns.or(processors.map(|_| f64::INFINITY))
    });
    // Recorders without privilege record lives, but no reasons for queueing.
    let records_quotas = parts.facts.lives.iter().any(|life| life.from.is_some()) && !parts.tables.wakers_inferred;
    Ok(Facts {
        regimes: Regimes::of(parts),
        min_rtt_ns: min_rtt_us.into_iter().map(|(c, us)| (c, us * 1e3)).collect(),
        receive_window_bytes: by_connection(CounterName::TcpReceiveWindowBytes, true)?,
        quota,
        records_quotas,
    })
}

/// Least nanoseconds per byte, from measured ceilings of the paths; 0 if there are none.
pub(crate) fn ceiling_ns_per_byte(meta: &Meta) -> f64 {
    let paths = meta.attributes.iter().filter(|(n, _)| n.starts_with("ceiling.path."));
    let best = paths.filter_map(|(_, v)| v.parse::<f64>().ok()).fold(0.0, f64::max);
    if best > 0.0 { 1e9 / best } else { 0.0 }
}
