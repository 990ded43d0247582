//! Quantities over time, in bins of equal width: bytes for the throughput curve and the phases, and threads' busy time for the slack.

use crate::document::{Phase, PhaseName};
use crate::limits::observe as limits;

/// A quantity spread over bins of the explained interval.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    start: i64,
    width_ns: f64,
    /// The quantity in each bin.
    pub bins: Vec<f64>,
}

impl Curve {
    /// An empty curve with this many bins over the interval.
    pub(crate) fn new(start: i64, end: i64, bins: usize) -> Curve {
        Curve { start, width_ns: ((end - start).max(1) as f64 / bins as f64).max(1.0), bins: vec![0.0; bins] }
    }

    /// Width of a bin.
    pub(crate) fn bin_s(&self) -> f64 {
        self.width_ns / 1e9
    }

    /// Spreads a quantity evenly over an interval; the part outside the explained interval is dropped.
    #[inline]
    pub(crate) fn spread(&mut self, start: i64, end: i64, quantity: f64) {
        let from = (start - self.start) as f64 / self.width_ns;
        let to = (end - self.start) as f64 / self.width_ns;
        let count = self.bins.len() as f64;
        if to < 0.0 || to == 0.0 && from < to || from >= count {
            return;
        }
        let (first, last) = (from.max(0.0) as usize, (to as usize).min(self.bins.len() - 1));
        if first >= last || to - from <= 0.0 {
            let only = first.min(self.bins.len() - 1);
            self.bins[only] += quantity;
            return;
        }
        let per_bin = quantity / (to - from);
        self.bins[first] += per_bin * (first as f64 + 1.0 - from.max(0.0));
        for bin in &mut self.bins[first + 1..last] {
            *bin += per_bin;
        }
        self.bins[last] += per_bin * (to.min(count) - last as f64);
    }
}

/// Seconds between two instants.
fn seconds(from: i64, at: i64) -> f64 {
    (at - from).max(0) as f64 / 1e9
}

/// The phases of a transfer whose bytes are in `curve` and moved from `first` to `last`.
///
/// The rate is taken over windows of a sixteenth of the transfer, so that the gaps of a steady copy do not count as its end; *ramp* lasts
/// until the first window that reaches four fifths of the overall mean rate, *drain* begins after the last one.
pub(crate) fn phases(curve: &Curve, start: i64, end: i64, first: i64, last: i64) -> Vec<Phase> {
    let (first, last) = (first.clamp(start, end), last.clamp(start, end));
    let bin = |at: i64| (((at - start) as f64 / curve.width_ns) as usize).min(curve.bins.len() - 1);
    let (low, high) = (bin(first), bin(last) + 1);
    let window = ((high - low) / limits::STEADY_WINDOW).max(1);
    let mean = curve.bins[low..high].iter().sum::<f64>() / (high - low) as f64;
    let mut sum: f64 = curve.bins[low..(low + window).min(high)].iter().sum();
    let (mut ramp_end, mut steady_end) = (low, high);
    let mut found = false;
    for from in low..=high.saturating_sub(window) {
        if sum / window as f64 >= limits::STEADY_PART * mean {
            ramp_end = if found { ramp_end } else { from };
            found = true;
            steady_end = from + window;
        }
        sum += curve.bins.get(from + window).copied().unwrap_or(0.0) - curve.bins[from];
    }
    let at = |b: usize| start + (b as f64 * curve.width_ns) as i64;
    let ramp_end = if ramp_end == low { first } else { at(ramp_end).clamp(first, last) };
    let steady_end = if steady_end >= high { last } else { at(steady_end).clamp(ramp_end, last) };
    let bounds = [
        (PhaseName::SetUp, start, first),
        (PhaseName::Ramp, first, ramp_end),
        (PhaseName::Steady, ramp_end, steady_end),
        (PhaseName::Drain, steady_end, last),
        (PhaseName::TearDown, last, end),
    ];
    let phases = bounds.into_iter().filter(|(_, from, to)| to > from);
    phases.map(|(name, from, to)| Phase { name, start_s: seconds(start, from), end_s: seconds(start, to) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_or_made_by_spreading(intervals in prop::collection::vec((0_i64..1000, 0_i64..500, 1_u32..100), 0..50)) {
            let mut curve = Curve::new(0, 1500, 64);
            let mut all = 0.0;
            for (start, length, quantity) in intervals {
                curve.spread(start, start + length, f64::from(quantity));
                all += f64::from(quantity);
            }
            let sum: f64 = curve.bins.iter().sum();
            prop_assert!((sum - all).abs() <= 1e-6 * all.max(1.0), "{sum} of {all}");
        }
    }

    #[test]
    fn phases_touch_and_cover() {
        let mut curve = Curve::new(0, 1_000_000_000, 512);
        curve.spread(100_000_000, 300_000_000, 10.0);
        curve.spread(300_000_000, 800_000_000, 100.0);
        curve.spread(800_000_000, 900_000_000, 2.0);
        let phases = phases(&curve, 0, 1_000_000_000, 100_000_000, 900_000_000);
        let names: Vec<PhaseName> = phases.iter().map(|p| p.name).collect();
        assert_eq!(names, [PhaseName::SetUp, PhaseName::Ramp, PhaseName::Steady, PhaseName::Drain, PhaseName::TearDown]);
        assert!(phases.windows(2).all(|w| (w[0].end_s - w[1].start_s).abs() < 1e-9));
        assert!((phases[1].end_s - 0.3).abs() < 0.05 && (phases[2].end_s - 0.8).abs() < 0.06, "{phases:?}");
    }
}
