//! Stretches without a wait in which no sample found the thread running: its activity is unknown.

use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_trace::{Meta, Sample};

/// Times at which samples found threads running.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// By actor, ascending.
    found: HashMap<u32, Vec<i64>>,
    /// Machines on which samples were taken.
    machines: Vec<u32>,
}

impl Holes {
    /// Reads the samples of a recording; nothing is known if some were lost. Without privilege none are taken in the kernel, and switches
    /// show when a thread ran.
    pub(crate) fn of(samples: &[Sample], meta: &Meta, tables: &mut Tables) -> Holes {
        let mut holes = Holes::default();
        if meta.dropped_events > 0 || tables.wakers_inferred && tables.switches {
            return holes;
        }
        for sample in samples {
            let actor = sample.track.map_or(NONE, |track| tables.tracks.get(track.number()));
            let Some(machine) = tables.actors.get(actor as usize).map(|a| a.machine) else { continue };
            if !holes.machines.contains(&machine) {
                holes.machines.push(machine);
            }
            holes.found.entry(actor).or_default().push(sample.at.ns());
        }
        holes
    }

    /// For a stretch from `from` to `at` in which a thread seems to run: the start of its last part that is no hole (`Ok`), or the start of
    /// the hole that lasts to its end (`Err`).
    pub(crate) fn last(&self, actor: u32, machine: u32, from: i64, at: i64) -> Result<i64, i64> {
        if at - from < limits::HOLE_NS || !self.machines.contains(&machine) {
            return Ok(from);
        }
        let found = self.found.get(&actor).map_or(&[][..], Vec::as_slice);
        let before = &found[..found.partition_point(|&t| t <= at)];
        let mut since = at;
        for &sample in before.iter().rev() {
            if since - sample >= limits::HOLE_NS || sample <= from {
                break;
            }
            since = sample;
        }
        let earlier = before[..before.partition_point(|&t| t < since)].last().copied().unwrap_or(i64::MIN).max(from);
        match (since - earlier >= limits::HOLE_NS, since == at) {
            (true, true) => Err(earlier),
            (true, false) => Ok(since),
            (false, _) => Ok(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_stretch_without_samples_is_a_hole_and_what_lies_beside_it_is_not() {
        let found = (100..200).chain(260..300).map(|t| t * MS).collect();
        let holes = Holes { found: HashMap::from([(1, found)]), machines: vec![0] };
        // Running up to 300 since 260; then nothing was found back to 199.
        assert_eq!(holes.last(1, 0, 100 * MS, 300 * MS), Ok(260 * MS));
        assert_eq!(holes.last(1, 0, 100 * MS, 260 * MS - 1), Err(199 * MS));
        assert_eq!(holes.last(1, 0, 100 * MS, 199 * MS), Ok(100 * MS));
        assert_eq!(holes.last(1, 0, 0, 100 * MS), Err(0), "nothing was found before the first");
        // Nothing is known of a machine without samples, or of a short stretch.
        assert_eq!(holes.last(1, 1, 0, 300 * MS), Ok(0));
        assert_eq!(holes.last(1, 0, 210 * MS, 229 * MS), Ok(210 * MS));
        assert_eq!(holes.last(2, 0, 0, 50 * MS), Err(0));
    }
}
