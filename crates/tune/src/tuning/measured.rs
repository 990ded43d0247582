//! Settings run as commands, on the engine that measures sweeps.

use super::trial::{Figures, Goal, Trial, Trials};
use crate::{Error, Result};
use thalweg_measure::Observer;
use thalweg_study::sweep::{How, Point, Sample, State, Steps};

/// Timeout of a run, as a multiple of the default's time, plus [`AROUND_S`]: a setting that slow is not a winner.
const TIMES_THE_DEFAULT: f64 = 5.0;
/// Allowance for a recorder around a run, in seconds.
const AROUND_S: f64 = 10.0;

/// Runs commands. For rates and percentiles, each run is recorded and explained, and compared with other recorded runs; processor time is
/// taken from unrecorded runs, since it would include the recorder's.
pub struct Measured<'a> {
    steps: Steps<'a>,
    goal: Goal,
    has_run: bool,
}

impl<'a> Measured<'a> {
    /// Runs these steps for this goal.
    pub fn new(steps: Steps<'a>, goal: Goal) -> Measured<'a> {
        let steps = if goal == Goal::P99 { steps.timing_calls() } else { steps };
        Measured { steps, goal, has_run: false }
    }

    fn is_recorded(&self) -> bool {
        self.goal != Goal::CpuPerByte
    }

    /// Checks that the warm-up showed a working, repeatable command.
    fn check_repeats(&self, point: &Point, first: &Sample, second: Option<&Sample>) -> Result<()> {
        if first.state != State::Done {
            let problem = first.problem.clone().unwrap_or_default();
            return Err(Error::Unfit(format!("the command fails as it stands, before anything is tuned: {problem}")));
        }
        let again = "give --prepare or --cleanup, which are run before and after each run, or {run} in its output's name (a number that no other run has)";
        match second {
            Some(second) if second.state != State::Done => Err(Error::Unfit(format!(
                "the command cannot be repeated: its first run succeeded, and the second, at the same setting ({}), failed: {}; {again}",
                point.join(" "),
                second.problem.clone().unwrap_or_default()
            ))),
            Some(second) => match (bytes(first), bytes(second).unwrap_or(0)) {
                (Some(was), is) if is.saturating_mul(2) < was => Err(Error::Unfit(format!(
                    "the command cannot be repeated: its first run moved {}, and the second, at the same setting, {}; {again}",
                    thalweg_base::numbers::size(was),
                    thalweg_base::numbers::size(is)
                ))),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }
}

/// Bytes programs read at start-up, and only when not cached: below this, an amount may not be what the run moves.
const AT_START_BYTES: u64 = 64 << 10;

/// Returns the bytes a run moved: as given or counted; as recorded, if more than programs read at start-up.
fn bytes(sample: &Sample) -> Option<u64> {
    let recorded = || sample.recorded.as_ref()?.size_bytes.filter(|bytes| *bytes >= AT_START_BYTES);
    sample.bytes.or_else(recorded)
}

fn figures(sample: &Sample) -> Option<Figures> {
    let cpu_s = sample.usage.as_ref().map(|usage| usage.user_s + usage.system_s + sample.server_cpu_s.unwrap_or(0.0));
    let wall_s = sample.usage.as_ref().map(|usage| usage.wall_s).or(sample.recorded.as_ref().map(|recorded| recorded.wall_s))?;
    Some(Figures { wall_s, bytes: bytes(sample), cpu_s, p99_s: sample.recorded.as_ref().and_then(|recorded| recorded.p99_s) })
}

fn trial(sample: &Sample) -> Trial {
    let problem = || sample.problem.clone().unwrap_or_else(|| "it could not be explained".to_owned());
    match (sample.state, figures(sample)) {
        (State::Done, Some(figures)) => {
            let of_ceiling = sample.recorded.as_ref().and_then(|recorded| recorded.of_ceiling);
            Trial::done(figures, sample.explanation.clone(), of_ceiling)
        }
        (State::Done, None) => Trial::failed(State::Failed, problem()),
        (state, _) => Trial::failed(state, problem()),
    }
}

impl Trials for Measured<'_> {
    fn run(&mut self, point: &Point, nth: usize, observer: &dyn Observer) -> Result<Trial> {
        let recorded = self.is_recorded();
        let warm_up = !self.has_run;
        self.has_run = true;
        self.steps.run(&[point], How { recorded, repeat: nth, warm_up }, observer)?;
        if warm_up && let Some(first) = self.steps.sample(point, recorded, 0) {
            self.check_repeats(point, first, self.steps.sample(point, recorded, nth))?;
        }
        let Some(sample) = self.steps.sample(point, recorded, nth) else {
            return Ok(Trial::failed(State::Failed, "not run: an earlier run at this setting failed".to_owned()));
        };
        let mut trial = trial(sample);
        if self.goal == Goal::CpuPerByte {
            // Goal CPU time: call for what a run that only computes calls for.
            trial.causes = vec![("client.cpu".to_owned(), 1.0)];
        }
        Ok(trial)
    }

    fn pairs(&mut self, points: [&Point; 2], pairs: usize, observer: &dyn Observer) -> Result<Vec<[Figures; 2]>> {
        // Percentiles of calls are only known from recorded runs.
        let recorded = self.goal == Goal::P99;
        // Runs of the search do not count as part of a pair: if those were recorded, there are no unrecorded runs before.
        let before = points.map(|point| (1..).take_while(|nth| self.steps.sample(point, recorded, *nth).is_some()).count());
        let from = before[0].max(before[1]);
        self.steps.run(&points, How { recorded, repeat: from + pairs, warm_up: false }, observer)?;
        let both = |nth: usize| {
            let figures =
                points.map(|point| figures(self.steps.sample(point, recorded, nth).filter(|sample| sample.state == State::Done)?));
            let [a, b] = figures;
            Some([a?, b?])
        };
        Ok((from + 1..=from + pairs).filter_map(both).collect())
    }

    fn default_took(&mut self, seconds: f64) {
        self.steps.limit(TIMES_THE_DEFAULT * seconds + AROUND_S);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_read_as_they_start_is_not_what_a_run_moves() {
        let sample = |text: &str| serde_json::from_str::<Sample>(text).expect("a sample");
        let recorded = |bytes: u64| sample(&format!(r#"{{"state":"done","recorded":{{"wall_s":1.0,"size_bytes":{bytes}}}}}"#));
        assert_eq!(bytes(&recorded(22 << 10)), None);
        assert_eq!(bytes(&recorded(22 << 20)), Some(22 << 20));
        let said = Sample { bytes: Some(100), ..recorded(22 << 20) };
        assert_eq!(bytes(&said), Some(100), "a reported amount has precedence");
    }
}
