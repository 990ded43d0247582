//! What is promised of a study, and whether it is kept.

use serde::{Deserialize, Serialize};
use thalweg_measure::Estimate;

/// A promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What.
    pub what: String,
    /// What was found.
    pub found: Estimate,
    /// From here on it is kept.
    pub least: f64,
    /// Up to here; absent: more is better.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most: Option<f64>,
    /// Whether it was.
    pub kept: bool,
}
