//! Tries a proposed change: the command without and with the change, in alternation.
//!
//! **In:** two commands of the same work, and what to run around each. **Out:** the wall time of both with intervals, and the ratio within
//! adjacent pairs of runs. **Never:** runs a command that consumes its input ([`consumes`]), unless it is restored before each run.

mod choice;
mod guard;

pub use choice::{Choice, choose};
pub use guard::consumes;

use crate::{Error, Result};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_measure::{Batch, Case, Estimate, Failure, Header, Limits, Observer, OnFailure, Order, Plan, Process, Subjects, measure};

/// Two commands to run in alternation.
#[derive(Clone, Debug)]
pub struct Trying {
    /// The command as recorded.
    pub before: Vec<String>,
    /// The command with the change.
    pub after: Vec<String>,
    /// Shell commands before each run, not timed.
    pub prepare: Vec<String>,
    /// Runs of each, after one warm-up run.
    pub pairs: usize,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
}

/// Result of trying a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Median wall time without the change, with its interval.
    pub before_s: Estimate,
    /// Speed-up with the change: the median over the pairs, with its interval.
    pub speedup: Estimate,
}

impl Tried {
    /// Returns the wall time with the change and its interval: that without it, divided by the ratio within pairs. Unaffected by drift of
    /// the machine.
    pub fn achieved_s(&self) -> (f64, (f64, f64)) {
        let of = |speedup: f64| self.before_s.median / speedup;
        (of(self.speedup.median), (of(self.speedup.high), of(self.speedup.low)))
    }
}

const BEFORE: &str = "the command without the change";
const AFTER: &str = "the command with the change";

impl Trying {
    /// Runs both in alternation, in random order within each pair.
    ///
    /// # Errors
    /// A run, or its preparation, fails; the user wants to stop.
    pub fn run(&self, observer: &dyn Observer) -> Result<Tried> {
        let case = |subject: &str| Case { point: String::new(), subject: subject.to_owned(), repeat: self.pairs };
        let plan = Plan {
            header: Header::new("try", "a proposed change"),
            batches: vec![Batch { name: "try".into(), cases: vec![case(BEFORE), case(AFTER)] }],
            order: Order::Shuffled,
            limits: Limits::default(),
            warm_up: true,
            on_failure: OnFailure::End,
            seed: 1,
        };
        let failed = |error: thalweg_measure::Error| Error::from(thalweg_study::Error::from(error));
        let runs = measure(&plan, None, &mut Both(self), observer).map_err(failed)?.runs;
        let point = String::new();
        let (before, after) = (BEFORE.to_owned(), AFTER.to_owned());
        let before_s = runs.estimate(&point, &before, |seconds| [*seconds]);
        let speedup = runs.ratio(&point, &after, &before, |seconds| [*seconds]).map(|(ratio, _)| ratio);
        let none = || Error::Unfit("no pair of runs was measured".to_owned());
        Ok(Tried { before_s: before_s.ok_or_else(none)?, speedup: speedup.ok_or_else(none)? })
    }

    /// Prepares and runs a command once; returns its wall time in seconds.
    fn timed(&self, words: &[String]) -> std::result::Result<f64, Failure> {
        for script in &self.prepare {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            Process::new(shell).own_group(Arc::clone(&self.stop)).run()?;
        }
        let (program, arguments) = words.split_first().ok_or_else(|| Failure::from("no command"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(Process::new(command).own_group(Arc::clone(&self.stop)).run()?.wall_s)
    }
}

/// The two commands as subjects of a plan.
struct Both<'a>(&'a Trying);

impl Subjects for Both<'_> {
    type Point = String;
    type Subject = String;
    type Sample = f64;

    fn name(&self, case: &Case<String, String>) -> String {
        case.subject.clone()
    }

    fn run(&mut self, case: &Case<String, String>, _: usize) -> std::result::Result<f64, Failure> {
        self.0.timed(if case.subject == BEFORE { &self.0.before } else { &self.0.after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn both_are_run_in_turn_with_what_is_to_be_done_before() {
        let here = tempfile::tempdir().unwrap();
        let log = here.path().join("log").display().to_string();
        let script = |what: &str| words(&["sh", "-c", &format!("echo {what} >>{log}")]);
        let prepare = vec![format!("echo prepare >>{log}")];
        let trying = Trying { before: script("before"), after: script("after"), prepare, pairs: 3, stop: Arc::default() };
        let tried = trying.run(&()).unwrap();
        assert_eq!((tried.before_s.values, tried.speedup.values), (3, 3));
        let (achieved_s, (low, high)) = tried.achieved_s();
        assert!(low <= achieved_s && achieved_s <= high);
        let lines = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 2 * 2 * 4, "{lines:?}");
        for pair in lines.chunks(4) {
            assert_eq!((pair[0], pair[2]), ("prepare", "prepare"));
            let mut both = [pair[1], pair[3]];
            both.sort_unstable();
            assert_eq!(both, ["after", "before"]);
        }
    }

    #[test]
    fn a_run_that_fails_ends_it_and_is_named() {
        let trying = Trying { before: words(&["true"]), after: words(&["false"]), prepare: Vec::new(), pairs: 2, stop: Arc::default() };
        let error = trying.run(&()).unwrap_err().to_string();
        assert!(error.contains("with the change") && error.contains("exit status: 1"), "{error}");
    }
}
