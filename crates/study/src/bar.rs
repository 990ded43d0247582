//! What is promised of a study, and whether it is kept.

use serde::{Deserialize, Serialize};
use std::fmt::Write;
use thalweg_measure::{Estimate, cell};

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

/// The promises as a table of Markdown; nothing where there are none.
pub(crate) fn table(out: &mut String, bars: &[Bar], found: impl Fn(&Estimate) -> String, promised: impl Fn(&Bar) -> String) {
    if bars.is_empty() {
        return;
    }
    out.push_str("## What was promised\n\n| | found | promised | |\n|---|--:|--:|---|\n");
    for bar in bars {
        let kept = if bar.kept { "kept" } else { "**missed**" };
        let _ = writeln!(out, "| {} | {} | {} | {kept} |", cell(&bar.what), found(&bar.found), promised(bar));
    }
    out.push('\n');
}
