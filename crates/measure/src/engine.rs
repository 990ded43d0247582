//! Running what is to be compared, in turn, until the figure is good enough.
//!
//! A round runs every arm once; runs of one round make the pairs. The order within a round alternates
//! by default (A B, then B A), so that what one arm leaves behind does not always fall on the same
//! other. After [`Stop::least_pairs`] rounds the experiment ends as soon as the interval of every
//! comparison is narrower than [`Stop::relative_width`], at the latest after [`Stop::most_pairs`]
//! rounds. (Stopping because an interval has become narrow makes intervals a little too narrow; the
//! minimum number of pairs is what keeps that small.)

use crate::machine::load_now;
use crate::outcome::{ArmResult, Comparison, Outcome, Run, SCHEMA, StopReason};
use crate::{CacheState, Error, Machine, Process, Result, Usage, evict, median_interval, paired_ratio, warm};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What a closure of an arm may fail with.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

type Work<'a> = Box<dyn FnMut() -> std::result::Result<(), Failure> + 'a>;
type Timed<'a> = Box<dyn FnMut() -> std::result::Result<Duration, Failure> + 'a>;

enum Body<'a> {
    Command(Box<Process>),
    Closure(Work<'a>),
    Timed(Timed<'a>),
}

enum Caches {
    AsTheyAre,
    Cold(Vec<PathBuf>),
    Warm(Vec<PathBuf>),
}

/// One of the things that are compared.
pub struct Arm<'a> {
    name: String,
    body: Body<'a>,
    before: Option<Work<'a>>,
    after: Option<Work<'a>>,
    caches: Caches,
    size_bytes: Option<u64>,
}

impl<'a> Arm<'a> {
    fn new(name: &str, body: Body<'a>) -> Arm<'a> {
        Arm { name: name.into(), body, before: None, after: None, caches: Caches::AsTheyAre, size_bytes: None }
    }

    /// A command, timed as a whole process.
    pub fn command(name: &str, process: Process) -> Arm<'a> {
        Arm::new(name, Body::Command(Box::new(process)))
    }

    /// A closure, timed from its call to its return.
    pub fn closure(name: &str, work: impl FnMut() -> std::result::Result<(), Failure> + 'a) -> Arm<'a> {
        Arm::new(name, Body::Closure(Box::new(work)))
    }

    /// A closure that says itself how long the part to be compared took.
    pub fn timed(name: &str, work: impl FnMut() -> std::result::Result<Duration, Failure> + 'a) -> Arm<'a> {
        Arm::new(name, Body::Timed(Box::new(work)))
    }

    /// Done before each run, untimed, before caches are seen to.
    #[must_use]
    pub fn before(mut self, work: impl FnMut() -> std::result::Result<(), Failure> + 'a) -> Arm<'a> {
        self.before = Some(Box::new(work));
        self
    }

    /// Done after each run, untimed.
    #[must_use]
    pub fn after(mut self, work: impl FnMut() -> std::result::Result<(), Failure> + 'a) -> Arm<'a> {
        self.after = Some(Box::new(work));
        self
    }

    /// Before each run, empties the page cache of these files and records whether that was verified.
    #[must_use]
    pub fn cold<P: AsRef<Path>>(mut self, files: &[P]) -> Arm<'a> {
        self.caches = Caches::Cold(files.iter().map(|p| p.as_ref().to_owned()).collect());
        self
    }

    /// Before each run, reads these files into the page cache and records whether they are in it.
    #[must_use]
    pub fn warm<P: AsRef<Path>>(mut self, files: &[P]) -> Arm<'a> {
        self.caches = Caches::Warm(files.iter().map(|p| p.as_ref().to_owned()).collect());
        self
    }

    /// How many bytes each run moves; then its rate is reported too.
    #[must_use]
    pub fn size_bytes(mut self, bytes: u64) -> Arm<'a> {
        self.size_bytes = Some(bytes);
        self
    }

    fn run_once(&mut self, round: usize) -> std::result::Result<Run, Failure> {
        if let Some(before) = &mut self.before {
            before()?;
        }
        let cache: Option<CacheState> = match &self.caches {
            Caches::AsTheyAre => None,
            Caches::Cold(files) => Some(evict(files)?),
            Caches::Warm(files) => Some(warm(files)?),
        };
        let start = Instant::now();
        let (wall_s, process): (f64, Option<Usage>) = match &mut self.body {
            Body::Command(process) => {
                let usage = process.run()?;
                (usage.wall_s, Some(usage))
            }
            Body::Closure(work) => {
                work()?;
                (start.elapsed().as_secs_f64(), None)
            }
            Body::Timed(work) => (work()?.as_secs_f64(), None),
        };
        if let Some(after) = &mut self.after {
            after()?;
        }
        Ok(Run { round, wall_s, process, cache })
    }
}

impl std::fmt::Debug for Arm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arm").field("name", &self.name).field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

/// In which order the arms of a round run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A B, then B A, and so on.
    #[default]
    Alternating,
    /// A B in every round.
    Fixed,
}

/// When an experiment ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// At least this many rounds.
    pub least_pairs: usize,
    /// Then until every comparison's interval is narrower than this part of its median.
    pub relative_width: f64,
    /// At most this many rounds.
    pub most_pairs: usize,
    /// No further round begins after this long, once there are [`Stop::least_pairs`].
    pub most_seconds: Option<f64>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { least_pairs: 10, relative_width: 0.05, most_pairs: 40, most_seconds: None }
    }
}

/// Arms, what is compared with what, and when to stop.
#[derive(Debug)]
pub struct Experiment<'a> {
    name: String,
    arms: Vec<Arm<'a>>,
    comparisons: Vec<(String, String)>,
    ceiling: Option<String>,
    stop: Stop,
    order: Order,
    warm_up_rounds: usize,
    seed: u64,
    machine_paths: Vec<PathBuf>,
}

impl<'a> Experiment<'a> {
    /// An experiment without arms yet: one warm-up round, the default [`Stop`].
    pub fn new(name: &str) -> Experiment<'a> {
        Experiment {
            name: name.into(),
            arms: Vec::new(),
            comparisons: Vec::new(),
            ceiling: None,
            stop: Stop::default(),
            order: Order::default(),
            warm_up_rounds: 1,
            seed: 1,
            machine_paths: Vec::new(),
        }
    }

    /// Adds an arm.
    #[must_use]
    pub fn arm(mut self, arm: Arm<'a>) -> Experiment<'a> {
        self.arms.push(arm);
        self
    }

    /// Asks how many times as fast the arm `of` is as the arm `to`.
    #[must_use]
    pub fn compare(mut self, of: &str, to: &str) -> Experiment<'a> {
        self.comparisons.push((of.into(), to.into()));
        self
    }

    /// Says which arm is the raw ceiling: every other arm is compared with it, and the table shows it.
    #[must_use]
    pub fn ceiling(mut self, arm: &str) -> Experiment<'a> {
        self.ceiling = Some(arm.into());
        self
    }

    /// When to end.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Experiment<'a> {
        self.stop = stop;
        self
    }

    /// In which order the arms of a round run.
    #[must_use]
    pub fn order(mut self, order: Order) -> Experiment<'a> {
        self.order = order;
        self
    }

    /// How many rounds are run first; their times are kept as round 0 and count for nothing.
    #[must_use]
    pub fn warm_up(mut self, rounds: usize) -> Experiment<'a> {
        self.warm_up_rounds = rounds;
        self
    }

    /// The seed of the bootstrap.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Experiment<'a> {
        self.seed = seed;
        self
    }

    /// A path whose file system belongs into the description of the machine.
    #[must_use]
    pub fn on_file_system_of(mut self, path: &Path) -> Experiment<'a> {
        self.machine_paths.push(path.to_owned());
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Result<Outcome> {
        self.run_observed(|_| {})
    }

    /// Runs it, and hands every run to `observe` as it ends (for progress).
    pub fn run_observed(mut self, mut observe: impl FnMut(Progress<'_>)) -> Result<Outcome> {
        let pairs = self.resolve()?;
        let started_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let machine = Machine::describe(&self.machine_paths);
        let begun = Instant::now();
        let mut runs: Vec<Vec<Run>> = self.arms.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.warm_up_rounds {
            self.round(0, &mut runs, &mut observe)?;
        }
        let mut round = 0;
        let stopped = loop {
            round += 1;
            self.round(round, &mut runs, &mut observe)?;
            if round < self.stop.least_pairs {
                continue;
            }
            if self.narrow_enough(&pairs, &runs) {
                break StopReason::IntervalNarrowEnough;
            }
            if round >= self.stop.most_pairs {
                break StopReason::MostPairs;
            }
            if self.stop.most_seconds.is_some_and(|s| begun.elapsed().as_secs_f64() >= s) {
                break StopReason::MostSeconds;
            }
        };
        Ok(self.conclude(&pairs, runs, machine, started_unix_s, stopped))
    }

    /// The comparisons as indices of arms, those with the ceiling first.
    fn resolve(&self) -> Result<Vec<(usize, usize)>> {
        let fail = |problem: String| Error::Experiment { experiment: self.name.clone(), problem };
        for (i, arm) in self.arms.iter().enumerate() {
            if self.arms[..i].iter().any(|a| a.name == arm.name) {
                return Err(fail(format!("two arms are named {}; give each its own name", arm.name)));
            }
        }
        if self.arms.is_empty() || self.stop.least_pairs == 0 || self.stop.most_pairs < self.stop.least_pairs {
            return Err(fail("needs at least one arm, and 1 ≤ least_pairs ≤ most_pairs".into()));
        }
        let find = |name: &String| {
            let names = || self.arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
            self.arms.iter().position(|a| a.name == *name).ok_or_else(|| fail(format!("no arm is named {name}; there are: {}", names())))
        };
        let mut pairs = Vec::new();
        if let Some(ceiling) = &self.ceiling {
            let to = find(ceiling)?;
            pairs.extend((0..self.arms.len()).filter(|of| *of != to).map(|of| (of, to)));
        }
        for (of, to) in &self.comparisons {
            let pair = (find(of)?, find(to)?);
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        Ok(pairs)
    }

    fn round(&mut self, round: usize, runs: &mut [Vec<Run>], observe: &mut impl FnMut(Progress<'_>)) -> Result<()> {
        let backward = self.order == Order::Alternating && round > 0 && round.is_multiple_of(2);
        for step in 0..self.arms.len() {
            let index = if backward { self.arms.len() - 1 - step } else { step };
            let arm = &mut self.arms[index];
            let run = arm.run_once(round).map_err(|source| Error::Arm {
                experiment: self.name.clone(),
                arm: arm.name.clone(),
                run: round,
                source,
            })?;
            observe(Progress { arm: &arm.name, run: &run });
            runs[index].push(run);
        }
        Ok(())
    }

    /// Whether every comparison is known well enough; without comparisons, every arm's median.
    fn narrow_enough(&self, pairs: &[(usize, usize)], runs: &[Vec<Run>]) -> bool {
        let width = self.stop.relative_width;
        if pairs.is_empty() {
            return runs.iter().all(|r| median_interval(&counted(r), self.seed).is_some_and(|e| e.relative_width() < width));
        }
        pairs.iter().all(|&(of, to)| {
            paired_ratio(&counted(&runs[of]), &counted(&runs[to]), self.seed).is_some_and(|(e, _)| e.relative_width() < width)
        })
    }

    fn conclude(
        self,
        pairs: &[(usize, usize)],
        runs: Vec<Vec<Run>>,
        machine: Machine,
        started_unix_s: u64,
        stopped: StopReason,
    ) -> Outcome {
        let comparisons = pairs
            .iter()
            .filter_map(|&(of, to)| {
                let (ratio, per_pair) = paired_ratio(&counted(&runs[of]), &counted(&runs[to]), self.seed)?;
                Some(Comparison { of: self.arms[of].name.clone(), to: self.arms[to].name.clone(), ratio, pairs: per_pair })
            })
            .collect();
        let arms = self
            .arms
            .into_iter()
            .zip(runs)
            .filter_map(|(arm, runs)| {
                let wall_s = median_interval(&counted(&runs), self.seed)?;
                let command = match &arm.body {
                    Body::Command(process) => Some(process.line()),
                    _ => None,
                };
                let rate_bytes_per_s = arm.size_bytes.map(|bytes| wall_s.as_rate(bytes));
                Some(ArmResult { name: arm.name, command, size_bytes: arm.size_bytes, wall_s, rate_bytes_per_s, runs })
            })
            .collect();
        Outcome {
            schema: SCHEMA.into(),
            experiment: self.name,
            started_unix_s,
            machine,
            load_after: load_now(),
            order: self.order,
            stop: self.stop,
            stopped,
            seed: self.seed,
            ceiling: self.ceiling,
            arms,
            comparisons,
        }
    }
}

/// The times that count: not those of warm-up rounds.
fn counted(runs: &[Run]) -> Vec<f64> {
    let mut counted: Vec<&Run> = runs.iter().filter(|r| r.round > 0).collect();
    counted.sort_by_key(|r| r.round);
    counted.iter().map(|r| r.wall_s).collect()
}

/// A run that has just ended.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Whose.
    pub arm: &'a str,
    /// The run.
    pub run: &'a Run,
}
