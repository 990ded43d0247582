//! Puts the times of every host on the reference host's axis, with the rows of `clocks`.
//!
//! Each host's map is kept monotone: where a piece would begin before its predecessor ended, time stands still until
//! the new piece catches up. The order of events within a host never changes, so readers can stream each host's spans
//! in their order on disk.

use crate::{Clock, CounterOf, HostId, Object, Track};
use std::collections::HashMap;

/// A map from each host's own clock to the reference axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pieces: HashMap<HostId, Vec<Piece>>,
    tracks: HashMap<u64, HostId>,
    objects: HashMap<u64, HostId>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from_ns: i64,
    offset_ns: i64,
    drift_ppb: i64,
    /// End of the previous piece, on the reference axis.
    floor_ns: i64,
}

impl Piece {
    fn to_reference(self, host_ns: i64) -> i64 {
        self.in_64_bits(host_ns).unwrap_or_else(|| self.in_128_bits(host_ns))
    }

    /// Fast path in 64 bits, ten times as fast and nearly always enough; `None` if it overflows.
    fn in_64_bits(self, host_ns: i64) -> Option<i64> {
        let drift = host_ns.checked_sub(self.from_ns)?.checked_mul(self.drift_ppb)?.div_euclid(1_000_000_000);
        Some(host_ns.checked_add(self.offset_ns)?.checked_add(drift)?.max(self.floor_ns))
    }

    fn in_128_bits(self, host_ns: i64) -> i64 {
        let since = i128::from(host_ns) - i128::from(self.from_ns);
        let drift = (i128::from(self.drift_ppb) * since).div_euclid(1_000_000_000);
        let reference = i128::from(host_ns) + i128::from(self.offset_ns) + drift;
        (reference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64).max(self.floor_ns)
    }
}

impl Axis {
    /// Returns the axis of a recording with these rows. A host without a clock row is on the reference clock.
    pub(crate) fn new(clocks: &[Clock], tracks: &[Track], objects: &[Object]) -> Axis {
        let mut pieces: HashMap<HostId, Vec<Piece>> = HashMap::new();
        let mut sorted: Vec<&Clock> = clocks.iter().collect();
        sorted.sort_by_key(|c| (c.host, c.from_ns));
        for clock in sorted {
            // A clock that stands still or runs backward would undo the order of events.
            let drift_ppb = clock.drift_ppb.clamp(-999_999_999, 999_999_999);
            let of_host = pieces.entry(clock.host).or_default();
            let floor_ns = of_host.last().map_or(i64::MIN, |before| before.to_reference(clock.from_ns));
            of_host.push(Piece { from_ns: clock.from_ns, offset_ns: clock.offset_ns, drift_ppb, floor_ns });
        }
        Axis {
            pieces,
            tracks: tracks.iter().map(|t| (t.track.number(), t.host)).collect(),
            objects: objects.iter().map(|o| (o.object.number(), o.host)).collect(),
        }
    }

    /// Returns a track's host; the reference host if the track has no row.
    pub(crate) fn host_of_track(&self, track: u64) -> HostId {
        self.tracks.get(&track).copied().unwrap_or(HostId(0))
    }

    /// Returns the host that a counter belongs to.
    pub(crate) fn host_of_counter(&self, of: CounterOf) -> HostId {
        match of {
            CounterOf::Track(track) => self.host_of_track(track.number()),
            CounterOf::Object(object) => self.objects.get(&object.number()).copied().unwrap_or(HostId(0)),
        }
    }

    /// Converts a host's time, in nanoseconds, to the reference axis.
    pub(crate) fn to_reference(&self, host: HostId, host_ns: i64) -> i64 {
        let Some(pieces) = self.pieces.get(&host) else { return host_ns };
        let after = pieces.partition_point(|p| p.from_ns <= host_ns);
        // Before the first piece, its line is extended backward.
        pieces[after.saturating_sub(1)].to_reference(host_ns)
    }

    /// Converts many times of one host to the reference axis.
    pub(crate) fn all_to_reference(&self, host: HostId, times_ns: &mut [i64]) {
        match self.pieces.get(&host).map(Vec::as_slice) {
            None => {}
            Some([only]) => times_ns.iter_mut().for_each(|ns| *ns = only.to_reference(*ns)),
            Some(_) => times_ns.iter_mut().for_each(|ns| *ns = self.to_reference(host, *ns)),
        }
    }

    /// Whether the host's times are the same on the reference axis.
    pub(crate) fn is_reference(&self, host: HostId) -> bool {
        self.pieces.get(&host).is_none_or(|pieces| pieces.iter().all(|p| p.offset_ns == 0 && p.drift_ppb == 0))
    }

    /// Whether distinct instants of the host stay distinct and in order: one piece without drift.
    pub(crate) fn is_shift(&self, host: HostId) -> bool {
        self.is_reference(host) || self.pieces.get(&host).is_none_or(|pieces| pieces.len() == 1 && pieces[0].drift_ppb == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(from_ns: i64, offset_ns: i64, drift_ppb: i64) -> Clock {
        Clock { host: HostId(1), from_ns, offset_ns, drift_ppb, error_ns: 0 }
    }

    #[test]
    fn offset_and_drift_are_applied_from_the_piece_that_holds() {
        let axis = Axis::new(&[clock(1_000_000_000, 500, 1_000), clock(3_000_000_000, 4_000, 0)], &[], &[]);
        assert_eq!(axis.to_reference(HostId(1), 1_000_000_000), 1_000_000_500);
        assert_eq!(axis.to_reference(HostId(1), 2_000_000_000), 2_000_001_500);
        assert_eq!(axis.to_reference(HostId(1), 3_000_000_000), 3_000_004_000);
        assert_eq!(axis.to_reference(HostId(0), 77), 77);
        assert_eq!(axis.to_reference(HostId(1), 0), -500, "before the first piece its line is continued");
    }

    #[test]
    fn order_within_a_host_is_kept_where_a_piece_steps_back() {
        let axis = Axis::new(&[clock(0, 1_000, 0), clock(10_000, -5_000, 0)], &[], &[]);
        let mapped: Vec<i64> = (0..40_000).step_by(100).map(|ns| axis.to_reference(HostId(1), ns)).collect();
        assert!(mapped.is_sorted());
        assert_eq!(axis.to_reference(HostId(1), 30_000), 25_000);
    }
}
