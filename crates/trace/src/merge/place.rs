//! Relates each recording's clock to the first one's.

use super::part::{ClockFrom, Part, last_instant};
use crate::align::{Alignment, align, connections, largest_error_ns, seen_by_both};
use crate::clock::{self, WALL_CLOCK_ERROR_NS};
use crate::{Axis, Clock, Host, HostId, Role, Source, TraceError};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use thalweg_base::numbers::duration;

/// Attribute with the offset from a recording's monotonic clock to its wall clock.
pub(super) const REALTIME: &str = "realtime_ns";

/// Contradiction tolerated between one clock's timestamps and the order of sending and receiving.
const TOLERATED_NS: i64 = 1_000_000;

/// Maximum connections named in a message.
const NAMED: usize = 5;

/// A recording on the merged axis.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub by: ClockFrom,
    /// Maps the recording's reference axis to the merged one, as of host 0; empty if they are the same.
    pub clocks: Vec<Clock>,
    /// Interval bounded by bytes of connections; the error is larger elsewhere.
    pub bounded: Option<Range<i64>>,
    /// Its clock has the same name as another recording's but differs from it.
    pub apart: bool,
    /// Difference between the alignments by bytes and by wall clocks.
    pub wall_clocks_off_ns: Option<i64>,
    /// Size of the contradiction among bytes, where no clock satisfies all of them.
    pub contradicted_by_ns: u64,
}

impl Placed {
    fn axis(&self) -> Axis {
        Axis::new(&self.clocks, &[], &[])
    }

    pub(super) fn to_axis(&self, ns: i64) -> i64 {
        self.axis().to_reference(HostId(0), ns)
    }

    pub(super) fn error_ns(&self) -> u64 {
        match &self.bounded {
            Some(bounded) => largest_error_ns(&self.clocks, bounded),
            None => self.clocks.iter().map(|c| c.error_ns).max().unwrap_or(0),
        }
    }
}

/// Places every recording relative to the first placed recording it can be aligned with.
pub(super) fn place(parts: &[Part<'_>]) -> Result<Vec<Placed>, TraceError> {
    if let Some(part) = parts.iter().find(|part| part.source.hosts().is_empty()) {
        return Err(TraceError::new(Path::new(&part.name), "has no host, so it cannot be merged"));
    }
    let mut placed: Vec<Option<Placed>> = vec![None; parts.len()];
    placed[0] = Some(Placed {
        by: ClockFrom::Reference,
        clocks: Vec::new(),
        bounded: None,
        apart: false,
        wall_clocks_off_ns: None,
        contradicted_by_ns: 0,
    });
    while place_one_more(parts, &mut placed)? {}
    placed.into_iter().enumerate().map(|(number, placed)| placed.map_or_else(|| by_wall_clock(parts, number), Ok)).collect()
}

/// Places one more recording; returns whether one could be placed.
fn place_one_more(parts: &[Part<'_>], placed: &mut [Option<Placed>]) -> Result<bool, TraceError> {
    for number in 0..parts.len() {
        if placed[number].is_some() {
            continue;
        }
        for other in 0..parts.len() {
            let Some(there) = &placed[other] else { continue };
            if let Some(found) = beside(&parts[other], there, &parts[number])? {
                placed[number] = Some(found);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Places `part` by what it shares with the placed recording `beside`.
fn beside(beside: &Part<'_>, there: &Placed, part: &Part<'_>) -> Result<Option<Placed>, TraceError> {
    let (reference, source) = (beside.source, part.source);
    let same = same_boot(reference, source);
    let mut apart = false;
    if let Some((host, ahead_ns)) = same {
        match on_one_clock(reference, host, ahead_ns, there, source)? {
            OneClock::Is(placed) => return Ok(Some(placed)),
            OneClock::IsNot => apart = true,
            OneClock::Unknown => {}
            OneClock::NothingCommon => return Ok(None),
        }
    }
    let Some(found) = align(reference, &there.axis(), source)? else { return Ok(None) };
    let wall_clocks_off_ns = wall_clocks_off_ns(reference, there, source, &found);
    if let Some(why) = is_of_another_run(&found, same.is_some(), wall_clocks_off_ns) {
        return Err(TraceError::new(Path::new(&part.name), format!("{why}, as seen from {}", beside.name)));
    }
    // The other recording's uncertainty adds to this one's.
    let more_ns = there.error_ns();
    let clocks = found.clocks.iter().map(|c| Clock { error_ns: c.error_ns.saturating_add(more_ns), ..*c }).collect();
    let by = ClockFrom::Connections { connections: found.connections, one_way: found.one_way, contradictions: found.contradictions };
    let contradicted_by_ns = found.contradicted_by_ns;
    Ok(Some(Placed { by, clocks, bounded: Some(found.bounded), apart, wall_clocks_off_ns, contradicted_by_ns }))
}

/// Returns the difference between the alignments of a clock by bytes and by wall clocks.
fn wall_clocks_off_ns(reference: &dyn Source, there: &Placed, source: &dyn Source, found: &Alignment) -> Option<i64> {
    // Wall clocks relate to the reference's own clock, which must be the axis.
    let (ours, theirs) = realtime_ns(reference).zip(realtime_ns(source)).filter(|_| there.clocks.is_empty())?;
    let at_ns = found.bounded.start;
    let by_bytes_ns = Axis::new(&found.clocks, &[], &[]).to_reference(HostId(0), at_ns).saturating_sub(at_ns);
    Some(by_bytes_ns.saturating_sub(theirs.saturating_sub(ours)))
}

/// Explains why same-named connections cannot be the same connections; `None` if they can be.
fn is_of_another_run(found: &Alignment, one_boot: bool, wall_clocks_off_ns: Option<i64>) -> Option<String> {
    let apart = |ns: u64| duration(ns as f64 / 1e9);
    if found.contradicted_by_ns > WALL_CLOCK_ERROR_NS {
        return Some(format!(
            "bytes would have been received up to {} before they were sent under any alignment: its clock was set during the recording, \
             it has times of two clocks, or it is not the other end of that run; so they are not merged",
            apart(found.contradicted_by_ns)
        ));
    }
    // Within one boot only time namespaces shift clocks, and the wall clocks account for those.
    let off_ns = wall_clocks_off_ns.filter(|off| one_boot && off.unsigned_abs() > WALL_CLOCK_ERROR_NS)?;
    Some(format!(
        "has connections of the same names, but was made {} {} in the same boot of the machine: these are two runs that used the same \
         ports, so they are not merged",
        apart(off_ns.unsigned_abs()),
        if off_ns < 0 { "later" } else { "earlier" }
    ))
}

/// Returns the reference's host from the same boot as the source's own, and how far the source's clock is ahead of
/// that host's.
fn same_boot<'a>(reference: &'a dyn Source, source: &dyn Source) -> Option<(&'a Host, i64)> {
    let own = source.hosts().iter().find(|host| host.host == HostId(0)).or(source.hosts().first())?;
    reference.hosts().iter().find_map(|host| Some((host, clock::between(&host.clock, &own.clock)?)))
}

/// Whether two clocks of the same name are the same clock.
enum OneClock {
    Is(Placed),
    /// Contradicted by bytes or wall clocks.
    IsNot,
    /// Not comparable: one of them is on the axis only by way of two others.
    Unknown,
    /// No bytes to compare, and the recordings were made at different times.
    NothingCommon,
}

fn on_one_clock(reference: &dyn Source, host: &Host, ahead_ns: i64, there: &Placed, source: &dyn Source) -> Result<OneClock, TraceError> {
    let shift = |clock: &Clock| Clock {
        host: HostId(0),
        from_ns: clock.from_ns.saturating_add(ahead_ns),
        offset_ns: clock.offset_ns.saturating_sub(ahead_ns),
        ..*clock
    };
    let nothing = Clock { host: HostId(0), from_ns: 0, offset_ns: 0, drift_ppb: 0, error_ns: 0 };
    // Times are on each recording's reference axis: if its reference host is this machine, the two axes coincide.
    let is_axis = host.host == HostId(0) || of_host(reference, host.host).is_empty();
    let moved: Vec<Clock> = match (is_axis, ahead_ns) {
        (true, 0) => Vec::new(),
        (true, _) => vec![shift(&nothing)],
        (false, _) => of_host(reference, host.host).iter().map(shift).collect(),
    };
    let clocks = match (there.clocks.is_empty(), is_axis) {
        (true, _) => moved.clone(),
        (false, true) => there.clocks.iter().map(shift).collect(),
        (false, false) => return Ok(OneClock::Unknown),
    };
    let bytes = seen_by_both(reference, source)?;
    let is_one = match bytes.is_empty() {
        // Another machine's clock is placed by a line, not by a single offset.
        false => !is_axis || bytes.broken_by(-ahead_ns, TOLERATED_NS).is_none(),
        true => {
            let axis = Axis::new(&moved, &[], &[]);
            let (ours, theirs) = (interval(reference), interval(source));
            let theirs = axis.to_reference(HostId(0), theirs.start)..axis.to_reference(HostId(0), theirs.end);
            let wall_clocks = realtime_ns(reference).zip(realtime_ns(source));
            // The wall clock's offset from a clock is constant unless the wall clock is set.
            let differ = |(one, other): (i64, i64)| one.abs_diff(other.saturating_add(ahead_ns)) > WALL_CLOCK_ERROR_NS;
            if is_axis && wall_clocks.is_some_and(differ) {
                return Ok(OneClock::IsNot);
            }
            if !overlap(&ours, &theirs) {
                return Ok(OneClock::NothingCommon);
            }
            true
        }
    };
    let bounded = there.bounded.as_ref().map(|bounded| bounded.start.saturating_add(ahead_ns)..bounded.end.saturating_add(ahead_ns));
    let placed = Placed { by: ClockFrom::SameBoot, clocks, bounded, apart: false, wall_clocks_off_ns: None, contradicted_by_ns: 0 };
    Ok(if is_one { OneClock::Is(placed) } else { OneClock::IsNot })
}

fn of_host(source: &dyn Source, host: HostId) -> Vec<Clock> {
    source.clocks().iter().filter(|clock| clock.host == host).map(|clock| Clock { host: HostId(0), ..*clock }).collect()
}

/// Returns the interval of a recording, on its own axis.
fn interval(source: &dyn Source) -> Range<i64> {
    source.meta().start.ns()..source.meta().end.unwrap_or_else(|| last_instant(source)).ns()
}

fn overlap(one: &Range<i64>, other: &Range<i64>) -> bool {
    one.start <= other.end && other.start <= one.end
}

fn realtime_ns(source: &dyn Source) -> Option<i64> {
    source.meta().attributes.iter().find(|(name, _)| name == REALTIME)?.1.parse().ok()
}

fn by_wall_clock(parts: &[Part<'_>], number: usize) -> Result<Placed, TraceError> {
    let part = &parts[number];
    let refused = |why: String| Err(TraceError::new(Path::new(&part.name), why));
    let named_alike = parts.iter().enumerate().any(|(other, there)| other != number && same_boot(there.source, part.source).is_some());
    let (ours, theirs) = (interval(parts[0].source), interval(part.source));
    let wall_clocks = realtime_ns(parts[0].source).zip(realtime_ns(part.source));
    let Some(offset_ns) = wall_clocks.map(|(ours, theirs)| theirs.saturating_sub(ours)) else {
        return refused(match same_boot(parts[0].source, part.source) {
            Some((_, ahead_ns)) => at_another_time(parts, number, &ours, &theirs, -ahead_ns),
            None => nothing_common(parts),
        });
    };
    let error_ns = WALL_CLOCK_ERROR_NS as i64;
    let within = theirs.start.saturating_add(offset_ns - error_ns)..theirs.end.saturating_add(offset_ns + error_ns);
    let one_clock = same_boot(parts[0].source, part.source)
        .filter(|(_, ahead_ns)| offset_ns.abs_diff(-ahead_ns) <= WALL_CLOCK_ERROR_NS)
        .map(|(_, ahead_ns)| -ahead_ns);
    // On one clock it is certain, to the nanosecond, that they did not overlap.
    if one_clock.is_some() || !overlap(&ours, &within) {
        return refused(at_another_time(parts, number, &ours, &theirs, one_clock.unwrap_or(offset_ns)));
    }
    let clock = Clock { host: HostId(0), from_ns: theirs.start, offset_ns, drift_ppb: 0, error_ns: WALL_CLOCK_ERROR_NS };
    Ok(Placed {
        by: ClockFrom::WallClock,
        clocks: vec![clock],
        bounded: None,
        apart: named_alike,
        wall_clocks_off_ns: None,
        contradicted_by_ns: 0,
    })
}

/// Formats the error that two recordings are of different runs.
fn at_another_time(parts: &[Part<'_>], number: usize, ours: &Range<i64>, theirs: &Range<i64>, offset_ns: i64) -> String {
    let (first, name) = (&parts[0].name, &parts[number].name);
    let (start, end) = (theirs.start.saturating_add(offset_ns), theirs.end.saturating_add(offset_ns));
    let time = |ns: i64| duration(ns as f64 / 1e9);
    let (when, earlier, later) = match start > ours.end {
        true => (format!("begins {} after {first} has ended", time(start.saturating_sub(ours.end))), first, name),
        false => (format!("ends {} before {first} begins", time(ours.start.saturating_sub(end))), name, first),
    };
    format!(
        "{when}, and they share no connection: nothing connects them, so they are not merged. Merge recordings made at the same time at \
         both ends of one run. To compare a run with an earlier one: `thalweg diff {earlier} {later}`"
    )
}

/// Formats the error that recordings have nothing to align by, with what each saw.
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
        return "has connections in common with the others, but no stream positions for them (nothing was sent on them while both recorded, or \
                their names were used twice), so its clock cannot be aligned with theirs"
            .to_owned();
    }
    format!(
        "shares no connection with the others, so its clock cannot be aligned with theirs: {}. Record both ends of one run at the same \
         time, with the addresses that both see",
        parts.iter().map(saw).collect::<Vec<_>>().join("; ")
    )
}

/// Returns notes for the user on how clocks were aligned.
pub(super) fn notes(parts: &[Part<'_>], placed: &[Placed]) -> Vec<String> {
    let mut notes = Vec::new();
    for (part, placed) in parts.iter().zip(placed) {
        let error_s = placed.error_ns() as f64 / 1e9;
        notes.extend(placed.apart.then(|| {
            format!(
                "{}: claims the same clock as another recording, but their times contradict each other (a time namespace, or a wall \
                 clock that was set): it was placed separately.",
                part.name
            )
        }));
        match placed.by {
            ClockFrom::SameBoot => notes.extend(of_one_machine(parts, part, placed)),
            ClockFrom::WallClock => notes.push(format!(
                "{}: placed by wall clocks, which may be {} off: {}.",
                part.name,
                duration(error_s),
                nothing_common(parts)
            )),
            ClockFrom::Connections { one_way: true, .. } => notes.push(format!(
                "{}: bytes were seen in one direction only, so its clock assumes a delay of at most {}.",
                part.name,
                duration(error_s * 2.0)
            )),
            ClockFrom::Connections { contradictions, .. } if contradictions > 0 => {
                notes.push(format!("{}: {contradictions} bounds on its clock contradicted all others and were left out.", part.name))
            }
            _ => {}
        }
        notes.extend(doubts(part, placed));
    }
    notes
}

/// Returns what contradicts the alignment by bytes.
fn doubts(part: &Part<'_>, placed: &Placed) -> Vec<String> {
    let time = |ns: u64| duration(ns as f64 / 1e9);
    let mut doubts = Vec::new();
    if placed.contradicted_by_ns as i64 > TOLERATED_NS {
        doubts.push(format!(
            "{}: some bytes were received up to {} before they were sent under any alignment; its times are uncertain by as much.",
            part.name,
            time(placed.contradicted_by_ns)
        ));
    }
    if let Some(off_ns) = placed.wall_clocks_off_ns.filter(|off| off.unsigned_abs() > WALL_CLOCK_ERROR_NS) {
        doubts.push(format!(
            "{}: the bytes place it {} from where the wall clocks do: a wall clock is wrong, or it is from another run on the same ports.",
            part.name,
            time(off_ns.unsigned_abs())
        ));
    }
    doubts
}

/// Returns notes for the user on a recording made on the same machine as another.
fn of_one_machine(parts: &[Part<'_>], part: &Part<'_>, placed: &Placed) -> Vec<String> {
    let mut notes = Vec::new();
    let ahead_ns =
        parts.iter().find_map(|other| same_boot(other.source, part.source).filter(|_| other.name != part.name)).map_or(0, |same| same.1);
    if ahead_ns != 0 && !placed.clocks.is_empty() {
        notes.push(format!(
            "{}: was recorded in a time namespace whose clock differs by {:+.3} s from the others'; its times were corrected.",
            part.name,
            ahead_ns as f64 / 1e9
        ));
    }
    let others = || parts.iter().filter(|other| other.name != part.name);
    if others().all(|other| !is_connected(other.source, part.source)) {
        notes.push(format!(
            "{}: was recorded on the same machine at the same time as the others, but has no connection and no process in common with them.",
            part.name
        ));
    }
    notes
}

/// Whether both recordings have a connection, an MPI job, or a process that is more than a bystander.
fn is_connected(one: &dyn Source, other: &dyn Source) -> bool {
    let names: HashSet<String> = connections(one).into_iter().collect();
    let actors = |source: &dyn Source| -> HashSet<u32> {
        source.tracks().iter().filter(|t| matches!(t.role, Role::Client | Role::Server)).filter_map(|t| t.pid).collect()
    };
    let mpi = |source: &dyn Source| source.meta().attributes.iter().any(|(name, _)| name == "mpi.library");
    let (ours, theirs) = (actors(one), actors(other));
    let everybody =
        |source: &dyn Source, actors: &HashSet<u32>| source.tracks().iter().any(|t| t.pid.is_some_and(|pid| actors.contains(&pid)));
    connections(other).iter().any(|name| names.contains(name))
        || everybody(other, &ours)
        || everybody(one, &theirs)
        || (mpi(one) && mpi(other))
}
