//! Runs a plan: batch after batch, with the cases of a batch interleaved, and each run logged as soon as it ends.
//!
//! The engine is independent of what is measured: [`Subjects`] makes fixtures, runs a case once, and returns a sample; that may be a
//! command, a closure, or workers on other machines. An existing log is resumed: its runs are not repeated, and a complete batch is not
//! even set up.

use crate::log::RawLog;
use crate::plan::{Batch, Case, Key, OnFailure, Plan};
use crate::runs::{Run, Runs};
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The error of a run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the cases of a plan. All methods except [`Subjects::run`] and [`Subjects::name`] default to doing nothing.
pub trait Subjects {
    /// The varied parameters.
    type Point: Key;
    /// The subjects compared.
    type Subject: Key;
    /// The result of one run.
    type Sample: Clone + Serialize + DeserializeOwned;

    /// Returns the name of a case, for progress and problems.
    fn name(&self, case: &Case<Self::Point, Self::Subject>) -> String;

    /// Makes the fixture of a batch.
    ///
    /// # Errors
    /// On an error, the batch is left out.
    fn set_up(&mut self, _batch: &Batch<Self::Point, Self::Subject>, _observer: &dyn Observer) -> std::result::Result<(), Failure> {
        Ok(())
    }

    /// Removes the fixture of a batch.
    ///
    /// # Errors
    /// An error is reported, and the next batch starts.
    fn take_down(&mut self, _batch: &Batch<Self::Point, Self::Subject>) -> std::result::Result<(), Failure> {
        Ok(())
    }

    /// Prepares a repetition, untimed.
    ///
    /// # Errors
    /// Treated like a run's; see [`OnFailure`].
    fn before_repetition(&mut self, _repeat: usize) -> std::result::Result<(), Failure> {
        Ok(())
    }

    /// Runs a case once. Preparation and cleanup must not be part of the times in the sample.
    ///
    /// # Errors
    /// See [`OnFailure`].
    fn run(&mut self, case: &Case<Self::Point, Self::Subject>, repeat: usize) -> std::result::Result<Self::Sample, Failure>;

    /// Restores a state in which other cases can continue, after a failure.
    ///
    /// # Errors
    /// On an error, the measurement ends.
    fn recover(&mut self) -> std::result::Result<(), Failure> {
        Ok(())
    }

    /// Whether a batch needs no more repetitions, beyond its minimum.
    fn is_enough(&self, _batch: &Batch<Self::Point, Self::Subject>, _runs: &Runs<Self::Point, Self::Subject, Self::Sample>) -> bool {
        false
    }

    /// Whether a case needs no more runs while others of its batch continue: its interval is narrow, or its failure was kept as its sample.
    /// Called before each of its runs.
    fn is_settled(&self, _case: &Case<Self::Point, Self::Subject>, _runs: &Runs<Self::Point, Self::Subject, Self::Sample>) -> bool {
        false
    }

    /// Called after each batch with the runs of the plan so far.
    fn so_far(&mut self, _measured: &MeasuredBy<Self>) {}
}

/// The result of a plan with these subjects.
pub type MeasuredBy<W> = Measured<<W as Subjects>::Point, <W as Subjects>::Subject, <W as Subjects>::Sample>;

/// Observes the progress of a measurement, and can stop it.
pub trait Observer {
    /// Reports the current step.
    fn doing(&self, _what: &str) {}
    /// Reports the next run.
    fn next(&self, _progress: &Progress<'_>) {}
    /// Reports an error after which the measurement continues.
    fn trouble(&self, _what: &str) {}
    /// Whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores progress and never stops.
impl Observer for () {}

/// The progress of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Runs done, without those found in the log.
    pub done: usize,
    /// Total runs, if no case ends early.
    pub runs: usize,
    /// Estimated time left, if known.
    pub left: Option<Duration>,
    /// Name of the next case.
    pub what: &'a str,
    /// Its repetition; 0 is a warm-up.
    pub repeat: usize,
}

/// Why a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Every case had its maximum number of runs.
    MostRepetitions,
    /// The results were precise enough.
    Enough,
    /// The time limit was reached.
    Seconds,
}

/// The result of a plan.
#[derive(Debug)]
pub struct Measured<P, S, X> {
    /// All runs.
    pub runs: Runs<P, S, X>,
    /// Names of what could not be measured, with reasons.
    pub problems: BTreeMap<String, String>,
    /// Why the last batch ended.
    pub stopped: StopReason,
}

impl<P, S, X> Measured<P, S, X> {
    /// Returns a line for each thing that could not be measured.
    pub fn problems(&self) -> Vec<String> {
        self.problems.iter().map(|(name, problem)| format!("{name}: {problem}")).collect()
    }
}

/// Runs a plan. With a log, each run is written to it; with `resume`, runs in the log are not repeated.
///
/// # Errors
/// The log cannot be used, a run failed and the plan ends on failures, or [`Error::Stopped`].
pub fn measure<W: Subjects>(
    plan: &Plan<W::Point, W::Subject>,
    log: Option<(&Path, bool)>,
    subjects: &mut W,
    observer: &dyn Observer,
) -> Result<MeasuredBy<W>> {
    check(plan)?;
    let (log, known) = match log {
        None => (None, Vec::new()),
        Some((path, resume)) => RawLog::open(path, &plan.header, resume).map(|(log, known)| (Some(log), known))?,
    };
    let measured = Measured { runs: Runs::new(known), problems: BTreeMap::new(), stopped: StopReason::MostRepetitions };
    let mut engine = Engine { plan, log, measured, subjects, observer, done: 0, runs: 0, begun: Instant::now() };
    engine.runs = (0..plan.batches.len()).map(|batch| engine.left(batch)).sum();
    for batch in 0..plan.batches.len() {
        engine.batch(batch)?;
    }
    Ok(engine.measured)
}

fn check<P: Key, S: Key>(plan: &Plan<P, S>) -> Result<()> {
    let wrong = |problem: String| Err(Error::Plan { plan: plan.header.plan.clone(), problem });
    for batch in &plan.batches {
        if batch.cases.is_empty() || batch.cases.iter().any(|case| case.repeat == 0) {
            return wrong(format!("{}: expected at least one case, and at least one repetition of each", batch.name));
        }
    }
    let mut keys: Vec<_> = plan.batches.iter().flat_map(|batch| &batch.cases).map(|case| (&case.point, &case.subject)).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|two| two[0] == two[1]) {
        Some(twice) => wrong(format!("{:?} occurs twice at {:?}; give each its own name", twice[0].1, twice[0].0)),
        None => Ok(()),
    }
}

struct Engine<'a, W: Subjects> {
    plan: &'a Plan<W::Point, W::Subject>,
    log: Option<RawLog>,
    measured: MeasuredBy<W>,
    subjects: &'a mut W,
    observer: &'a dyn Observer,
    done: usize,
    runs: usize,
    begun: Instant,
}

impl<W: Subjects> Engine<'_, W> {
    /// Returns the number of a batch's runs that are not in the log.
    fn left(&self, batch: usize) -> usize {
        (1..=self.plan.most(batch)).map(|repeat| self.todo(batch, repeat).len()).sum()
    }

    fn todo(&self, batch: usize, repeat: usize) -> Vec<Case<W::Point, W::Subject>> {
        let unknown = |case: &&&Case<W::Point, W::Subject>| !self.measured.runs.has(&case.point, &case.subject, repeat);
        self.plan.order(batch, repeat).iter().filter(unknown).filter(|case| !self.is_settled(case)).map(|case| (*case).clone()).collect()
    }

    fn is_settled(&self, case: &Case<W::Point, W::Subject>) -> bool {
        self.subjects.is_settled(case, &self.measured.runs)
    }

    fn batch(&mut self, number: usize) -> Result<()> {
        let batch = &self.plan.batches[number];
        let mut is_set_up = false;
        let begun = Instant::now();
        self.measured.stopped = StopReason::MostRepetitions;
        for repeat in 1..=self.plan.most(number) {
            if repeat > self.plan.limits.least
                && let Some(reason) = self.is_enough(batch, begun)
            {
                self.measured.stopped = reason;
                break;
            }
            let todo = self.todo(number, repeat);
            if todo.is_empty() {
                continue;
            }
            if !is_set_up {
                is_set_up = true;
                if !self.set_up(number)? {
                    return Ok(());
                }
            }
            self.repetition(todo, repeat)?;
        }
        if is_set_up {
            self.take_down(batch)?;
        }
        Ok(())
    }

    fn is_enough(&self, batch: &Batch<W::Point, W::Subject>, begun: Instant) -> Option<StopReason> {
        let is_over = self.plan.limits.seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds);
        match self.subjects.is_enough(batch, &self.measured.runs) {
            true => Some(StopReason::Enough),
            false => is_over.then_some(StopReason::Seconds),
        }
    }

    /// Makes the fixture and does the warm-up runs; returns whether the batch can be measured.
    fn set_up(&mut self, number: usize) -> Result<bool> {
        let (batch, batches) = (&self.plan.batches[number], self.plan.batches.len());
        if batches > 1 {
            self.doing(&format!("batch {} of {batches}: {}", number + 1, batch.name))?;
        }
        if let Err(error) = self.subjects.set_up(batch, self.observer) {
            self.failed(&batch.name, 0, error)?;
            return Ok(false);
        }
        if self.plan.warm_up {
            let wanted = self.plan.order(number, 0).into_iter().filter(|case| !self.is_settled(case));
            self.repetition(wanted.cloned().collect(), 0)?;
        }
        Ok(true)
    }

    fn take_down(&mut self, batch: &Batch<W::Point, W::Subject>) -> Result<()> {
        if let Err(error) = self.subjects.take_down(batch) {
            self.failed(&batch.name, 0, error)?;
        }
        self.subjects.so_far(&self.measured);
        Ok(())
    }

    fn repetition(&mut self, todo: Vec<Case<W::Point, W::Subject>>, repeat: usize) -> Result<()> {
        if let Err(error) = self.subjects.before_repetition(repeat) {
            return self.failed("before a repetition", repeat, error);
        }
        for case in todo {
            let name = self.subjects.name(&case);
            // The warm-up may have settled it after this repetition was planned.
            if !self.measured.problems.contains_key(&name) && !self.is_settled(&case) {
                self.next(&name, repeat)?;
                match self.subjects.run(&case, repeat) {
                    Ok(sample) => self.keep(case, repeat, sample)?,
                    Err(error) => self.failed(&name, repeat, error)?,
                }
            }
            self.done += usize::from(repeat > 0);
        }
        Ok(())
    }

    fn keep(&mut self, case: Case<W::Point, W::Subject>, repeat: usize, sample: W::Sample) -> Result<()> {
        let most = case.repeat;
        let at_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let run = Run { point: case.point, subject: case.subject, repeat, at_unix_s, sample };
        if let Some(log) = &mut self.log {
            log.add(&run)?;
        }
        let (point, subject) = (run.point.clone(), run.subject.clone());
        self.measured.runs.add(run);
        let case = Case { point, subject, repeat: most };
        if self.is_settled(&case) {
            // Its remaining runs are dropped from the total.
            self.runs = self.runs.saturating_sub(most - repeat.min(most)).max(self.done);
        }
        Ok(())
    }

    fn doing(&self, what: &str) -> Result<()> {
        self.observer.doing(what);
        if self.observer.cancelled() { Err(Error::Stopped) } else { Ok(()) }
    }

    fn next(&self, what: &str, repeat: usize) -> Result<()> {
        // The first runs are cold and not representative.
        let left = (self.done > 2).then(|| self.begun.elapsed().mul_f64((self.runs - self.done.min(self.runs)) as f64 / self.done as f64));
        self.observer.next(&Progress { done: self.done, runs: self.runs, left, what, repeat });
        if self.observer.cancelled() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Handles a failed run. An error after a request to stop counts as the stop.
    fn failed(&mut self, name: &str, repeat: usize, source: Failure) -> Result<()> {
        if self.observer.cancelled() {
            return Err(Error::Stopped);
        }
        if self.plan.on_failure == OnFailure::End {
            return Err(Error::Run { plan: self.plan.header.label.clone(), what: name.into(), repeat, source });
        }
        self.observer.trouble(&format!("{name}: {source}"));
        self.measured.problems.insert(name.into(), source.to_string());
        self.subjects.recover().map_err(|source| Error::Run { plan: self.plan.header.plan.clone(), what: name.into(), repeat, source })
    }
}

/// The closure of [`Closures`].
type RunsCase<'a, P, S, X> = dyn FnMut(&Case<P, S>, usize) -> std::result::Result<X, Failure> + 'a;

/// Subjects run by a closure, without fixtures. A case's name is its subject and point in debug format.
pub struct Closures<'a, P, S, X>(Box<RunsCase<'a, P, S, X>>);

impl<'a, P, S, X> Closures<'a, P, S, X> {
    /// Wraps a closure that gets the case and the repetition, and returns the sample.
    pub fn new(run: impl FnMut(&Case<P, S>, usize) -> std::result::Result<X, Failure> + 'a) -> Closures<'a, P, S, X> {
        Closures(Box::new(run))
    }
}

impl<P: Key, S: Key, X: Clone + Serialize + DeserializeOwned> Subjects for Closures<'_, P, S, X> {
    type Point = P;
    type Subject = S;
    type Sample = X;

    fn name(&self, case: &Case<P, S>) -> String {
        format!("{:?} at {:?}", case.subject, case.point)
    }

    fn run(&mut self, case: &Case<P, S>, repeat: usize) -> std::result::Result<X, Failure> {
        (self.0)(case, repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Header, Limits, Order};
    use std::cell::{Cell, RefCell};

    fn plan(repeat: usize) -> Plan<u32, char> {
        let case = |point, subject| Case { point, subject, repeat };
        let batch = |name: &str, points: [u32; 2]| Batch {
            name: name.into(),
            cases: points.into_iter().flat_map(|point| ['a', 'b'].map(|subject| case(point, subject))).collect(),
        };
        Plan {
            header: Header::new("test", "turns"),
            batches: vec![batch("one", [1, 2]), batch("two", [3, 4])],
            order: Order::Shuffled,
            limits: Limits::default(),
            warm_up: false,
            on_failure: OnFailure::LeaveOut,
            seed: 1,
        }
    }

    /// Records the calls; runs of `broken` fail.
    #[derive(Default)]
    struct Noting {
        did: RefCell<Vec<String>>,
        broken: Option<(u32, char)>,
        enough: Option<usize>,
        settled: Option<(u32, usize)>,
    }

    impl Noting {
        fn note(&self, what: String) {
            self.did.borrow_mut().push(what);
        }
        fn runs(&self) -> Vec<String> {
            self.did.borrow().iter().filter(|did| did.starts_with("run")).cloned().collect()
        }
    }

    impl Subjects for Noting {
        type Point = u32;
        type Subject = char;
        type Sample = f64;

        fn name(&self, case: &Case<u32, char>) -> String {
            format!("{}{}", case.subject, case.point)
        }
        fn set_up(&mut self, batch: &Batch<u32, char>, _: &dyn Observer) -> std::result::Result<(), Failure> {
            self.note(format!("set up {}", batch.name));
            if self.broken.is_some_and(|(point, _)| point == 0) && batch.name == "one" { Err("no disk".into()) } else { Ok(()) }
        }
        fn take_down(&mut self, batch: &Batch<u32, char>) -> std::result::Result<(), Failure> {
            self.note(format!("take down {}", batch.name));
            Ok(())
        }
        fn run(&mut self, case: &Case<u32, char>, repeat: usize) -> std::result::Result<f64, Failure> {
            self.note(format!("run {} {repeat}", self.name(case)));
            if self.broken == Some((case.point, case.subject)) { Err("the disk is full".into()) } else { Ok(f64::from(case.point)) }
        }
        fn recover(&mut self) -> std::result::Result<(), Failure> {
            self.note("recover".into());
            Ok(())
        }
        fn is_enough(&self, batch: &Batch<u32, char>, runs: &Runs<u32, char, f64>) -> bool {
            self.enough.is_some_and(|enough| runs.of(&batch.cases[0].point, &'a').len() >= enough)
        }
        fn is_settled(&self, case: &Case<u32, char>, runs: &Runs<u32, char, f64>) -> bool {
            self.settled.is_some_and(|(point, after)| case.point == point && runs.of(&case.point, &case.subject).len() >= after)
        }
    }

    #[test]
    fn a_batch_is_set_up_run_interleaved_and_taken_down_before_the_next() {
        let mut subjects = Noting::default();
        let measured = measure(&plan(3), None, &mut subjects, &()).unwrap();
        let did = subjects.did.take();
        assert_eq!((did[0].as_str(), did[13].as_str(), did[14].as_str()), ("set up one", "take down one", "set up two"));
        for repeat in 0..3 {
            let mut turn: Vec<&String> = did[1 + repeat * 4..][..4].iter().collect();
            turn.sort();
            assert_eq!(turn, ["a1", "a2", "b1", "b2"].map(|name| format!("run {name} {}", repeat + 1)).iter().collect::<Vec<_>>());
        }
        assert_eq!((measured.runs.cases().count(), measured.problems.len()), (8, 0));
    }

    #[test]
    fn what_the_log_has_is_not_run_again_and_what_needs_nothing_is_not_set_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        measure(&Plan { batches: plan(2).batches[..1].to_vec(), ..plan(2) }, Some((&path, false)), &mut Noting::default(), &()).unwrap();
        let mut subjects = Noting::default();
        let measured = measure(&plan(2), Some((&path, true)), &mut subjects, &()).unwrap();
        assert!(subjects.did.borrow().iter().all(|did| !did.contains("one")), "{:?}", subjects.did);
        assert_eq!((subjects.runs().len(), measured.runs.of(&1, &'a').len()), (8, 2));
        let mut subjects = Noting::default();
        measure(&plan(3), Some((&path, true)), &mut subjects, &()).unwrap();
        assert!(subjects.runs().iter().all(|run| run.ends_with(" 3")) && subjects.runs().len() == 8, "{:?}", subjects.did);
    }

    #[test]
    fn a_case_that_fails_is_left_out_and_reported_and_the_others_go_on() {
        let mut subjects = Noting { broken: Some((1, 'b')), ..Noting::default() };
        let measured = measure(&plan(3), None, &mut subjects, &()).unwrap();
        assert_eq!(measured.problems(), ["b1: the disk is full"]);
        assert_eq!(subjects.runs().iter().filter(|run| run.contains("b1")).count(), 1);
        assert_eq!(subjects.did.borrow().iter().filter(|did| *did == "recover").count(), 1);
        assert_eq!((measured.runs.of(&1, &'b').len(), measured.runs.of(&1, &'a').len()), (0, 3));
        let mut subjects = Noting { broken: Some((0, 'x')), ..Noting::default() };
        let measured = measure(&plan(1), None, &mut subjects, &()).unwrap();
        assert_eq!((measured.problems().as_slice(), subjects.runs().len()), (["one: no disk".to_owned()].as_slice(), 4));
    }

    #[test]
    fn where_the_plan_says_so_a_failure_ends_it_and_is_named() {
        let mut subjects = Noting { broken: Some((1, 'b')), ..Noting::default() };
        let error = measure(&Plan { on_failure: OnFailure::End, ..plan(3) }, None, &mut subjects, &()).unwrap_err();
        assert_eq!(error.to_string(), "turns: b1, run 1: the disk is full");
    }

    #[test]
    fn it_ends_when_enough_is_known_and_not_before_the_least() {
        let limits = Limits { least: 4, seconds: None };
        let measured = measure(&Plan { limits, ..plan(9) }, None, &mut Noting { enough: Some(2), ..Noting::default() }, &()).unwrap();
        assert_eq!((measured.stopped, measured.runs.of(&3, &'a').len()), (StopReason::Enough, 4));
        let measured = measure(&Plan { limits, ..plan(6) }, None, &mut Noting::default(), &()).unwrap();
        assert_eq!((measured.stopped, measured.runs.of(&3, &'a').len()), (StopReason::MostRepetitions, 6));
        let limits = Limits { least: 2, seconds: Some(0.0) };
        let measured = measure(&Plan { limits, ..plan(9) }, None, &mut Noting::default(), &()).unwrap();
        assert_eq!((measured.stopped, measured.runs.of(&3, &'a').len()), (StopReason::Seconds, 2));
    }

    #[test]
    fn a_case_that_is_settled_is_run_no_more_while_the_others_go_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        let mut subjects = Noting { settled: Some((2, 2)), ..Noting::default() };
        let measured = measure(&plan(5), Some((&path, false)), &mut subjects, &()).unwrap();
        assert_eq!((measured.runs.of(&2, &'a').len(), measured.runs.of(&1, &'a').len(), measured.problems.len()), (2, 5, 0));
        // When resumed it is still settled, and a batch in which all is known or settled is not set up.
        let mut subjects = Noting { settled: Some((2, 2)), ..Noting::default() };
        measure(&plan(5), Some((&path, true)), &mut subjects, &()).unwrap();
        assert_eq!(subjects.did.take(), Vec::<String>::new());
    }

    #[test]
    fn warm_up_runs_are_kept_and_count_for_nothing() {
        let mut subjects = Noting::default();
        let measured = measure(&Plan { warm_up: true, ..plan(1) }, None, &mut subjects, &()).unwrap();
        assert_eq!(subjects.runs().iter().filter(|run| run.ends_with(" 0")).count(), 8);
        assert!(measured.runs.has(&1, &'a', 0) && measured.runs.of(&1, &'a').len() == 1);
    }

    #[test]
    fn who_wants_to_stop_is_heard_before_the_next_run() {
        struct After(Cell<usize>);
        impl Observer for After {
            fn next(&self, _: &Progress<'_>) {
                self.0.set(self.0.get() + 1);
            }
            fn cancelled(&self) -> bool {
                self.0.get() > 3
            }
        }
        let mut subjects = Noting::default();
        let stopped = measure(&plan(3), None, &mut subjects, &After(Cell::new(0)));
        assert!(matches!(stopped, Err(Error::Stopped)));
        assert_eq!(subjects.runs().len(), 3);
    }

    #[test]
    fn a_plan_without_cases_or_with_one_twice_is_refused() {
        let of = |batches| measure(&Plan { batches, ..plan(1) }, None, &mut Noting::default(), &()).unwrap_err().to_string();
        assert_eq!(
            of(vec![Batch { name: "none".into(), cases: Vec::new() }]),
            "test: none: expected at least one case, and at least one repetition of each"
        );
        let twice = [plan(1).batches, plan(1).batches].concat();
        assert!(of(twice).contains("'a' occurs twice at 1"));
    }
}
