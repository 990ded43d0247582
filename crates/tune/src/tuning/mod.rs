//! A whole tuning: the default, the search, the leaders again, and default and winner in turn.
//!
//! **In:** parameters with their knobs, where the command stands without a tuner, a budget, a goal, and who runs settings ([`Trials`]).
//! **Out:** a [`Tuned`]. What is claimed at the end comes from runs in turn with nothing between them that the goal does not need, never from those of the
//! search: the best of a dozen noisy figures is flattered by having been chosen.

mod measured;
mod replay;
mod trial;

pub use measured::Measured;
pub use replay::Replay;
pub use trial::{Figures, Goal, Trial, Trials};

use crate::budget::Budget;
use crate::search::{Kind, Knob, Outcome, Place, Reason, Search, Step};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use thalweg_base::numbers::{duration, size};
use thalweg_measure::{Estimate, Observer, estimate};
use thalweg_study::sweep::{Parameter, Point, State};

/// A device or link at this part of its measured ceiling leaves nothing to tune.
pub const AT_CEILING: f64 = 0.95;
/// Settings nearer than this are a tie, however quiet the machine is.
const TIE: f64 = 0.02;
/// Pairs are added to those that were asked for as long as they leave open which is faster, up to so many times as many.
const MORE_PAIRS: usize = 4;
/// How far runs of one setting lie apart, where no setting was run twice.
const USUAL_NOISE: f64 = 0.05;
/// Recorded amounts of the same work differ by less than this: what a program's processes say to each other is counted too, and with small blocks
/// that is a quarter of it.
const SAME_WORK: f64 = 0.5;

/// What is tuned, and how.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The parameters, with their values in order.
    pub parameters: Vec<Parameter>,
    /// What each of them turns.
    pub kinds: Vec<Kind>,
    /// Where the command stands without a tuner.
    pub start: Point,
    /// What an earlier tuning found.
    pub remembered: Option<Point>,
    /// Points that are not run.
    pub excluded: Vec<Point>,
    /// How much may be spent.
    pub budget: Budget,
    /// What is to be large or small.
    pub goal: Goal,
    /// Default and winner are run so often in turn at the end, and oftener where that leaves open which is faster.
    pub pairs: usize,
    /// Whether settings may move different amounts, and rates are compared.
    pub any_bytes: bool,
    /// Whether the amount was given, and is the same at all settings.
    pub same_bytes: bool,
    /// What the hardware gives, bytes per second.
    pub ceiling_bytes_per_s: Option<f64>,
}

/// One run of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// From 1.
    pub number: usize,
    /// Where.
    pub point: Point,
    /// Why there.
    pub reason: Reason,
    /// What it gave.
    pub trial: Trial,
    /// Whether it is the best so far.
    pub is_best: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Every run of the search.
    pub runs: Vec<Ran>,
    /// The setting to use.
    pub winner: Point,
    /// The best of the search; it is not the winner where it could not be shown to be faster than the default.
    pub best: Point,
    /// The best over the default, pair by pair; absent where that is the default.
    pub gain: Option<Estimate>,
    /// Those pairs, the default first.
    pub pairs: Vec<[Figures; 2]>,
    /// Settings that were run and are a tie with the winner.
    pub ties: Vec<Point>,
    /// How far runs of one setting lie apart, as a part of them.
    pub noise: f64,
    /// The part of its ceiling that ended the search, if one did.
    pub at_ceiling: Option<f64>,
}

impl Tuned {
    /// The last run of a point that ended well.
    pub fn run_of(&self, point: &Point) -> Option<&Ran> {
        self.runs.iter().rev().find(|ran| ran.point == *point && ran.trial.state == State::Done)
    }
}

/// Sees the runs of a search as they come.
pub trait Watch: Observer {
    /// One has ended.
    fn ran(&self, _ran: &Ran) {}
    /// The search is over, and default and best are about to be run in turn, so often.
    fn confirming(&self, _pairs: usize) {}
}

impl Watch for () {}

impl Tuning {
    /// Tunes.
    ///
    /// # Errors
    /// The command does not work or cannot be repeated; the settings do different work; the budget allows no comparison; a log or a recording cannot be
    /// written; somebody wants to stop.
    pub fn run(&self, trials: &mut dyn Trials, watch: &dyn Watch) -> Result<Tuned> {
        let points = self.parameters.iter().map(|parameter| parameter.values.len()).product();
        let places = |points: &[Point]| points.iter().filter_map(|point| self.place(point)).collect::<BTreeSet<Place>>();
        let start =
            self.place(&self.start).ok_or_else(|| Error::Choice(format!("{}: no setting of these parameters", self.start.join(" "))))?;
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
        self.confirm(trials, watch, Found { runs, best, at_ceiling, values: search.seen().clone() })
    }

    /// How many runs there will be: of the search at most, and of the default and the best together at the end, at least and at most. `None`: the
    /// clock decides.
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

    /// What each parameter turns, for a search.
    fn knobs(&self) -> Vec<Knob> {
        let knob = |(parameter, kind): (&Parameter, &Kind)| {
            let numbers: Option<Vec<f64>> = parameter.values.iter().map(|value| value.number).collect();
            Knob { name: parameter.name.clone(), kind: *kind, numbers, values: parameter.values.len() }
        };
        self.parameters.iter().zip(&self.kinds).map(knob).collect()
    }

    fn place(&self, point: &Point) -> Option<Place> {
        let place = |(parameter, label): (&Parameter, &String)| parameter.values.iter().position(|value| value.label == *label);
        (point.len() == self.parameters.len()).then(|| self.parameters.iter().zip(point).map(place).collect())?
    }

    fn point(&self, place: &Place) -> Point {
        self.parameters.iter().zip(place).map(|(parameter, n)| parameter.values[*n].label.clone()).collect()
    }

    /// A setting in words: `streams=4 block=64Ki`.
    pub fn name(&self, point: &Point) -> String {
        self.parameters.iter().zip(point).map(|(parameter, label)| format!("{}={label}", parameter.name)).collect::<Vec<_>>().join(" ")
    }

    fn outcome(&self, trial: &Trial) -> Result<Outcome> {
        if trial.state != State::Done {
            return Ok(Outcome::Failed);
        }
        let value = self.goal.value(&trial.figures, self.any_bytes).ok_or_else(|| {
            Error::Unfit(match self.goal {
                Goal::P99 => "no read, write, sync or question of the command was recorded: it has no 99th percentile".to_owned(),
                _ => "how much a run moves is not known: give --bytes".to_owned(),
            })
        })?;
        Ok(Outcome::Ran { value, causes: trial.causes.clone() })
    }

    fn part_of_ceiling(&self, trial: &Trial) -> Option<f64> {
        let given = self.ceiling_bytes_per_s.zip(trial.figures.bytes).map(|(ceiling, bytes)| bytes as f64 / trial.figures.wall_s / ceiling);
        given.or(trial.of_ceiling)
    }

    /// What ends a tuning: a default that fails, and settings that do other work than the default.
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
            "{here} does other work than the default: it moved {}, and {there} moved {}. Times of different work say nothing: make the command do the same \
             (a count that goes with the block), give --bytes SIZE if it is the same, or --any-bytes to compare rates all the same",
            size(is),
            size(was)
        )))
    }

    /// Whether the time is used up: the pairs at the end have to fit.
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

    /// Default and best in turn; whether that holds.
    fn confirm(&self, trials: &mut dyn Trials, watch: &dyn Watch, found: Found) -> Result<Tuned> {
        let Found { runs, best, at_ceiling, values } = found;
        let mut pairs = Vec::new();
        if best != self.start && self.pairs > 0 {
            watch.confirming(self.pairs);
            while pairs.len() < MORE_PAIRS * self.pairs {
                let more = trials.pairs([&self.start, &best], self.pairs, watch)?;
                let came = more.len();
                pairs.extend(more);
                // So many say it, or more of them may.
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

    /// The second over the first, pair by pair.
    fn gain(&self, pairs: &[[Figures; 2]]) -> Option<Estimate> {
        let value = |figures: &Figures| self.goal.value(figures, self.any_bytes);
        estimate(&pairs.iter().filter_map(|[first, second]| Some(value(second)? / value(first)?)).collect::<Vec<_>>())
    }

    /// Settings whose figures are as near to the winner's as runs of one setting are to each other.
    fn ties(&self, winner: &Point, values: &BTreeMap<Place, Vec<f64>>, noise: f64) -> Vec<Point> {
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

/// What a search has found.
struct Found {
    runs: Vec<Ran>,
    best: Point,
    at_ceiling: Option<f64>,
    values: BTreeMap<Place, Vec<f64>>,
}

/// How far runs of one setting lie apart: the pooled standard deviation of their logarithms.
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
