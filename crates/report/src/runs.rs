//! Text on several runs of one capture, each in a few lines.

use crate::page::{Ink, Page, TextOptions};
use crate::short::{COLUMNS, MAX_LINES};
use thalweg_base::text::{clean, cut_end, wrap};

/// The summary of one run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Its number and date.
    pub title: String,
    /// Its duration, and the bytes moved.
    pub about: String,
    /// One sentence.
    pub sentence: String,
}

/// Maximum number of runs shown.
const MOST_RUNS: usize = 4;

/// Formats the runs in at most [`MAX_LINES`] lines, ending in a newline. `more`: commands that show more, for the last line.
pub fn runs(of: &str, runs: &[RunSummary], options: &TextOptions, more: &str) -> String {
    let options = TextOptions { width: options.width.min(COLUMNS), ..*options };
    let mut page = Page::new(&options);
    let columns = page.width;
    let first = format!("{of} has {} runs: no packets or connections between them.", runs.len());
    page.line(&cut_end(&clean(&first), columns), Ink::Bold);
    let shown = runs.len().min(MOST_RUNS);
    let left_out = runs.len() - shown;
    // The first line, the last, and a title for each.
    let room = (MAX_LINES - 2 - usize::from(left_out > 0) - shown) / shown.max(1);
    for run in &runs[..shown] {
        page.line(&cut_end(&clean(&format!("{}: {}", run.title, run.about)), columns), Ink::Bold);
        let mut lines = wrap(&clean(&run.sentence), columns - 2);
        if lines.len() > room {
            let rest = lines.split_off(room - 1).join(" ");
            lines.push(cut_end(&rest, columns - 2));
        }
        lines.iter().for_each(|line| page.plain(&format!("  {line}")));
    }
    if left_out > 0 {
        page.line(&format!("and {left_out} more"), Ink::Dim);
    }
    page.line(&cut_end(&clean(&format!("  more: {more}")), columns), Ink::Dim);
    page.into_text()
}
