//! A close-up: a part of the time, with a bar for each call.

use super::axes::{SMALL, TimeAxis};
use super::rows::RED;
use crate::picture::canvas::{Canvas, FAINT, INK, Lettering, Path, text_width};
use thalweg_base::numbers::{count, duration, size};
use thalweg_base::text::{clean, width, wrap};
use thalweg_explain::rpcstat::document::{CallBar, CloseUp, CloseUpKind, Outcome};

/// Maximum number of bars.
const MAX_BARS: usize = 60;
/// Approximate maximum height of all bars.
const MAX_HEIGHT: f64 = 360.0;
/// Line height of the heading.
const LINE: f64 = 18.0;
/// Font size of the heading.
const HEADING: f64 = 14.0;
/// Height of the label of the shaded part, above the bars.
const ABOVE: f64 = 22.0;
/// Height of the axis and the note, below the bars.
const BELOW: f64 = 46.0;

/// A close-up, laid out.
pub(super) struct Drawn<'a> {
    close_up: &'a CloseUp,
    heading: Vec<String>,
    /// The calls drawn, each with its row.
    bars: Vec<(&'a CallBar, usize)>,
    row_height: f64,
    rows: usize,
    left_out: u64,
}

impl<'a> Drawn<'a> {
    /// Lays it out for a heading of `columns`.
    pub(super) fn new(close_up: &'a CloseUp, columns: usize) -> Drawn<'a> {
        let mut calls: Vec<&CallBar> =
            close_up.calls.iter().filter(|call| call.end_s >= close_up.start_s && call.start_s <= close_up.end_s).collect();
        let left_out = close_up.left_out + calls.len().saturating_sub(MAX_BARS) as u64;
        if calls.len() > MAX_BARS {
            calls.sort_by(|a, b| (b.end_s - b.start_s).total_cmp(&(a.end_s - a.start_s)));
            calls.truncate(MAX_BARS);
        }
        calls.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        // Each call goes to the first free row; an open call keeps its row to the end.
        let mut free: Vec<f64> = Vec::new();
        let gap = (close_up.end_s - close_up.start_s) * 0.003;
        let mut bars = Vec::new();
        for call in calls {
            let row = free.iter().position(|until| *until + gap <= call.start_s).unwrap_or(free.len());
            let until = if is_open(call) { f64::INFINITY } else { call.end_s };
            match free.get_mut(row) {
                Some(end) => *end = until,
                None => free.push(until),
            }
            bars.push((call, row));
        }
        let rows = free.len().max(1);
        let heading = wrap(&clean(&format!("{}: {}", title(close_up.kind), close_up.sentence)), columns);
        Drawn { close_up, heading, bars, row_height: (MAX_HEIGHT / rows as f64).clamp(6.0, 18.0), rows, left_out }
    }

    /// Returns its height.
    pub(super) fn height(&self) -> f64 {
        self.heading.len() as f64 * LINE + ABOVE + self.rows as f64 * self.row_height + BELOW
    }

    /// Draws it at `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, (left, width): (f64, f64), heading_left: f64, top: f64) {
        let c = self.close_up;
        let axis = TimeAxis { left, width, from_s: c.start_s, to_s: c.end_s, zero_s: c.from_s };
        for (n, line) in self.heading.iter().enumerate() {
            canvas.text(heading_left, top + 14.0 + LINE * n as f64, line, Lettering::of(HEADING).bold());
        }
        let top = top + self.heading.len() as f64 * LINE + ABOVE;
        let bottom = top + self.rows as f64 * self.row_height + 4.0;
        self.part(canvas, &axis, top, bottom);
        axis.draw(canvas, top, bottom);
        for (call, row) in &self.bars {
            self.bar(canvas, &axis, call, top + *row as f64 * self.row_height + 2.0);
        }
        let zero = format!("0 is {} after the recording's start", precise(c.from_s));
        let more = match self.left_out {
            0 => String::new(),
            1 => "; 1 further, shorter call is not drawn".to_owned(),
            n => format!("; {} further, shorter calls are not drawn", count(n)),
        };
        let text = format!("{zero}. A bar is a call, from when it was sent to its reply (the dark end){more}");
        canvas.text(left, bottom + 32.0, &text, Lettering::of(SMALL).in_colour(FAINT));
    }

    /// Draws the shaded part.
    fn part(&self, canvas: &mut Canvas, axis: &TimeAxis, top: f64, bottom: f64) {
        let c = self.close_up;
        let (left, right) = (axis.x(c.from_s), axis.x(c.to_s));
        canvas.rectangle(left, top, (right - left).max(1.0), bottom - top, "#FFF1C9", 1.0);
        let text = format!("{} of {}", part_name(c.kind), duration(c.to_s - c.from_s));
        let middle = f64::midpoint(left, right);
        let half = text_width(&text, SMALL) / 2.0;
        let x = middle.clamp(axis.left + half, (axis.right() - half).max(axis.left + half));
        canvas.text(x, top - 8.0, &text, Lettering::of(SMALL).bold().held("middle"));
        canvas.thick_line((left, top - 3.0), (right.max(left + 1.0), top - 3.0), INK, "");
        canvas.hint(left, top - 14.0, (right - left).max(4.0), bottom - top + 14.0, &format!("{text}, from {}", precise(c.from_s)));
    }

    fn bar(&self, canvas: &mut Canvas, axis: &TimeAxis, call: &CallBar, y: f64) {
        let height = (self.row_height - 2.0).max(3.0);
        let left = axis.x(call.start_s);
        let right = if is_open(call) { axis.right() } else { axis.x(call.end_s) };
        let right = right.max(left + 1.0);
        let colour = colour(call);
        canvas.rectangle(left, y, right - left, height, colour, 0.8);
        let began_before = call.start_s < axis.from_s;
        let goes_on = is_open(call) || call.end_s > axis.to_s;
        // An open end is drawn as an arrow.
        let mut arrows = Path::default();
        if began_before {
            arrows.polygon(&[(left, y), (left - 6.0, y + height / 2.0), (left, y + height)]);
        }
        if goes_on {
            arrows.polygon(&[(right, y), (right + 6.0, y + height / 2.0), (right, y + height)]);
        } else {
            let mark = if right - left < 5.0 { 1.0 } else { 2.0 };
            canvas.rectangle(right - mark, y, mark, height, if call.outcome == Outcome::Error { RED } else { INK }, 1.0);
        }
        if !arrows.is_empty() {
            canvas.veil(&arrows, colour, 0.8);
        }
        let text = label(call);
        let size = (height - 3.0).min(SMALL);
        if size >= 7.0 && right - left >= width(&text) as f64 * size * 0.58 + 8.0 {
            canvas.text(left + 4.0, y + height - (height - size) / 2.0 - 1.5, &text, Lettering::of(size));
        }
        canvas.hint(left, y, right - left, height, &hint(call));
    }
}

fn is_open(call: &CallBar) -> bool {
    matches!(call.outcome, Outcome::Unanswered)
}

/// Formats a time in a recording, which needs more digits than a duration.
fn precise(seconds: f64) -> String {
    format!("{seconds:.4} s")
}

fn title(kind: CloseUpKind) -> &'static str {
    match kind {
        CloseUpKind::DrainCycle => "Close-up of a typical drain cycle",
        CloseUpKind::Stall => "Close-up of a long stall",
        CloseUpKind::Beginning => "Close-up of the beginning",
    }
}

fn part_name(kind: CloseUpKind) -> &'static str {
    match kind {
        CloseUpKind::DrainCycle => "drain cycle",
        CloseUpKind::Stall => "stall",
        CloseUpKind::Beginning => "first part",
    }
}

/// Returns the colour of a call: data, durability or other procedure; red for an error.
fn colour(call: &CallBar) -> &'static str {
    match (call.outcome, call.procedure.as_str()) {
        (Outcome::Error, _) => "#E9A0A6",
        (_, "COMMIT") => "#CC79A7",
        (_, "WRITE" | "READ") => "#8FB8DE",
        _ => "#B9C1CA",
    }
}

fn label(call: &CallBar) -> String {
    let size = if call.bytes > 0 { format!(" {}", size(call.bytes)) } else { String::new() };
    let outcome = match call.outcome {
        Outcome::Answered => "",
        Outcome::Error => ", error",
        Outcome::Unanswered => ", not answered",
        Outcome::NotCaptured => ", head or reply not captured",
    };
    format!("{}{size}{outcome}", call.procedure)
}

fn hint(call: &CallBar) -> String {
    let took = if is_open(call) { String::new() } else { format!(", {}", duration(call.end_s - call.start_s)) };
    format!("{}{took}, sent at {}", label(call), precise(call.start_s))
}
