//! Compares two sweeps point by point: the speed of the second relative to the first, with intervals. They were not run interleaved, so
//! changes of the machine in between are in every ratio; the text says so.

use super::document::Document;
use super::point::PointResult;
use super::sample::{Point, State};
use crate::{Error, Result};
use serde::Serialize;
use thalweg_measure::{Estimate, SplitMix, median};

/// Number of bootstrap samples.
const DRAWN: usize = 2_000;

/// The comparison of two sweeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The names of the parameters.
    pub parameters: Vec<String>,
    /// The common points, in the order of the first.
    pub points: Vec<PointDiff>,
    /// Number of points that only one of them has.
    pub only_one: usize,
}

/// A common point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointDiff {
    /// The labels of its values.
    pub values: Point,
    /// Its state in each.
    pub states: (State, State),
    /// Speed of the second relative to the first: above 1 it is faster. Absent if one has no figure.
    pub ratio: Option<Estimate>,
    /// The cause in each, if recorded.
    pub causes: (Option<String>, Option<String>),
}

/// Compares two sweeps.
///
/// # Errors
/// They vary different parameters, or have no point in common.
pub fn diff(before: &Document, after: &Document) -> Result<Diff> {
    let names = |document: &Document| document.parameters.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    if names(before) != names(after) {
        let text = format!(
            "the first varies {}, the second {}: only sweeps over the same parameters can be compared",
            names(before).join(", "),
            names(after).join(", ")
        );
        return Err(Error::Choice(text));
    }
    let pairs = before.points.iter().filter_map(|a| Some((a, after.points.iter().find(|b| b.values == a.values)?)));
    let points: Vec<PointDiff> = pairs.map(|(a, b)| PointDiff::of(a, b)).collect();
    if points.is_empty() {
        return Err(Error::Choice("the two sweeps have no point in common".into()));
    }
    let only_one = before.points.len() + after.points.len() - 2 * points.len();
    Ok(Diff { parameters: names(before), points, only_one })
}

impl PointDiff {
    fn of(a: &PointResult, b: &PointResult) -> PointDiff {
        let has_rates = a.rate_bytes_per_s.is_some() && b.rate_bytes_per_s.is_some();
        let costs = |p: &PointResult| -> Vec<f64> {
            p.runs.iter().map(|run| run.rate().filter(|_| has_rates).map_or(run.wall_s, |rate| 1.0 / rate)).collect()
        };
        let cause = |p: &PointResult| p.explanation.as_ref().map(|e| e.cause.clone());
        let are_done = a.state == State::Done && b.state == State::Done;
        let ratio = are_done.then(|| ratio_of_medians(&costs(a), &costs(b))).flatten();
        PointDiff { values: a.values.clone(), states: (a.state, b.state), ratio, causes: (cause(a), cause(b)) }
    }
}

/// Returns the ratio of two medians, bootstrapped independently: there are no pairs.
fn ratio_of_medians(of: &[f64], to: &[f64]) -> Option<Estimate> {
    let middle = median(of)? / median(to)?;
    let mut random = SplitMix(5);
    let mut drawn =
        |values: &[f64]| median(&(0..values.len()).map(|_| values[random.below(values.len())]).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    let mut ratios: Vec<f64> = (0..DRAWN).map(|_| drawn(of) / drawn(to)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |part: f64| ratios[((part * DRAWN as f64) as usize).min(DRAWN - 1)];
    Some(Estimate { median: middle, low: at(0.025).min(middle), high: at(0.975).max(middle), values: of.len().min(to.len()) })
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{around, made_up};
    use super::*;

    #[test]
    fn points_are_compared_one_by_one_with_intervals() {
        let times = |factor: f64| move |values: &[String]| (around(if values[0] == "2" { factor } else { 1.0 }), "client.read");
        let (before, after) = (made_up(&["a=1,2,3"], times(4.0)), made_up(&["a=1,2"], times(2.0)));
        let found = diff(&before, &after).unwrap();
        let ratio = found.points[1].ratio.unwrap();
        assert!((ratio.median - 2.0).abs() < 0.01 && ratio.low > 1.9 && ratio.high < 2.1);
        assert!(found.points[0].ratio.unwrap().covers(1.0));
        assert_eq!(found.only_one, 1);
        let failed = made_up(&["a=1,2"], |_| (Vec::new(), ""));
        assert_eq!(diff(&before, &failed).unwrap().points[0].states, (State::Done, State::Failed));
        assert!(diff(&before, &made_up(&["b=1"], times(1.0))).unwrap_err().to_string().contains("only sweeps over the same parameters"));
        assert!(diff(&before, &made_up(&["a=7"], times(1.0))).unwrap_err().to_string().contains("no point in common"));
    }
}
