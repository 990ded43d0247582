//! Instants as 32-bit numbers: ticks from the recording's first.

use thalweg_explain::document::Explanation;

/// Returns an instant of an explanation on the reference axis.
pub(super) fn instant(explanation: &Explanation, second: f64) -> i64 {
    explanation.start_ns.saturating_add((second * 1e9).round() as i64)
}

/// The scale of a page's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    origin_ns: i64,
    /// Length of a tick.
    pub(super) tick_ns: u64,
}

impl Ticks {
    /// Returns the finest ticks, a power of ten, at which all of these instants fit into 32 bits.
    pub(super) fn of(instants: impl Iterator<Item = i64>) -> Ticks {
        let (first, last) = instants.fold((i64::MAX, i64::MIN), |(first, last), at| (first.min(at), last.max(at)));
        let mut ticks = Ticks { origin_ns: first, tick_ns: 1 };
        while ticks.since_ns(last) / ticks.tick_ns > u64::from(u32::MAX) {
            ticks.tick_ns *= 10;
        }
        ticks
    }

    /// Returns the nanoseconds from the first instant.
    pub(super) fn since_ns(self, at: i64) -> u64 {
        u64::try_from(i128::from(at) - i128::from(self.origin_ns)).unwrap_or(0)
    }

    /// Returns the ticks from the first instant.
    pub(super) fn at(self, at: i64) -> u32 {
        u32::try_from(self.since_ns(at) / self.tick_ns).unwrap_or(u32::MAX)
    }

    /// Returns an interval's ticks: intervals that touch still touch.
    pub(super) fn between(self, start: i64, end: i64) -> u32 {
        self.at(end).saturating_sub(self.at(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_as_fine_as_32_bits_permit() {
        assert_eq!(Ticks::of([0, 4_294_967_295].into_iter()).tick_ns, 1);
        assert_eq!(Ticks::of([5, 5 + 4_294_967_296].into_iter()).tick_ns, 10);
        assert_eq!(Ticks::of([0, 3_600_000_000_000].into_iter()).tick_ns, 1_000);
        let all = Ticks::of([i64::MIN, i64::MAX].into_iter());
        assert_eq!((all.tick_ns, all.at(i64::MIN)), (10_000_000_000, 0));
        assert!(all.at(i64::MAX) > 1_000_000_000);
    }

    #[test]
    fn what_touches_still_touches() {
        let ticks = Ticks::of([100, 50_000_000_000].into_iter());
        let (first, second) = ((1_019, 2_055), (2_055, 9_999));
        assert_eq!(ticks.at(first.0) + ticks.between(first.0, first.1), ticks.at(second.0));
    }
}
