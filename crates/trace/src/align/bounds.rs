//! Bounds on the offset between two clocks, thinned so that hours of bounds fit into a few megabytes.

use std::collections::BTreeMap;

/// Initial width of the intervals of which only the tightest bound is kept. Doubled when there are too many.
const FIRST_WIDTH_NS: i64 = 10_000_000;
/// Maximum intervals kept per direction. At 100 ppm, an hour's interval then bends by 5 µs.
const MOST_INTERVALS: usize = 1 << 16;

/// One in this many bounds may come from a late timestamp.
const FEW: usize = 20;

/// Bounds on the offset from a host's clock to the reference's, each at an instant of the host's clock.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    lower: Tightest,
    upper: Tightest,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { lower: Tightest::new(1), upper: Tightest::new(-1) }
    }
}

/// One bound: at `at_ns` on the host's clock, the offset is at least, or at most, `offset_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub at_ns: i64,
    pub offset_ns: i64,
    pub upper: bool,
}

impl Bounds {
    /// Adds a byte that the reference sent after `sent_after_ns` (its clock) and the host had received by
    /// `received_by_ns` (its clock).
    pub(crate) fn sent_by_reference(&mut self, sent_after_ns: i64, received_by_ns: i64) {
        self.lower.add(received_by_ns, sent_after_ns.saturating_sub(received_by_ns));
    }

    /// Adds a byte that the host sent after `sent_after_ns` (its clock) and the reference had received by
    /// `received_by_ns` (its clock).
    pub(crate) fn sent_by_host(&mut self, sent_after_ns: i64, received_by_ns: i64) {
        self.upper.add(sent_after_ns, received_by_ns.saturating_sub(sent_after_ns));
    }

    /// Whether only one side has bounds.
    pub(crate) fn is_one_way(&self) -> bool {
        self.lower.best.is_empty() != self.upper.best.is_empty()
    }

    /// Returns by how much `offset_ns` breaks the bounds of one side, if it breaks more than [`FEW`] of them by more
    /// than `tolerated_ns`. Fewer are late timestamps; more, though not most, mean a clock that was stepped, or two
    /// clocks in one recording.
    pub(crate) fn broken_by(&self, offset_ns: i64, tolerated_ns: i64) -> Option<i64> {
        let broken = |side: &Tightest| {
            let mut by: Vec<i64> = side.best.values().map(|held| held.1.saturating_sub(offset_ns).saturating_mul(side.sign)).collect();
            by.sort_unstable();
            let few = (by.len() / FEW).max(2);
            by.len().checked_sub(1 + few).and_then(|nth| by.get(nth)).or(by.first()).copied().filter(|by| *by > tolerated_ns)
        };
        broken(&self.lower).max(broken(&self.upper))
    }

    /// Whether there are no bounds.
    pub(crate) fn is_empty(&self) -> bool {
        self.lower.best.is_empty() && self.upper.best.is_empty()
    }

    /// Returns all bounds in order of time. A side without bounds is derived from the other side and an assumed
    /// delay.
    pub(super) fn limits(&self, assumed_delay_ns: i64) -> Vec<Limit> {
        let of = |side: &Tightest, upper, more| {
            let limit = move |&(at_ns, offset_ns): &(i64, i64)| Limit { at_ns, offset_ns: offset_ns + more, upper };
            side.best.values().map(limit).collect::<Vec<_>>()
        };
        let mut limits = of(&self.lower, false, 0);
        limits.append(&mut of(&self.upper, true, 0));
        if self.upper.best.is_empty() {
            limits.append(&mut of(&self.lower, true, assumed_delay_ns));
        }
        if self.lower.best.is_empty() {
            limits.append(&mut of(&self.upper, false, -assumed_delay_ns));
        }
        limits.sort_by_key(|limit| (limit.at_ns, limit.upper));
        limits
    }
}

/// The tightest bound of each interval.
#[derive(Clone, Debug)]
struct Tightest {
    /// 1: the largest bound is the tightest; −1: the smallest.
    sign: i64,
    width_ns: i64,
    best: BTreeMap<i64, (i64, i64)>,
}

impl Tightest {
    fn new(sign: i64) -> Tightest {
        Tightest { sign, width_ns: FIRST_WIDTH_NS, best: BTreeMap::new() }
    }

    fn add(&mut self, at_ns: i64, offset_ns: i64) {
        let sign = self.sign;
        let held = self.best.entry(at_ns.div_euclid(self.width_ns)).or_insert((at_ns, offset_ns));
        if offset_ns.saturating_mul(sign) > held.1.saturating_mul(sign) {
            *held = (at_ns, offset_ns);
        }
        if self.best.len() > MOST_INTERVALS {
            self.width_ns *= 2;
            for (at_ns, offset_ns) in std::mem::take(&mut self.best).into_values() {
                self.add(at_ns, offset_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_would_have_bytes_received_before_they_were_sent_is_refused_with_by_how_much() {
        let mut bounds = Bounds::default();
        for i in 0..100_i64 {
            // The other clock is 5 s ahead; bytes take 1 ms, and one stamp is a second late.
            let at_ns = i * 20_000_000;
            bounds.sent_by_reference(at_ns + if i == 50 { 1_000_000_000 } else { 0 }, at_ns + 5_001_000_000);
            bounds.sent_by_host(at_ns + 5_002_000_000, at_ns + 3_000_000);
        }
        assert_eq!(bounds.broken_by(-5_000_000_000, 0), None);
        assert_eq!(bounds.broken_by(0, 1_000_000), Some(4_999_000_000));
        assert_eq!(bounds.broken_by(-10_000_000_000, 1_000_000), Some(4_999_000_000));
        assert!(Bounds::default().broken_by(0, 0).is_none() && Bounds::default().is_empty());
        // A clock that was stepped for the last tenth.
        let mut set = Bounds::default();
        for i in 0..100_i64 {
            let at_ns = i * 20_000_000;
            set.sent_by_reference(at_ns, at_ns + if i < 90 { 1_000_000 } else { -2_000_000_000 });
        }
        assert_eq!(set.broken_by(0, 1_000_000), Some(2_000_000_000));
    }

    #[test]
    fn memory_is_bounded_and_the_tightest_stay() {
        let mut bounds = Bounds::default();
        for i in 0..400_000_i64 {
            bounds.sent_by_reference(i * 10_000_000, i * 10_000_000 + 500 - i64::from(i % 1000 == 7) * 400);
        }
        let limits = bounds.limits(0);
        assert!(limits.len() <= 2 * MOST_INTERVALS, "{}", limits.len());
        assert_eq!(limits.iter().filter(|l| !l.upper).map(|l| l.offset_ns).max(), Some(-100));
        assert!(bounds.is_one_way());
    }
}
