//! Which recording's clock stands how to the first one's.

use super::{ClockFrom, Part};
use crate::align::{align, connections, largest_error_ns};
use crate::{Axis, Clock, HostId, Source, TraceError};
use std::ops::Range;
use std::path::Path;

/// Wall clocks that NTP keeps agree to within milliseconds; those that nothing keeps do not. This is what is said of them.
const WALL_CLOCK_ERROR_NS: u64 = 1_000_000_000;

/// The attribute of a recording that says what its wall clock is ahead of its monotonic clock.
pub(super) const REALTIME: &str = "realtime_ns";

/// Connections named in a message at most.
const NAMED: usize = 5;

/// A recording on the merged axis.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub by: ClockFrom,
    /// From the recording's reference axis to the merged one, as of host 0; none: they are one.
    pub clocks: Vec<Clock>,
    /// Where bytes of connections bound it; elsewhere the error is larger.
    pub bounded: Option<Range<i64>>,
}

impl Placed {
    fn axis(&self) -> Axis {
        Axis::new(&self.clocks, &[], &[])
    }

    pub fn to_axis(&self, ns: i64) -> i64 {
        self.axis().to_reference(HostId(0), ns)
    }

    pub fn error_ns(&self) -> u64 {
        match &self.bounded {
            Some(bounded) => largest_error_ns(&self.clocks, bounded),
            None => self.clocks.iter().map(|c| c.error_ns).max().unwrap_or(0),
        }
    }
}

/// Places every recording: each next to one that is placed already, the first of these with which it can be.
pub(super) fn place(parts: &[Part<'_>]) -> Result<Vec<Placed>, TraceError> {
    if let Some(part) = parts.iter().find(|part| part.source.hosts().is_empty()) {
        return Err(TraceError::new(Path::new(&part.name), "says of no machine that it was recorded on: there is nothing to merge"));
    }
    let mut placed: Vec<Option<Placed>> = vec![None; parts.len()];
    placed[0] = Some(Placed { by: ClockFrom::Reference, clocks: Vec::new(), bounded: None });
    while place_one_more(parts, &mut placed)? {}
    placed.into_iter().enumerate().map(|(number, placed)| placed.map_or_else(|| by_wall_clock(parts, number), Ok)).collect()
}

/// Places one more; whether it could.
fn place_one_more(parts: &[Part<'_>], placed: &mut [Option<Placed>]) -> Result<bool, TraceError> {
    for number in 0..parts.len() {
        if placed[number].is_some() {
            continue;
        }
        for other in 0..parts.len() {
            let Some(there) = &placed[other] else { continue };
            if let Some(found) = beside(parts[other].source, there, parts[number].source)? {
                placed[number] = Some(found);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Places `source` by what it has in common with a recording that is placed.
fn beside(reference: &dyn Source, there: &Placed, source: &dyn Source) -> Result<Option<Placed>, TraceError> {
    let own = source.hosts().iter().find(|host| host.host == HostId(0)).or(source.hosts().first());
    let same = reference.hosts().iter().find(|host| own.is_some_and(|own| own.clock == host.clock && is_told(&own.clock)));
    match same {
        // Times come on the reference axis of each recording: where its reference host is the machine, the two axes are one.
        Some(host) if host.host == HostId(0) || of_host(reference, host.host).is_empty() => {
            return Ok(Some(Placed { by: ClockFrom::SameBoot, clocks: there.clocks.clone(), bounded: there.bounded.clone() }));
        }
        Some(host) if there.clocks.is_empty() => {
            return Ok(Some(Placed { by: ClockFrom::SameBoot, clocks: of_host(reference, host.host), bounded: None }));
        }
        _ => {}
    }
    let Some(found) = align(reference, &there.axis(), source)? else { return Ok(None) };
    // What is not known of the other's place is not known of this one's either.
    let more_ns = there.error_ns();
    let clocks = found.clocks.iter().map(|c| Clock { error_ns: c.error_ns.saturating_add(more_ns), ..*c }).collect();
    let by = ClockFrom::Connections { connections: found.connections, one_way: found.one_way, contradictions: found.contradictions };
    Ok(Some(Placed { by, clocks, bounded: Some(found.bounded) }))
}

fn of_host(source: &dyn Source, host: HostId) -> Vec<Clock> {
    source.clocks().iter().filter(|clock| clock.host == host).map(|clock| Clock { host: HostId(0), ..*clock }).collect()
}

/// Whether a clock is named by what is unique to one boot of one machine.
fn is_told(clock: &str) -> bool {
    clock.strip_prefix("monotonic:").is_some_and(|boot| boot.len() >= 8 && boot != "unknown")
}

fn by_wall_clock(parts: &[Part<'_>], number: usize) -> Result<Placed, TraceError> {
    let realtime = |part: &Part<'_>| {
        let value = part.source.meta().attributes.iter().find(|(name, _)| name == REALTIME).map(|(_, value)| value.clone());
        value.and_then(|value| value.parse::<i64>().ok())
    };
    let (Some(ours), Some(theirs)) = (realtime(&parts[0]), realtime(&parts[number])) else {
        return Err(TraceError::new(Path::new(&parts[number].name), nothing_common(parts)));
    };
    let clock = Clock {
        host: HostId(0),
        from_ns: parts[number].source.meta().start.ns(),
        offset_ns: theirs.saturating_sub(ours),
        drift_ppb: 0,
        error_ns: WALL_CLOCK_ERROR_NS,
    };
    Ok(Placed { by: ClockFrom::WallClock, clocks: vec![clock], bounded: None })
}

/// The sentence that says that there is nothing to align by, and what each recording saw.
fn nothing_common(parts: &[Part<'_>]) -> String {
    let saw = |part: &Part<'_>| {
        let names = connections(part.source);
        let more = names.len().saturating_sub(NAMED);
        let list = match names.len() {
            0 => "no connection".to_owned(),
            _ => names[..names.len().min(NAMED)].join(", "),
        };
        format!("{} saw {list}{}", part.name, if more > 0 { format!(" and {more} more") } else { String::new() })
    };
    let first: std::collections::BTreeSet<String> = connections(parts[0].source).into_iter().collect();
    let common = parts[1..].iter().any(|part| connections(part.source).iter().any(|name| first.contains(name)));
    if common {
        return "saw connections that the others saw, but not where their streams stood (nothing was sent on them while both recorded, or their \
                names were used twice), so its clock cannot be put on their axis"
            .to_owned();
    }
    format!(
        "shares no connection with the others, so its clock cannot be put on their axis: {}. Record both ends of one run at the same time, \
         with the addresses that both see",
        parts.iter().map(saw).collect::<Vec<_>>().join("; ")
    )
}

/// What a person should know of how clocks were found.
pub(super) fn notes(parts: &[Part<'_>], placed: &[Placed]) -> Vec<String> {
    let mut notes = Vec::new();
    for (part, placed) in parts.iter().zip(placed) {
        let error_ms = placed.error_ns() as f64 / 1e6;
        match placed.by {
            ClockFrom::WallClock => {
                notes.push(format!("{}: placed by wall clocks, which may be {error_ms:.0} ms off: {}.", part.name, nothing_common(parts)))
            }
            ClockFrom::Connections { one_way: true, .. } => notes.push(format!(
                "{}: bytes were seen in one direction only, so its clock rests on an assumed delay of at most {:.0} ms.",
                part.name,
                error_ms * 2.0
            )),
            ClockFrom::Connections { contradictions, .. } if contradictions > 0 => {
                notes.push(format!("{}: {contradictions} bounds on its clock contradicted all others and were left out.", part.name))
            }
            _ => {}
        }
    }
    notes
}
