//! What counters and attributes say of a run, as far as the model needs it.

use super::build::Facts;
use super::regime::Regimes;
use super::timeline::Makers;
use crate::ExplainError;
use crate::assemble::Parts;
use crate::assemble::circumstances::Quota;
use crate::cause::End;
use crate::limits::replay as limits;
use crate::observe::index::NONE;
use crate::observe::lives::{Beginning, Life};
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
        // One that is known and was not counted may have stopped it for any time.
        let stopped_ns = Some(stopped_ns as f64).filter(|ns| *ns >= limits::QUOTA_STOPPED_NS);
        stopped_ns.or(processors.map(|_| f64::INFINITY))
    });
    let (makers, records_quotas) = makers(parts);
    Ok(Facts {
        regimes: Regimes::of(parts),
        min_rtt_ns: min_rtt_us.into_iter().map(|(c, us)| (c, us * 1e3)).collect(),
        receive_window_bytes: by_connection(CounterName::TcpReceiveWindowBytes, true)?,
        quota,
        foreign: parts.sharing.foreign.clone(),
        makers,
        records_quotas,
        syncing: (0..parts.tables.actors.len() as u32).filter_map(|t| Some((t, parts.around.syncing(t)?))).collect(),
    })
}

/// Who made threads, and when; and whether it is recorded why threads queued (where lives are, by who saw wakers).
fn makers(parts: &Parts<'_>) -> (Makers, bool) {
    let made = |(track, life): (usize, &Life)| match life.from {
        Some((at, Beginning::Made(by))) if by != NONE => Some((track as u32, (at, by))),
        _ => None,
    };
    // Recorders without privilege record lives, and no queueing's reason.
    let is_recorded = parts.facts.lives.iter().any(|life| life.from.is_some()) && !parts.tables.wakers_inferred;
    (parts.facts.lives.iter().enumerate().filter_map(made).collect(), is_recorded)
}

/// Nanoseconds a byte takes at least, from what has been measured of the paths; 0 where nothing has.
pub(crate) fn ceiling_ns_per_byte(meta: &Meta) -> f64 {
    let paths = meta.attributes.iter().filter(|(n, _)| n.starts_with("ceiling.path."));
    let best = paths.filter_map(|(_, v)| v.parse::<f64>().ok()).fold(0.0, f64::max);
    if best > 0.0 { 1e9 / best } else { 0.0 }
}
