//! The fields of a diff; `diff.schema.json` describes them to other languages.

use crate::cause::Cause;
use crate::document::{Explanation, Grounds, WhatIf};
use serde::{Deserialize, Serialize};

/// The name and version of this document.
pub(super) const SCHEMA: &str = "thalweg.diff/1";

/// The wall time of one run, or the median of several.
pub(crate) fn wall_s(e: &Explanation) -> f64 {
    e.repeated.as_ref().map_or(e.wall_s, |repeated| repeated.median_s)
}

/// Two runs of the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// Always `thalweg.diff/1`.
    pub schema: String,
    /// The earlier run.
    pub before: OfRun,
    /// The later run.
    pub after: OfRun,
    /// How much longer the later run took, in seconds; negative if it was faster.
    pub change_s: f64,
    /// Speed of the later run as a multiple of the earlier one's.
    pub speedup: f64,
    /// The seconds of each cause and subject before and after, the largest change first; `change_s` of all sums to that of the runs.
    pub rows: Vec<DiffRow>,
    /// The change made between them, if the earlier run's explanation proposed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made: Option<Made>,
    /// Why the runs did different work, if they were compared anyway.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub different_work: Option<String>,
    /// Further facts for the reader.
    pub notes: Vec<String>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfRun {
    /// Its command.
    pub command: Vec<String>,
    /// Its wall time; for a command that was run several times, the median.
    pub wall_s: f64,
    /// Number of runs.
    pub runs: usize,
    /// The 95 % interval of the median, if there were several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval_s: Option<(f64, f64)>,
    /// Bytes moved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_bytes: Option<u64>,
    /// `size_bytes` over `wall_s`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<f64>,
    /// The run in one sentence.
    pub sentence: String,
}

impl OfRun {
    pub(super) fn of(e: &Explanation, wall_s: f64) -> OfRun {
        OfRun {
            command: e.command.clone(),
            wall_s,
            runs: e.repeated.as_ref().map_or(1, |repeated| repeated.wall_s.len()),
            interval_s: e.repeated.as_ref().map(|repeated| repeated.interval_s),
            size_bytes: e.size_bytes,
            rate_bytes_per_s: e.size_bytes.map(|bytes| bytes as f64 / wall_s.max(1e-9)),
            sentence: if e.summary.sentence.is_empty() { e.verdict.sentence.clone() } else { e.summary.sentence.clone() },
        }
    }
}

/// The seconds of one cause at one subject, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiffRow {
    /// The cause; absent for the sum of the rest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Cause>,
    /// The subject.
    pub subject: String,
    /// The later run's subject, if it has another name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject_after: Option<String>,
    /// Seconds in the earlier run.
    pub before_s: f64,
    /// Seconds in the later run.
    pub after_s: f64,
    /// `after_s` less `before_s`: negative for time saved, positive for time added.
    pub change_s: f64,
}

impl DiffRow {
    pub(super) fn new(cause: Option<Cause>, subject: String, subject_after: Option<String>, before_s: f64, after_s: f64) -> DiffRow {
        DiffRow { cause, subject, subject_after, before_s, after_s, change_s: after_s - before_s }
    }
}

/// A change that was made: predicted and achieved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Its `id`.
    pub id: String,
    /// The change, in words.
    pub change: String,
    /// The basis of the prediction.
    pub basis: Grounds,
    /// The predicted wall time; for a bound, the least possible.
    pub predicted_s: f64,
    /// The interval of the prediction.
    pub interval_s: (f64, f64),
    /// The wall time achieved.
    pub achieved_s: f64,
    /// (predicted − achieved) / achieved; negative if too much was promised.
    pub error: f64,
    /// Whether the achieved time lies in the prediction's interval, or its own interval overlaps it.
    pub within: bool,
}

impl Made {
    pub(super) fn of(change: &WhatIf, after: &Explanation) -> Made {
        let achieved_s = wall_s(after);
        let (low, high) = after.repeated.as_ref().map_or((achieved_s, achieved_s), |repeated| repeated.interval_s);
        Made {
            id: change.id.clone(),
            change: change.change.clone(),
            basis: change.basis,
            predicted_s: change.predicted_wall_s,
            interval_s: change.interval_s,
            achieved_s,
            error: (change.predicted_wall_s - achieved_s) / achieved_s.max(1e-9),
            within: low <= change.interval_s.1 && change.interval_s.0 <= high,
        }
    }
}
