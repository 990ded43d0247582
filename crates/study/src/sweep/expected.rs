//! Estimates the duration of a sweep, from the log of an earlier run of the same plan or from one run of one point. Without either there is
//! no estimate.

use super::plan::Sweep;
use super::run::{Runner, Surroundings};
use super::sample::{Point, Sample, State, Subject, Swept};
use crate::{Error, Result};
use std::path::Path;
use thalweg_base::numbers::{count, duration};
use thalweg_measure::{Case, Header, Runs, Subjects, median, read_log};

/// The expected duration.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Maximum duration of the sweep: points may end early.
    pub seconds: f64,
    /// The part not in the log yet, which `--continue` would take; if there is a log.
    pub left_s: Option<f64>,
    /// The source of the estimate.
    pub from: String,
}

/// Returns the duration of a run, with preparation and cleanup if the log has them.
fn took(sample: &Sample) -> Option<f64> {
    sample.took_s.or(sample.usage.as_ref().map(|usage| usage.wall_s))
}

impl Sweep {
    /// Estimates from the log of an earlier run of this plan; `None` if there is none, it is another plan's, or has no runs.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn expected_from_log(&self, log: &Path) -> Result<Option<Expected>> {
        let Some((header, lines)) = read_log::<Point, Subject, Sample>(log)? else { return Ok(None) };
        let own = self.header()?;
        if !is_same_plan(&header, &own) {
            return Ok(None);
        }
        let known = lines.len();
        let runs: Swept = Runs::new(lines);
        let Some((seconds, left_s)) = self.seconds(&runs) else { return Ok(None) };
        let changed = if header == own { "" } else { "; its program was another build" };
        let from = format!("from {} runs of this plan in {}{changed}", count(known as u64), log.display());
        Ok(Some(Expected { seconds, left_s: Some(left_s), from }))
    }

    /// Returns the duration of all runs, and of those not in the log; `None` if nothing is known.
    fn seconds(&self, runs: &Swept) -> Option<(f64, f64)> {
        let cases: Vec<Case<Point, Subject>> =
            self.plans(&self.header().ok()?).into_iter().flat_map(|plan| plan.batches).flat_map(|b| b.cases).collect();
        let times = |case: &Case<Point, Subject>| -> Vec<f64> {
            let counted = runs.of(&case.point, &case.subject).into_iter().map(|(_, sample)| sample);
            let all: Vec<f64> = counted.filter_map(took).collect();
            if all.is_empty() { runs.get(&case.point, &case.subject, 0).and_then(took).into_iter().collect() } else { all }
        };
        let of_kind = |subject: &Subject| {
            let like = cases.iter().filter(|case| (case.subject.recorded, case.subject.ceiling) == (subject.recorded, subject.ceiling));
            median(&like.flat_map(times).collect::<Vec<_>>())
        };
        // A case that was never run is assumed to take as long as similar ones, or else as all.
        let any = median(&cases.iter().flat_map(times).collect::<Vec<_>>())?;
        let (mut all_s, mut left_s) = (0.0, 0.0);
        for case in &cases {
            let known = runs.of(&case.point, &case.subject);
            let warm_up = runs.get(&case.point, &case.subject, 0);
            let is_bad = known.iter().map(|(_, sample)| *sample).chain(warm_up).any(|sample| sample.state != State::Done);
            let single = median(&times(case)).or_else(|| of_kind(&case.subject)).unwrap_or(any);
            let is_settled = is_bad || self.is_settled(case, runs);
            let owed = if is_settled { 0 } else { case.repeat.saturating_sub(known.len()) };
            let warm_ups = usize::from(!case.subject.recorded);
            all_s += single * (known.len() + owed + warm_ups) as f64;
            left_s += single * (owed + if owed > 0 { warm_ups } else { 0 }) as f64;
        }
        Some((all_s, left_s))
    }

    /// Estimates from one run of one point, made now.
    ///
    /// # Errors
    /// The run failed, or the observer asked to stop.
    pub fn expected_from_one(&self, around: &Surroundings) -> Result<Expected> {
        // From the middle of the grid: the first and the last are more often extremes.
        let point = &self.points[self.points.len() / 2];
        let case = self.counted(point);
        let mut runner = Runner::new(self, around);
        let name = runner.name(&case);
        let sample = runner.run(&case, 0).map_err(|error| match error.downcast::<thalweg_measure::Error>() {
            Ok(error) => Error::Measure(*error),
            Err(other) => Error::Choice(format!("{name}: {other}")),
        })?;
        match (sample.state, took(&sample)) {
            (State::Done, Some(one)) => {
                let from = format!("from one run of {name}, which took {}; others may take longer or shorter", duration(one));
                Ok(Expected { seconds: one * self.runs() as f64, left_s: None, from })
            }
            (state, _) => Err(Error::Choice(format!("{name}: {}: {}", state.name(), sample.problem.unwrap_or_default()))),
        }
    }
}

/// Whether two headers are of the same plan, disregarding the builds of its programs.
fn is_same_plan(a: &Header, b: &Header) -> bool {
    let bare = |header: &Header| {
        let mut header = header.clone();
        header.of.retain(|name, _| !["program", "server program"].contains(&name.as_str()));
        header
    };
    bare(a) == bare(b)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Choice, Explain};
    use super::*;
    use thalweg_measure::{Closures, measure};

    fn sweep(values: &str, repeat: usize) -> Sweep {
        let command = ["true", "{a}"].map(str::to_owned).to_vec();
        Choice { vary: vec![format!("a={values}")], command, repeat, explain: Explain::Once, ..Choice::default() }.plan().unwrap()
    }

    /// Runs a plan with made-up durations: the value in seconds, and one more if recorded.
    fn log(sweep: &Sweep, path: &Path) {
        for (n, plan) in sweep.plans(&sweep.header().unwrap()).iter().enumerate() {
            let mut subjects = Closures::new(|case: &Case<Point, Subject>, _| {
                let seconds = case.point[0].parse::<f64>()? + f64::from(u8::from(case.subject.recorded));
                Ok(Sample { took_s: Some(seconds), ..Sample::bare(State::Done, None) })
            });
            measure(plan, Some((path, n > 0)), &mut subjects, &()).unwrap();
        }
    }

    #[test]
    fn the_log_of_the_same_plan_says_how_long_it_takes_and_what_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.runs.jsonl");
        let short = sweep("1,3", 2);
        assert_eq!(short.expected_from_log(&path).unwrap(), None, "no log, no figure");
        log(&short, &path);
        let found = short.expected_from_log(&path).unwrap().unwrap();
        // Two points with a warm-up and two runs each, then one recorded run of each.
        assert!((found.seconds - (3.0 * (1.0 + 3.0) + 2.0 + 4.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(found.left_s, Some(0.0));
        assert!(found.from.contains("8 runs of this plan"), "{}", found.from);
        // More repetitions are the same plan: what is known is not owed again.
        let more = sweep("1,3", 4).expected_from_log(&path).unwrap().unwrap();
        assert!((more.left_s.unwrap() - (3.0 * (1.0 + 3.0))).abs() < 1e-9, "{more:?}");
        assert_eq!(sweep("1,2", 2).expected_from_log(&path).unwrap(), None, "another plan's log says nothing of this one");
    }
}
