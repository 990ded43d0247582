//! What the log has of each run: at which point, under which server, what became of it, what it took.

use serde::{Deserialize, Serialize};
use thalweg_measure::{CacheState, Runs, Usage};

/// The labels of a point's values, in the order of the parameters.
pub type Point = Vec<String>;

/// Who is met at a point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The values that the server has.
    pub server: Vec<String>,
    /// Whether the run is recorded; its times do not count.
    pub recorded: bool,
    /// Whether it is the command that measures the ceiling, and not what is swept.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub ceiling: bool,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All of its runs went well.
    Done,
    /// A run failed; what stands beside it says how.
    Failed,
    /// A run took longer than it was allowed to.
    TimedOut,
    /// It was not to be run.
    Skipped,
}

impl State {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Failed => "failed",
            State::TimedOut => "timed out",
            State::Skipped => "skipped",
        }
    }
}

/// What a recorded run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The largest cause.
    pub cause: String,
    /// Where it was.
    #[serde(rename = "where")]
    pub place: String,
    /// The verdict's sentence.
    pub sentence: String,
    /// Every cause with its share of the wall time, largest first.
    pub shares: Vec<(String, f64)>,
}

/// What a recorded run took: figures to hold against those of other recorded runs, and no others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// From the command's start to its exit.
    pub wall_s: f64,
    /// What its transfers moved, all together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_bytes: Option<u64>,
    /// Which part of its measured ceiling the device or path that limited it reached, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
    /// The 99th percentile of how long its reads, writes, syncs and questions took, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
}

/// Where processors' time went meanwhile, all of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Runs that were profiled.
    pub runs: usize,
    /// Samples of busy processors, in all of them.
    pub samples: u64,
    /// Each class with its share of the processors' time, in the order of the profile's table; empty where samples are too few.
    pub shares: Vec<ClassShare>,
}

/// A class of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassShare {
    /// Its name in the rules.
    pub class: String,
    /// What people call it.
    pub title: String,
    /// Its share of all processors' time.
    pub share: f64,
}

/// What one run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What became of it.
    pub state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// Times of the command, where it ended well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// Processor time of the server meanwhile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// What it moved, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// What was verified of the page cache before it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// Of a recorded run: what it says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// Of a recorded run: what it took.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recorded: Option<Recorded>,
    /// Of a recorded run that was profiled: the classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Classes>,
    /// How long all of it took, with what is prepared and cleaned up: what a sweep's length is made of, and no figure of the command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub took_s: Option<f64>,
}

impl Sample {
    /// Of a run of which nothing more is known.
    pub(super) fn bare(state: State, problem: Option<String>) -> Sample {
        let (usage, server_cpu_s, bytes, cache, explanation) = (None, None, None, None, None);
        Sample { state, problem, usage, server_cpu_s, bytes, cache, explanation, recorded: None, profile: None, took_s: None }
    }

    /// What it moved over its wall time.
    pub(super) fn rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.usage.as_ref()?.wall_s)
    }
}

/// Everything that was run.
pub(super) type Swept = Runs<Point, Subject, Sample>;
