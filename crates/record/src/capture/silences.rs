//! Silences that no connection survived: the capture may be several joined ones, or was left running between runs.
//!
//! Packets may be out of order in time, in concatenated files or after a clock step. So intervals with packets are
//! collected rather than the last packet's time. Other modules interpret a silence.

/// Minimum silence that is noted.
pub(super) const SILENCE_NS: i64 = 60_000_000_000;

/// Maximum intervals; beyond it the two nearest are merged.
const MOST_INTERVALS: usize = 256;

/// Intervals in order of time, each more than `near_ns` from the next.
#[derive(Debug)]
struct Intervals {
    near_ns: i64,
    all: Vec<(i64, i64)>,
}

impl Intervals {
    fn add(&mut self, from_ns: i64, to_ns: i64) {
        if let Some(last) = self.all.last_mut().filter(|last| last.0 <= from_ns && from_ns.saturating_sub(last.1) <= self.near_ns) {
            last.1 = last.1.max(to_ns);
            return;
        }
        let first = self.all.partition_point(|known| known.1.saturating_add(self.near_ns) < from_ns);
        let end = self.all.partition_point(|known| known.0 <= to_ns.saturating_add(self.near_ns));
        let joined = self.all.get(first..end).unwrap_or(&[]).iter().fold((from_ns, to_ns), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.all.splice(first..end.max(first), [joined]);
        if self.all.len() > MOST_INTERVALS {
            let nearest = (1..self.all.len()).min_by_key(|&at| self.all[at].0.saturating_sub(self.all[at - 1].1));
            if let Some(at) = nearest {
                let later = self.all.remove(at);
                self.all[at - 1].1 = later.1.max(self.all[at - 1].1);
            }
        }
    }
}

/// The silences of a capture.
#[derive(Debug)]
pub(super) struct Silences {
    active: Intervals,
    outlived: Intervals,
}

impl Default for Silences {
    fn default() -> Silences {
        Silences { active: Intervals { near_ns: SILENCE_NS, all: Vec::new() }, outlived: Intervals { near_ns: 0, all: Vec::new() } }
    }
}

impl Silences {
    /// Notes a packet.
    pub(super) fn packet(&mut self, at_ns: i64) {
        self.active.add(at_ns, at_ns);
    }

    /// Notes that one connection had packets at both of these instants.
    pub(super) fn outlived(&mut self, a_ns: i64, b_ns: i64) {
        self.outlived.add(a_ns.min(b_ns), a_ns.max(b_ns));
    }

    /// Returns the silences, from last packet to next packet, in order of time.
    pub(super) fn all(&self) -> Vec<(i64, i64)> {
        let between = self.active.all.windows(2).map(|pair| (pair[0].1, pair[1].0));
        between.filter(|gap| !self.outlived.all.iter().any(|one| one.0 <= gap.0 && gap.1 <= one.1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn silences_are_the_same_in_whatever_order_packets_come() {
        let instants: Vec<i64> = (0..50).map(|n| n * 1_000_000_000).chain((0..50).map(|n| 9 * HOUR + n * 1_000_000_000)).collect();
        let expected = vec![(49_000_000_000, 9 * HOUR)];
        for turn in 0..instants.len() {
            let mut silences = Silences::default();
            let mut order = instants.clone();
            order.rotate_left(turn);
            if turn % 2 == 1 {
                order.reverse();
            }
            order.iter().for_each(|&at| silences.packet(at));
            assert_eq!(silences.all(), expected, "{turn}");
        }
    }

    #[test]
    fn a_silence_that_a_connection_outlived_is_none() {
        let mut silences = Silences::default();
        [0, HOUR, 5 * HOUR].iter().for_each(|&at| silences.packet(at));
        silences.outlived(HOUR, 0);
        assert_eq!(silences.all(), [(HOUR, 5 * HOUR)]);
    }

    #[test]
    fn memory_is_bounded_however_many_silences_there_are() {
        let mut silences = Silences::default();
        (0..10_000).for_each(|n| silences.packet(n * HOUR + n));
        assert_eq!(silences.active.all.len(), MOST_INTERVALS);
    }
}
