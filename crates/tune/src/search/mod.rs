//! Guided search: the largest cause of the best run so far selects the knob and direction, and steps along the list of values grow while
//! they pay.
//!
//! It is a coordinate search guided by evidence, without a model. From the best setting, each cause of its run, largest first, proposes
//! moves ([`moves`]); the first open move is run. A move that pays doubles its step; one that does not halves it, and closes when it
//! cannot be halved; a new best reopens all moves. Moves that failed from the current best wait for the others. A value that was much too
//! far bounds later steps (the next goes half-way), and so does the value a step came from. The very first step changes two knobs together
//! if one cause has most of the run. When no cause has a move left, every knob is tried both ways, so that wrong evidence costs runs and
//! not the result. The last runs go to the leaders, since the best of several noisy figures is too often a lucky one.
//!
//! *Rejected*, by the same simulation (64-point grids, 12 runs, 5 % noise): a Gaussian process, a tree of Parzen estimators and hill
//! climbing, with at least twice the regret at the 95th percentile; a model of the run as a prior, which is better only while exactly
//! right; a first step proportional to the cause's share, which overshoots. `docs/results/TUNE.md` has the figures.
//!
//! No clock, no file, no process: [`Search::step`] returns the point to run, [`Search::ran`] takes the outcome.

mod knob;
mod moves;
#[cfg(test)]
mod simulated;

pub use knob::{Kind, Knob};

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A point of the grid: for each knob, the index of its value.
pub type GridPoint = Vec<usize>;

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The run succeeded.
    Ran {
        /// Figure to maximise: a rate, or the inverse of a quantity to minimise. Of this run alone.
        value: f64,
        /// Causes with their shares of the wall time, largest first; empty if the run was not explained.
        causes: Vec<(String, f64)>,
    },
    /// The run failed or timed out: a setting that does not work, rather than a slow one.
    Failed,
}

/// Reason a point is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The command's own setting.
    Default,
    /// The best of an earlier search.
    Remembered,
    /// A cause of the best run so far calls for it.
    Cause {
        /// The cause.
        cause: String,
        /// Share of the cause in that run.
        share: f64,
        /// Knob changed, or both.
        knob: String,
        /// Whether upwards.
        up: bool,
    },
    /// One file or request is in flight, and no cause has most of the time.
    OneInFlight {
        /// Knob changed.
        knob: String,
    },
    /// No cause has a move left.
    Other {
        /// Knob changed.
        knob: String,
        /// Whether upwards.
        up: bool,
    },
    /// One of the best, run again.
    Leader,
}

/// A run to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Point of the grid.
    pub place: GridPoint,
    /// Reason for the run.
    pub reason: Reason,
}

/// Minimum share of a cause for proposing moves.
const LEAST_SHARE: f64 = 0.08;
/// Share from which a cause counts as the limit; below it, one request in flight is first tried as two.
const MOST_OF_IT: f64 = 0.7;
/// First step of a move, in list positions: a factor of four on a list of powers of two. With 1, regret at the 95th percentile is
/// threefold.
const FIRST_STEP: usize = 2;
/// Share of the default's largest cause from which two knobs are changed together. This halves regret after three runs.
const STRIDE_SHARE: f64 = 0.5;
/// Knobs changed together.
const STRIDE_KNOBS: usize = 2;
/// Maximum step, in list positions.
const LONGEST_STEP: usize = 4;
/// Number of best points run again at the end, alternately.
const LEADERS: usize = 3;
/// Bound: runs per leader, however many runs are left.
const RUNS_OF_A_LEADER: usize = 3;
/// Runs reserved for confirming. With 3 or 4, regret at the 95th percentile rises.
const CONFIRMING: usize = 2;

/// Minimum number of runs for a search: the default, another setting, and both again.
pub const LEAST_RUNS: usize = 4;

/// A run below this share of the best figure was too far: the search avoids points beyond it while others are left.
const TOO_FAR: f64 = 0.8;
/// A full link cannot give more: gains are in the other causes, which are tried before this one.
const FULL_LINK: &str = "network.bandwidth";

/// A knob, and whether it is turned up.
type Turn = (usize, bool);

/// A search in progress.
#[derive(Clone, Debug)]
pub struct Search {
    knobs: Vec<Knob>,
    start: GridPoint,
    remembered: Option<GridPoint>,
    budget: usize,
    /// Points never to run.
    excluded: BTreeSet<GridPoint>,
    runs: usize,
    seen: BTreeMap<GridPoint, Vec<f64>>,
    best: GridPoint,
    why: Vec<(String, f64)>,
    steps: BTreeMap<Turn, usize>,
    closed: BTreeSet<Turn>,
    /// Failures of each turn from the best point.
    failed: BTreeMap<Turn, usize>,
    /// Index on its knob at which each turn was too far.
    bounds: BTreeMap<Turn, usize>,
    /// Turns that led to the current run: one, or several of a stride.
    trying: Vec<Turn>,
    is_enough: bool,
}

impl Search {
    /// Starts at this point, with a number of runs. Points in `excluded` are not run.
    pub fn new(knobs: Vec<Knob>, start: GridPoint, budget: usize, excluded: BTreeSet<GridPoint>) -> Search {
        let best = start.clone();
        let (seen, steps) = (BTreeMap::new(), BTreeMap::new());
        let (why, closed) = (Vec::new(), BTreeSet::new());
        Search {
            knobs,
            start,
            remembered: None,
            budget,
            excluded,
            runs: 0,
            seen,
            best,
            why,
            steps,
            closed,
            failed: BTreeMap::new(),
            bounds: BTreeMap::new(),
            trying: Vec::new(),
            is_enough: false,
        }
    }

    /// Makes the search run this point second: the result of an earlier search.
    #[must_use]
    pub fn remembering(mut self, place: GridPoint) -> Search {
        self.remembered = Some(place).filter(|place| *place != self.start && !self.excluded.contains(place));
        self
    }

    /// Returns the next run; `None` when the search is over.
    pub fn step(&mut self) -> Option<Step> {
        if self.runs == 0 {
            return Some(Step { place: self.start.clone(), reason: Reason::Default });
        }
        if let Some(place) = self.remembered.take() {
            return Some(Step { place, reason: Reason::Remembered });
        }
        if !self.is_enough && self.runs + CONFIRMING < self.budget {
            if self.runs == 1
                && let Some(step) = self.stride()
            {
                return Some(step);
            }
            if let Some(step) = self.turn() {
                return Some(step);
            }
            self.is_enough = true;
        }
        let place = self.leader().filter(|_| self.runs < self.budget)?;
        self.trying.clear();
        Some(Step { place, reason: Reason::Leader })
    }

    /// Takes a run's outcome. A point that failed once is not run again.
    pub fn ran(&mut self, place: &GridPoint, outcome: Outcome) {
        self.runs += 1;
        let trying = std::mem::take(&mut self.trying);
        let (value, causes) = match outcome {
            Outcome::Ran { value, causes } => (value, causes),
            Outcome::Failed => {
                self.seen.remove(place);
                self.excluded.insert(place.clone());
                self.too_far(&trying, place);
                return;
            }
        };
        let is_first = self.seen.is_empty();
        self.seen.entry(place.clone()).or_default().push(value);
        if *place == self.best || is_first {
            if !causes.is_empty() {
                self.why = causes;
            }
            self.best.clone_from(place);
            return;
        }
        if self.mean(place) > self.mean(&self.best) {
            self.won(place, causes, &trying);
        } else if value < TOO_FAR * self.mean(&self.best) {
            self.too_far(&trying, place);
        } else {
            trying.into_iter().for_each(|turn| self.lost(turn));
        }
    }

    /// Records that a turn went too far. For a stride it is unknown which of its turns did.
    fn too_far(&mut self, trying: &[Turn], place: &GridPoint) {
        if let [turn] = trying {
            self.bounds.insert(*turn, place[turn.0]);
            self.lost(*turn);
        }
    }

    /// Ends the search: only confirming runs are left.
    pub fn enough(&mut self) {
        self.is_enough = true;
    }

    /// Returns the point with the best mean; the start, if no run succeeded.
    pub fn best(&self) -> &GridPoint {
        let by_mean = |a: &&GridPoint, b: &&GridPoint| self.mean(a).total_cmp(&self.mean(b));
        self.seen.keys().max_by(by_mean).unwrap_or(&self.start)
    }

    /// Returns every point run, with the figures of its runs.
    pub fn seen(&self) -> &BTreeMap<GridPoint, Vec<f64>> {
        &self.seen
    }

    fn mean(&self, place: &GridPoint) -> f64 {
        self.seen.get(place).map_or(f64::NEG_INFINITY, |values| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn won(&mut self, place: &GridPoint, causes: Vec<(String, f64)>, trying: &[Turn]) {
        let before = std::mem::replace(&mut self.best, place.clone());
        // An unexplained run keeps the previous causes: causes change more slowly than settings.
        if !causes.is_empty() {
            self.why = causes;
        }
        self.closed.clear();
        self.failed.clear();
        for (knob, up) in trying.iter().copied() {
            let step = self.steps.entry((knob, up)).or_insert(FIRST_STEP);
            if *step == 1 {
                self.closed.insert((knob, !up));
            }
            *step = (*step * 2).min(LONGEST_STEP);
            // The previous value is too far the other way: a better one may lie between.
            self.bounds.insert((knob, !up), before[knob]);
        }
    }

    fn lost(&mut self, turn: Turn) {
        *self.failed.entry(turn).or_default() += 1;
        let step = self.steps.entry(turn).or_insert(FIRST_STEP);
        if *step > 1 {
            *step /= 2;
        } else {
            self.closed.insert(turn);
        }
    }

    /// Returns the first step from the default: what its largest cause calls for, on two knobs together. Not for computing causes, which
    /// want less of one thing and more of another: only single steps can show which.
    fn stride(&mut self) -> Option<Step> {
        let (cause, share) = self.why.first().filter(|(_, share)| *share >= STRIDE_SHARE)?.clone();
        if moves::is_computing(&cause) {
            return None;
        }
        let (mut place, mut turns) = (self.best.clone(), Vec::new());
        for (kind, _) in moves::of_cause(&cause).iter().filter(|(_, up)| *up) {
            for n in (0..self.knobs.len()).filter(|n| self.knobs[*n].kind == *kind) {
                let to = self.knobs[n].moved(place[n], FIRST_STEP as isize);
                if turns.len() < STRIDE_KNOBS && to != place[n] {
                    place[n] = to;
                    turns.push((n, true));
                }
            }
        }
        if turns.len() < STRIDE_KNOBS || self.excluded.contains(&place) {
            return None;
        }
        let knob = turns.iter().map(|(n, _)| self.knobs[*n].name.as_str()).collect::<Vec<_>>().join(", ");
        self.trying = turns;
        Some(Step { place, reason: Reason::Cause { cause, share, knob, up: true } })
    }

    /// Returns the next turn from the best point: within the known bounds, and only then beyond them.
    fn turn(&mut self) -> Option<Step> {
        let mut proposed = self.proposed();
        // Turns that failed from here wait until the others were tried.
        proposed.sort_by_key(|(turn, _)| self.failed.get(turn).copied().unwrap_or(0));
        let within = proposed.iter().find_map(|(turn, reason)| self.turned(*turn, true).map(|place| (*turn, place, reason.clone())));
        let found = within
            .or_else(|| proposed.iter().find_map(|(turn, reason)| self.turned(*turn, false).map(|place| (*turn, place, reason.clone()))));
        let (turn, place, reason) = found?;
        self.trying = vec![turn];
        Some(Step { place, reason })
    }

    /// Returns the best point with a knob turned, if it may be run; closes the turn if nothing is left.
    fn turned(&mut self, turn: Turn, within: bool) -> Option<GridPoint> {
        let (knob, up) = turn;
        while !self.closed.contains(&turn) {
            let step = *self.steps.entry(turn).or_insert(FIRST_STEP) as isize;
            let from = self.best[knob];
            let mut to = self.knobs[knob].moved(from, if up { step } else { -step });
            if let Some(bound) =
                self.bounds.get(&turn).copied().filter(|bound| if up { *bound > from } else { *bound < from }).filter(|_| within)
            {
                let is_beyond = if up { to >= bound } else { to <= bound };
                if is_beyond {
                    to = usize::midpoint(from, bound).max(if up { 0 } else { bound + 1 });
                }
                if to == from {
                    return None;
                }
            }
            let mut place = self.best.clone();
            place[knob] = to;
            if place == self.best {
                self.closed.insert(turn);
            } else if self.seen.contains_key(&place) || self.excluded.contains(&place) {
                self.lost(turn);
            } else {
                return Some(place);
            }
        }
        None
    }

    /// Returns the turns in the order they are tried.
    fn proposed(&self) -> Vec<(Turn, Reason)> {
        let mut turns: Vec<(Turn, Reason)> = Vec::new();
        let largest = self.why.first().map_or(0.0, |(_, share)| *share);
        if largest < MOST_OF_IT {
            let requests = |knob: &Knob| matches!(knob.kind, Kind::Requests | Kind::Depth);
            let single = (0..self.knobs.len()).filter(|n| requests(&self.knobs[*n]) && self.knobs[*n].is_one(self.best[*n]));
            turns.extend(single.map(|n| ((n, true), Reason::OneInFlight { knob: self.knobs[n].name.clone() })));
        }
        let is_link = |(cause, _): &&(String, f64)| cause == FULL_LINK;
        let all = self.why.iter().filter(|(_, share)| *share >= LEAST_SHARE);
        for (cause, share) in all.clone().filter(|one| !is_link(one)).chain(all.filter(is_link)) {
            for (kind, up) in moves::of_cause(cause) {
                let reason = |knob: &Knob| Reason::Cause { cause: cause.clone(), share: *share, knob: knob.name.clone(), up: *up };
                let knobs = self.knobs.iter().enumerate().filter(|(_, knob)| knob.kind == *kind);
                turns.extend(knobs.map(|(n, knob)| ((n, *up), reason(knob))));
            }
        }
        for up in [true, false] {
            turns.extend(self.knobs.iter().enumerate().map(|(n, knob)| ((n, up), Reason::Other { knob: knob.name.clone(), up })));
        }
        turns
    }

    /// Returns the least-run of the best points.
    fn leader(&self) -> Option<GridPoint> {
        let mut places: Vec<&GridPoint> = self.seen.keys().collect();
        places.sort_by(|a, b| self.mean(b).total_cmp(&self.mean(a)));
        let runs = |place: &GridPoint| self.seen[place].len();
        places.into_iter().take(LEADERS).filter(|place| runs(place) < RUNS_OF_A_LEADER).min_by_key(|place| runs(place)).cloned()
    }
}

#[cfg(test)]
mod tests;
