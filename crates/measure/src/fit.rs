//! Fits a straight line through measurements: a fixed cost, and a cost per unit.
//!
//! The line minimises squared **relative** errors: a point is weighted by 1 / median², since a time ten times as long is also ten times as
//! uncertain, and the noise of the longest would otherwise determine the intercept. The value at each x is the median of its repetitions.
//! The intervals are bootstrap intervals: the repetitions of each x are resampled with replacement, the line is fitted to their medians,
//! and the 2.5th and 97.5th percentiles are the ends. With one repetition at each x, the interval is the figure itself.

use crate::statistics::{CONFIDENCE, Estimate, SplitMix, median};
use serde::{Deserialize, Serialize};

/// Number of bootstrap samples.
const RESAMPLES: usize = 2_000;

/// y = intercept + slope × x, each with its bootstrap 95 % interval. Units are those of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// y where x is 0.
    pub intercept: Estimate,
    /// The increase of y per unit of x.
    pub slope: Estimate,
    /// The largest distance of a median from the line, relative to the line there.
    pub worst_miss: f64,
}

impl Fit {
    /// Returns the line's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept.median + self.slope.median * x
    }
}

/// Fits a line through repetitions at several x. `None` with fewer than two different x, or a median that is not above 0. Equal seeds give
/// equal intervals.
pub fn fit_line(points: &[(f64, Vec<f64>)], seed: u64) -> Option<Fit> {
    let medians: Vec<(f64, f64)> = points.iter().map(|(x, ys)| Some((*x, median(ys)?))).collect::<Option<_>>()?;
    let (intercept, slope) = least_squares(&medians)?;
    let mut random = SplitMix(seed);
    let mut drawn: Vec<(f64, f64)> = (0..RESAMPLES)
        .filter_map(|_| {
            let again = points.iter().map(|(x, ys)| {
                let ys: Vec<f64> = ys.iter().map(|_| ys[random.below(ys.len())]).collect();
                Some((*x, median(&ys)?))
            });
            least_squares(&again.collect::<Option<Vec<_>>>()?)
        })
        .collect();
    let values = points.iter().map(|(_, ys)| ys.len()).sum();
    let mut estimate = |median: f64, of: fn(&(f64, f64)) -> f64| {
        drawn.sort_unstable_by(|a, b| of(a).total_cmp(&of(b)));
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let at = |part: f64| of(&drawn[((part * drawn.len() as f64) as usize).min(drawn.len() - 1)]);
        Estimate { median, low: at(tail).min(median), high: at(1.0 - tail).max(median), values }
    };
    let (intercept, slope) = (estimate(intercept, |line| line.0), estimate(slope, |line| line.1));
    let mut fit = Fit { intercept, slope, worst_miss: 0.0 };
    fit.worst_miss = medians.iter().map(|(x, y)| (y / fit.at(*x) - 1.0).abs()).fold(0.0, f64::max);
    Some(fit)
}

/// Returns intercept and slope of the line with the least sum of squared relative errors.
fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let first = points.first()?.0;
    if points.iter().all(|(x, _)| *x == first) || points.iter().any(|(_, y)| *y <= 0.0) {
        return None;
    }
    let weighed = || points.iter().map(|(x, y)| (1.0 / (y * y), *x, *y));
    let weight: f64 = weighed().map(|(w, _, _)| w).sum();
    let (x_mean, y_mean) = (weighed().map(|(w, x, _)| w * x).sum::<f64>() / weight, weighed().map(|(w, _, y)| w * y).sum::<f64>() / weight);
    let across: f64 = weighed().map(|(w, x, y)| w * (x - x_mean) * (y - y_mean)).sum();
    let spread: f64 = weighed().map(|(w, x, _)| w * (x - x_mean).powi(2)).sum();
    let slope = across / spread;
    Some((y_mean - slope * x_mean, slope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATAFILES: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

    #[test]
    fn noise_of_known_size_leaves_the_truth_inside_the_interval_about_as_often_as_it_says() {
        let (intercept, slope) = (4.0, 0.8);
        let mut random = SplitMix(3);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let (trials, mut inside) = (100, 0);
        for trial in 0..trials {
            let points: Vec<(f64, Vec<f64>)> =
                DATAFILES.iter().map(|x| (*x, (0..9).map(|_| (intercept + slope * x) * (0.95 + 0.1 * uniform())).collect())).collect();
            let fit = fit_line(&points, trial).unwrap();
            inside += usize::from(fit.slope.covers(slope));
            assert!((fit.slope.median / slope - 1.0).abs() < 0.1 && (fit.intercept.median / intercept - 1.0).abs() < 0.1, "{fit:?}");
        }
        assert!((85..=100).contains(&inside), "{inside} of {trials}");
    }

    #[test]
    fn one_slow_repetition_does_not_bend_the_line() {
        let mut points: Vec<(f64, Vec<f64>)> = DATAFILES.iter().map(|x| (*x, vec![10.0 + x; 5])).collect();
        points[5].1[2] = 4000.0;
        let fit = fit_line(&points, 1).unwrap();
        assert!((fit.slope.median - 1.0).abs() < 1e-9 && fit.worst_miss < 1e-9, "{fit:?}");
    }

    #[test]
    fn what_is_no_line_is_none_and_what_bends_says_so() {
        assert!(fit_line(&[], 1).is_none());
        assert!(fit_line(&[(1.0, vec![1.0, 2.0])], 1).is_none());
        assert!(fit_line(&[(1.0, vec![1.0]), (2.0, vec![])], 1).is_none());
        assert!(fit_line(&[(1.0, vec![1.0]), (2.0, vec![0.0])], 1).is_none());
        let bent: Vec<(f64, Vec<f64>)> = DATAFILES.iter().map(|x| (*x, vec![x * x])).collect();
        assert!(fit_line(&bent, 1).unwrap().worst_miss > 0.3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_line_is_found_again(intercept in 0.1_f64..100.0, slope in 0.0_f64..10.0, repeat in 1_usize..5) {
            let points: Vec<(f64, Vec<f64>)> = DATAFILES.iter().map(|x| (*x, vec![intercept + slope * x; repeat])).collect();
            let fit = fit_line(&points, 1).unwrap();
            prop_assert!((fit.intercept.median - intercept).abs() < 1e-6 * intercept.max(slope * 32.0));
            prop_assert!((fit.slope.median - slope).abs() < 1e-6 * intercept.max(slope));
            prop_assert!(fit.slope.relative_width() < 1e-6 || slope < 1e-6);
        }
    }
}
