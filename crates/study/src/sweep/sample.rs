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
}

/// Everything that was run.
pub(super) type Swept = Runs<Point, Subject, Sample>;
