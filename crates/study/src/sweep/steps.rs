//! A sweep's points run one by one, for somebody who decides by what earlier runs gave which is next: a tuner. Order, log and what is around a run are
//! the sweep's own; a log is gone on with by making the same decisions again, for which nothing is run that the log has.

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

/// How points are run.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Whether they are recorded and explained, or timed bare.
    pub recorded: bool,
    /// How often each of them in all, with runs that are known.
    pub repeat: usize,
    /// Whether each is run once before anything counts.
    pub warm_up: bool,
}

impl<'a> Steps<'a> {
    /// Of this sweep's points; `kind` is whose log it is, `with` what else must be equal to go on with one.
    ///
    /// # Errors
    /// The log is another plan's, or there and not to be gone on with; the program is not there.
    pub fn new(sweep: &'a Sweep, around: &'a Surroundings, kind: &str, with: &[(&str, String)]) -> Result<Steps<'a>> {
        let header = with.iter().fold(sweep.header_of(kind)?, |header, (name, value)| header.of(name, value));
        sweep.check_log(around, &header)?;
        Ok(Steps { sweep, around, header, runner: Runner::new(sweep, around), has_begun: false, runs: Runs::default() })
    }

    /// The same, whose recorded runs also say how long single calls took: [`super::Recorded::p99_s`].
    #[must_use]
    pub fn timing_calls(mut self) -> Steps<'a> {
        self.runner.times_calls = true;
        self
    }

    /// Runs these points, in turn.
    ///
    /// # Errors
    /// The log; somebody wants to stop. A run that fails is a sample of its point.
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

    /// A run of a point: 0 is the warm-up, which counts for nothing.
    pub fn sample(&self, point: &Point, recorded: bool, repeat: usize) -> Option<&Sample> {
        self.runs.get(point, &self.sweep.subject(point, recorded), repeat)
    }

    /// Ends each run of the command after this time, where that is shorter than the sweep's own limit.
    pub fn limit(&mut self, seconds: f64) {
        self.runner.limit_s = self.runner.limit_s.min(seconds);
    }
}
