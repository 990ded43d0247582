//! What limits, and how sure that is.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// What limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether one cause stands out.
    pub status: Status,
    /// The largest cause.
    pub cause: Cause,
    /// Where its largest part was.
    #[serde(rename = "where")]
    pub place: String,
    /// Its share of the wall time, all places together.
    pub share: f64,
    /// The second, when the verdict is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub second: Option<Second>,
    /// Which part of its measured ceiling the limiting device or path reached, where it came near.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
    /// One plain sentence.
    pub sentence: String,
}

/// The runner-up of an inconclusive verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The second largest cause.
    pub cause: Cause,
    /// Where its largest part was.
    #[serde(rename = "where")]
    pub place: String,
    /// Its share of the wall time, all places together.
    pub share: f64,
}

/// How sure the verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The largest cause leads by 5 points or more.
    Limited,
    /// The first two are closer than that; both are named.
    Inconclusive,
    /// The limiting device or link gives what it can: nothing is wrong.
    Healthy,
    /// What was inferred, or could not be seen, may be another cause's, and then another would be the largest.
    Unsure,
}
