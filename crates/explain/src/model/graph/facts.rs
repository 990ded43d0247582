//! What counters and attributes say of a run, as far as the model needs it.

use super::build::Facts;
use super::regime::Regimes;
use crate::ExplainError;
use crate::assemble::Parts;
use crate::cause::End;
use crate::index::NONE;
use std::collections::HashMap;
use thalweg_trace::{CounterName, CounterOf, Meta, ObjectId, Source, TrackId};

/// A quota that stopped less than this is none.
const THROTTLED_NS: i64 = 5_000_000;

/// Reads them.
pub fn facts(source: &dyn Source, parts: &Parts<'_>, meta: &Meta) -> Result<Facts, ExplainError> {
    let objects: HashMap<ObjectId, u32> = source.objects().iter().enumerate().map(|(i, o)| (o.object, i as u32)).collect();
    let tracks: HashMap<TrackId, u32> = source.tracks().iter().enumerate().map(|(i, t)| (t.track, i as u32)).collect();
    let by_connection = |name: CounterName, most: bool| -> Result<HashMap<u32, f64>, ExplainError> {
        let mut found: HashMap<u32, f64> = HashMap::new();
        for counter in source.counters(name)? {
            let CounterOf::Object(object) = counter.of else { continue };
            let connection = parts.cast.connection_of(objects.get(&object).copied().unwrap_or(NONE));
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
    let told = meta.attributes.iter().any(|(n, _)| n == "cgroup.cpu_quota");
    let mut quota = [told.then_some(f64::INFINITY), None];
    let mut throttled: HashMap<u32, (i64, i64)> = HashMap::new();
    for counter in source.counters(CounterName::CpuThrottledNs)? {
        let CounterOf::Track(track) = counter.of else { continue };
        let Some(&track) = tracks.get(&track) else { continue };
        let range = throttled.entry(track).or_insert((counter.value, counter.value));
        *range = (range.0.min(counter.value), range.1.max(counter.value));
    }
    for (track, (first, last)) in throttled {
        let end = parts.cast.actors.get(track as usize).map_or(End::Client, |a| a.end);
        if last - first >= THROTTLED_NS {
            quota[end as usize] = Some((last - first) as f64);
        }
    }
    Ok(Facts {
        regimes: Regimes::of(parts),
        min_rtt_ns: min_rtt_us.into_iter().map(|(c, us)| (c, us * 1e3)).collect(),
        receive_window_bytes: by_connection(CounterName::TcpReceiveWindowBytes, true)?,
        quota,
        syncing: syncing(source, meta, &tracks)?,
    })
}

/// By track: which part of its running samples found in calls that put data on media; where there are enough to tell.
fn syncing(source: &dyn Source, meta: &Meta, tracks: &HashMap<TrackId, u32>) -> Result<HashMap<u32, f64>, ExplainError> {
    const ENOUGH_NS: u64 = 10_000_000;
    let named = meta.attributes.iter().find(|(name, class)| name.starts_with("class.") && class == "sync");
    let Some(sync) = named.and_then(|(name, _)| name.strip_prefix("class.")?.parse::<u16>().ok()) else { return Ok(HashMap::new()) };
    let mut sampled: HashMap<u32, (u64, u64)> = HashMap::new();
    for sample in source.samples()? {
        let Some(&track) = sample.track.and_then(|t| tracks.get(&t)) else { continue };
        let (in_sync, all) = sampled.entry(track).or_default();
        *all += sample.weight_ns;
        *in_sync += if sample.class == sync { sample.weight_ns } else { 0 };
    }
    Ok(sampled.into_iter().filter(|(_, (_, all))| *all >= ENOUGH_NS).map(|(t, (sync, all))| (t, sync as f64 / all as f64)).collect())
}

/// Nanoseconds a byte takes at least, from what has been measured of the paths; 0 where nothing has.
pub fn ceiling_ns_per_byte(meta: &Meta) -> f64 {
    let paths = meta.attributes.iter().filter(|(n, _)| n.starts_with("ceiling.path."));
    let best = paths.filter_map(|(_, v)| v.parse::<f64>().ok()).fold(0.0, f64::max);
    if best > 0.0 { 1e9 / best } else { 0.0 }
}
