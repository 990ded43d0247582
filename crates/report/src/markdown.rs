//! An explanation as Markdown, for tickets and assistants: the short text, the charges and the predictions.

use crate::page::TextOptions;
use crate::short::{COLUMNS, short};
use crate::words::{cause_name, place_name};
use std::fmt::Write;
use thalweg_base::text::clean;
use thalweg_base::{numbers, shell};
use thalweg_explain::document::Explanation;

/// Formats an explanation as Markdown. Whatever the recording says is text, never markup.
pub fn markdown(explanation: &Explanation) -> String {
    let e = explanation;
    let mut page = String::from("## Where the time went\n\n");
    let plain = short(e, &TextOptions { width: COLUMNS, colour: false }, None);
    // An indented block has no fence that its text could close.
    for line in plain.trim_end().lines() {
        let _ = writeln!(page, "{}", format!("    {line}").trim_end());
    }
    charges(&mut page, e);
    predictions(&mut page, e);
    page
}

/// Escapes what Markdown or HTML would interpret.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Formats a command as code that stays within its cell.
fn code(command: &[String]) -> String {
    let line = clean(&shell::line(command)).replace('|', "\\|");
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{line}{space}{fence}")
}

fn charges(page: &mut String, e: &Explanation) {
    if e.critical_path.is_empty() {
        return;
    }
    page.push_str("\n| cause | where | seconds | share | evidence |\n|---|---|--:|--:|---|\n");
    for charge in &e.critical_path {
        let (place, evidence) = (cell(place_name(e, &charge.place)), cell(&charge.evidence));
        let share = numbers::percent(charge.share);
        let _ = writeln!(page, "| {} | {place} | {:.6} | {share} | {evidence} |", cell(cause_name(e, charge.cause)), charge.seconds);
    }
    let _ = writeln!(page, "| wall time | | {:.6} | | |", e.wall_s);
}

fn predictions(page: &mut String, e: &Explanation) {
    if e.what_if.is_empty() {
        return;
    }
    page.push_str("\n## What a change would give\n\n| change | today | after | how |\n|---|--:|--:|---|\n");
    for w in &e.what_if {
        let mut how = if w.command.is_empty() { cell(&w.how) } else { code(&w.command) };
        if let Some(gives_up) = &w.gives_up {
            let _ = write!(how, " (gives up {})", cell(gives_up));
        }
        let (today, after) = (numbers::duration(e.wall_s), numbers::duration(w.predicted_wall_s));
        let _ = writeln!(page, "| {} | {today} | {after} | {how} |", cell(&w.change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recording_says_stays_text() {
        assert_eq!(cell("a|b <i> `x` *y*"), "a\\|b &lt;i&gt; \\`x\\` \\*y\\*");
        assert!(!cell("a\nb").contains('\n'));
        assert_eq!(code(&["echo".to_owned(), "a".to_owned()]), "`echo a`");
        let fenced = code(&["echo".to_owned(), "`x`".to_owned()]);
        assert!(fenced.starts_with("`` ") && fenced.ends_with(" ``"), "{fenced}");
    }
}
