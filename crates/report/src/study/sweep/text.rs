//! The result for a terminal in at most 25 lines: the findings, then every point, or the best and the worst along each parameter.

use thalweg_base::numbers::{byte_rate, duration, whole_percent};
use thalweg_base::text::wrap;
use thalweg_measure::Estimate;
use thalweg_study::sweep::{Document, PointResult, State};

/// Maximum number of lines.
const MOST_LINES: usize = 25;
/// Maximum number of points in the table.
const MOST_POINTS: usize = 15;
/// Maximum width of a line.
const WIDTH: usize = 110;

/// Formats the result in at most 25 lines.
pub fn text(document: &Document) -> String {
    let mut lines = head(document);
    let room = MOST_LINES.saturating_sub(lines.len() + 2);
    let rows = if document.points.len() <= MOST_POINTS.min(room) {
        document.points.iter().map(|p| row(document, p)).collect()
    } else {
        extremes(document, room)
    };
    let heads = [
        document.parameters.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(" "),
        figure_name(document).into(),
        "95 % interval".into(),
        "CPU".into(),
        "cause".into(),
    ];
    lines.push(String::new());
    lines.extend(table(&heads, &rows));
    lines.truncate(MOST_LINES);
    lines.join("\n") + "\n"
}

fn figure_name(document: &Document) -> &'static str {
    if document.has_rates() { "rate" } else { "time" }
}

/// Formats a figure of this document: a rate, or a time.
fn figure(document: &Document, value: f64) -> String {
    if document.has_rates() { byte_rate(value) } else { duration(value) }
}

fn estimate(document: &Document, point: &PointResult) -> Option<Estimate> {
    if document.has_rates() { point.rate_bytes_per_s } else { point.wall_s }
}

/// Returns the findings, in sentences.
fn head(document: &Document) -> Vec<String> {
    let found = &document.findings;
    let mut lines = wrapped(&found.sentence, 3);
    if let Some(best) = found.best.as_ref().and_then(|best| document.points.iter().find(|point| point.values == *best)) {
        let figure = estimate(document, best).map_or_else(String::new, |e| figure(document, e.median)) + &of_ceiling(document, best);
        let equals = match found.equals.as_slice() {
            [] => "; clearly better than all other points".to_owned(),
            few if few.len() <= 3 => {
                format!("; not distinguishable from it: {}", few.iter().map(|values| document.name(values)).collect::<Vec<_>>().join(", "))
            }
            many => format!("; {} points are not distinguishable from it, {} among them", many.len(), document.name(&many[0])),
        };
        lines.extend(wrapped(&format!("Best: {}, {figure}{equals}.", document.name(&best.values)), 2));
    }
    for handover in found.handovers.iter().take(2) {
        let times = if handover.times > 1 { format!(" ({} times)", handover.times) } else { String::new() };
        let h = handover;
        lines.push(format!(
            "The limit changes hands between {}={} and {}: from {} to {}{times}.",
            h.parameter, h.before, h.after, h.from, h.to
        ));
    }
    lines.extend(found.failures.iter().flat_map(|text| wrapped(text, 2)));
    lines.extend(document.ceiling_problem.iter().flat_map(|problem| wrapped(&format!("The ceiling was not measured: {problem}"), 2)));
    lines
}

fn row(document: &Document, point: &PointResult) -> Vec<String> {
    let mut row = vec![point.values.join(" ")];
    match (point.state, estimate(document, point)) {
        (State::Done, Some(e)) => {
            row.extend([figure(document, e.median), format!("{} to {}", figure(document, e.low), figure(document, e.high))])
        }
        (state, _) => row.extend([state.name().to_owned(), String::new()]),
    }
    row.push(point.cpu_s().map_or_else(String::new, duration));
    row.push(match (&point.explanation, point.state) {
        (Some(e), State::Done) => {
            let share = e.shares.iter().find(|(cause, _)| *cause == e.cause).map_or(0.0, |(_, share)| *share);
            format!("{} {}", e.cause, whole_percent(share))
        }
        (_, State::Done) => String::new(),
        _ => cut(point.problem.as_deref().unwrap_or_default(), 60),
    });
    row
}

/// Returns rows of the best and the worst point, and of the best at each value of each parameter, as far as there is room.
fn extremes(document: &Document, room: usize) -> Vec<Vec<String>> {
    let mut done: Vec<&PointResult> =
        document.points.iter().filter(|p| p.state == State::Done && estimate(document, p).is_some()).collect();
    let cost = |p: &PointResult| estimate(document, p).map_or(0.0, |e| if document.has_rates() { -e.median } else { e.median });
    done.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let marked = |what: &str, point: &PointResult| {
        let mut row = row(document, point);
        row[0] = format!("{what}: {}", row[0]);
        row
    };
    let mut rows: Vec<Vec<String>> =
        done.first().map(|p| marked("best", p)).into_iter().chain(done.last().map(|p| marked("worst", p))).collect();
    for (n, parameter) in document.parameters.iter().enumerate() {
        let at = |label: &str| done.iter().find(|p| p.values[n] == label).copied();
        let mut best: Vec<&PointResult> = parameter.values.iter().filter_map(|value| at(&value.label)).collect();
        best.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let ends = if best.len() > 1 { [best.first(), best.last()] } else { [best.first(), None] };
        for (point, what) in ends.into_iter().zip(["best", "least"]).filter_map(|(point, what)| Some((point?, what))) {
            rows.push(marked(&format!("{what} with {}={}", parameter.name, point.values[n]), point));
        }
    }
    let bad = document.points.iter().filter(|p| matches!(p.state, State::Failed | State::TimedOut));
    rows.extend(bad.take(2).map(|p| row(document, p)));
    rows.truncate(room);
    rows
}
/// Formats the part of the ceiling that a point reaches.
fn of_ceiling(document: &Document, point: &PointResult) -> String {
    match (&point.of_ceiling, document.ceiling_bytes_per_s.zip(point.rate_bytes_per_s)) {
        (Some(part), _) => {
            let [middle, low, high] = [part.median, part.low, part.high].map(whole_percent);
            format!(" ({middle} of the ceiling, {low} to {high})")
        }
        (None, Some((ceiling, rate))) => format!(" ({} of the ceiling)", whole_percent(rate.median / ceiling)),
        (None, None) => String::new(),
    }
}

/// Wraps a sentence to at most `most` lines of [`WIDTH`] columns; the rest is cut.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = wrap(text, WIDTH);
    if lines.len() > most {
        lines.truncate(most);
        lines[most - 1].push_str(" …");
    }
    lines
}

/// Joins a text's lines, and cuts it in its middle: its start and end matter most.
fn cut(text: &str, most: usize) -> String {
    let line: Vec<char> = text.lines().collect::<Vec<_>>().join(" ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() <= most {
        return line.into_iter().collect();
    }
    let half = (most - 1) / 2;
    line[..half].iter().chain(&['…']).chain(&line[line.len() - half..]).collect()
}

/// Formats a table, with the first and the last column left-aligned.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> Vec<String> {
    let all = || std::iter::once(heads).chain(rows.iter().map(Vec::as_slice));
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().enumerate().map(|(n, cell)| {
            let pad = " ".repeat(widths[n].saturating_sub(cell.chars().count()));
            if n == 0 || n + 1 == row.len() { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    all().map(line).collect()
}
