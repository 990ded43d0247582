//! Targets for a study's figures, and whether they are met.

use serde::{Deserialize, Serialize};
use thalweg_measure::Estimate;

/// A target for a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Description of the figure.
    pub what: String,
    /// The measured figure.
    pub found: Estimate,
    /// Minimum to meet it.
    pub least: f64,
    /// Maximum to meet it; absent if more is better.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most: Option<f64>,
    /// Whether it is met.
    pub kept: bool,
}
