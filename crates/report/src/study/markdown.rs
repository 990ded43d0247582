//! Helpers for Markdown.

use std::fmt::Write;

/// Escapes a text for a table cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Appends what could not be measured, with reasons; nothing if everything was.
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
