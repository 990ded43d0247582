//! Rows above the panels: the slow beginning, drain cycles and retransmissions.

use super::axes::{SMALL, TimeAxis};
use super::bins::bins_within;
use crate::picture::canvas::{Canvas, FAINT, INK, Lettering, Path};
use thalweg_base::numbers::{bit_rate, count, duration, whole_percent};
use thalweg_explain::rpcstat::document::{Drain, RpcStat, SlowStart};

/// Colour of errors and retransmissions.
pub(super) const RED: &str = "#C1121F";
/// Distance between rows.
const PITCH: f64 = 20.0;
/// Drawn height of a row.
const HEIGHT: f64 = 12.0;
/// Maximum number of tooltips in a row.
const MAX_HINTS: usize = 150;
/// Minimum width of a tooltip's area.
const HINT_WIDTH: f64 = 2.0;

/// The rows present in any of the documents drawn together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    beginning: bool,
    drains: bool,
    calls_again: bool,
    segments_again: bool,
}

impl Rows {
    /// Returns the rows of these documents.
    pub(super) fn of(documents: &[&RpcStat]) -> Rows {
        let any = |has: &dyn Fn(&RpcStat) -> bool| documents.iter().any(|d| has(d));
        Rows {
            beginning: any(&|d| d.slow_start.is_some()),
            drains: any(&|d| d.drain_cycles.is_some()),
            calls_again: any(&|d| d.retransmissions + d.timeouts > 0),
            segments_again: any(&|d| d.tcp_retransmissions > 0),
        }
    }

    /// Returns their total height.
    pub(super) fn height(&self) -> f64 {
        [self.beginning, self.drains, self.calls_again, self.segments_again].iter().filter(|there| **there).count() as f64 * PITCH
    }

    /// Draws them, starting at `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, d: &RpcStat, axis: &TimeAxis, top: f64) {
        let mut y = top;
        let mut row = |canvas: &mut Canvas, there: bool, draw: &dyn Fn(&mut Canvas, f64)| {
            if there {
                draw(canvas, y);
                y += PITCH;
            }
        };
        row(canvas, self.beginning, &|canvas, y| beginning(canvas, d.slow_start.as_ref(), axis, y));
        row(canvas, self.drains, &|canvas, y| drains(canvas, d, axis, y));
        row(canvas, self.calls_again, &|canvas, y| calls_again(canvas, d, axis, y));
        row(canvas, self.segments_again, &|canvas, y| {
            let hint = format!("TCP segments sent again: {}, {} after a timeout", count(d.tcp_retransmissions), count(d.tcp_timeouts));
            marks(canvas, d, axis, y, ("TCP sent again", &hint), &[(&d.series.tcp_retransmissions, HEIGHT)]);
        });
    }
}

/// Draws a row's name at its left.
pub(super) fn name(canvas: &mut Canvas, axis: &TimeAxis, y: f64, name: &str) {
    canvas.text(axis.left - 8.0, y + HEIGHT - 2.0, name, Lettering::of(SMALL).in_colour(FAINT).held("end"));
}

/// Draws an empty row, present because another document has it.
fn none(canvas: &mut Canvas, axis: &TimeAxis, y: f64) {
    canvas.text(axis.left, y + HEIGHT - 2.0, "none", Lettering::of(SMALL).in_colour(FAINT));
}

fn beginning(canvas: &mut Canvas, slow: Option<&SlowStart>, axis: &TimeAxis, y: f64) {
    name(canvas, axis, y, "slow beginning");
    let Some(slow) = slow else { return none(canvas, axis, y) };
    let (left, right) = (axis.x(0.0), axis.x(slow.until_s));
    let text = format!("{} until {}, then {}", bit_rate(slow.bytes_per_s), duration(slow.until_s), bit_rate(slow.later_bytes_per_s));
    let middle = y + HEIGHT / 2.0;
    canvas.thick_line((left, middle), (right, middle), INK, "");
    canvas.thick_line((left, middle - 5.0), (left, middle + 5.0), INK, "");
    canvas.thick_line((right, middle - 5.0), (right, middle + 5.0), INK, "");
    // Beside the bracket, or on it if there is no room.
    if axis.right() - right > 330.0 {
        canvas.text(right + 8.0, y + HEIGHT - 2.0, &text, Lettering::of(SMALL));
    } else {
        let (x, width) = (f64::midpoint(left, right), text.chars().count() as f64 * SMALL * 0.5 + 12.0);
        canvas.rectangle(x - width / 2.0, y, width, HEIGHT, "#fff", 1.0);
        canvas.text(x, y + HEIGHT - 2.0, &text, Lettering::of(SMALL).held("middle"));
    }
    let hint = format!(
        "Slow beginning: {text}; nothing moved and the queue was empty for {} of it, full for {}",
        whole_percent(slow.empty_share),
        whole_percent(slow.full_share)
    );
    canvas.hint(left, y, (right - left).max(4.0), HEIGHT, &hint);
}

fn drains(canvas: &mut Canvas, d: &RpcStat, axis: &TimeAxis, y: f64) {
    name(canvas, axis, y, "drain cycles");
    let Some(cycles) = &d.drain_cycles else { return none(canvas, axis, y) };
    let (n, median, period) = (count(cycles.count), duration(cycles.median_s), duration(cycles.period_s));
    let some = if (cycles.longest.len() as u64) < cycles.count {
        format!("; the longest {} are drawn", count(cycles.longest.len() as u64))
    } else {
        String::new()
    };
    let hint = format!("{n} drain cycles, {median} at the median, one every {period}{some}");
    canvas.hint(axis.left, y, axis.width, HEIGHT, &hint);
    if cycles.longest.is_empty() {
        canvas.text(axis.left, y + HEIGHT - 2.0, &format!("{n} times, {median} at the median, one every {period}"), Lettering::of(SMALL));
        return;
    }
    let (mut path, mut inside) = (Path::default(), Path::default());
    for drain in &cycles.longest {
        let (left, right) = ends(drain, axis);
        // A bracket if there is room for one, else a stroke.
        if right - left >= 4.0 {
            inside.rectangle(left, y + 4.0, right - left, HEIGHT - 4.0);
            path.rectangle(left, y + 2.0, right - left, 2.0);
            path.rectangle(left, y + 2.0, 1.2, HEIGHT - 2.0);
            path.rectangle(right - 1.2, y + 2.0, 1.2, HEIGHT - 2.0);
        } else {
            path.rectangle(left, y + 2.0, (right - left).max(1.0), HEIGHT - 2.0);
        }
    }
    canvas.veil(&inside, INK, 0.15);
    canvas.path(0.0, 0.0, &path, INK);
    let wide = cycles.longest.iter().filter(|drain| ends(drain, axis).1 - ends(drain, axis).0 >= HINT_WIDTH);
    for drain in wide.take(MAX_HINTS) {
        let (left, right) = ends(drain, axis);
        let hint = format!(
            "Drain cycle from {}: {}, pending {} to {}",
            duration(drain.start_s),
            duration(drain.length_s),
            count(drain.pending_at_start),
            count(drain.pending_at_end)
        );
        canvas.hint(left, y, right - left, HEIGHT, &hint);
    }
}

fn ends(drain: &Drain, axis: &TimeAxis) -> (f64, f64) {
    (axis.x(drain.start_s), axis.x(drain.start_s + drain.length_s))
}

fn calls_again(canvas: &mut Canvas, d: &RpcStat, axis: &TimeAxis, y: f64) {
    let hint = format!("Calls sent again: {}, {} after a timeout (higher marks)", count(d.retransmissions), count(d.timeouts));
    let s = &d.series;
    let low = if d.timeouts > 0 { HEIGHT * 0.55 } else { HEIGHT };
    marks(canvas, d, axis, y, ("calls sent again", &hint), &[(&s.retransmissions, low), (&s.timeouts, HEIGHT)]);
}

/// Draws a red mark in each bin with a count above 0.
fn marks(canvas: &mut Canvas, d: &RpcStat, axis: &TimeAxis, y: f64, (called, hint): (&str, &str), of: &[(&[u64], f64)]) {
    name(canvas, axis, y, called);
    canvas.hint(axis.left, y, axis.width, HEIGHT, hint);
    let bins = bins_within(&d.series, d.wall_s);
    let mut path = Path::default();
    let mut hints = Vec::new();
    for (values, height) in of {
        let mut last = f64::NEG_INFINITY;
        for (bin, n) in values.iter().take(bins).enumerate().filter(|(_, n)| **n > 0) {
            let at = (bin as f64 + 0.5) * d.series.bin_s;
            let x = axis.x(at);
            if x - last >= 1.0 {
                path.rectangle(x - 0.8, y + HEIGHT - height, 1.6, *height);
                last = x;
                hints.push((x, format!("{called}: {} about {}", count(*n), duration(at))));
            }
        }
    }
    match path.is_empty() {
        true => none(canvas, axis, y),
        false => canvas.path(0.0, 0.0, &path, RED),
    }
    if hints.len() <= MAX_HINTS {
        hints.iter().for_each(|(x, hint)| canvas.hint(x - 3.0, y, 6.0, HEIGHT, hint));
    }
}
