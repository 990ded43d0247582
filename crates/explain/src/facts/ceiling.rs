//! Whether something ran at its ceiling: a device or path with a measured ceiling (attributes `ceiling.device.NAME.read|write` and
//! `ceiling.path.CLIENT>SERVER` of the recording, in bytes per second), or processors.

use crate::cause::Cause;
use crate::facts::Parts;
use crate::limits::assemble as limits;
use std::collections::HashMap;
use thalweg_base::numbers::{bit_rate, byte_rate, whole_percent};
use thalweg_trace::Meta;

/// Something that ran near its ceiling.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reached {
    /// The part of the ceiling it reached.
    pub part: f64,
    /// Whether that is a measured rate of a device or path; busy processors have no ceiling rate.
    pub is_rate: bool,
    /// The resource and its ceiling, as the end of a sentence.
    pub statement: String,
}

/// The largest cause's own device or path, or the busiest machine's processors, if it reached [`limits::WELL`] of its ceiling.
pub(crate) fn reached(parts: &Parts<'_>, meta: &Meta, cause: Cause) -> Option<Reached> {
    let processors = || {
        let part = parts.busiest_machine();
        let statement = format!("the CPUs were {} busy", whole_percent(part));
        Some(Reached { part, is_rate: false, statement })
    };
    let reached = match cause {
        Cause::ClientCpu | Cause::ServerCpu | Cause::ClientRunqueue | Cause::ServerRunqueue => processors(),
        Cause::ClientRead | Cause::ServerRead => device(parts, meta, true),
        Cause::ClientWrite | Cause::ServerWrite | Cause::ClientSync | Cause::ServerSync | Cause::ClientMemory | Cause::ServerMemory => {
            device(parts, meta, false)
        }
        Cause::NetworkBandwidth => path(parts, meta).or_else(|| full(parts)),
        _ => None,
    };
    reached.filter(|r| r.part >= limits::WELL && !shared(parts, cause))
}

/// Whether a fair part of a cause's device or link went to others.
fn shared(parts: &Parts<'_>, cause: Cause) -> bool {
    let entries = parts.ledger.entries.iter().filter(|entry| entry.cause == cause);
    let largest = entries.max_by_key(|entry| entry.runs.total_ns);
    largest.is_some_and(|entry| parts.others_at(entry).is_some() || parts.others_at_link(entry).is_some())
}

fn number(meta: &Meta, name: &str) -> Option<f64> {
    let (_, value) = meta.attributes.iter().find(|(n, _)| n == name)?;
    value.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0)
}

/// The device that came nearest to its ceiling, between its first request and its last.
fn device(parts: &Parts<'_>, meta: &Meta, reading: bool) -> Option<Reached> {
    let (way, verb) = if reading { ("read", "read") } else { ("write", "written") };
    let devices = parts.seen.devices.iter().filter_map(|(&track, did)| {
        let name = &parts.tables.actors[track as usize].name;
        let ceiling = number(meta, &format!("ceiling.device.{name}.{way}"))?;
        let (first, last) = did.all.extent()?;
        let bytes = if reading { did.read_bytes } else { did.written_bytes };
        let achieved = bytes as f64 * 1e9 / (last - first).max(1) as f64;
        let statement =
            format!("{name} was {verb} at {}, of the {} that were measured as its best", byte_rate(achieved), byte_rate(ceiling));
        Some(Reached { part: achieved / ceiling, is_rate: true, statement })
    });
    devices.max_by(|a, b| a.part.total_cmp(&b.part))
}

/// Whether bytes came at one rate from first to last, as over a full link.
pub(crate) fn is_full(parts: &Parts<'_>) -> bool {
    full(parts).is_some_and(|full| full.part >= limits::WELL)
}

/// A link, or a limit set on one, over which bytes came at one rate from first to last; the two cannot be told apart. It explains the run
/// only if nothing else has a fair part of it: a stage before or after may overlap.
fn full(parts: &Parts<'_>) -> Option<Reached> {
    let mut besides = HashMap::new();
    let others = parts.ledger.entries.iter().filter(|entry| !entry.cause.is_network());
    others.for_each(|entry| *besides.entry(entry.cause).or_insert(0) += entry.runs.total_ns);
    if besides.into_values().any(|ns| ns as f64 >= parts.wall_s() * 1e9 * limits::ANOTHER_STAGE) {
        return None;
    }
    let sustained = parts.on_wire.sustained()?;
    let part = sustained.least_ns() / sustained.within_ns.max(1.0);
    let statement = "the link, or a limit set on it, was full from the first byte to the last".to_owned();
    Some(Reached { part, is_rate: false, statement })
}

/// The path, in the direction that carried most.
fn path(parts: &Parts<'_>, meta: &Meta) -> Option<Reached> {
    let stream = parts.seen.stream(*parts.ways().first()?);
    let (first, last) = stream.all.extent()?;
    let achieved = stream.all.bytes as f64 * 1e9 / (last - first).max(1) as f64;
    let paths = meta.attributes.iter().filter_map(|(name, _)| Some((name.strip_prefix("ceiling.path.")?, number(meta, name)?)));
    let nearest = paths.map(|(name, ceiling)| {
        let (carried, best) = (bit_rate(achieved), bit_rate(ceiling));
        let statement = format!("{} carried {carried}, of the {best} that were measured as its best", name.replace('>', " > "));
        Reached { part: achieved / ceiling, is_rate: true, statement }
    });
    nearest.min_by(|a, b| (a.part - 1.0).abs().total_cmp(&(b.part - 1.0).abs()))
}
