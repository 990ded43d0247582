//! The gaps of a channel: how many, and what they were for.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// The gaps of a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// All together.
    pub total_s: f64,
    /// The median length.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub median_s: Option<f64>,
    /// The 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
    /// How many bytes apart they are, when they recur.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_bytes: Option<u64>,
    /// The gaps by what the critical path was charged to within them; most time first.
    pub groups: Vec<GapGroup>,
    /// The same time without regard to which gap it was in: what gaps are made of; most time first.
    #[serde(default)]
    pub parts: Vec<GapPart>,
    /// Single gaps in order of time; the longest [`super::MAX_GAPS`] where there are more.
    pub longest: Vec<Gap>,
}

/// Gaps with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapGroup {
    /// What most of each gap was charged to.
    pub cause: Cause,
    /// Where most of that was.
    #[serde(rename = "where")]
    pub place: String,
    /// How many gaps.
    pub count: u64,
    /// All together.
    pub total_s: f64,
    /// The median length.
    pub median_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// How many bytes apart they are, when they recur.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period_bytes: Option<u64>,
}

/// What one cause has of all gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapPart {
    /// What the critical path was charged to.
    pub cause: Cause,
    /// In how many gaps.
    pub gaps: u64,
    /// All together.
    pub total_s: f64,
    /// The median of those gaps' parts.
    pub median_s: f64,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Where it begins.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// How many bytes the channel had carried before it.
    pub after_bytes: u64,
    /// What most of it was charged to.
    pub cause: Cause,
}
