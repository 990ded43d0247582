//! The log's entry of each run: its point, its server, its state and its figures.

use serde::{Deserialize, Serialize};
use thalweg_measure::{CacheState, Runs, Usage};

/// The labels of a point's values, in the order of the parameters.
pub type Point = Vec<String>;

/// The subject of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The values of the server's parameters.
    pub server: Vec<String>,
    /// Whether the run is recorded, and its times do not count.
    pub recorded: bool,
    /// Whether it is the command that measures the ceiling.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub ceiling: bool,
}

/// The state of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All its runs succeeded.
    Done,
    /// A run failed, for the reason beside it.
    Failed,
    /// A run exceeded the time limit.
    TimedOut,
    /// Skipped by a condition.
    Skipped,
}

impl State {
    /// Returns its name in results.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Failed => "failed",
            State::TimedOut => "timed out",
            State::Skipped => "skipped",
        }
    }
}

/// A short form of a recorded run's explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The largest cause.
    pub cause: String,
    /// Its place.
    #[serde(rename = "where")]
    pub place: String,
    /// The verdict's sentence.
    pub sentence: String,
    /// Every cause with its share of the wall time, largest first.
    pub shares: Vec<(String, f64)>,
}

/// Figures of a recorded run, comparable only with those of other recorded runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Time from the command's start to its exit.
    pub wall_s: f64,
    /// Bytes moved by all its transfers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_bytes: Option<u64>,
    /// Rate of the limiting device or path over its measured ceiling, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
    /// 99th percentile latency of its reads, writes, syncs and requests, if asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
}

/// CPU time of the whole machine by class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Number of profiled runs.
    pub runs: usize,
    /// Samples of busy processors in all profiled runs.
    pub samples: u64,
    /// Each class with its share of CPU time, in the order of the profile's table; empty if there are too few samples.
    pub shares: Vec<ClassShare>,
}

/// A class of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassShare {
    /// Its name in the rules.
    pub class: String,
    /// Its display name.
    pub title: String,
    /// Its share of the CPU time of all processors.
    pub share: f64,
}

/// The sample of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its state.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// Times of the command, if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// CPU time of the server meanwhile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// Bytes moved, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// State of the page cache before the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// The explanation, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// The figures, if recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recorded: Option<Recorded>,
    /// The classes, if profiled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Classes>,
    /// Duration including preparation and cleanup, to estimate a sweep's duration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub took_s: Option<f64>,
}

impl Sample {
    /// Returns a sample with only a state and a problem.
    pub(super) fn bare(state: State, problem: Option<String>) -> Sample {
        let (usage, server_cpu_s, bytes, cache, explanation) = (None, None, None, None, None);
        Sample { state, problem, usage, server_cpu_s, bytes, cache, explanation, recorded: None, profile: None, took_s: None }
    }

    /// Returns bytes moved over wall time.
    pub(super) fn rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.usage.as_ref()?.wall_s)
    }
}

/// All runs of a sweep.
pub(super) type Swept = Runs<Point, Subject, Sample>;
