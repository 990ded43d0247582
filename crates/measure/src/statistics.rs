//! Medians, and their confidence intervals.
//!
//! Times of transfers have a hard floor and a long tail, so the figure is the median, with a bootstrap interval: the sample is redrawn with
//! replacement many times, and the 2.5th and 97.5th percentiles of the medians are the ends. Rejected: the bias-corrected variant (BCa),
//! since its acceleration comes from a jackknife, which for a median takes only two or three values.
//!
//! Two subjects are compared by the median of the ratios **within each pair** of runs adjacent in time. Slow drift of the machine cancels
//! within a pair; it would not in the ratio of two medians, or in a mean of ratios.

use serde::{Deserialize, Serialize};

/// Number of bootstrap samples.
pub(crate) const RESAMPLES: usize = 4_000;

/// Confidence level of intervals.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A median with its bootstrap 95 % interval. The unit is that of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of values it was computed from.
    pub values: usize,
}

impl Estimate {
    /// Returns the interval's width relative to the median; infinite if the median is 0.
    pub fn relative_width(&self) -> f64 {
        if self.median == 0.0 { f64::INFINITY } else { ((self.high - self.low) / self.median).abs() }
    }

    /// Whether `value` is in the interval, ends included.
    pub fn covers(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Converts an estimate of a time to one of the rate `bytes / time`. The ends change places.
    #[must_use]
    pub fn as_rate(&self, bytes: u64) -> Estimate {
        let bytes = bytes as f64;
        Estimate { median: bytes / self.median, low: bytes / self.high, high: bytes / self.low, values: self.values }
    }
}

/// Returns the median of the values (the mean of the middle two for an even number); `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median_in_place(&mut values.to_vec()))
}

fn median_in_place(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return upper;
    }
    let lower = below.iter().copied().max_by(f64::total_cmp).unwrap_or(upper);
    f64::midpoint(lower, upper)
}

/// Returns the median of `values` with its interval; `None` without values. Equal seeds give equal intervals.
pub(crate) fn median_interval(values: &[f64], seed: u64) -> Option<Estimate> {
    let middle = median(values)?;
    let mut random = SplitMix(seed);
    let mut drawn = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| values[random.below(values.len())]);
            median_in_place(&mut drawn)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let at = |part: f64| medians[((part * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Some(Estimate { median: middle, low: at(tail).min(middle), high: at(1.0 - tail).max(middle), values: values.len() })
}

/// Returns the speed of `of` relative to `to`: the median over pairs of runs of `to`'s time divided by `of`'s. Both slices hold seconds,
/// pair by pair. `None` if they differ in length or are empty.
///
/// The second value is the ratio of each pair.
pub(crate) fn paired_ratio(of_s: &[f64], to_s: &[f64], seed: u64) -> Option<(Estimate, Vec<f64>)> {
    if of_s.len() != to_s.len() {
        return None;
    }
    let ratios: Vec<f64> = of_s.iter().zip(to_s).map(|(of, to)| to / of).collect();
    Some((median_interval(&ratios, seed)?, ratios))
}

/// Steele, Lea and Flood's SplitMix64: good enough for a bootstrap, and the same on all platforms.
pub struct SplitMix(pub u64);

impl SplitMix {
    /// Returns the next 64 bits.
    #[allow(clippy::should_implement_trait)] // A generator is not an iterator: it never ends.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound` (> 0); the bias of 2⁻⁶⁴ × bound is negligible here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Shuffles items uniformly (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a value skewed like run times: a floor of 1 and a tail. The median is 1 + ln 2.
    fn skewed(random: &mut SplitMix) -> f64 {
        let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 - (1.0 - uniform).ln()
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        let truth = 1.0 + std::f64::consts::LN_2;
        for (values, lowest) in [(10, 0.88), (25, 0.90)] {
            let mut random = SplitMix(7);
            let trials = 300;
            let covered = (0..trials)
                .filter(|&trial| {
                    let sample: Vec<f64> = (0..values).map(|_| skewed(&mut random)).collect();
                    median_interval(&sample, trial).unwrap().covers(truth)
                })
                .count();
            let share = covered as f64 / trials as f64;
            assert!(share >= lowest && share < 0.999, "{values} values: covered {share}");
        }
    }

    #[test]
    fn drift_of_the_machine_cancels_within_pairs() {
        // Arm B is 1.25 times as slow in every pair, while the machine slows down fivefold.
        let drift: Vec<f64> = (0..12).map(|i| 1.0 + f64::from(i) * 0.4).collect();
        let slower: Vec<f64> = drift.iter().map(|t| t * 1.25).collect();
        let (ratio, pairs) = paired_ratio(&drift, &slower, 1).unwrap();
        assert!((ratio.median - 1.25).abs() < 1e-12);
        assert!(ratio.relative_width() < 1e-9);
        assert_eq!(pairs.len(), 12);
    }

    #[test]
    fn medians_of_odd_and_even_samples() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 2.0]), Some(3.5));
    }

    #[test]
    fn unequal_arms_have_no_ratio() {
        assert!(paired_ratio(&[1.0], &[1.0, 2.0], 0).is_none());
        assert!(paired_ratio(&[], &[], 0).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_median_is_the_sorted_middle(values in prop::collection::vec(0.001_f64..1e6, 1..60)) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let n = sorted.len();
            let expected = if n % 2 == 1 { sorted[n / 2] } else { f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]) };
            prop_assert_eq!(median(&values), Some(expected));
        }

        #[test]
        fn the_interval_holds_the_median_and_stays_in_the_sample(
            values in prop::collection::vec(0.001_f64..1e6, 1..30),
            seed: u64,
        ) {
            let e = median_interval(&values, seed).unwrap();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(e.low <= e.median && e.median <= e.high);
            prop_assert!(e.low >= least && e.high <= most);
            prop_assert_eq!(Some(e), median_interval(&values, seed));
        }

        #[test]
        fn ratios_turn_over_when_the_arms_do(
            pairs in prop::collection::vec((0.01_f64..100.0, 0.01_f64..100.0), 1..40),
        ) {
            // With an odd number of pairs the median is one of them, and turns over exactly.
            let pairs = if pairs.len() % 2 == 0 { &pairs[1..] } else { &pairs[..] };
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let (forward, _) = paired_ratio(&a, &b, 3).unwrap();
            let (backward, _) = paired_ratio(&b, &a, 3).unwrap();
            prop_assert!((forward.median * backward.median - 1.0).abs() < 1e-9);
        }

        #[test]
        fn scaling_one_arm_scales_the_ratio(
            pairs in prop::collection::vec((0.01_f64..100.0, 0.01_f64..100.0), 1..40),
            factor in 0.1_f64..10.0,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let scaled: Vec<f64> = b.iter().map(|t| t * factor).collect();
            let (plain, _) = paired_ratio(&a, &b, 5).unwrap();
            let (more, _) = paired_ratio(&a, &scaled, 5).unwrap();
            prop_assert!((more.median / plain.median - factor).abs() < 1e-9 * factor);
            prop_assert!((more.low / plain.low - factor).abs() < 1e-9 * factor);
        }
    }
}
