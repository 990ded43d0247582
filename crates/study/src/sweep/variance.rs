//! Analysis of variance: the share of the variance between points that each parameter explains by itself.
//!
//! It works on the logarithm of the figure, since parameters mostly act as factors. The common part of all runs of a repetition (a drift
//! of the machine) is removed first, so that a point that ended early is compared with the others at that time. A parameter's share is the
//! variance of the means at its values over that of all points: Sobol's first-order index, the main effect of an analysis of variance. Its
//! interval comes from bootstrapping each point's runs. Whether points differ at all is tested against points drawn from the noise alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::SplitMix;

/// Number of bootstrap samples.
const DRAWN: usize = 500;
/// Confidence that a difference is not noise.
const SURE: f64 = 0.95;
/// Passes that separate points from repetitions: with few runs missing, the second hardly changes anything.
const PASSES: usize = 4;

/// The runs of one point: the index of its value in each parameter, and the logarithm of each run's figure by repetition.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub places: Vec<usize>,
    pub logs: Vec<(usize, f64)>,
}

/// The share of variance that a parameter explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The parameter's name.
    pub parameter: String,
    /// Share of the variance between points that it explains by itself.
    pub share: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether it explains more than noise would.
    pub matters: bool,
}

/// The result of the analysis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variance {
    /// The parameters, by share, largest first.
    pub shares: Vec<Share>,
    /// Whether points differ by more than noise; `None` if each was run once, so that the noise is not known.
    pub differs: Option<bool>,
}

/// Analyses points; `None` if there are fewer than two.
pub(super) fn analyse(names: &[String], points: &[Observed]) -> Option<Variance> {
    if points.len() < 2 || points.iter().any(|point| point.logs.is_empty()) {
        return None;
    }
    let values = without_drift(points);
    let means: Vec<f64> = values.iter().map(|v| mean(v)).collect();
    let (all, single) = sums(names.len(), points, &means);
    let mut random = SplitMix(7);
    let mut residuals = Vec::new();
    for (values, mean) in values.iter().zip(&means) {
        // Values are nearer to their own mean than to the true mean.
        let n = values.len() as f64;
        residuals.extend(values.iter().filter(|_| n > 1.0).map(|value| (value - mean) * (n / (n - 1.0)).sqrt()));
    }
    let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let mut again: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    let (mut noise_all, mut noise_single) = (Vec::new(), vec![Vec::new(); names.len()]);
    for _ in 0..DRAWN {
        let drawn: Vec<f64> = values.iter().map(|v| mean_of_drawn(v, v.len(), &mut random)).collect();
        let (whole, parts) = sums(names.len(), points, &drawn);
        again.iter_mut().zip(parts).for_each(|(all, part)| all.push(of(part, whole)));
        if !residuals.is_empty() {
            let drawn: Vec<f64> = values.iter().map(|v| mean_of_drawn(&residuals, v.len(), &mut random)).collect();
            let (whole, parts) = sums(names.len(), points, &drawn);
            noise_all.push(whole);
            noise_single.iter_mut().zip(parts).for_each(|(all, part)| all.push(part));
        }
    }
    let differs = (!residuals.is_empty()).then(|| all > quantile(&mut noise_all, SURE));
    let mut shares: Vec<Share> = (0..names.len())
        .map(|n| {
            let share = of(single[n], all);
            let is_beyond = residuals.is_empty() || single[n] > quantile(&mut noise_single[n], SURE);
            Share {
                parameter: names[n].clone(),
                share,
                low: quantile(&mut again[n], 0.025).min(share),
                high: quantile(&mut again[n], 0.975).max(share),
                matters: differs != Some(false) && is_beyond && single[n] > 0.0,
            }
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(Variance { shares, differs })
}

/// Returns each point's values without the common part of their repetition.
fn without_drift(points: &[Observed]) -> Vec<Vec<f64>> {
    let mut drift: BTreeMap<usize, f64> = BTreeMap::new();
    for _ in 0..PASSES {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for point in points {
            let level = mean(&point.logs.iter().map(|(repeat, log)| log - drift.get(repeat).unwrap_or(&0.0)).collect::<Vec<_>>());
            for (repeat, log) in &point.logs {
                let sum = sums.entry(*repeat).or_default();
                *sum = (sum.0 + log - level, sum.1 + 1.0);
            }
        }
        drift = sums.into_iter().map(|(repeat, (sum, count))| (repeat, sum / count)).collect();
    }
    points.iter().map(|point| point.logs.iter().map(|(repeat, log)| log - drift[repeat]).collect()).collect()
}

/// Returns the sum of squares between all points, and the part that each parameter explains. If points are missing, a parameter's means
/// contain effects of others; so effects are fitted jointly, each on the residual of the others, and a parameter's part is Pratt's measure:
/// its product with the measured values. For a full grid that is its sum of squares, and the parts never exceed the total.
fn sums(parameters: usize, points: &[Observed], means: &[f64]) -> (f64, Vec<f64>) {
    let middle = mean(means);
    let all = means.iter().map(|m| (m - middle).powi(2)).sum();
    let levels: Vec<usize> = (0..parameters).map(|n| points.iter().map(|point| point.places[n] + 1).max().unwrap_or(0)).collect();
    let mut effects: Vec<Vec<f64>> = levels.iter().map(|levels| vec![0.0; *levels]).collect();
    let is_whole = points.len() == levels.iter().product::<usize>();
    for _ in 0..if is_whole { 1 } else { PASSES * 2 } {
        for n in 0..parameters {
            let mut left = vec![(0.0, 0.0); levels[n]];
            for (point, m) in points.iter().zip(means) {
                let others: f64 = (0..parameters).filter(|k| *k != n).map(|k| effects[k][point.places[k]]).sum();
                let level = &mut left[point.places[n]];
                *level = (level.0 + m - middle - others, level.1 + 1.0);
            }
            effects[n] = left.into_iter().map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 }).collect();
        }
    }
    let explains = |(n, effect): (usize, &Vec<f64>)| -> f64 {
        let parts = points.iter().zip(means).map(|(point, m)| effect[point.places[n]] * (m - middle));
        parts.sum::<f64>().clamp(0.0, all)
    };
    (all, effects.iter().enumerate().map(explains).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn mean_of_drawn(values: &[f64], count: usize, random: &mut SplitMix) -> f64 {
    (0..count).map(|_| values[random.below(values.len())]).sum::<f64>() / count as f64
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a grid of 4 × 3 points whose time is `time(a, b)`, with this noise, and a drift of 20 % over ten repetitions.
    fn grid(noise: f64, time: impl Fn(usize, usize) -> f64) -> Variance {
        let mut random = SplitMix(3);
        let mut uniform = move || (random.next() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
        let mut points = Vec::new();
        for (a, b) in (0..4).flat_map(|a| (0..3).map(move |b| (a, b))) {
            // Points at the first value ended early.
            let runs = if a == 0 { 5 } else { 10 };
            let logs = (1..=runs).map(|r| (r, (time(a, b) * (1.0 + 0.02 * r as f64) * (1.0 + noise * uniform())).ln())).collect();
            points.push(Observed { places: vec![a, b], logs });
        }
        analyse(&["a".to_owned(), "b".to_owned()], &points).unwrap()
    }

    #[test]
    fn the_parameter_that_makes_the_difference_explains_it() {
        let found = grid(0.02, |a, _| (1 << a) as f64);
        assert_eq!(found.differs, Some(true));
        let [first, second] = found.shares.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.parameter.as_str(), first.matters, second.matters), ("a", true, false));
        assert!(first.share > 0.99 && first.low > 0.98 && second.high < 0.01, "{found:?}");
    }

    #[test]
    fn two_that_act_as_factors_share_the_variance() {
        let found = grid(0.01, |a, b| 2_f64.powi(a as i32) * 4_f64.powi(b as i32));
        // Variances of 0..3 by 1 and of 0..2 by 2: 5/4 and 8/3.
        let expected = (8.0 / 3.0) / (8.0 / 3.0 + 5.0 / 4.0);
        assert_eq!(found.shares[0].parameter, "b");
        assert!((found.shares[0].share - expected).abs() < 0.01 && found.shares[1].matters, "{found:?}");
    }

    #[test]
    fn what_parameters_explain_is_never_more_than_there_is() {
        // Three by two points, of which one failed: the effects overlap.
        let names = ["of", "way"].map(str::to_owned);
        let rates: [(usize, usize, f64); 5] = [(0, 0, 3.54), (0, 1, 3.37), (1, 0, 2.10), (1, 1, 1.63), (2, 0, 0.30)];
        let point = |&(of, way, rate): &(usize, usize, f64)| Observed {
            places: vec![of, way],
            logs: (0..10).map(|repeat| (repeat, rate.ln() + 0.01 * (repeat % 3) as f64)).collect(),
        };
        let variance = analyse(&names, &rates.iter().map(point).collect::<Vec<_>>()).expect("points");
        let shares: Vec<(&str, f64, f64)> = variance.shares.iter().map(|s| (s.parameter.as_str(), s.share, s.high)).collect();
        assert!(shares[0].0 == "of" && shares[0].1 > 0.9 && shares.iter().all(|s| s.2 <= 1.0), "{shares:?}");
        assert!(shares.iter().map(|s| s.1).sum::<f64>() <= 1.0 + 1e-9, "{shares:?}");
    }

    #[test]
    fn noise_larger_than_every_difference_is_no_difference() {
        let mut found = 0;
        for tenths in 1..=20 {
            found += usize::from(grid(0.1 + f64::from(tenths) * 0.001, |_, _| 1.0).differs == Some(true));
        }
        assert!(found <= 4, "found a difference in {found} of 20 where there is none");
        assert!(grid(0.2, |_, _| 1.0).shares.iter().filter(|share| share.matters).count() <= 1);
    }

    #[test]
    fn one_run_of_each_point_says_nothing_of_noise() {
        let one = |n: usize| Observed { places: vec![n], logs: vec![(1, n as f64)] };
        assert_eq!(analyse(&["a".to_owned()], &[one(0), one(1)]).unwrap().differs, None);
        assert_eq!(analyse(&["a".to_owned()], &[one(0)]), None);
    }
}
