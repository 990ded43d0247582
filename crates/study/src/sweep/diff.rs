//! Two sweeps, point by point: how many times as fast the second is at each, with its interval. They were not run in turn, so what the
//! machine did in between is in every ratio; that is said.

use super::document::Document;
use super::point::PointResult;
use super::sample::{Point, State};
use super::text::table;
use crate::{Error, Result};
use serde::Serialize;
use thalweg_measure::{Estimate, SplitMix, median};

/// How often runs are drawn again.
const DRAWN: usize = 2_000;

/// What two sweeps have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The names of the parameters.
    pub parameters: Vec<String>,
    /// The points of both, in the order of the first.
    pub points: Vec<PointDiff>,
    /// Points that only one of them has.
    pub only_one: usize,
}

/// A point of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointDiff {
    /// The labels of its values.
    pub values: Point,
    /// What became of it in each.
    pub states: (State, State),
    /// How many times as fast the second is: above 1 it is faster. Absent where one has no figure.
    pub ratio: Option<Estimate>,
    /// The cause in each, where it was recorded.
    pub causes: (Option<String>, Option<String>),
}

/// Compares.
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

/// The ratio of two medians, each drawn again by itself: there are no pairs.
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

impl Diff {
    /// For a terminal.
    pub fn text(&self) -> String {
        let heads = [self.parameters.join(" "), "times as fast".into(), "95 % interval".into(), String::new()];
        let rows: Vec<Vec<String>> = self.points.iter().map(PointDiff::row).collect();
        let is = |holds: &dyn Fn(&Estimate) -> bool| self.points.iter().filter_map(|p| p.ratio.as_ref()).filter(|r| holds(r)).count();
        let (faster, slower, equal) = (is(&|r| r.low > 1.0), is(&|r| r.high < 1.0), is(&|r| r.covers(1.0)));
        let mut text = format!(
            "Of {} points in both, the second is faster at {faster}, slower at {slower}, and {equal} cannot be told apart.",
            self.points.len()
        );
        if self.only_one > 0 {
            text += &format!(" {} points are in one of them alone.", self.only_one);
        }
        text += "\nThe two were not run in turn: what changed on the machine in between is in every ratio.\n\n";
        text + &table(&heads, &rows).join("\n") + "\n"
    }
}

impl PointDiff {
    fn row(&self) -> Vec<String> {
        let (a, b) = self.states;
        let causes = match &self.causes {
            (Some(before), Some(after)) if before != after => format!("{before} -> {after}"),
            _ => String::new(),
        };
        match &self.ratio {
            Some(r) => {
                let verdict = if r.low > 1.0 {
                    "faster"
                } else if r.high < 1.0 {
                    "slower"
                } else {
                    "cannot tell"
                };
                let words = [verdict, &causes].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
                vec![self.values.join(" "), format!("{:.3}", r.median), format!("{:.3} to {:.3}", r.low, r.high), words]
            }
            None => vec![self.values.join(" "), String::new(), String::new(), format!("{} -> {}", a.name(), b.name())],
        }
    }
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
        assert!(
            found.text().contains("Of 2 points in both, the second is faster at 1, slower at 0, and 1 cannot be told apart."),
            "{}",
            found.text()
        );
        let failed = made_up(&["a=1,2"], |_| (Vec::new(), ""));
        assert!(diff(&before, &failed).unwrap().text().contains("done -> failed"));
        assert!(diff(&before, &made_up(&["b=1"], times(1.0))).unwrap_err().to_string().contains("only sweeps over the same parameters"));
        assert!(diff(&before, &made_up(&["a=7"], times(1.0))).unwrap_err().to_string().contains("no point in common"));
    }
}
