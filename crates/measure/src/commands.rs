//! What an experiment found. It serialises to the JSON that benchmarks keep; every raw time is in it.

use crate::{CacheState, Estimate, Machine, Order, Stop, Usage};
use serde::{Deserialize, Serialize};

/// The version of the document.
pub const SCHEMA: &str = "thalweg.measure/1";

/// The result of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// Where it ran, described when it began.
    pub machine: Machine,
    /// Load average over one minute when it ended.
    pub load_after: Option<f64>,
    /// In which order the arms of a round ran.
    pub order: Order,
    /// The rule by which it stopped.
    pub stop: Stop,
    /// Why it stopped.
    pub stopped: StopReason,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// The arm that is the raw ceiling, if there is one.
    pub ceiling: Option<String>,
    /// The arms, in the order they were given.
    pub arms: Vec<ArmResult>,
    /// The comparisons, those with the ceiling first.
    pub comparisons: Vec<Comparison>,
}

/// Why an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Every comparison's interval was narrow enough.
    IntervalNarrowEnough,
    /// There were as many rounds as were allowed.
    MostPairs,
    /// The time allowed was used up.
    MostSeconds,
}

/// What one arm took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    /// Its name.
    pub name: String,
    /// The command line, if it is a command.
    pub command: Option<String>,
    /// How many bytes each run moves, if that was said.
    pub size_bytes: Option<u64>,
    /// Wall time.
    pub wall_s: Estimate,
    /// Bytes divided by wall time; the median is that of the times.
    pub rate_bytes_per_s: Option<Estimate>,
    /// Every run, in the order they ran.
    pub runs: Vec<Run>,
}

/// One run of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its round, from 1; 0 is a warm-up, which counts for nothing. Runs of one round are a pair.
    pub round: usize,
    /// How long it took.
    pub wall_s: f64,
    /// What the kernel accounted to it, if it was a process.
    pub process: Option<Usage>,
    /// The state of its files in the page cache just before it; absent if nothing was asked for.
    pub cache: Option<CacheState>,
}

/// How many times as fast one arm is as another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The arm in question.
    pub of: String,
    /// The arm it is compared with.
    pub to: String,
    /// Median over the pairs of (time of `to`) / (time of `of`), with its interval: above 1, `of` is
    /// faster.
    pub ratio: Estimate,
    /// The ratio of each pair, by round.
    pub pairs: Vec<f64>,
}

impl Outcome {
    /// The document, indented, with a newline at its end.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }

    /// The comparison of these two arms, if it was asked for.
    pub fn comparison(&self, of: &str, to: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|c| c.of == of && c.to == to)
    }
}

impl ArmResult {
    /// What is known of the caches before its counted runs: the state they all share, or the first run
    /// that differs in being verified.
    pub fn cache(&self) -> Option<&CacheState> {
        let mut states = self.runs.iter().filter(|r| r.round > 0).filter_map(|r| r.cache.as_ref());
        let first = states.next()?;
        Some(if first.is_verified() { states.find(|s| !s.is_verified()).unwrap_or(first) } else { first })
    }
}
