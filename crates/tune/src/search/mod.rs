//! Guided search: the largest cause of the best run so far picks the knob and the way, and steps on the list of values grow while they pay.
//!
//! It is a coordinate search with evidence and without a model. From the best setting, each cause of its run, largest first, proposes moves
//! ([`moves`]); the first that is not closed is run. A move that pays doubles its step, one that does not halves it, and closes when it cannot be
//! halved; a new best opens all moves again. What failed from here waits for the others, what was much too far bounds the steps after it (the next
//! goes half-way), and so does where a step came from. The very first step turns two knobs at once where one cause has most of the run. When no cause has
//! a move left, every knob is tried both ways, so that wrong evidence costs runs and not the result. The last runs go to the leaders, since the best of
//! several noisy figures is too often a lucky one.
//!
//! *Rejected*, by the same simulation (64-point grids, 12 runs, 5 % noise): a Gaussian process, a tree of Parzen estimators and hill
//! climbing, which have twice the regret at the 95th percentile and more; a model of the run as a prior, which is better only as long as it is exactly
//! right; a first step as long as the cause's share suggests, which overshoots. `docs/results/TUNE.md` has the figures.
//!
//! No clock, no file, no process: [`Search::step`] says which place is run, [`Search::ran`] what came of it.

mod knob;
mod moves;
#[cfg(test)]
mod simulated;

pub use knob::{Kind, Knob};

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A point of the grid: for each knob, the place of its value on the knob's list.
pub type Place = Vec<usize>;

/// What one run gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ended well.
    Ran {
        /// What is to be large: a rate, or one over what is to be small. Of the run alone.
        value: f64,
        /// Causes with their shares of the wall time, largest first; empty where the run was not explained.
        causes: Vec<(String, f64)>,
    },
    /// It failed, or took too long: not a slow setting, but one that does not work.
    Failed,
}

/// Why a place is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// It is where the command stands without a tuner.
    Default,
    /// It was the best of an earlier search.
    Remembered,
    /// A cause of the best run so far calls for it.
    Cause {
        /// The cause.
        cause: String,
        /// Its share of that run.
        share: f64,
        /// The knob that is turned, or both of them.
        knob: String,
        /// Whether up.
        up: bool,
    },
    /// One file or request is in flight, and no cause has most of the time.
    OneInFlight {
        /// The knob that is turned.
        knob: String,
    },
    /// No cause has a move left.
    Other {
        /// The knob that is turned.
        knob: String,
        /// Whether up.
        up: bool,
    },
    /// It is among the best, and is run again.
    Leader,
}

/// A run to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where.
    pub place: Place,
    /// Why.
    pub reason: Reason,
}

/// Below this share of a run a cause calls for nothing.
const LEAST_SHARE: f64 = 0.08;
/// A cause with this share is what limits; below it, one request in flight is tried first as two.
const MOST_OF_IT: f64 = 0.7;
/// The first step of a move, places on the list: a factor of four on a list of powers of two. With 1, regret at the 95th percentile is threefold.
const FIRST_STEP: usize = 2;
/// From this share on, the default's largest cause is so much of the run that two knobs are turned at once. After three runs that halves regret.
const STRIDE_SHARE: f64 = 0.5;
/// So many knobs at once.
const STRIDE_KNOBS: usize = 2;
/// The longest.
const LONGEST_STEP: usize = 4;
/// So many of the best are run again at the end, in turn.
const LEADERS: usize = 3;
/// And each of them so often at most, however many runs are left.
const RUNS_OF_A_LEADER: usize = 3;
/// Runs that are kept for that. With 3 or 4, regret at the 95th percentile rises.
const CONFIRMING: usize = 2;

/// The fewest runs with which a search makes sense: the default, another setting, and both of them again.
pub const LEAST_RUNS: usize = 4;

/// A run with less than this part of the best one's figure was too far: the search stays on this side of it as long as there is something else.
const TOO_FAR: f64 = 0.8;
/// A link that is full gives what it can: what may be gained is in the other causes, which are tried before it.
const FULL_LINK: &str = "network.bandwidth";

/// A knob, and a way to turn it.
type Turn = (usize, bool);

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    knobs: Vec<Knob>,
    start: Place,
    remembered: Option<Place>,
    budget: usize,
    /// Places that are not to be run.
    excluded: BTreeSet<Place>,
    runs: usize,
    seen: BTreeMap<Place, Vec<f64>>,
    best: Place,
    why: Vec<(String, f64)>,
    steps: BTreeMap<Turn, usize>,
    closed: BTreeSet<Turn>,
    /// How often each turn has failed from the best place.
    failed: BTreeMap<Turn, usize>,
    /// Where each turn was too far, on its knob.
    bounds: BTreeMap<Turn, usize>,
    /// The turns that led to what is being run: one, or those of a stride.
    trying: Vec<Turn>,
    is_enough: bool,
}

impl Search {
    /// From this place, with so many runs. `excluded` are not run.
    pub fn new(knobs: Vec<Knob>, start: Place, budget: usize, excluded: BTreeSet<Place>) -> Search {
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

    /// The same, which runs this place second: what an earlier search found.
    #[must_use]
    pub fn remembering(mut self, place: Place) -> Search {
        self.remembered = Some(place).filter(|place| *place != self.start && !self.excluded.contains(place));
        self
    }

    /// The next run; `None` when the search is over.
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

    /// What came of it. A place that failed once is not run again.
    pub fn ran(&mut self, place: &Place, outcome: Outcome) {
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

    /// A turn led to a place from which the search stays away. Of a stride nobody knows which of its turns it was.
    fn too_far(&mut self, trying: &[Turn], place: &Place) {
        if let [turn] = trying {
            self.bounds.insert(*turn, place[turn.0]);
            self.lost(*turn);
        }
    }

    /// Nothing more is to be found: what is left are the runs that confirm it.
    pub fn enough(&mut self) {
        self.is_enough = true;
    }

    /// Where the runs are fastest on average; the start, where no run ended well.
    pub fn best(&self) -> &Place {
        let by_mean = |a: &&Place, b: &&Place| self.mean(a).total_cmp(&self.mean(b));
        self.seen.keys().max_by(by_mean).unwrap_or(&self.start)
    }

    /// Every place that was run, with what its runs gave.
    pub fn seen(&self) -> &BTreeMap<Place, Vec<f64>> {
        &self.seen
    }

    fn mean(&self, place: &Place) -> f64 {
        self.seen.get(place).map_or(f64::NEG_INFINITY, |values| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn won(&mut self, place: &Place, causes: Vec<(String, f64)>, trying: &[Turn]) {
        let before = std::mem::replace(&mut self.best, place.clone());
        // A run without an explanation leaves the one before: causes change more slowly than settings.
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
            // What was left is too far the other way: between the two, there may be better.
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

    /// The first step away from the default: what its largest cause wants more of, two knobs at once. Who computes wants less of one thing and more of
    /// another: which, only single steps can show.
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

    /// The next turn of a knob, from the best place: within what is known to be too far, and only then beyond it.
    fn turn(&mut self) -> Option<Step> {
        let mut proposed = self.proposed();
        // What has failed from here waits until the others have had their turn.
        proposed.sort_by_key(|(turn, _)| self.failed.get(turn).copied().unwrap_or(0));
        let within = proposed.iter().find_map(|(turn, reason)| self.turned(*turn, true).map(|place| (*turn, place, reason.clone())));
        let found = within
            .or_else(|| proposed.iter().find_map(|(turn, reason)| self.turned(*turn, false).map(|place| (*turn, place, reason.clone()))));
        let (turn, place, reason) = found?;
        self.trying = vec![turn];
        Some(Step { place, reason })
    }

    /// The best place with a knob turned, if that is to be run; closes the turn where nothing is left.
    fn turned(&mut self, turn: Turn, within: bool) -> Option<Place> {
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

    /// Turns in the order in which they are tried.
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

    /// Of the best places, the one that was run least.
    fn leader(&self) -> Option<Place> {
        let mut places: Vec<&Place> = self.seen.keys().collect();
        places.sort_by(|a, b| self.mean(b).total_cmp(&self.mean(a)));
        let runs = |place: &Place| self.seen[place].len();
        places.into_iter().take(LEADERS).filter(|place| runs(place) < RUNS_OF_A_LEADER).min_by_key(|place| runs(place)).cloned()
    }
}

#[cfg(test)]
mod tests;
