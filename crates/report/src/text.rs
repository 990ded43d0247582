//! An explanation as full text: the short text's contents, a table by place that sums to the wall time, the gaps, predicted changes, and
//! the model's error. It fits 80 columns and any width from 60, and needs no colour.

use crate::page::{Ink, Page, TextOptions};
use crate::repeated;
use crate::short;
use crate::waits;
use crate::words::{cause_name, place_name};
use std::fmt::Write;
use thalweg_base::numbers::rounded_to_sum;
use thalweg_base::numbers::{bit_rate, count, duration, percent, size};
use thalweg_base::shell;
use thalweg_base::text::{clean, cut, cut_end, left, right, width, wrap};
use thalweg_explain::document::{Channel, ChannelBasis, Charge, Explanation, GapPart, Gaps, Status};

/// Entries smaller than this share of the wall time are combined.
const SMALL_SHARE: f64 = 0.01;
/// Maximum number of single entries in the table.
const MAX_ROWS: usize = 8;
/// Maximum number of lines of the command; a longer one is cut in its middle.
const MAX_COMMAND_LINES: usize = 3;
/// Maximum number of groups of gaps.
const MAX_GAP_GROUPS: usize = 5;
/// Minimum share of a part of gaps to mention it.
const GAP_PART: f64 = 0.1;

/// Formats the explanation as text, ending in a newline.
pub fn text(explanation: &Explanation, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    page.paragraph(&explanation.verdict.sentence, Ink::Bold);
    explanation.summary.numbers.iter().for_each(|number| page.paragraph(&clean(&number.sentence), Ink::Plain));
    if let Some(trips) = &explanation.round_trips {
        page.paragraph(&trips.sentence, Ink::Plain);
    }
    page.head(explanation);
    page.rows(explanation);
    page.charges(explanation);
    page.gaps(explanation);
    page.why(explanation);
    page.what_ifs(explanation);
    page.notes(explanation);
    page.into_text()
}

impl Page {
    fn head(&mut self, e: &Explanation) {
        self.gap();
        if !e.command.is_empty() {
            let command = cut(&clean(&e.command.join(" ")), self.width * MAX_COMMAND_LINES);
            self.hanging(0, 2, &command, Ink::Plain);
        }
        let ended = e.summary.ended.as_ref().map_or_else(String::new, |ended| format!("{ended}; "));
        let about = if e.summary.about.is_empty() { duration(e.wall_s) } else { e.summary.about.clone() };
        let mut said = format!("{ended}{about}; recorder: {}", e.recorder);
        if let Some(rest) = e.unlisted_transfers {
            let _ = write!(said, "; {} transfers", count(e.transfers.len() as u64 + rest.count));
        }
        if e.dropped_events > 0 {
            let _ = write!(said, ", which lost {} events", count(e.dropped_events));
        }
        self.paragraph(&said, Ink::Plain);
        let columns = self.width;
        for line in repeated::lines(e, columns) {
            self.paragraph(&line, Ink::Plain);
        }
        let phases: Vec<String> = e.phases.iter().map(|p| format!("{} {}", p.name.as_str(), duration(p.end_s - p.start_s))).collect();
        if phases.len() > 1 {
            self.paragraph(&format!("Phases: {}", phases.join(", ")), Ink::Dim);
        }
    }

    /// Adds the rows of the short text, what is not the limit, and all remarks.
    fn rows(&mut self, e: &Explanation) {
        let columns = self.width;
        for (number, (line, ink)) in short::charges(e, columns, MAX_ROWS).into_iter().chain(short::innocent(e, columns)).enumerate() {
            if number == 0 {
                self.gap();
            }
            self.line(&line, ink);
        }
        // (The sentence has said how certain it is.)
        for remark in e.summary.remarks.iter().filter(|remark| !e.verdict.sentence.contains(remark.as_str())) {
            self.hanging(2, 4, remark, Ink::Plain);
        }
    }

    fn charges(&mut self, e: &Explanation) {
        let alone = e.critical_path.iter().take(MAX_ROWS).take_while(|c| c.share >= SMALL_SHARE).count().max(1).min(e.critical_path.len());
        let (shown, small) = e.critical_path.split_at(alone);
        let rest_s: f64 = small.iter().map(|c| c.seconds).sum();
        let mut seconds: Vec<f64> = shown.iter().map(|c| c.seconds).collect();
        if !small.is_empty() {
            seconds.push(rest_s);
        }
        let clock = Clock::for_wall(e.wall_s);
        let shares: Vec<f64> = seconds.iter().map(|s| if e.wall_s > 0.0 { s / e.wall_s } else { 0.0 }).collect();
        let seconds = rounded_to_sum(&seconds, clock.unit_s);
        let shares = rounded_to_sum(&shares, 0.001);
        let columns =
            Columns::fit(self.width, shown.iter().map(|c| cause_name(e, c.cause).len()).max().unwrap_or(5).max("13 others".len()));

        let title = format!(
            "{}{}{}{}",
            left("Where the time went, by place", columns.cause + 2 + columns.place),
            right(clock.name, columns.seconds),
            right("share", columns.share),
            ""
        );
        self.heading(&title);
        for (i, charge) in shown.iter().enumerate() {
            let (cause, place) = (cause_name(e, charge.cause), place_name(e, &charge.place));
            let row = Row { cause, place, seconds: seconds[i], share: shares[i], ink: Ink::Of(charge.cause) };
            self.row(&columns, &clock, &row);
            self.evidence(charge, place, columns.place);
        }
        if !small.is_empty() {
            let name = if small.len() == 1 { "1 other".to_owned() } else { format!("{} others", small.len()) };
            let place = {
                let mut names: Vec<&str> = Vec::new();
                for charge in small.iter().filter(|c| c.seconds > 0.0) {
                    let name = cause_name(e, charge.cause);
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                names.join(", ")
            };
            self.row(&columns, &clock, &Row { cause: &name, place: &place, seconds: seconds[alone], share: shares[alone], ink: Ink::Dim });
        }
        let total = Row { cause: "wall time", place: "", seconds: seconds.iter().sum(), share: shares.iter().sum(), ink: Ink::Plain };
        self.row(&columns, &clock, &total);
    }

    fn row(&mut self, columns: &Columns, clock: &Clock, row: &Row<'_>) {
        let bar = if row.ink == Ink::Plain { String::new() } else { bar(row.share, columns.bar) };
        let line = format!(
            "{}  {}{}{}  {}",
            self.ink(&left(row.cause, columns.cause), row.ink),
            left(&cut_end(&clean(row.place), columns.place), columns.place),
            right(&clock.write(row.seconds), columns.seconds),
            right(&percent(row.share), columns.share),
            self.ink(&bar, row.ink),
        );
        self.line(&line, Ink::Plain);
    }

    /// Adds the evidence, after the place if its column was too narrow.
    fn evidence(&mut self, charge: &Charge, place: &str, place_columns: usize) {
        let mut said = if width(place) > place_columns { format!("{place}: ") } else { String::new() };
        said += &charge.evidence;
        // A very small slack only means that another chain is as long; a very large one, that nothing is near.
        if (0.1..0.95).contains(&(charge.slack_s / charge.seconds)) {
            let _ = write!(said, "; at most {} of it can be saved", duration(charge.slack_s));
        }
        if !charge.hottest.is_empty() {
            let functions: Vec<String> = charge.hottest.iter().map(|hot| format!("{} {}", hot.function, percent(hot.share))).collect();
            let _ = write!(said, "; of the wall time in {}", functions.join(", "));
        }
        if !said.is_empty() {
            self.hanging(2, 2, &said, Ink::Dim);
        }
        for wait in &charge.waits {
            let line = format!("  {}", waits::line(wait, self.width - 2));
            self.line(&line, Ink::Dim);
        }
    }

    fn gaps(&mut self, e: &Explanation) {
        let sums: Vec<&Channel> = e.channels.iter().filter(|c| c.aggregate && c.gaps.count > 0 && c.size_bytes > 0).collect();
        let channels = if sums.is_empty() { e.channels.iter().filter(|c| c.gaps.count > 0).take(1).collect() } else { sums };
        if channels.is_empty() {
            return;
        }
        self.heading("Gaps");
        for channel in channels {
            self.channel(e, channel);
        }
    }

    fn channel(&mut self, e: &Explanation, c: &Channel) {
        let mut said = format!("{}: {} bursts", c.name, count(c.bursts));
        if let Some(rate) = c.burst_bytes_per_s {
            let _ = write!(said, " at {}", bit_rate(rate));
        } else if c.basis == ChannelBasis::HandedOver {
            said.push_str(", measured at the socket, not on the wire");
        }
        let _ = write!(said, ", busy {} of the time; {}", percent(c.busy_share), lengths(&c.gaps));
        self.paragraph(&said, Ink::Plain);
        for group in c.gaps.groups.iter().take(MAX_GAP_GROUPS) {
            let many = format!("{} × {} ({}): ", count(group.count), cause_name(e, group.cause), place_name(e, &group.place));
            let period = group.period_bytes.map_or_else(String::new, |p| format!(", every {}", size(p)));
            let each = if group.count == 1 { String::new() } else { format!(", median {}{period}", duration(group.median_s)) };
            self.hanging(2, 6, &format!("{many}{}{each}", duration(group.total_s)), Ink::Plain);
        }
        self.gap_parts(e, &c.gaps);
        if let Some(more) = c.gaps.groups.len().checked_sub(MAX_GAP_GROUPS).filter(|n| *n > 0) {
            self.hanging(2, 6, &format!("and {more} more kind{} of gap", if more == 1 { "" } else { "s" }), Ink::Dim);
        }
    }

    /// Adds the parts of gaps, if they have more than one cause.
    fn gap_parts(&mut self, e: &Explanation, gaps: &Gaps) {
        let worth: Vec<&GapPart> = gaps.parts.iter().filter(|p| p.total_s >= GAP_PART * gaps.total_s).collect();
        if worth.len() > 1 {
            let said: Vec<String> =
                worth.iter().map(|p| format!("{} {} in {}", cause_name(e, p.cause), duration(p.median_s), count(p.gaps))).collect();
            self.hanging(2, 6, &format!("what they are made of, at the median: {}", said.join(", ")), Ink::Plain);
        }
    }

    fn what_ifs(&mut self, e: &Explanation) {
        if !e.what_if.is_empty() {
            let change = self.width - 22;
            self.heading(&format!("{}{}{}", left("What a change would give", change), right("predicted", 12), right("speedup", 10)));
            for what_if in &e.what_if {
                let mut lines = wrap(&clean(&what_if.change), change - 2).into_iter();
                let first = lines.next().unwrap_or_default();
                let predicted = right(&duration(what_if.predicted_wall_s), 12);
                let speedup = right(&format!("{:.2}×", what_if.speedup), 10);
                self.line(&format!("{}{predicted}{speedup}", left(&first, change)), Ink::Plain);
                lines.for_each(|line| self.line(&line, Ink::Plain));
                if what_if.how != shell::line(&what_if.command) {
                    self.hanging(2, 4, &what_if.how, Ink::Dim);
                }
                self.made_by(&what_if.command, what_if.gives_up.as_deref());
            }
        }
        if !e.advice.is_empty() {
            self.heading("Further changes known to help, without a predicted gain");
            for advice in &e.advice {
                self.hanging(0, 2, &format!("{}: {} [{}]", cause_name(e, advice.cause), advice.says, advice.source), Ink::Plain);
                self.made_by(&advice.command, advice.gives_up.as_deref());
            }
        }
        let said = match (&e.model.reason, e.model.replayed_wall_s, e.model.error) {
            (Some(reason), ..) => format!("No prediction: {reason}"),
            (None, Some(wall_s), Some(error)) => {
                format!("The model replays this run in {}, {} off; expect at least this error.", duration(wall_s), percent(error))
            }
            _ => return,
        };
        if e.what_if.is_empty() {
            self.gap();
        }
        self.paragraph(&said, Ink::Plain);
    }

    /// Adds the command that makes a change, and what it gives up.
    fn made_by(&mut self, command: &[String], gives_up: Option<&str>) {
        if !command.is_empty() {
            self.hanging(2, 4, &shell::line(command), Ink::Plain);
        }
        if let Some(gives_up) = gives_up {
            self.hanging(2, 4, &format!("gives up {gives_up}"), Ink::Plain);
        }
    }

    fn notes(&mut self, e: &Explanation) {
        let already_said = |note: &String| e.model.reason.as_ref().is_some_and(|reason| note.contains(reason.as_str()));
        let notes: Vec<&String> = e.notes.iter().filter(|n| !already_said(n)).collect();
        if !notes.is_empty() {
            self.gap();
        }
        for note in notes {
            self.hanging(0, 2, &format!("Note: {note}"), Ink::Plain);
        }
        // (The first sentence says why it is unsure.)
        if e.verdict.status == Status::Inconclusive
            && let Some(second) = &e.verdict.second
        {
            let (first, second) = (format!("{} ({})", cause_name(e, e.verdict.cause), percent(e.verdict.share)), second);
            let said = format!(
                "Note: inconclusive: {first} and {} ({}) are too close to call.",
                cause_name(e, second.cause),
                percent(second.share)
            );
            self.hanging(0, 2, &said, Ink::Plain);
        }
        for (number, settle) in e.verdict.settle.iter().enumerate() {
            if number == 0 {
                self.gap();
            }
            self.hanging(0, 2, &format!("To be sure: {settle}"), Ink::Plain);
        }
    }
}

/// Formats number and lengths of gaps.
fn lengths(gaps: &Gaps) -> String {
    if gaps.count == 1 {
        return format!("1 gap of {}", duration(gaps.total_s));
    }
    let mut said = format!("{} gaps", count(gaps.count));
    if let (Some(median), Some(p99)) = (gaps.median_s, gaps.p99_s) {
        let _ = write!(said, ", median {}, 99th percentile {}", duration(median), duration(p99));
    }
    if let Some(period) = gaps.period_bytes {
        let _ = write!(said, ", one every {}", size(period));
    }
    let _ = write!(said, ", together {}", duration(gaps.total_s));
    said
}

struct Row<'a> {
    cause: &'a str,
    place: &'a str,
    seconds: f64,
    share: f64,
    ink: Ink,
}

struct Columns {
    cause: usize,
    place: usize,
    seconds: usize,
    share: usize,
    bar: usize,
}

impl Columns {
    fn fit(page: usize, cause: usize) -> Columns {
        let (seconds, share) = (9, 9);
        let bar = if page >= 76 { 12 } else { 6 };
        let place = page.saturating_sub(cause + 2 + seconds + share + 2 + bar);
        Columns { cause, place, seconds, share, bar }
    }
}

/// The unit of the table's times: milliseconds below one second.
struct Clock {
    name: &'static str,
    unit_s: f64,
    per_s: f64,
    digits: usize,
}

impl Clock {
    fn for_wall(wall_s: f64) -> Clock {
        match wall_s {
            w if w >= 1.0 => Clock { name: "seconds", unit_s: 1e-3, per_s: 1.0, digits: 3 },
            w if w >= 0.01 => Clock { name: "ms", unit_s: 1e-4, per_s: 1e3, digits: 1 },
            _ => Clock { name: "ms", unit_s: 1e-6, per_s: 1e3, digits: 3 },
        }
    }

    fn write(&self, seconds: f64) -> String {
        format!("{:.*}", self.digits, seconds * self.per_s)
    }
}

/// Draws a bar of at most `columns`, in eighths of a column; any share above 0 is visible.
fn bar(share: f64, columns: usize) -> String {
    let eighths = ((share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize).max(usize::from(share > 0.0));
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let text = "█".repeat(eighths / 8) + part;
    debug_assert!(width(&text) <= columns);
    text
}
