//! Formats the targets of a study and whether they are met, as a table in Markdown and on a page.

use super::markdown::cell;
use crate::plot::Section;
use std::fmt::Write;
use thalweg_measure::Estimate;
use thalweg_study::Bar;

/// Appends the targets as a Markdown table; nothing if there are none.
pub(super) fn table(out: &mut String, bars: &[Bar], found: impl Fn(&Estimate) -> String, promised: impl Fn(&Bar) -> String) {
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

/// Returns the targets as sections of a page.
pub(super) fn promises(bars: &[Bar], found: impl Fn(&Estimate) -> String, promised: impl Fn(&Bar) -> String) -> Vec<Section> {
    if bars.is_empty() {
        return Vec::new();
    }
    let kept = |bar: &Bar| if bar.kept { "kept" } else { "missed" }.to_owned();
    let rows = bars.iter().map(|bar| vec![bar.what.clone(), found(&bar.found), promised(bar), kept(bar)]);
    let table = Section::Table(["what", "found", "promised", ""].map(String::from).to_vec(), rows.collect());
    vec![Section::Heading("What was promised".into()), table]
}
