//! The limiting cause, and how certain it is.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// The limiting cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether one cause stands out.
    pub status: Status,
    /// The largest cause.
    pub cause: Cause,
    /// The place of its largest part.
    #[serde(rename = "where")]
    pub place: String,
    /// Its share of the wall time, summed over places.
    pub share: f64,
    /// The second cause, if the verdict is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub second: Option<Second>,
    /// Part of its measured ceiling that the limiting device or path reached, if it came close.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<f64>,
    /// One plain sentence.
    pub sentence: String,
    /// For an answer that is unsure, or names a server that was not recorded: what was not seen, and the shortest way to see it, the most
    /// important first; or the control run that would tell.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub settle: Vec<String>,
}

/// The runner-up of an inconclusive verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The second largest cause.
    pub cause: Cause,
    /// The place of its largest part.
    #[serde(rename = "where")]
    pub place: String,
    /// Its share of the wall time, summed over places.
    pub share: f64,
}

/// How certain the verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The largest cause leads by 5 points or more.
    Limited,
    /// The first two causes are closer; both are named.
    Inconclusive,
    /// The limiting device or link runs at its ceiling: nothing is wrong.
    Healthy,
    /// Time that was inferred, or not recorded, may belong to another cause, which would then be the largest.
    Unsure,
}
