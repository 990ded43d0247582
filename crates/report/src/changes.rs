//! Proposed changes in the short text: first replayed ones, by gain; then bounded ones; then ones without a predicted gain. Below a change
//! stand the command that makes it, and what it gives up.

use crate::page::{Ink, Line};
use crate::repeated::interval;
use crate::words::cause_name;
use thalweg_base::numbers::{duration, whole_percent};
use thalweg_base::shell;
use thalweg_base::text::{clean, cut_end, left, width};
use thalweg_explain::document::{Explanation, Grounds, Number, NumberKind, Status, WhatIf};
use thalweg_explain::{Cause, title_of};

/// Rows below this share of the wall time are combined.
pub(crate) const SMALL_SHARE: f64 = 0.05;
/// Maximum number of changes.
const MAX_CHANGES: usize = 3;
/// Maximum number of changes without a predicted gain.
const MAX_ADVICE: usize = 2;
/// Speedup above which a change is said to give nearly all of it: the models are not accurate beyond.
const NEARLY_ALL: f64 = 20.0;
/// Two changes for one cause whose predictions differ by less than this part of the wall time count as equal.
const SAME: f64 = 0.02;
/// An interval that begins below this part of its prediction is shown by its upper end only.
const LOW: f64 = 0.25;
/// Minimum speedup of a change shown, and of the time charged to its cause.
const LEAST_SPEEDUP: f64 = 1.1;
/// A command that failed within this time counts as failed at the start.
const AT_ONCE_S: f64 = 1.0;
/// Indentation of a change's further lines.
const INDENT: usize = 6;

/// A change, as lines.
#[derive(Clone)]
pub(crate) struct Change {
    lines: Vec<Line>,
    /// Index of the line dropped first if there is little room: the how, in words.
    words: Option<usize>,
    /// Whether the change means buying hardware.
    is_bought: bool,
}

/// Returns the changes with times before and after, interval, how, and what they give up; if there are none, a line that says why.
pub(crate) fn changes(e: &Explanation, columns: usize) -> Vec<Change> {
    let worth = worth(e);
    let gains: Vec<String> = worth.iter().map(|w| gain(w, e.wall_s)).collect();
    let names: Vec<String> = worth.iter().map(|w| name(w)).collect();
    let widest = gains.iter().map(|g| width(g)).max().unwrap_or(0);
    let column = names.iter().map(|n| width(n)).max().unwrap_or(0).min(columns.saturating_sub(widest + 4));
    let mut made = Vec::new();
    for ((what_if, name), gain) in worth.iter().zip(names).zip(gains) {
        let head = format!("  {}  {gain}", left(&name, column));
        let flags: Vec<String> = what_if.flags.iter().map(|(flag, value)| format!("{flag} {value}")).collect();
        let how = if flags.is_empty() { clean(&what_if.how) } else { clean(&flags.join(" ")) };
        let how = if how == *name.trim() { String::new() } else { how };
        // A recipe's words are exact; other words may be dropped for space, since the name says as much.
        // ("names_at_once" is not a change that a user can make.)
        let is_exact = what_if.recipe.is_some() || matches!(what_if.id.as_str(), "names_at_once" | "no_nagle");
        let change = with_how(head, (&what_if.command, &e.command), &how, is_exact, what_if.gives_up.as_deref(), columns);
        made.push(Change { is_bought: what_if.is_bought(), ..change });
    }
    if !e.summary.sentence.is_empty() && !was_cut_short(e) {
        for advice in e.advice.iter().take(MAX_ADVICE) {
            let head = cut_end(&format!("  without a number: {}", clean(&advice.says)), columns);
            made.push(with_how(head, (&advice.command, &e.command), "", true, advice.gives_up.as_deref(), columns));
        }
    }
    if made.is_empty() {
        made.extend(nothing(e).map(|line| with_how(cut_end(&line, columns), (&[], &[]), "", false, None, columns)));
    }
    made
}

/// Returns the lines of `most` changes, with or without the how in words; changes that mean buying hardware are dropped first.
pub(crate) fn lines(changes: &[Change], most: usize, with_words: bool) -> Vec<Line> {
    let mut kept = changes.to_vec();
    while kept.len() > most {
        let at = kept.iter().rposition(|change| change.is_bought).unwrap_or(kept.len() - 1);
        kept.remove(at);
    }
    let shown = |change: Change| {
        let left_out = change.words.filter(|_| !with_words);
        change.lines.into_iter().enumerate().filter(move |(at, _)| Some(*at) != left_out).map(|(_, line)| line)
    };
    kept.into_iter().flat_map(shown).collect()
}

/// Formats a change with its how: behind it if that fits, else below it. What it gives up is never left out. A command that is cut keeps
/// the words that the recorded command does not have.
fn with_how(
    head: String,
    (command, recorded): (&[String], &[String]),
    how: &str,
    is_exact: bool,
    gives_up: Option<&str>,
    columns: usize,
) -> Change {
    let room = columns.saturating_sub(INDENT);
    let how = if command.is_empty() { how.to_owned() } else { clean(&shell::line(command)) };
    let (mut lines, mut words) = (vec![head], None);
    if !how.is_empty() && width(&lines[0]) + 3 + width(&how) <= columns {
        lines[0] += &format!("   {how}");
    } else if !how.is_empty() && (is_exact || !command.is_empty()) {
        let said = match command.is_empty() {
            true => cut_end(&how, room),
            false if width(&how) <= room => how,
            // The full text has the whole command.
            false => clean(&title_of(command, room, &new_words(command, recorded))),
        };
        words = command.is_empty().then_some(lines.len());
        lines.push(format!("{:INDENT$}{said}", ""));
    }
    if let Some(gives_up) = gives_up {
        let what = clean(gives_up.split([':', ';', '(']).next().unwrap_or(gives_up).trim());
        let said = format!("   gives up {what}");
        // The words may be dropped, so nothing essential is on their line.
        match lines.last_mut().filter(|last| words.is_none() && width(last) + width(&said) <= columns) {
            Some(last) => *last += &said,
            None => lines.push(cut_end(&format!("{:INDENT$}gives up {}", "", clean(gives_up)), columns)),
        }
    }
    Change { lines: lines.into_iter().map(|line| (line, Ink::Plain)).collect(), words, is_bought: false }
}

/// Returns the words of a command that `recorded` does not have.
fn new_words(command: &[String], recorded: &[String]) -> String {
    command.iter().filter(|word| !recorded.contains(word)).map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns why there is nothing to change, if that is known.
fn nothing(e: &Explanation) -> Option<String> {
    // A healthy run has a remark on the ceiling reached; a model that does not hold has one that says why.
    let is_said = e.verdict.status == Status::Healthy || e.verdict.cause == Cause::Unknown || !may_predict(e);
    let share = || e.critical_path.iter().filter(|c| c.cause == e.verdict.cause).map(|c| c.share).sum::<f64>();
    let name = cause_name(e, e.verdict.cause);
    (!is_said).then(|| match e.what_if.iter().any(|w| charged(e, w) >= SMALL_SHARE) {
        true => format!("  no change known gives {} or more", whole_percent(1.0 - 1.0 / LEAST_SPEEDUP)),
        false => format!("  no change known for {name} ({} of the time)", whole_percent(share())),
    })
}

fn walks(e: &Explanation) -> bool {
    e.round_trips.as_ref().is_some_and(|trips| trips.per_entry.is_some())
}

/// Whether predictions can be relied on: the run was long enough, and the model reproduces it.
pub(crate) fn may_predict(e: &Explanation) -> bool {
    !e.summary.sentence.is_empty() && e.model.reason.is_none() && !was_cut_short(e)
}

/// Whether the command was killed, or failed at the start: its full duration is not known, and no change to its speed helps.
fn was_cut_short(e: &Explanation) -> bool {
    let ended = e.summary.ended.as_deref().unwrap_or_default();
    ended.starts_with("killed") || ended.starts_with("failed") && e.wall_s < AT_ONCE_S
}

/// Returns the share of time charged to the causes that a change affects.
fn charged(e: &Explanation, what_if: &WhatIf) -> f64 {
    e.critical_path.iter().filter(|c| what_if.about.contains(&c.cause)).map(|c| c.share).sum()
}

/// Returns the what-ifs to show, one for each cause charged.
fn worth(e: &Explanation) -> Vec<&WhatIf> {
    if !may_predict(e) {
        return Vec::new();
    }
    let mut worth: Vec<&WhatIf> = e.what_if.iter().filter(|w| w.speedup >= LEAST_SPEEDUP && charged(e, w) >= SMALL_SHARE).collect();
    if !walks(e) {
        let more = more_under_way(&worth, e).map(|w| w.id.clone());
        worth.retain(|w| !is_more_under_way(w) || Some(&w.id) == more.as_ref());
    }
    worth.truncate(MAX_CHANGES + 1);
    // Of two equal ones, the first is the more specific.
    let comes_to_the_same = |a: &WhatIf, b: &WhatIf| {
        let near = a.about == b.about && a.basis == b.basis && (a.predicted_wall_s - b.predicted_wall_s).abs() <= SAME * e.wall_s;
        near || !a.command.is_empty() && a.command == b.command
    };
    worth = worth
        .iter()
        .enumerate()
        .filter(|(i, w)| !worth[..*i].iter().any(|earlier| comes_to_the_same(earlier, w)))
        .map(|(_, w)| *w)
        .collect();
    // A change that may lose data comes after one that is safe, and is dropped if it gives no more.
    if let Some(once) = worth.iter().find(|w| w.id == "sync_once").map(|once| once.predicted_wall_s) {
        worth.retain(|w| w.id != "no_sync" || w.predicted_wall_s < once - SAME * e.wall_s);
        worth.sort_by_key(|w| w.id == "no_sync");
    }
    worth.truncate(MAX_CHANGES);
    worth
}

/// Whether a change raises concurrency: a walk's window (values of a flag) or the number of requests in flight.
fn is_more_under_way(what_if: &WhatIf) -> bool {
    what_if.id.starts_with("walk.window.") || what_if.id == "requests.x4"
}

/// Returns the smallest raise of concurrency that gives about as much as the largest; none if the number behind the rate has its own
/// change: a program that starts a process or opens a connection per item has no requests to send ahead.
fn more_under_way<'a>(worth: &[&'a WhatIf], e: &Explanation) -> Option<&'a WhatIf> {
    let windows = || worth.iter().copied().filter(|w| w.id.starts_with("walk.window."));
    if let Some(four_times) = worth.iter().copied().find(|w| w.id == "requests.x4") {
        return Some(four_times);
    }
    let once = |number: &Number| matches!(number.kind, NumberKind::ProcessPerItem | NumberKind::ConnectionPerItem);
    if e.summary.numbers.first().is_some_and(once) {
        return None;
    }
    let best = windows().map(|w| w.predicted_wall_s).fold(f64::INFINITY, f64::min);
    let window = |w: &&WhatIf| w.id.rsplit('.').next().and_then(|n| n.parse::<u32>().ok());
    windows().filter(|w| w.predicted_wall_s <= best + SAME * e.wall_s).min_by_key(window)
}

/// Returns the change's name, cut at the first parenthesis, comma or colon.
fn name(what_if: &WhatIf) -> String {
    let marks = [" (", ", ", ": "];
    let end = marks.iter().filter_map(|mark| what_if.change.find(mark)).min().unwrap_or(what_if.change.len());
    clean(&what_if.change[..end])
}

/// Formats the gain: `2.05 s -> 1.61 s (1.55 to 1.70 s)`; for a bound, its maximum.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stands_behind_its_change_or_below_it_and_what_it_gives_up_is_said() {
        let command = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let set = |line: &str, gives_up| {
            let lines = with_how("  no waiting  2 s -> 1 s (0.9 to 1.1 s)".into(), (&command(line), &[]), "", true, gives_up, 80);
            lines.lines.into_iter().map(|(line, _)| line).collect::<Vec<_>>()
        };
        assert_eq!(set("dd if=a of=b", None), ["  no waiting  2 s -> 1 s (0.9 to 1.1 s)   dd if=a of=b"]);
        let long = "dd if=/a/long/path/to/a/file of=/another/path/to/a/file bs=1M";
        assert_eq!(set(long, None)[1], format!("      {long}"));
        let given = set(long, Some("durability: a power failure loses what was written"));
        assert_eq!(given[1..], [format!("      {long}"), "      gives up durability: a power failure loses what was written".to_owned()]);
        assert_eq!(
            set("dd if=a", Some("durability: all of it"))[0],
            "  no waiting  2 s -> 1 s (0.9 to 1.1 s)   dd if=a   gives up durability"
        );
    }

    #[test]
    fn a_command_that_is_cut_keeps_what_is_new_in_it() {
        let command = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let recorded =
            command("fio --name=a --filename=/srv/a/file/fiodepth.dat --rw=randread --bs=4k --direct=1 --runtime=8 --time_based");
        let deeper = command(
            "fio --name=a --filename=/srv/a/file/fiodepth.dat --rw=randread --bs=4k --direct=1 --runtime=8 --time_based --iodepth=4",
        );
        let lines = with_how("  four requests at a time  2 s -> 1 s".into(), (&deeper, &recorded), "", true, None, 80).lines;
        assert!(lines[1].0.contains("--iodepth=4"), "{}", lines[1].0);
    }
}
