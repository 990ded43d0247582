//! An explanation in at most [`MAX_LINES`] lines of 80 columns: what was run, one sentence, the causes with the figure that matters, what
//! is not the limit, what limits confidence, what to change, and what would settle an unsure answer.
//!
//! Each part has its lines in order of importance; if there are too many in all, the least important are dropped. The full text has all.

use crate::changes::{SMALL_SHARE, changes, lines};
use crate::page::{Ink, Line, Page, TextOptions};
use crate::repeated;
use crate::words::cause_name;
use thalweg_base::numbers::{duration, whole_percent};
use thalweg_base::text::{clean, cut, cut_end, left, right, width, wrap};
use thalweg_explain::document::{Explanation, Summary, SummaryRow};
use thalweg_explain::title_of;

/// Maximum number of lines.
pub const MAX_LINES: usize = 15;

/// Maximum width in columns, however wide the terminal is.
pub(crate) const COLUMNS: usize = 80;

/// Minimum width of a command in the heading.
const LEAST_TITLE: usize = 24;

/// Minimum total share for the row of combined causes: less would not affect any decision.
const LEAST_SHARE: f64 = 0.03;
/// Maximum number of rows of single causes.
const MAX_ROWS: usize = 5;
/// Maximum number of numbers behind the rate.
const MAX_NUMBERS: usize = 1;
/// Maximum number of remarks.
const MAX_REMARKS: usize = 2;
/// Maximum number of lines of a tuner's steps.
const MAX_TUNING: usize = 3;
/// Formats the explanation in a few lines, ending in a newline. `more`: commands that show more, for the last line.
pub fn short(explanation: &Explanation, options: &TextOptions, more: Option<&str>) -> String {
    let options = TextOptions { width: options.width.min(COLUMNS), ..*options };
    let mut page = Page::new(&options);
    let columns = page.width;
    page.line(&cut_end(&heading(explanation, columns), columns), Ink::Bold);
    let mut sentence = wrap(&clean(&explanation.summary.sentence), columns);
    if let Some(ended) = explanation.summary.ended.as_ref().filter(|ended| sentence.is_empty() && ended.contains(": ")) {
        sentence = wrap(&clean(&format!("It {}{ended}.", if ended.starts_with("killed") { "was " } else { "" })), columns);
    }
    sentence.extend(explanation.summary.numbers.iter().take(MAX_NUMBERS).flat_map(|number| wrap(&clean(&number.sentence), columns)));
    sentence.iter().for_each(|line| page.plain(line));
    let runs: Vec<String> = repeated::lines(explanation, columns);
    runs.iter().for_each(|line| page.line(&cut_end(line, columns), Ink::Plain));
    for (number, block) in blocks(explanation, columns, more, MAX_LINES - 1 - sentence.len() - runs.len()).iter().enumerate() {
        if number == 0 || !matches!(block.first(), Some((_, Ink::Dim))) {
            page.gap();
        }
        block.iter().for_each(|(line, ink)| page.line(line, *ink));
    }
    page.into_text()
}

/// Returns the parts after the sentence, in at most `room` lines: causes with what is not the limit, and changes with remarks.
fn blocks(e: &Explanation, columns: usize, more: Option<&str>, room: usize) -> Vec<Vec<Line>> {
    let innocent = innocent(e, columns);
    let changes = changes(e, columns);
    let remarks = remarks(e, columns);
    let tuning: Vec<Line> = e.summary.tuning.iter().map(|line| (cut_end(&format!("  {}", clean(line)), columns), Ink::Plain)).collect();
    let settle = settle(e, columns);
    let last: Option<Line> = last(e, more).map(|(line, ink)| (cut_end(&line, columns), ink));
    let (mut rows, mut most_changes, mut most_remarks, mut most_tuning) = (MAX_ROWS, changes.len(), MAX_REMARKS, MAX_TUNING);
    let (mut with_words, mut with_settle) = (true, true);
    // A control run costs more than a change that may be tried at once.
    let is_control = e.verdict.settle.first().is_some_and(|settle| settle.starts_with("control run"));
    loop {
        let mut first = charges(e, columns, rows);
        first.extend(innocent.clone());
        let mut second: Vec<Line> = lines(&changes, most_changes, with_words);
        second.extend(tuning.iter().take(most_tuning).cloned());
        second.extend(remarks.iter().take(most_remarks).flatten().cloned());
        second.extend(settle.iter().filter(|_| with_settle).cloned());
        second.extend(last.clone());
        let blocks: Vec<Vec<Line>> = [first, second].into_iter().filter(|block| !block.is_empty()).collect();
        if blocks.iter().map(|block| block.len() + 1).sum::<usize>() <= room {
            return blocks;
        }
        match () {
            () if rows > 4 => rows -= 1,
            () if with_words => with_words = false,
            () if with_settle && is_control => with_settle = false,
            () if most_changes > 2 => most_changes -= 1,
            () if most_remarks > 1 => most_remarks -= 1,
            () if most_tuning > 1 => most_tuning -= 1,
            () if rows > 2 => rows -= 1,
            () if most_changes > 1 => most_changes -= 1,
            () if rows > 1 => rows -= 1,
            // An unsure answer is of use only with what would settle it.
            () if most_remarks > 0 && !settle.is_empty() => most_remarks -= 1,
            () => return blocks,
        }
    }
}

/// Returns the leading clauses that fit: a cut figure would be a different figure.
fn whole_clauses(about: &str, columns: usize) -> &str {
    let mut fits = about;
    while width(fits) > columns {
        match fits.rfind(", ").into_iter().chain(fits.rfind("; ")).max() {
            Some(end) => fits = &fits[..end],
            None => break,
        }
    }
    fits
}

/// Formats the heading: `cp big copy: 256 MiB in 2.05 s, 125 MiB/s`, with the command cut so that the rest fits.
fn heading(e: &Explanation, columns: usize) -> String {
    let s = &e.summary;
    // (The next line says why.)
    let ended = s.ended.as_ref().map(|ended| ended.split(": ").next().unwrap_or(ended));
    let about = match ended {
        Some(ended) if s.about == duration(e.wall_s) => format!("{ended} after {}", s.about),
        Some(ended) => format!("{ended}; {}", s.about),
        None => s.about.clone(),
    };
    let about = clean(&about);
    let about = whole_clauses(&about, columns.saturating_sub(LEAST_TITLE + 2));
    let room = columns.saturating_sub(width(about) + 2).max(LEAST_TITLE);
    let command = title_of(&e.command, room, &answer(s));
    let command = if command.is_empty() { "the recording" } else { &command };
    format!("{}: {about}", cut(&clean(command), room))
}

/// Returns the text below the heading. Words and option values of the command that occur in it are kept when the command is cut.
fn answer(s: &Summary) -> String {
    let number = s.numbers.first().map_or("", |number| number.sentence.as_str());
    let figures = s.rows.first().map_or("", |row| row.figures.as_str());
    [s.sentence.as_str(), number, figures, s.about.as_str()].join(" ")
}

/// Returns a line for each cause; small ones are combined.
pub(crate) fn charges(e: &Explanation, columns: usize, most: usize) -> Vec<Line> {
    let rows = &e.summary.rows;
    let shown = rows.iter().take(most).take_while(|row| row.share >= SMALL_SHARE).count();
    let name = |row: &SummaryRow| cause_name(e, row.cause);
    let names = rows[..shown].iter().map(|row| width(name(row))).max().unwrap_or(0);
    // With the interval of its share over all runs, if there were several.
    let over = |at: usize| {
        e.repeated.as_ref().and_then(|runs| runs.shares.get(at)).map_or(String::new(), |&share| format!(" {}", repeated::share(share)))
    };
    let widest = (0..shown).map(|at| width(&over(at))).max().unwrap_or(0);
    let line = |(at, row): (usize, &SummaryRow)| {
        let head = format!("{}{}  {}  ", right(&whole_percent(row.share), 7), left(&over(at), widest), left(name(row), names));
        (head.clone() + &figures(row, columns.saturating_sub(width(&head))), Ink::Of(row.cause))
    };
    let mut lines: Vec<Line> = rows[..shown].iter().enumerate().map(line).collect();
    let rest: Vec<&SummaryRow> = rows[shown..].iter().filter(|row| row.share >= 0.000_5).collect();
    let share: f64 = rest.iter().map(|row| row.share).sum();
    if share >= LEAST_SHARE {
        let others = if rest.len() == 1 { "1 other".to_owned() } else { format!("{} others", rest.len()) };
        lines.push((format!("{}  {others}", right(&whole_percent(share), 7)), Ink::Dim));
    }
    lines
}

/// Formats a row's subject and figures: if there is no room, the last figures are dropped, then the subject is cut in its middle.
fn figures(row: &SummaryRow, room: usize) -> String {
    let (subject, mut figures) = (clean(&row.subject), clean(&row.figures));
    while width(&figures) + 2 + width(&subject).min(24) > room {
        match figures.rfind(", ").or_else(|| figures.rfind("; ")) {
            Some(at) => figures.truncate(at),
            None => break,
        }
    }
    if figures.is_empty() {
        return cut(&subject, room);
    }
    let figures = cut_end(&figures, room.saturating_sub(2 + width(&subject).min(24)));
    format!("{}: {figures}", cut(&subject, room.saturating_sub(width(&figures) + 2)))
}

/// Returns a line on what is not the limit.
pub(crate) fn innocent(e: &Explanation, columns: usize) -> Option<Line> {
    not_the_limit(e.summary.innocent.iter().map(|innocent| (innocent.what.as_str(), innocent.figure.as_str())), columns)
}

/// Formats what is not the limit, with figures: as many as fit in one line.
pub(crate) fn not_the_limit<'a>(what: impl IntoIterator<Item = (&'a str, &'a str)>, columns: usize) -> Option<Line> {
    let mut line = String::new();
    for (what, figure) in what {
        let one = format!("{} ({})", clean(what), clean(figure));
        let longer = if line.is_empty() { format!("  not the limit: {one}") } else { format!("{line}, {one}") };
        if width(&longer) <= columns {
            line = longer;
        }
    }
    (!line.is_empty()).then_some((line, Ink::Plain))
}

/// Returns remarks, of at most two lines each.
fn remarks(e: &Explanation, columns: usize) -> Vec<Vec<Line>> {
    let mut remarks = e.summary.remarks.clone();
    if let Some(reason) = no_prediction(e) {
        remarks.push(reason);
    }
    remarks.iter().map(|remark| remark_lines(remark, columns)).collect()
}

/// Formats a remark in at most two lines.
pub(crate) fn remark_lines(remark: &str, columns: usize) -> Vec<Line> {
    let mut lines = wrap(&clean(remark), columns - 4);
    if lines.len() > 2 {
        let rest = lines.split_off(1).join(" ");
        lines.push(cut_end(&rest, columns - 4));
    }
    lines.into_iter().enumerate().map(|(i, line)| (format!("{}{line}", if i == 0 { "  " } else { "    " }), Ink::Plain)).collect()
}

/// Returns the line on what would settle an unsure answer, in at most two lines.
fn settle(e: &Explanation, columns: usize) -> Vec<Line> {
    let settle = e.verdict.settle.first().filter(|_| !e.summary.sentence.is_empty());
    settle.map_or_else(Vec::new, |settle| remark_lines(&format!("to be sure: {settle}"), columns))
}

/// Returns the last line, with the commands that show more.
fn last(e: &Explanation, more: Option<&str>) -> Option<Line> {
    let more = more.filter(|_| !e.summary.sentence.is_empty())?;
    Some((format!("  more: {}", clean(more)), Ink::Dim))
}

/// Returns why there is no prediction, if one was due.
fn no_prediction(e: &Explanation) -> Option<String> {
    let reason = e.model.reason.as_ref().filter(|_| !e.summary.sentence.is_empty())?;
    Some(match e.model.replayed_wall_s {
        Some(replayed_s) => {
            format!("no prediction: the model replays this run in {}, more than 10 % off", duration(replayed_s))
        }
        None => format!("no prediction: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_that_does_not_fit_is_left_out_and_no_figure_is_cut() {
        let about = "failed with exit code 1; 1,013 files read, 3.81 MiB in 28.4 ms, 28 µs each";
        assert_eq!(whole_clauses(about, 80), about);
        assert_eq!(whole_clauses(about, 70), "failed with exit code 1; 1,013 files read, 3.81 MiB in 28.4 ms");
        assert_eq!(whole_clauses(about, 54), "failed with exit code 1; 1,013 files read");
        assert_eq!(whole_clauses(about, 30), "failed with exit code 1");
        assert_eq!(whole_clauses("1,013 files", 5), "1,013 files");
    }
}
