//! Comparison of two runs: in at most [`MAX_LINES`] lines of 80 columns, and as a page.

use crate::Result;
use crate::html::without_style;
use crate::interactive::pair::{Explained, pair_page, still_page};
use crate::page::{Ink, Page, TextOptions};
use crate::picture::canvas::escape;
use crate::picture::palette::cause_style;
use crate::picture::{PictureOptions, svg};
use crate::predicted::{Prediction, predicted_against_achieved};
use crate::short::{COLUMNS, MAX_LINES};
use crate::words::name_beside;
use std::fmt::Write;
use thalweg_base::numbers::{byte_rate, duration};
use thalweg_base::text::{clean, cut, cut_end, left, right, width, wrap};
use thalweg_explain::diff::{Diff, DiffRow, OfRun};
use thalweg_explain::title;

/// Minimum change for a row of its own, as a part of the longer run.
const SMALL_CHANGE: f64 = 0.005;
/// Differences below this part are not significant for one pair of runs.
const SAME: f64 = 0.005;

/// Formats the diff as text, ending in a newline.
pub fn diff(diff: &Diff, options: &TextOptions) -> String {
    let options = TextOptions { width: options.width.min(COLUMNS), ..*options };
    let mut page = Page::new(&options);
    let columns = page.width;
    let mut below: Vec<String> = diff.different_work.iter().map(|why| format!("Different work: {why}.")).collect();
    below.extend(prediction(diff));
    below.extend(diff.notes.iter().map(|note| format!("Note: {note}.")));
    let below: Vec<String> = below.iter().flat_map(|line| hanging(line, columns)).collect();
    // Heading, times, heads of the columns, the rest of the rows, two gaps.
    let below = &below[..below.len().min(MAX_LINES - 8)];
    let most = MAX_LINES - 7 - below.len();
    page.line(&cut_end(&heading(diff, columns), columns), Ink::Bold);
    page.line(&cut_end(&clean(&rates(diff)), columns), Ink::Plain);
    page.gap();
    rows(&mut page, diff, most);
    if !below.is_empty() {
        page.gap();
    }
    below.iter().for_each(|line| page.plain(line));
    page.into_text()
}

/// Returns the line on the change that was made, if one was.
fn prediction(diff: &Diff) -> Option<String> {
    Some(predicted_against_achieved(&diff.made.as_ref()?.change, &Prediction::of(diff)?))
}

fn hanging(line: &str, columns: usize) -> Vec<String> {
    let lines = wrap(&clean(line), columns - 2);
    lines.into_iter().enumerate().map(|(at, line)| if at == 0 { line } else { format!("  {line}") }).collect()
}

/// Formats the heading: `cp big copy: 2.05 s -> 1.61 s, 1.27 times as fast`.
fn heading(diff: &Diff, columns: usize) -> String {
    let (before, after) = (duration(diff.before.wall_s), duration(diff.after.wall_s));
    let verdict = match diff.speedup {
        s if (s - 1.0).abs() < SAME => "as fast as before".to_owned(),
        s if s > 1.0 => format!("{s:.2} times as fast"),
        s => format!("{:.2} times as long", 1.0 / s.max(1e-9)),
    };
    let about = format!(": {before} -> {after}, {verdict}");
    let room = columns.saturating_sub(width(&about));
    let command = title(&diff.after.command, room);
    format!("{}{about}", if command.is_empty() { "the run".to_owned() } else { clean(&command) })
}

/// Formats the rates, if both are known, and the numbers of runs.
fn rates(diff: &Diff) -> String {
    let mut said = Vec::new();
    if let (Some(before), Some(after)) = (diff.before.rate_bytes_per_s, diff.after.rate_bytes_per_s) {
        said.push(format!("{} -> {}", byte_rate(before), byte_rate(after)));
    }
    let of_runs = |which: &str, run: &OfRun| {
        run.interval_s.map(|interval_s| format!("{which}: median of {} runs ({})", run.runs, crate::repeated::interval(interval_s)))
    };
    said.extend([of_runs("before", &diff.before), of_runs("after", &diff.after)].into_iter().flatten());
    if diff.before.interval_s.is_none() && diff.after.interval_s.is_none() {
        said.push("one run each".to_owned());
    }
    said.join("; ")
}

/// Writes at most `most` rows of changes by cause, and the others combined.
fn rows(page: &mut Page, diff: &Diff, most: usize) {
    let longer_s = diff.before.wall_s.max(diff.after.wall_s);
    let shown = diff.rows.iter().take(most).take_while(|row| row.change_s.abs() >= SMALL_CHANGE * longer_s && row.cause.is_some()).count();
    let (shown, rest) = diff.rows.split_at(shown);
    let names = shown.iter().map(|row| width(name(diff, row))).max().unwrap_or(0).max("wall time".len());
    page.line(&format!("{}{}{}", right("change", 11), right("before", 11), right("after", 11)), Ink::Dim);
    let columns = page.width;
    let mut line = |change_s: f64, before_s: f64, after_s: f64, what: &str, subject: &str, ink: Ink| {
        let head = format!(
            "{}{}{}  {}  ",
            right(&signed(change_s), 11),
            right(&duration(before_s.max(0.0)), 11),
            right(&duration(after_s.max(0.0)), 11),
            left(what, names)
        );
        let room = columns.saturating_sub(width(&head));
        page.line(&format!("{head}{}", cut(&clean(subject), room)), ink);
    };
    for row in shown {
        line(
            row.change_s,
            row.before_s,
            row.after_s,
            name(diff, row),
            row.subject_after.as_ref().unwrap_or(&row.subject),
            row.cause.map_or(Ink::Dim, Ink::Of),
        );
    }
    if !rest.is_empty() {
        let sum = |of: fn(&DiffRow) -> f64| rest.iter().map(of).sum::<f64>();
        let others = if rest.len() == 1 { "1 other".to_owned() } else { format!("{} others", rest.len()) };
        line(sum(|r| r.change_s), sum(|r| r.before_s), sum(|r| r.after_s), &others, "", Ink::Dim);
    }
    line(diff.change_s, diff.before.wall_s, diff.after.wall_s, "wall time", "", Ink::Plain);
}

fn name(diff: &Diff, row: &DiffRow) -> &'static str {
    row.cause.map_or("others", |cause| name_beside(cause, diff.rows.iter().filter_map(|row| row.cause)))
}

/// Formats a signed duration: `-1.20 s`, `+13.0 ms`.
fn signed(seconds: f64) -> String {
    format!("{}{}", if seconds < 0.0 { '-' } else { '+' }, duration(seconds.abs()))
}

/// Returns the static part of the page: both runs as strips on one scale, the changes by cause, and the prediction. `pictures`: headings
/// and SVG of the recordings, if any.
fn static_part(diff: &Diff, title: &str, pictures: &[(&str, String)]) -> String {
    let mut page = format!("<h1>{}</h1>\n", escape(title));
    for line in prediction(diff).iter().chain(&diff.different_work).chain(&diff.notes) {
        let _ = writeln!(page, "<p>{}</p>", escape(&clean(line)));
    }
    let _ = write!(page, "<h2>Both runs on one scale</h2>\n<div class=\"picture\">\n{}</div>\n", strips(diff));
    table(&mut page, diff);
    for (name, run) in [("Before", &diff.before), ("After", &diff.after)] {
        let _ = write!(
            page,
            "<h2>{name}</h2>\n<p>{}</p>\n<p class=\"faint\"><code>{}</code></p>\n",
            escape(&clean(&run.sentence)),
            escape(&clean(&run.command.join(" ")))
        );
    }
    for (name, svg) in pictures {
        let _ = write!(page, "<h2>{}</h2>\n<div class=\"picture\">\n{}</div>\n", escape(name), without_style(svg));
    }
    page
}

/// Makes the page of a difference: the app with both recordings, if both runs have one, and a static part for readers without scripts.
/// `names`: of the recordings.
pub fn diff_page(diff: &Diff, names: [&str; 2], recordings: [Option<Explained<'_>>; 2]) -> Result<String> {
    let title = heading(diff, 120);
    let mut pictures = Vec::new();
    for (name, recording) in ["Before", "After"].into_iter().zip(recordings) {
        if let Some((source, explanation)) = recording {
            pictures.push((name, svg(source, explanation, &PictureOptions::default())?));
        }
    }
    let fixed = static_part(diff, &title, &pictures);
    match recordings {
        [Some(before), Some(after)] => pair_page(diff, names, [before, after], &title, &fixed),
        _ => Ok(still_page(&title, &fixed)),
    }
}

fn table(page: &mut String, diff: &Diff) {
    page.push_str("<h2>Change by cause</h2>\n<div class=\"tables\"><table>\n<tr><th>cause</th><th>who or what</th>");
    page.push_str("<th class=\"n\">change</th><th class=\"n\">before</th><th class=\"n\">after</th></tr>\n");
    let mut row = |cause: &str, subject: &str, [change_s, before_s, after_s]: [f64; 3]| {
        let (before, after) = (duration(before_s.max(0.0)), duration(after_s.max(0.0)));
        let _ = writeln!(
            page,
            "<tr><td>{cause}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{before}</td><td class=\"n\">{after}</td></tr>",
            escape(&clean(subject)),
            signed(change_s)
        );
    };
    for of in &diff.rows {
        let subject = match &of.subject_after {
            Some(after) => format!("{} / {after}", of.subject),
            None => of.subject.clone(),
        };
        row(name(diff, of), &subject, [of.change_s, of.before_s, of.after_s]);
    }
    row("wall time", "", [diff.change_s, diff.before.wall_s, diff.after.wall_s]);
    page.push_str("</table></div>\n");
}

/// Draws two strips, one below the other: the seconds of each run by cause, in the order of the table.
fn strips(diff: &Diff) -> String {
    const WIDTH: f64 = 1200.0;
    let scale = WIDTH / diff.before.wall_s.max(diff.after.wall_s).max(1e-9);
    let mut svg = String::from(
        "<svg viewBox=\"0 0 1340 110\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n",
    );
    type Seconds = fn(&DiffRow) -> f64;
    let runs: [(&str, f64, Seconds); 2] = [("before", diff.before.wall_s, |r| r.before_s), ("after", diff.after.wall_s, |r| r.after_s)];
    for (number, (name_of, wall_s, seconds)) in runs.into_iter().enumerate() {
        let y = 10 + 50 * number;
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\" fill=\"#1b2430\">{name_of}</text>", y + 25);
        let mut x = 60.0;
        for row in &diff.rows {
            let long = seconds(row).max(0.0) * scale;
            if long > 0.0 {
                let fill = row.cause.map_or("#d8dce2", |cause| cause_style(cause).colour);
                let said = escape(&clean(&format!("{} ({}): {}", name(diff, row), row.subject, duration(seconds(row)))));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{long:.1}\" height=\"40\" fill=\"{fill}\"><title>{said}</title></rect>"
                );
                x += long;
            }
        }
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" fill=\"#1b2430\">{}</text>", x + 6.0, y + 25, duration(wall_s));
    }
    svg + "</svg>\n"
}
