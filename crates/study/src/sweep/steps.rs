//! Runs a sweep's points on demand, for a tuner, which chooses the next point from earlier runs. Log and surroundings of a run are the
//! sweep's; a log is resumed by making the same decisions again, which finds earlier runs in the log instead of running them.

use super::plan::Sweep;
use super::run::{Runner, Surroundings};
use super::sample::{Point, Sample, Swept};
use crate::Result;
use thalweg_measure::{Batch, Case, Header, Limits, Observer, OnFailure, Order, Plan, Runs, measure};

/// Runs on demand.
pub struct Steps<'a> {
    sweep: &'a Sweep,
    around: &'a Surroundings,
    header: Header,
    runner: Runner<'a>,
    has_begun: bool,
    runs: Swept,
}

/// Options for running points.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Whether they are recorded and explained, or only timed.
    pub recorded: bool,
    /// Number of runs of each in all, including runs in the log.
    pub repeat: usize,
    /// Whether each has a warm-up run first.
    pub warm_up: bool,
}

impl<'a> Steps<'a> {
    /// Prepares running this sweep's points; `kind` is the kind of log, `with` further settings that must match to resume it.
    ///
    /// # Errors
    /// The log is another plan's, or exists and is not to be resumed; or the program does not exist.
    pub fn new(sweep: &'a Sweep, around: &'a Surroundings, kind: &str, with: &[(&str, String)]) -> Result<Steps<'a>> {
        let header = with.iter().fold(sweep.header_of(kind)?, |header, (name, value)| header.of(name, value));
        sweep.check_log(around, &header)?;
        Ok(Steps { sweep, around, header, runner: Runner::new(sweep, around), has_begun: false, runs: Runs::default() })
    }

    /// Makes recorded runs measure latencies of calls too: [`super::Recorded::p99_s`].
    #[must_use]
    pub fn timing_calls(mut self) -> Steps<'a> {
        self.runner.times_calls = true;
        self
    }

    /// Runs these points, interleaved.
    ///
    /// # Errors
    /// The log cannot be written, or the observer asked to stop. A run that fails is a sample of its point.
    pub fn run(&mut self, points: &[&Point], how: How, observer: &dyn Observer) -> Result<()> {
        let case = |point: &&Point| Case { point: (*point).clone(), subject: self.sweep.subject(point, how.recorded), repeat: how.repeat };
        let plan = Plan {
            header: self.header.clone(),
            batches: vec![Batch { name: self.header.plan.clone(), cases: points.iter().map(case).collect() }],
            order: Order::Shuffled,
            limits: Limits::default(),
            warm_up: how.warm_up,
            on_failure: OnFailure::LeaveOut,
            seed: self.sweep.choice.seed,
        };
        let log = Some((self.around.log.as_path(), self.around.resume || self.has_begun));
        self.has_begun = true;
        self.runs = measure(&plan, log, &mut self.runner, observer)?.runs;
        Ok(())
    }

    /// Returns a run of a point; `repeat` 0 is the warm-up, which does not count.
    pub fn sample(&self, point: &Point, recorded: bool, repeat: usize) -> Option<&Sample> {
        self.runs.get(point, &self.sweep.subject(point, recorded), repeat)
    }

    /// Limits each run of the command to this time, if it is shorter than the sweep's own limit.
    pub fn limit(&mut self, seconds: f64) {
        self.runner.limit_s = self.runner.limit_s.min(seconds);
    }
}
