//! Replays settings that a sweep has already run: each run is drawn from the point's by a seed. Shows what a tuner would have found,
//! instantly.

use super::trial::{Figures, Trial, Trials};
use crate::{Error, Result};
use thalweg_measure::{Observer, SplitMix};
use thalweg_study::sweep::{Document, Point, PointResult, RunResult, State};

/// A sweep's runs, replayed.
pub struct Replay<'a> {
    document: &'a Document,
    random: SplitMix,
}

impl<'a> Replay<'a> {
    /// Replays this sweep; equal seeds draw equal runs.
    ///
    /// # Errors
    /// None of its points has successful runs.
    pub fn new(document: &'a Document, seed: u64) -> Result<Replay<'a>> {
        if document.points.iter().all(|point| point.runs.is_empty()) {
            return Err(Error::Choice("the sweep has no run that ended well: there is nothing to replay".into()));
        }
        Ok(Replay { document, random: SplitMix(seed ^ 0x7475_6e65) })
    }

    /// Returns the points without runs, which the sweep skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &'a Point> {
        self.document.points.iter().filter(|point| point.state == State::Skipped).map(|point| &point.values)
    }

    fn point(&self, values: &Point) -> Option<&'a PointResult> {
        self.document.points.iter().find(|point| point.values == *values)
    }

    fn draw(&mut self, values: &Point) -> Option<Figures> {
        let runs = &self.point(values)?.runs;
        let run = runs.get(self.random.below(runs.len().max(1)))?;
        Some(figures(run))
    }
}

fn figures(run: &RunResult) -> Figures {
    Figures { wall_s: run.wall_s, bytes: run.bytes, cpu_s: Some(run.cpu_s()), p99_s: None }
}

impl Trials for Replay<'_> {
    fn run(&mut self, values: &Point, _: usize, _: &dyn Observer) -> Result<Trial> {
        let Some(point) = self.point(values).filter(|point| point.state == State::Done) else {
            let problem = self.point(values).and_then(|point| point.problem.clone());
            let state = self.point(values).map_or(State::Failed, |point| point.state);
            return Ok(Trial::failed(state, problem.unwrap_or_else(|| "the sweep has no such point".to_owned())));
        };
        let Some(figures) = self.draw(values) else {
            return Ok(Trial::failed(State::Failed, "the sweep has no run of this point".to_owned()));
        };
        Ok(Trial::done(figures, point.explanation.clone(), point.of_ceiling.map(|part| part.median)))
    }

    fn pairs(&mut self, points: [&Point; 2], pairs: usize, _: &dyn Observer) -> Result<Vec<[Figures; 2]>> {
        let one = |replay: &mut Self| Some([replay.draw(points[0])?, replay.draw(points[1])?]);
        Ok((0..pairs).filter_map(|_| one(self)).collect())
    }
}
