//! A whole tuning: the default, the search, the leaders again, and default and winner in alternation.
//!
//! **In:** parameters with their knobs, the command's own setting, a budget, a goal, and a means to run settings ([`Trials`]). **Out:** a
//! [`Tuned`]. The claim at the end comes from alternating runs without any overhead the goal does not need, never from those of the
//! search: the best of a dozen noisy figures is biased by having been chosen.

mod measured;
mod replay;
mod trial;

pub use measured::Measured;
pub use replay::Replay;
pub use trial::{Figures, Goal, Trial, Trials};

use crate::budget::Budget;
use crate::search::{GridPoint, Kind, Knob, Outcome, Reason, Search, Step};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use thalweg_base::numbers::{duration, size};
use thalweg_measure::{Estimate, Observer, estimate};
use thalweg_study::sweep::{Parameter, Point, State};

/// Share of the measured ceiling of a device or link from which nothing is left to tune.
pub const AT_CEILING: f64 = 0.95;
/// Settings closer than this tie, however quiet the machine.
const TIE: f64 = 0.02;
/// Pairs are added while it is open which setting is faster, up to this multiple of those requested.
const MORE_PAIRS: usize = 4;
/// Assumed spread between runs of one setting, if none was run twice.
const USUAL_NOISE: f64 = 0.05;
/// Minimum relative difference of recorded amounts that shows different work: traffic between a program's own processes counts too, up to
/// a quarter with small blocks.
const SAME_WORK: f64 = 0.5;

/// What to tune, and how.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Parameters with their values in order.
    pub parameters: Vec<Parameter>,
    /// Kind of each parameter.
    pub kinds: Vec<Kind>,
    /// The command's own setting.
    pub start: Point,
    /// Result of an earlier tuning.
    pub remembered: Option<Point>,
    /// Points not to run.
    pub excluded: Vec<Point>,
    /// Budget of the search.
    pub budget: Budget,
    /// Quantity to optimise.
    pub goal: Goal,
    /// Pairs of default and winner run at the end; more if it stays open which is faster.
    pub pairs: usize,
    /// Whether settings may move different amounts, comparing rates.
    pub any_bytes: bool,
    /// Whether the amount was given, and is the same at all settings.
    pub same_bytes: bool,
    /// Rate of the hardware, in bytes per second.
    pub ceiling_bytes_per_s: Option<f64>,
}

/// One run of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Number, from 1.
    pub number: usize,
    /// Point of the grid.
    pub point: Point,
    /// Reason for the run.
    pub reason: Reason,
    /// Result of the run.
    pub trial: Trial,
    /// Whether it is the best so far.
    pub is_best: bool,
}

/// Result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Every run of the search.
    pub runs: Vec<Ran>,
    /// Setting to use.
    pub winner: Point,
    /// The search's best; not the winner if it could not be shown to be faster than the default.
    pub best: Point,
    /// Gain of the best over the default, from the pairs; `None` if the best is the default.
    pub gain: Option<Estimate>,
    /// The pairs, the default first.
    pub pairs: Vec<[Figures; 2]>,
    /// Tested settings that tie with the winner.
    pub ties: Vec<Point>,
    /// Relative spread between runs of one setting.
    pub noise: f64,
    /// Share of its ceiling that ended the search, if one did.
    pub at_ceiling: Option<f64>,
}

impl Tuned {
    /// Returns the last successful run of a point.
    pub fn run_of(&self, point: &Point) -> Option<&Ran> {
        self.runs.iter().rev().find(|ran| ran.point == *point && ran.trial.state == State::Done)
    }
}

/// Receives the runs of a search as they end.
pub trait Watch: Observer {
    /// Reports a run that has ended.
    fn ran(&self, _ran: &Ran) {}
    /// Reports that the search is over and `pairs` pairs of default and best follow.
    fn confirming(&self, _pairs: usize) {}
}

impl Watch for () {}

impl Tuning {
    /// Runs the tuning.
    ///
    /// # Errors
    /// The command does not work or cannot be repeated; settings do different work; the budget allows no comparison; a log or recording
    /// cannot be written; the user wants to stop.
    pub fn run(&self, trials: &mut dyn Trials, watch: &dyn Watch) -> Result<Tuned> {
        let points = self.parameters.iter().map(|parameter| parameter.values.len()).product();
        let places = |points: &[Point]| points.iter().filter_map(|point| self.place(point)).collect::<BTreeSet<GridPoint>>();
        let start =
            self.place(&self.start).ok_or_else(|| Error::Choice(format!("{}: not a setting of these parameters", self.start.join(" "))))?;
        let mut search = Search::new(self.knobs(), start, self.budget.runs(points)?, places(&self.excluded));
        if let Some(place) = self.remembered.as_ref().and_then(|point| self.place(point)) {
            search = search.remembering(place);
        }
        let mut runs: Vec<Ran> = Vec::new();
        let mut times = BTreeMap::new();
        let (begun, mut at_ceiling) = (Instant::now(), None);
        while let Some(step) = search.step() {
            let point = self.point(&step.place);
            let nth = times.entry(point.clone()).or_insert(0);
            *nth += 1;
            let trial = trials.run(&point, *nth, watch)?;
            self.check(&step, &trial, &runs)?;
            search.ran(&step.place, self.outcome(&trial)?);
            if runs.is_empty() {
                trials.default_took(trial.figures.wall_s);
            }
            let is_best = trial.state == State::Done && search.best() == &step.place;
            if is_best && let Some(part) = self.part_of_ceiling(&trial).filter(|part| *part >= AT_CEILING) {
                at_ceiling = Some(part);
                search.enough();
            }
            let ran = Ran { number: runs.len() + 1, point, reason: step.reason, trial, is_best };
            watch.ran(&ran);
            runs.push(ran);
            if self.is_out_of_time(begun, &runs)? {
                break;
            }
        }
        let best = self.point(search.best());
        self.confirm(trials, watch, SearchResult { runs, best, at_ceiling, values: search.seen().clone() })
    }

    /// Returns the number of runs: of the search at most, and of default and best together at the end, minimum and maximum. `None`: a time
    /// limit decides.
    ///
    /// # Errors
    /// The budget allows no comparison.
    pub fn runs(&self) -> Result<Option<(usize, usize, usize)>> {
        if self.budget.time().is_some() {
            return Ok(None);
        }
        let points = self.parameters.iter().map(|parameter| parameter.values.len()).product();
        Ok(Some((self.budget.runs(points)?, 2 * self.pairs, 2 * self.pairs * MORE_PAIRS)))
    }

    /// Returns the knobs of the parameters, for a search.
    fn knobs(&self) -> Vec<Knob> {
        let knob = |(parameter, kind): (&Parameter, &Kind)| {
            let numbers: Option<Vec<f64>> = parameter.values.iter().map(|value| value.number).collect();
            Knob { name: parameter.name.clone(), kind: *kind, numbers, values: parameter.values.len() }
        };
        self.parameters.iter().zip(&self.kinds).map(knob).collect()
    }

    fn place(&self, point: &Point) -> Option<GridPoint> {
        let place = |(parameter, label): (&Parameter, &String)| parameter.values.iter().position(|value| value.label == *label);
        (point.len() == self.parameters.len()).then(|| self.parameters.iter().zip(point).map(place).collect())?
    }

    fn point(&self, place: &GridPoint) -> Point {
        self.parameters.iter().zip(place).map(|(parameter, n)| parameter.values[*n].label.clone()).collect()
    }

    /// Formats a setting: `streams=4 block=64Ki`.
    pub fn name(&self, point: &Point) -> String {
        self.parameters.iter().zip(point).map(|(parameter, label)| format!("{}={label}", parameter.name)).collect::<Vec<_>>().join(" ")
    }

    fn outcome(&self, trial: &Trial) -> Result<Outcome> {
        if trial.state != State::Done {
            return Ok(Outcome::Failed);
        }
        let value = self.goal.value(&trial.figures, self.any_bytes).ok_or_else(|| {
            Error::Unfit(match self.goal {
                Goal::P99 => "no read, write, sync or metadata query of the command was recorded: it has no 99th percentile".to_owned(),
                _ => "the bytes moved by a run are unknown: give --bytes".to_owned(),
            })
        })?;
        Ok(Outcome::Ran { value, causes: trial.causes.clone() })
    }

    fn part_of_ceiling(&self, trial: &Trial) -> Option<f64> {
        let given = self.ceiling_bytes_per_s.zip(trial.figures.bytes).map(|(ceiling, bytes)| bytes as f64 / trial.figures.wall_s / ceiling);
        given.or(trial.of_ceiling)
    }

    /// Ends the tuning if the default fails, or a setting does other work than the default.
    fn check(&self, step: &Step, trial: &Trial, runs: &[Ran]) -> Result<()> {
        let Some(first) = runs.first() else {
            return match &trial.problem {
                Some(problem) => Err(Error::Unfit(format!("the command fails at its default, {}: {problem}", self.name(&self.start)))),
                None => Ok(()),
            };
        };
        if self.any_bytes || self.same_bytes || trial.state != State::Done {
            return Ok(());
        }
        let (Some(was), Some(is)) = (first.trial.figures.bytes, trial.figures.bytes) else { return Ok(()) };
        if (is as f64 - was as f64).abs() <= SAME_WORK * was as f64 {
            return Ok(());
        }
        let (here, there) = (self.name(&self.point(&step.place)), self.name(&first.point));
        Err(Error::Unfit(format!(
            "{here} does other work than the default: it moved {}, and {there} moved {}. Times of different work cannot be \
             compared: make the command do the same (a count that matches the block), give --bytes SIZE if it is the same, or --any-bytes \
             to compare rates anyway",
            size(is),
            size(was)
        )))
    }

    /// Whether the time is used up, reserving time for the pairs at the end.
    fn is_out_of_time(&self, begun: Instant, runs: &[Ran]) -> Result<bool> {
        let Some(time) = self.budget.time() else { return Ok(false) };
        let each = begun.elapsed().div_f64(runs.len() as f64);
        let after = begun.elapsed() + each * 2 * self.pairs as u32;
        if runs.len() == 1 && after + each > time {
            let (took, least) = (duration(each.as_secs_f64()), duration((after + each).as_secs_f64()));
            let given = duration(time.as_secs_f64());
            let problem = format!(
                "--budget {given} is too small for one comparison: a run takes {took}, and two settings and {} pairs take {least}",
                self.pairs
            );
            return Err(Error::Unfit(problem));
        }
        Ok(after + each.min(Duration::from_secs(3600)) > time)
    }

    /// Runs default and best in alternation, and decides the winner.
    fn confirm(&self, trials: &mut dyn Trials, watch: &dyn Watch, found: SearchResult) -> Result<Tuned> {
        let SearchResult { runs, best, at_ceiling, values } = found;
        let mut pairs = Vec::new();
        if best != self.start && self.pairs > 0 {
            watch.confirming(self.pairs);
            while pairs.len() < MORE_PAIRS * self.pairs {
                let more = trials.pairs([&self.start, &best], self.pairs, watch)?;
                let came = more.len();
                pairs.extend(more);
                // The pairs are conclusive, or more of them may be.
                let is_open = self.gain(&pairs).is_some_and(|gain| gain.low <= 1.0 && gain.median > 1.0 + TIE);
                if !is_open || came < self.pairs || self.budget.time().is_some() {
                    break;
                }
            }
        }
        let gain = self.gain(&pairs);
        let is_faster = gain.is_some_and(|gain| gain.low > 1.0);
        let winner = if is_faster { best.clone() } else { self.start.clone() };
        let noise = noise(values.values());
        let ties = self.ties(&winner, &values, noise);
        Ok(Tuned { runs, winner, best, gain, pairs, ties, noise, at_ceiling })
    }

    /// Returns the gain of the second over the first, from the pairs.
    fn gain(&self, pairs: &[[Figures; 2]]) -> Option<Estimate> {
        let value = |figures: &Figures| self.goal.value(figures, self.any_bytes);
        estimate(&pairs.iter().filter_map(|[first, second]| Some(value(second)? / value(first)?)).collect::<Vec<_>>())
    }

    /// Returns the settings that differ from the winner by no more than runs of one setting do.
    fn ties(&self, winner: &Point, values: &BTreeMap<GridPoint, Vec<f64>>, noise: f64) -> Vec<Point> {
        let Some((place, own)) = self.place(winner).and_then(|place| Some((place.clone(), values.get(&place)?))) else { return Vec::new() };
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let is_near = |other: &Vec<f64>| {
            let apart = (mean(other) / mean(own)).ln().abs();
            apart < TIE || apart < 2.0 * noise * (1.0 / own.len() as f64 + 1.0 / other.len() as f64).sqrt()
        };
        let near = values.iter().filter(|(other, runs)| **other != place && is_near(runs));
        near.map(|(place, _)| self.point(place)).collect()
    }
}

/// Result of the search phase.
struct SearchResult {
    runs: Vec<Ran>,
    best: Point,
    at_ceiling: Option<f64>,
    values: BTreeMap<GridPoint, Vec<f64>>,
}

/// Returns the spread between runs of one setting: the pooled standard deviation of their logarithms.
fn noise<'a>(values: impl Iterator<Item = &'a Vec<f64>>) -> f64 {
    let (mut sum, mut free) = (0.0, 0.0);
    for runs in values.filter(|runs| runs.len() > 1) {
        let logs: Vec<f64> = runs.iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        sum += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        free += logs.len() as f64 - 1.0;
    }
    if free > 0.0 { (sum / free).sqrt() } else { USUAL_NOISE }
}

#[cfg(test)]
mod tests;
