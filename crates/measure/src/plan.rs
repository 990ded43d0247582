//! A plan: subjects, points, number of runs, and order.
//!
//! A *point* is a setting of the varied parameters (a size, a number of files, a distance), a *subject* is compared there (a command, a
//! layout, a method). A [`Case`] is a subject at a point. Cases that need the same fixture form a [`Batch`]: its fixture is made once, all
//! its cases are run, and the fixture is removed before the next batch.
//!
//! Within a batch all cases are interleaved: a repetition runs each case once, in a newly shuffled order, so that the after-effects of one
//! (dirty pages, a warm allocator, a raised clock) affect all others equally often. The order depends only on the seed: a resumed plan runs
//! in the order in which it would have run.

use crate::statistics::SplitMix;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The requirements on points and subjects: ordered, and serialisable in the log.
pub trait Key: Clone + Debug + Ord + Serialize + DeserializeOwned {}

impl<T: Clone + Debug + Ord + Serialize + DeserializeOwned> Key for T {}

/// A subject at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case<P, S> {
    /// The point.
    pub point: P,
    /// The subject.
    pub subject: S,
    /// Maximum number of runs.
    pub repeat: usize,
}

/// Cases that need the same fixture, run interleaved.
#[derive(Clone, Debug)]
pub struct Batch<P, S> {
    /// Its name in progress and problems.
    pub name: String,
    /// Its cases.
    pub cases: Vec<Case<P, S>>,
}

/// Limits on the repetitions of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Minimum number of repetitions.
    pub least: usize,
    /// After the minimum, no further repetition starts once this time has passed.
    pub seconds: Option<f64>,
}

impl Default for Limits {
    /// Returns limits under which every case has its maximum number of runs.
    fn default() -> Limits {
        Limits { least: usize::MAX, seconds: None }
    }
}

/// The handling of a failed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Its case is left out from then on and reported; the others continue.
    #[default]
    LeaveOut,
    /// The whole measurement ends with the error.
    End,
}

/// The order of cases in a repetition, shuffled anew for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All cases of a batch, in any order.
    #[default]
    Shuffled,
    /// Grouped by subject, for subjects that are costly to change (a server to restart), with the subjects shuffled too. Each subject is
    /// still run in every repetition, so that a drift affects all of them.
    BySubject,
}

/// A plan of a measurement.
#[derive(Clone, Debug)]
pub struct Plan<P, S> {
    /// The first line of its log, which identifies the plan.
    pub header: Header,
    /// The batches, in order.
    pub batches: Vec<Batch<P, S>>,
    /// The order of cases in a repetition.
    pub order: Order,
    /// Limits on the repetitions of a batch.
    pub limits: Limits,
    /// Whether each case has a warm-up run before the first repetition, which is kept and not counted.
    pub warm_up: bool,
    /// The handling of a failed run.
    pub on_failure: OnFailure,
    /// Equal seeds give equal orders.
    pub seed: u64,
}

/// Identifies the plan of a log. Another plan's log is never resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the log.
    pub schema: String,
    /// The kind of plan: `layout`, `ls`, `commands`.
    pub plan: String,
    /// Description of the figures.
    pub label: String,
    /// Further values that must be equal for figures to be combined: nodes, a store, commands.
    pub of: BTreeMap<String, serde_json::Value>,
}

impl Header {
    /// The version of the log's lines.
    pub const SCHEMA: &'static str = "thalweg.measure-log/1";

    /// Returns a header of this kind of plan, without further values.
    pub fn new(plan: &str, label: &str) -> Header {
        Header { schema: Header::SCHEMA.into(), plan: plan.into(), label: label.into(), of: BTreeMap::new() }
    }

    /// Adds a value that must be equal.
    #[must_use]
    pub fn of(mut self, name: &str, value: impl Serialize) -> Header {
        self.of.insert(name.into(), serde_json::to_value(value).expect("numbers, strings and lists always serialise"));
        self
    }

    /// Describes the plan briefly, for errors about the wrong log.
    pub(crate) fn describe(&self) -> String {
        let of = self.of.iter().map(|(name, value)| format!("{name} {value}"));
        let words = [self.plan.clone(), self.label.clone()].into_iter().chain(of);
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

impl<P: Key, S: Key> Plan<P, S> {
    /// Returns the cases of a batch in the order of a repetition, from 1; 0 is the warm-up.
    pub(crate) fn order(&self, batch: usize, repeat: usize) -> Vec<&Case<P, S>> {
        let mut cases: Vec<&Case<P, S>> = self.batches[batch].cases.iter().filter(|case| repeat <= case.repeat).collect();
        let mut random = SplitMix(SplitMix(self.seed ^ ((batch as u64) << 32) ^ repeat as u64).next());
        random.shuffle(&mut cases);
        if self.order == Order::BySubject {
            let mut subjects: Vec<&S> = cases.iter().map(|case| &case.subject).collect();
            subjects.sort_unstable();
            subjects.dedup();
            random.shuffle(&mut subjects);
            let turns: BTreeMap<&S, usize> = subjects.into_iter().enumerate().map(|(turn, subject)| (subject, turn)).collect();
            cases.sort_by_key(|case| turns[&case.subject]);
        }
        cases
    }

    /// Returns the maximum number of repetitions of any case of a batch.
    pub(crate) fn most(&self, batch: usize) -> usize {
        self.batches[batch].cases.iter().map(|case| case.repeat).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan<u32, char> {
        let case = |subject, repeat| Case { point: 1, subject, repeat };
        let batch = Batch { name: "one".into(), cases: vec![case('a', 40), case('b', 40), case('c', 40), case('d', 2)] };
        Plan {
            header: Header::new("test", ""),
            batches: vec![batch],
            order: Order::Shuffled,
            limits: Limits::default(),
            warm_up: false,
            on_failure: OnFailure::LeaveOut,
            seed,
        }
    }

    fn order(plan: &Plan<u32, char>, repeat: usize) -> String {
        plan.order(0, repeat).iter().map(|case| case.subject).collect()
    }

    #[test]
    fn a_repetition_runs_every_case_once_in_an_order_of_its_own() {
        let plan = plan(1);
        let mut orders = std::collections::BTreeSet::new();
        for repeat in 1..=plan.most(0) {
            let order = order(&plan, repeat);
            let mut sorted: Vec<char> = order.chars().collect();
            sorted.sort_unstable();
            assert_eq!(sorted.len(), if repeat <= 2 { 4 } else { 3 }, "{order}");
            sorted.dedup();
            assert_eq!(sorted.len(), order.len());
            orders.insert(order);
        }
        assert!((3..=40).filter(|repeat| order(&plan, *repeat).starts_with('a')).count() > 5, "each is first now and then");
        assert!(orders.len() > 6);
    }

    #[test]
    fn subjects_that_are_costly_to_change_are_changed_once_in_a_repetition_and_in_any_order() {
        let cases = (0..4).flat_map(|point| ['a', 'b', 'c'].map(|subject| Case { point, subject, repeat: 40 })).collect();
        let plan = Plan { order: Order::BySubject, batches: vec![Batch { name: "one".into(), cases }], ..plan(1) };
        let mut firsts = std::collections::BTreeSet::new();
        for repeat in 1..=40 {
            let order = order(&plan, repeat);
            let changes = order.as_bytes().windows(2).filter(|two| two[0] != two[1]).count();
            assert_eq!((order.len(), changes), (12, 2), "{order}");
            firsts.insert(order.chars().next());
        }
        assert_eq!(firsts.len(), 3, "each subject comes first now and then");
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        assert_eq!((1..9).map(|r| order(&plan(1), r)).collect::<Vec<_>>(), (1..9).map(|r| order(&plan(1), r)).collect::<Vec<_>>());
        assert_ne!((1..9).map(|r| order(&plan(1), r)).collect::<Vec<_>>(), (1..9).map(|r| order(&plan(2), r)).collect::<Vec<_>>());
    }
}
