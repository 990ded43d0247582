//! The runs of a plan, and figures computed from them.

use crate::Key;
use crate::statistics::{Estimate, median_interval, paired_ratio};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The seed of every bootstrap, so that a set of runs always gives the same interval.
const SEED: u64 = 1;

/// One run: a line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run<P, S, X> {
    /// The point.
    pub point: P,
    /// The subject.
    pub subject: S,
    /// The repetition, from 1; 0 is a warm-up, which is not counted.
    pub repeat: usize,
    /// End time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The sample.
    pub sample: X,
}

/// All runs of a plan; a repeated run replaces the earlier one.
#[derive(Clone, Debug)]
pub struct Runs<P, S, X>(BTreeMap<(P, S), BTreeMap<usize, X>>);

impl<P, S, X> Default for Runs<P, S, X> {
    fn default() -> Runs<P, S, X> {
        Runs(BTreeMap::new())
    }
}

impl<P: Key, S: Key, X> Runs<P, S, X> {
    /// Collects these runs.
    pub fn new(runs: impl IntoIterator<Item = Run<P, S, X>>) -> Runs<P, S, X> {
        let mut all = Runs::default();
        runs.into_iter().for_each(|run| all.add(run));
        all
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run<P, S, X>) {
        self.0.entry((run.point, run.subject)).or_default().insert(run.repeat, run.sample);
    }

    /// Whether this run exists.
    pub fn has(&self, point: &P, subject: &S, repeat: usize) -> bool {
        self.0.get(&(point.clone(), subject.clone())).is_some_and(|runs| runs.contains_key(&repeat))
    }

    /// Returns the sample of this run, including a warm-up (0).
    pub fn get(&self, point: &P, subject: &S, repeat: usize) -> Option<&X> {
        self.0.get(&(point.clone(), subject.clone()))?.get(&repeat)
    }

    /// Returns every case that was run, with its counted runs by repetition.
    pub fn cases(&self) -> impl Iterator<Item = (&P, &S, Vec<(usize, &X)>)> {
        self.0.iter().map(|((point, subject), runs)| (point, subject, counted(runs)))
    }

    /// Returns the counted runs of one case by repetition.
    pub fn of(&self, point: &P, subject: &S) -> Vec<(usize, &X)> {
        self.0.get(&(point.clone(), subject.clone())).map(counted).unwrap_or_default()
    }

    /// Returns the median of a case's figures with its interval. Several figures per run (of many nodes) are pooled. `None` without
    /// figures.
    pub fn estimate<I: IntoIterator<Item = f64>>(&self, point: &P, subject: &S, figures: impl Fn(&X) -> I) -> Option<Estimate> {
        estimate(&self.of(point, subject).into_iter().flat_map(|(_, sample)| figures(sample)).collect::<Vec<_>>())
    }

    /// Returns the speed of `of` relative to `to` at a point: the median of the ratios of their times within each repetition, figure by
    /// figure, and the ratios. `None` if they have no repetition in common.
    pub fn ratio<I: IntoIterator<Item = f64>>(&self, point: &P, of: &S, to: &S, seconds: impl Fn(&X) -> I) -> Option<(Estimate, Vec<f64>)> {
        self.ratio_from(1, point, of, to, seconds)
    }

    /// Returns the relative speed from this repetition on.
    pub fn ratio_from<I: IntoIterator<Item = f64>>(
        &self,
        first: usize,
        point: &P,
        of: &S,
        to: &S,
        seconds: impl Fn(&X) -> I,
    ) -> Option<(Estimate, Vec<f64>)> {
        let to: BTreeMap<usize, &X> = self.of(point, to).into_iter().collect();
        let of = self.of(point, of).into_iter().filter(|(repeat, _)| *repeat >= first);
        let pairs = of.filter_map(|(repeat, of)| Some((seconds(of), seconds(to.get(&repeat)?))));
        let (of, to): (Vec<f64>, Vec<f64>) = pairs.flat_map(|(of, to)| of.into_iter().zip(to)).unzip();
        paired_ratio(&of, &to, SEED)
    }
}

/// Returns the median of these values with its interval, computed like all figures of a plan.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    median_interval(values, SEED)
}

fn counted<X>(runs: &BTreeMap<usize, X>) -> Vec<(usize, &X)> {
    runs.range(1..).map(|(repeat, sample)| (*repeat, sample)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(subject: char, repeat: usize, sample: f64) -> Run<u8, char, f64> {
        Run { point: 1, subject, repeat, at_unix_s: 0, sample }
    }

    #[test]
    fn ratios_are_taken_within_repetitions() {
        // B takes twice A's time in every repetition while both get slower: each pair says 2. A's warm-up says nothing.
        let times = [(0, 900.0), (1, 10.0), (2, 20.0), (3, 40.0), (4, 80.0)];
        let runs = Runs::new(times.into_iter().flat_map(|(repeat, s)| [run('a', repeat, s), run('b', repeat, 2.0 * s)]));
        let (ratio, pairs) = runs.ratio(&1, &'a', &'b', |s| [*s]).unwrap();
        assert_eq!((ratio.median, pairs.as_slice()), (2.0, [2.0; 4].as_slice()));
        assert_eq!(runs.ratio_from(3, &1, &'a', &'b', |s| [*s]).unwrap().1.len(), 2);
        assert_eq!(runs.estimate(&1, &'a', |s| [*s]).unwrap().values, 4);
        assert!(runs.ratio(&2, &'a', &'b', |s| [*s]).is_none());
    }

    #[test]
    fn a_run_that_was_made_again_counts_once() {
        let runs = Runs::new([run('a', 1, 1.0), run('a', 1, 9.0)]);
        assert_eq!(runs.of(&1, &'a'), [(1, &9.0)]);
        assert!(runs.has(&1, &'a', 1) && !runs.has(&1, &'a', 2) && !runs.has(&1, &'b', 1));
    }

    #[test]
    fn figures_of_several_nodes_are_pooled_and_compared_node_by_node() {
        let pair = |subject, repeat, nodes: [f64; 2]| Run { point: (), subject, repeat, at_unix_s: 0, sample: nodes };
        let runs = Runs::new([pair('a', 1, [1.0, 2.0]), pair('b', 1, [3.0, 8.0]), pair('a', 2, [1.0, 2.0])]);
        assert_eq!(runs.estimate(&(), &'a', |nodes| *nodes).unwrap().values, 4);
        assert_eq!(runs.ratio(&(), &'a', &'b', |nodes| *nodes).unwrap().1, [3.0, 4.0]);
    }
}
