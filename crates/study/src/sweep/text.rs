//! The result for a terminal: at most 25 lines. What was found comes first, then every point, or of many the best and the worst along each
//! parameter.

use super::document::Document;
use super::point::PointResult;
use super::sample::State;
use thalweg_measure::Estimate;
use thalweg_trace::numbers::{byte_rate, duration, whole_percent};

/// At most so many lines.
pub(super) const MOST_LINES: usize = 25;
/// At most so many points are in a table.
const MOST_POINTS: usize = 15;
/// At most so many columns of a line: the rest of a sentence goes to the next.
const WIDTH: usize = 110;

impl Document {
    /// The result in at most 25 lines.
    pub fn text(&self) -> String {
        let mut lines = self.head();
        let room = MOST_LINES.saturating_sub(lines.len() + 2);
        let rows = if self.points.len() <= MOST_POINTS.min(room) {
            self.points.iter().map(|p| self.row(p)).collect()
        } else {
            self.extremes(room)
        };
        let heads = [
            self.parameters.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(" "),
            self.figure_name().into(),
            "95 % interval".into(),
            "CPU".into(),
            "cause".into(),
        ];
        lines.push(String::new());
        lines.extend(table(&heads, &rows));
        lines.truncate(MOST_LINES);
        lines.join("\n") + "\n"
    }

    fn figure_name(&self) -> &'static str {
        if self.has_rates() { "rate" } else { "time" }
    }

    /// A figure of this document: a rate, or a time.
    fn figure(&self, value: f64) -> String {
        if self.has_rates() { byte_rate(value) } else { duration(value) }
    }

    fn estimate(&self, point: &PointResult) -> Option<Estimate> {
        if self.has_rates() { point.rate_bytes_per_s } else { point.wall_s }
    }

    /// What was found, in sentences.
    fn head(&self) -> Vec<String> {
        let found = &self.findings;
        let mut lines = wrapped(&found.sentence, 3);
        if let Some(best) = found.best.as_ref().and_then(|best| self.points.iter().find(|point| point.values == *best)) {
            let figure = self.estimate(best).map_or_else(String::new, |e| self.figure(e.median)) + &of_ceiling(self, best);
            let equals = match found.equals.as_slice() {
                [] => "; no other point comes near enough to be mistaken for it".to_owned(),
                few if few.len() <= 3 => {
                    format!("; cannot be told from it: {}", few.iter().map(|values| self.name(values)).collect::<Vec<_>>().join(", "))
                }
                many => format!("; {} points cannot be told from it, {} among them", many.len(), self.name(&many[0])),
            };
            lines.extend(wrapped(&format!("Best: {}, {figure}{equals}.", self.name(&best.values)), 2));
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
        lines.extend(self.ceiling_problem.iter().flat_map(|problem| wrapped(&format!("The ceiling has no figure: {problem}"), 2)));
        lines
    }

    fn row(&self, point: &PointResult) -> Vec<String> {
        let mut row = vec![point.values.join(" ")];
        match (point.state, self.estimate(point)) {
            (State::Done, Some(e)) => row.extend([self.figure(e.median), format!("{} to {}", self.figure(e.low), self.figure(e.high))]),
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

    /// Of many points: the best and the worst of all, and the best at each value of each parameter, as far as there is room.
    fn extremes(&self, room: usize) -> Vec<Vec<String>> {
        let mut done: Vec<&PointResult> = self.points.iter().filter(|p| p.state == State::Done && self.estimate(p).is_some()).collect();
        let cost = |p: &PointResult| self.estimate(p).map_or(0.0, |e| if self.has_rates() { -e.median } else { e.median });
        done.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let marked = |what: &str, point: &PointResult| {
            let mut row = self.row(point);
            row[0] = format!("{what}: {}", row[0]);
            row
        };
        let mut rows: Vec<Vec<String>> =
            done.first().map(|p| marked("best", p)).into_iter().chain(done.last().map(|p| marked("worst", p))).collect();
        for (n, parameter) in self.parameters.iter().enumerate() {
            let at = |label: &str| done.iter().find(|p| p.values[n] == label).copied();
            let mut best: Vec<&PointResult> = parameter.values.iter().filter_map(|value| at(&value.label)).collect();
            best.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
            let ends = if best.len() > 1 { [best.first(), best.last()] } else { [best.first(), None] };
            for (point, what) in ends.into_iter().zip(["best", "least"]).filter_map(|(point, what)| Some((point?, what))) {
                rows.push(marked(&format!("{what} with {}={}", parameter.name, point.values[n]), point));
            }
        }
        let bad = self.points.iter().filter(|p| matches!(p.state, State::Failed | State::TimedOut));
        rows.extend(bad.take(2).map(|p| self.row(p)));
        rows.truncate(room);
        rows
    }
}

/// Which part of the ceiling a point reaches.
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

/// A sentence in lines of at most [`WIDTH`] columns, at most so many; what does not fit is cut.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            *last = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        lines.last_mut().expect("there is one").push_str(" …");
    }
    lines
}

/// The first line of a text, cut in its middle: how it begins and what it ends with say most.
fn cut(text: &str, most: usize) -> String {
    let line: Vec<char> = text.lines().collect::<Vec<_>>().join(" ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() <= most {
        return line.into_iter().collect();
    }
    let half = (most - 1) / 2;
    line[..half].iter().chain(&['…']).chain(&line[line.len() - half..]).collect()
}

/// Columns, the first and the last set to the left.
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

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{around, made_up};
    use super::*;

    #[test]
    fn few_points_are_all_there_and_a_failed_one_says_why() {
        let document = made_up(&["a=1,2,3", "b=x,y"], |values| {
            let time = values[0].parse::<f64>().unwrap();
            (
                if values[0] == "3" && values[1] == "y" { Vec::new() } else { around(time) },
                if time > 1.5 { "server.cpu" } else { "client.read" },
            )
        });
        let text = document.text();
        assert!(text.lines().count() <= MOST_LINES && text.lines().count() == text.trim_end().lines().count(), "{text}");
        assert!(text.contains("  3 y  failed ") && text.contains("the disk is full"), "{text}");
        assert!(text.contains("Best: a=1") && text.contains("what did not: b (0 %") && text.contains("client.read 75 %"), "{text}");
        assert!(text.contains("changes hands between a=1 and 2: from client.read to server.cpu (2 times)."), "{text}");
    }

    #[test]
    fn many_points_are_the_best_and_the_worst_in_25_lines() {
        let text = made_up(&["a=1..9", "b=1..9", "c=1..2", "d=1,2"], |values| {
            (around(values.iter().map(|v| v.parse::<f64>().unwrap()).sum()), "client.read")
        })
        .text();
        assert!(text.lines().count() <= MOST_LINES, "{text}");
        assert!(text.contains("best: 1 1 1 1") && text.contains("worst: 9 9 2 2") && text.contains("least with a=9"), "{text}");
    }
}
