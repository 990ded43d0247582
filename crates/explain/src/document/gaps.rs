//! The gaps of a channel: how many, and what was waited for in them.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// The gaps of a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Number of gaps.
    pub count: u64,
    /// Their total length.
    pub total_s: f64,
    /// The median length.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub median_s: Option<f64>,
    /// The 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
    /// Bytes between them, if they recur.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_bytes: Option<u64>,
    /// The gaps, grouped by what the critical path was charged to; most time first.
    pub groups: Vec<GapGroup>,
    /// Time by cause, across gaps; most time first.
    #[serde(default)]
    pub parts: Vec<GapPart>,
    /// Single gaps in order of time; the longest [`super::MAX_GAPS`] if there are more.
    pub longest: Vec<Gap>,
}

/// Gaps with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapGroup {
    /// The cause of most of each gap.
    pub cause: Cause,
    /// The place of most of that.
    #[serde(rename = "where")]
    pub place: String,
    /// Number of gaps.
    pub count: u64,
    /// Their total length.
    pub total_s: f64,
    /// The median length.
    pub median_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// Bytes between them, if they recur.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_bytes: Option<u64>,
}

/// The part of one cause in all gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapPart {
    /// The cause.
    pub cause: Cause,
    /// Number of gaps with such a part.
    pub gaps: u64,
    /// Its total length.
    pub total_s: f64,
    /// Median length of the part in those gaps.
    pub median_s: f64,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Time it starts.
    pub start_s: f64,
    /// Time it ends.
    pub end_s: f64,
    /// Bytes that the channel had carried before it.
    pub after_bytes: u64,
    /// The cause of most of it.
    pub cause: Cause,
}
