//! An explanation in at most [`MAX_LINES`] lines of 80 columns, whatever was run: what it did, one sentence, the causes with the one figure that
//! matters, who is innocent, what keeps this from being relied on, and what to change.
//!
//! Each part knows its lines in order of weight; where all together are too many, the least of them go first. What was left out is in the full text.

use crate::columns::{clean, cut, cut_end, left, right, width, wrap};
use crate::page::{Ink, Page, TextOptions};
use crate::repeated::{self, interval};
use thalweg_explain::document::{Explanation, Grounds, SummaryRow, WhatIf};
use thalweg_explain::{Cause, title};
use thalweg_trace::numbers::{duration, whole_percent};

/// At most so many lines.
pub const MAX_LINES: usize = 15;

/// It is set for at most so many columns, however wide the terminal is.
pub(crate) const COLUMNS: usize = 80;

/// A command is not cut to fewer columns, whatever is said of it.
const LEAST_TITLE: usize = 24;

/// Rows below this share of the wall time are put together.
pub(crate) const SMALL_SHARE: f64 = 0.05;
/// What is less than this together is not worth a row.
const LEAST_SHARE: f64 = 0.005;
/// So many rows stand on their own.
const MAX_ROWS: usize = 5;
/// So many numbers behind the rate.
const MAX_NUMBERS: usize = 1;
/// So many changes.
const MAX_CHANGES: usize = 3;
/// So many remarks.
const MAX_REMARKS: usize = 2;
/// So many lines of what a tuner did.
const MAX_TUNING: usize = 3;
/// A change that gives more than this gives nearly all of it: how much more, no model knows.
const NEARLY_ALL: f64 = 20.0;
/// Two changes for one cause that lead this near to each other, as a part of the wall time, come to the same.
const SAME: f64 = 0.02;
/// An interval that begins below this part of its prediction has no lower end to speak of.
const LOW: f64 = 0.25;
/// A change must give so much to stand here, and so much of the time must have been charged to what it is about.
const LEAST_SPEEDUP: f64 = 1.1;

/// The explanation in a few lines, ending in a newline. `more`: how to see more, for the last line.
pub fn short(explanation: &Explanation, options: &TextOptions, more: Option<&str>) -> String {
    let options = TextOptions { width: options.width.min(COLUMNS), ..*options };
    let mut page = Page::new(&options);
    let columns = page.width;
    page.line(&cut_end(&heading(explanation, columns), columns), Ink::Bold);
    let mut sentence = wrap(&clean(&explanation.summary.sentence), columns);
    sentence.extend(explanation.summary.numbers.iter().take(MAX_NUMBERS).flat_map(|number| wrap(&clean(&number.sentence), columns)));
    sentence.iter().for_each(|line| page.plain(line));
    let runs: Vec<String> = explanation.repeated.iter().flat_map(|runs| repeated::lines(runs, columns)).collect();
    runs.iter().for_each(|line| page.line(&cut_end(line, columns), Ink::Plain));
    for (number, block) in blocks(explanation, columns, more, MAX_LINES - 1 - sentence.len() - runs.len()).iter().enumerate() {
        if number == 0 || !matches!(block.first(), Some((_, Ink::Dim))) {
            page.gap();
        }
        block.iter().for_each(|(line, ink)| page.line(line, *ink));
    }
    page.into_text()
}

/// A line, and how it is inked.
pub(crate) type Line = (String, Ink);

/// What follows the sentence, in at most so many lines: rows with who is innocent, and changes with remarks.
fn blocks(e: &Explanation, columns: usize, more: Option<&str>, room: usize) -> Vec<Vec<Line>> {
    let innocent = innocent(e, columns);
    let changes = changes(e, columns);
    let remarks = remarks(e, columns);
    let tuning: Vec<Line> = e.summary.tuning.iter().map(|line| (cut_end(&format!("  {}", clean(line)), columns), Ink::Plain)).collect();
    let last: Option<Line> = last(e, more).map(|(line, ink)| (cut_end(&line, columns), ink));
    let (mut rows, mut most_changes, mut most_remarks, mut most_tuning) = (MAX_ROWS, MAX_CHANGES, MAX_REMARKS, MAX_TUNING);
    loop {
        let mut first = charges(e, columns, rows);
        first.extend(innocent.clone());
        let mut second: Vec<Line> = changes.iter().take(most_changes).cloned().collect();
        second.extend(tuning.iter().take(most_tuning).cloned());
        second.extend(remarks.iter().take(most_remarks).flatten().cloned());
        second.extend(last.clone());
        let blocks: Vec<Vec<Line>> = [first, second].into_iter().filter(|block| !block.is_empty()).collect();
        if blocks.iter().map(|block| block.len() + 1).sum::<usize>() <= room {
            return blocks;
        }
        match () {
            () if rows > 4 => rows -= 1,
            () if most_changes > 2 => most_changes -= 1,
            () if most_remarks > 1 => most_remarks -= 1,
            () if most_tuning > 1 => most_tuning -= 1,
            () if rows > 2 => rows -= 1,
            () if most_changes > 1 => most_changes -= 1,
            () => return blocks,
        }
    }
}

/// What fits, clause by clause from the front: a figure that is cut would be another figure.
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

/// `cp big copy: 256 MiB in 2.05 s, 125 MiB/s`, the command cut so that the rest fits.
fn heading(e: &Explanation, columns: usize) -> String {
    let s = &e.summary;
    let about = match &s.ended {
        Some(ended) if s.about == duration(e.wall_s) => format!("{ended} after {}", s.about),
        Some(ended) => format!("{ended}; {}", s.about),
        None => s.about.clone(),
    };
    let about = clean(&about);
    let about = whole_clauses(&about, columns.saturating_sub(LEAST_TITLE + 2));
    let room = columns.saturating_sub(width(about) + 2).max(LEAST_TITLE);
    let command = title(&e.command, room);
    let command = if command.is_empty() { "the recording" } else { &command };
    format!("{}: {about}", cut(&clean(command), room))
}

/// Whether a server, or a network to one, has a part in it: without, a client is no client.
fn has_server(e: &Explanation) -> bool {
    let elsewhere = |cause: Cause| cause.name().starts_with("server.") || cause.name().starts_with("network.");
    e.summary.rows.iter().any(|row| elsewhere(row.cause)) || e.channels.iter().any(|c| c.name.contains(" > "))
}

/// The causes, one line each; the small ones together.
fn charges(e: &Explanation, columns: usize, most: usize) -> Vec<Line> {
    let rows = &e.summary.rows;
    let shown = rows.iter().take(most).take_while(|row| row.share >= SMALL_SHARE).count();
    let both = has_server(e);
    let name = |row: &SummaryRow| if both { row.cause.name() } else { row.cause.name().trim_start_matches("client.") };
    let names = rows[..shown].iter().map(|row| width(name(row))).max().unwrap_or(0);
    // With the interval of its share over all runs, where there were several.
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

/// Who or what, and its figures: the last of them go where there is no room, then the middle of the name.
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

/// Who is innocent, as many as one line holds.
fn innocent(e: &Explanation, columns: usize) -> Option<Line> {
    not_the_limit(e.summary.innocent.iter().map(|innocent| (innocent.what.as_str(), innocent.figure.as_str())), columns)
}

/// What is not the limit, each with its figure: as many as one line holds.
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

/// What to change, one line each: from, to, the interval, and how.
fn changes(e: &Explanation, columns: usize) -> Vec<Line> {
    let charged = |w: &WhatIf| e.critical_path.iter().filter(|c| w.about.contains(&c.cause)).map(|c| c.share).sum::<f64>();
    let enough = |w: &&WhatIf| w.speedup >= LEAST_SPEEDUP && charged(w) >= SMALL_SHARE;
    let mut worth: Vec<&WhatIf> = e.what_if.iter().filter(enough).collect();
    if !e.may_predict() {
        worth.clear();
    }
    let walks = e.round_trips.as_ref().is_some_and(|trips| trips.per_entry.is_some());
    // Of more under way, the least that helps is enough; of a walk its windows are values of a flag.
    let window = |w: &WhatIf| w.id.starts_with("walk.window.") || w.id == "requests.x4";
    let least = worth.iter().rposition(|w| w.id == "requests.x4").or_else(|| worth.iter().rposition(|w| window(w)));
    let mut number = 0..;
    worth.retain(|w| {
        let at = number.next();
        walks || !window(w) || at == least
    });
    worth.truncate(MAX_CHANGES + 1);
    // Of two that come to the same, the first is the nearer one.
    let same = |a: &WhatIf, b: &WhatIf| a.about == b.about && (a.predicted_wall_s - b.predicted_wall_s).abs() <= SAME * e.wall_s;
    worth = worth.iter().enumerate().filter(|(i, w)| !worth[..*i].iter().any(|earlier| same(earlier, w))).map(|(_, w)| *w).collect();
    worth.truncate(MAX_CHANGES);
    let gains: Vec<String> = worth.iter().map(|w| gain(w, e.wall_s)).collect();
    let names: Vec<String> = worth.iter().map(|w| name(w, has_server(e), walks)).collect();
    let widest = gains.iter().map(|g| width(g)).max().unwrap_or(0);
    let column = names.iter().map(|n| width(n)).max().unwrap_or(0).min(columns.saturating_sub(widest + 4));
    let mut lines = Vec::new();
    for ((what_if, name), gain) in worth.iter().zip(names).zip(gains) {
        let line = format!("  {}  {gain}", left(&name, column));
        let flags: Vec<String> = what_if.flags.iter().map(|(flag, value)| format!("{flag} {value}")).collect();
        let how = if flags.is_empty() { clean(&what_if.how) } else { clean(&flags.join(" ")) };
        let fits = !how.is_empty() && how != *name.trim() && width(&line) + 3 + width(&how) <= columns;
        lines.push((if fits { format!("{line}   {how}") } else { line }, Ink::Plain));
    }
    lines
}

/// The change in few words: without what is in brackets, behind a comma or a colon.
fn name(what_if: &WhatIf, both: bool, walks: bool) -> String {
    let window = || what_if.id.strip_prefix("walk.window.").unwrap_or("more").to_owned();
    match what_if.id.as_str() {
        "no_sync" => "no waiting for stable storage".to_owned(),
        "no_hog" => "no other programs on its CPUs".to_owned(),
        "no_disk_hog" => what_if.change.clone(),
        "no_slow_start" => "no slow start".to_owned(),
        "no_throttle" => "no dirty throttling".to_owned(),
        "no_recorder" => "no recorder on its CPUs".to_owned(),
        "processors.x2" => "twice as many CPUs".to_owned(),
        "window.x4" => "send and receive buffers x 4".to_owned(),
        "streams.x4" => "four times the connections".to_owned(),
        "cpu.client.x2" if !both => "CPUs twice as fast".to_owned(),
        "cpu.client.x2" => "the client's CPUs twice as fast".to_owned(),
        "cpu.server.x2" => "the server's CPUs twice as fast".to_owned(),
        "server.x2" => "the server in half the time".to_owned(),
        "requests.x4" => "four times the requests in flight".to_owned(),
        "metadata.x2" => "names and attributes twice as fast".to_owned(),
        id if id.starts_with("walk.window.") && walks => format!("ask {} entries ahead", window()),
        id if id.starts_with("walk.window.") => format!("{} requests under way at a time", window()),
        _ => {
            let marks = [" (", ", ", ": "];
            let end = marks.iter().filter_map(|mark| what_if.change.find(mark)).min().unwrap_or(what_if.change.len());
            clean(&what_if.change[..end])
        }
    }
}

/// `2.05 s -> 1.61 s (1.55 to 1.70 s)`; of a bound, how much it is at most.
fn gain(what_if: &WhatIf, wall_s: f64) -> String {
    let (from, to) = (duration(wall_s), duration(what_if.predicted_wall_s));
    let bound = what_if.basis == Grounds::Bounded;
    match (bound, what_if.speedup > NEARLY_ALL) {
        (true, true) => "at most nearly all of it".to_owned(),
        (false, true) => format!("{from} -> {to}, nearly all of it"),
        (true, false) => format!("at most {from} -> {to}"),
        (false, false) if what_if.interval_s.0 < what_if.predicted_wall_s * LOW => {
            format!("{from} -> {to} (below {})", duration(what_if.interval_s.1))
        }
        (false, false) => format!("{from} -> {to} ({})", interval(what_if.interval_s)),
    }
}

/// Remarks, two lines each at most.
fn remarks(e: &Explanation, columns: usize) -> Vec<Vec<Line>> {
    let mut remarks = e.summary.remarks.clone();
    if let Some(reason) = e.no_prediction() {
        remarks.push(reason);
    }
    remarks.extend(hottest(e, columns - 4));
    remarks.iter().map(|remark| remark_lines(remark, columns)).collect()
}

/// A remark in two lines at most.
pub(crate) fn remark_lines(remark: &str, columns: usize) -> Vec<Line> {
    let mut lines = wrap(&clean(remark), columns - 4);
    if lines.len() > 2 {
        let rest = lines.split_off(1).join(" ");
        lines.push(cut_end(&rest, columns - 4));
    }
    lines.into_iter().enumerate().map(|(i, line)| (format!("{}{line}", if i == 0 { "  " } else { "    " }), Ink::Plain)).collect()
}

/// The functions in which the largest charge to a processor ran, in one line, where the recording has a profile.
fn hottest(e: &Explanation, columns: usize) -> Option<String> {
    let charge = e.critical_path.iter().filter(|charge| !charge.hottest.is_empty()).max_by(|a, b| a.share.total_cmp(&b.share))?;
    let mut line = String::new();
    for function in &charge.hottest {
        // A name as long as C++ makes them leaves room for the others.
        let one = format!("{} {}", cut(&clean(&function.function), 28), whole_percent(function.share));
        let longer = if line.is_empty() { format!("processor time is in {one}") } else { format!("{line}, {one}") };
        if width(&longer) <= columns {
            line = longer;
        }
    }
    (!line.is_empty()).then_some(line)
}

/// Where there is more to see.
fn last(e: &Explanation, more: Option<&str>) -> Option<Line> {
    let more = more.filter(|_| !e.summary.sentence.is_empty())?;
    Some((format!("  more: {}", clean(more)), Ink::Dim))
}

/// What the page asks of an explanation.
trait Predictions {
    fn may_predict(&self) -> bool;
    fn no_prediction(&self) -> Option<String>;
}

impl Predictions for Explanation {
    /// Whether what it predicts can be relied on: of a run long enough to say something of, by a model that holds.
    fn may_predict(&self) -> bool {
        !self.summary.sentence.is_empty() && self.model.reason.is_none()
    }

    /// Why nothing is predicted, where it would have been.
    fn no_prediction(&self) -> Option<String> {
        let reason = self.model.reason.as_ref().filter(|_| !self.summary.sentence.is_empty())?;
        Some(match self.model.replayed_wall_s {
            Some(replayed_s) => {
                format!("no prediction: the model replays this run in {}, more than 10 % off", duration(replayed_s))
            }
            None => format!("no prediction: {reason}"),
        })
    }
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

    #[test]
    fn an_interval_has_its_unit_once() {
        assert_eq!(interval((0.201, 0.586)), "201 to 586 ms");
        assert_eq!(interval((0.907, 1.13)), "907 ms to 1.13 s");
    }
}
