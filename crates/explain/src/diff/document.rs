//! What a diff says, field by field; `diff.schema.json` describes it to other languages.

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
    /// The later one.
    pub after: OfRun,
    /// How much longer the later one took: negative where it is faster.
    pub change_s: f64,
    /// How many times as fast the later one is.
    pub speedup: f64,
    /// What each cause and subject had and has, the largest change first; `change_s` of all sums to that of the runs.
    pub rows: Vec<DiffRow>,
    /// The change that was made between them, where the earlier run's explanation proposed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made: Option<Made>,
    /// Why the runs are of different work, where they were compared anyway.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub different_work: Option<String>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfRun {
    /// Its command.
    pub command: Vec<String>,
    /// Its wall time; of a command that was run several times, the median.
    pub wall_s: f64,
    /// How many runs that is of.
    pub runs: usize,
    /// The 95 % interval of the median of several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval_s: Option<(f64, f64)>,
    /// How many bytes it moved.
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

/// What one cause had at one subject, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiffRow {
    /// The cause; absent of what is left of all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Cause>,
    /// Who or what it was.
    pub subject: String,
    /// Who or what it is after, where that has another name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject_after: Option<String>,
    /// Seconds of the earlier run.
    pub before_s: f64,
    /// Seconds of the later one.
    pub after_s: f64,
    /// The later ones less the earlier ones: negative of what went, positive of what came.
    pub change_s: f64,
}

impl DiffRow {
    pub(super) fn new(cause: Option<Cause>, subject: String, subject_after: Option<String>, before_s: f64, after_s: f64) -> DiffRow {
        DiffRow { cause, subject, subject_after, before_s, after_s, change_s: after_s - before_s }
    }
}

/// A change that was made: predicted against achieved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Its `id`.
    pub id: String,
    /// The change, in words.
    pub change: String,
    /// What the prediction rests on.
    pub basis: Grounds,
    /// The wall time that was predicted; of a bound, the least that it could be.
    pub predicted_s: f64,
    /// The interval of the prediction.
    pub interval_s: (f64, f64),
    /// The wall time achieved.
    pub achieved_s: f64,
    /// (predicted − achieved) / achieved: negative where too much was promised.
    pub error: f64,
    /// Whether what was achieved lies in the interval of the prediction, or its own interval meets it.
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
