//! What was promised of a study and whether it was kept, as a table of Markdown and of a page.

use super::markdown::cell;
use crate::plot::Section;
use std::fmt::Write;
use thalweg_measure::Estimate;
use thalweg_study::Bar;

/// The promises as a table of Markdown; nothing where there are none.
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

/// What was promised, as a page has it.
pub(super) fn promises(bars: &[Bar], found: impl Fn(&Estimate) -> String, promised: impl Fn(&Bar) -> String) -> Vec<Section> {
    if bars.is_empty() {
        return Vec::new();
    }
    let kept = |bar: &Bar| if bar.kept { "kept" } else { "missed" }.to_owned();
    let rows = bars.iter().map(|bar| vec![bar.what.clone(), found(&bar.found), promised(bar), kept(bar)]);
    let table = Section::Table(["what", "found", "promised", ""].map(String::from).to_vec(), rows.collect());
    vec![Section::Heading("What was promised".into()), table]
}
