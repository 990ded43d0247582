//! What every page of Markdown has.

use std::fmt::Write;

/// A text as one cell of a table: a bar would end it.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// What could not be measured, and why; nothing where everything was.
pub(super) fn not_measured(out: &mut String, problems: &[String]) {
    if problems.is_empty() {
        return;
    }
    out.push_str("## Not measured\n\n");
    for problem in problems {
        let _ = writeln!(out, "- {}", cell(problem));
    }
    out.push('\n');
}
