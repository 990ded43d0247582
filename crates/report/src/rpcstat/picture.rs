//! The picture: self-contained SVG with one time axis: who was waited for, the slow beginning, drain cycles, retransmissions, and panels of
//! throughput, calls, the pending queue, TCP and response times; below them, close-ups call by call.
//!
//! Its size depends on its width, not on the length of the recording. Two documents are drawn on equal axes.

use super::axes::TimeAxis;
use super::close_up::Drawn;
use super::lengths::{self, Lengths};
use super::rows::{self, Rows};
use super::scales::Scales;
use super::{panels, shades};
use crate::picture::canvas::{Canvas, FAINT, Lettering, fitted};
use thalweg_base::numbers::{bit_rate, duration, size};
use thalweg_base::text::{clean, wrap};
use thalweg_explain::ExplainError;
use thalweg_explain::rpcstat::{RpcStat, rpcstat_in_bins};
use thalweg_trace::Source;

/// Maximum number of bins of a document to draw: one per pixel or two.
const MOST_BINS: u64 = 512;
/// Minimum number of bins, however few calls there are.
const LEAST_BINS: u64 = 128;
/// Calls per bin: with fewer, rates jump from bin to bin.
const CALLS_PER_BIN: u64 = 8;

const WIDTH: f64 = 1200.0;
/// Left edge of text.
const MARGIN: f64 = 20.0;
/// Left edge of plots.
const LEFT: f64 = 112.0;
/// Width of a second axis at the right.
const RIGHT: f64 = 64.0;
/// Font size of the title.
const TITLE: f64 = 15.5;
/// Line height of the title.
const TITLE_LINE: f64 = 21.0;
/// Columns of the title, such that bold letters of a wide font fit.
const TITLE_COLUMNS: usize = 120;
const HEADING_COLUMNS: usize = 132;
/// Height of the row of who was waited for.
const WAITED: f64 = 15.0;
/// Height of the time axis.
const AXIS: f64 = 30.0;
/// Maximum number of close-ups.
const MAX_CLOSE_UPS: usize = 4;

/// The axes shared by all pictures.
struct Axes {
    scales: Scales,
    rows: Rows,
    /// Whether any document has intervals of waiting.
    waits: bool,
    to_s: f64,
}

impl Axes {
    fn of(documents: &[&RpcStat]) -> Axes {
        let to_s = documents.iter().map(|d| d.wall_s).filter(|s| s.is_finite()).fold(1e-9, f64::max);
        Axes { scales: Scales::of(documents), rows: Rows::of(documents), waits: documents.iter().any(|d| !d.waits.is_empty()), to_s }
    }
}

/// Computes a recording's RPC statistics in as many bins as a picture can show.
pub fn rpcstat_to_draw(source: &dyn Source) -> Result<RpcStat, ExplainError> {
    rpcstat_in_bins(source, |calls| (calls / CALLS_PER_BIN).clamp(LEAST_BINS, MOST_BINS) as usize)
}

/// Draws a recording's RPC statistics.
pub fn rpcstat_picture(document: &RpcStat) -> String {
    let mut canvas = Canvas::default();
    let mut y = whole(&mut canvas, document, &Axes::of(&[document]), "", 0.0);
    for close_up in document.close_ups.iter().take(MAX_CLOSE_UPS) {
        let drawn = Drawn::new(close_up, HEADING_COLUMNS);
        drawn.draw(&mut canvas, (LEFT, WIDTH - LEFT - RIGHT), MARGIN, y);
        y += drawn.height() + 18.0;
    }
    canvas.finish(WIDTH, y, &document.sentence)
}

/// Draws two named documents one above the other on equal axes: the same seconds per pixel, the same scale in each panel.
pub fn rpcstat_pair_picture(documents: [(&str, &RpcStat); 2]) -> String {
    let axes = Axes::of(&documents.map(|(_, document)| document));
    let mut canvas = Canvas::default();
    let mut y = 0.0;
    for ((name, document), letter) in documents.into_iter().zip(["A", "B"]) {
        y = whole(&mut canvas, document, &axes, &format!("{letter}, {}: ", clean(name)), y);
    }
    let table = super::pair::rows(documents.map(|(_, document)| document));
    y = draw_table(&mut canvas, &table, y);
    canvas.finish(WIDTH, y, &format!("{}: {} {}: {}", documents[0].0, documents[0].1.sentence, documents[1].0, documents[1].1.sentence))
}

fn draw_table(canvas: &mut Canvas, table: &[super::pair::Row], top: f64) -> f64 {
    let columns = [LEFT, LEFT + 340.0, LEFT + 660.0];
    let mut y = top + 16.0;
    for (x, head) in columns.iter().zip(["Both on equal axes", "A", "B"]) {
        canvas.text(*x, y, head, Lettering::of(13.0).bold());
    }
    for row in table {
        y += 19.0;
        canvas.line((LEFT, y - 14.0), (WIDTH - RIGHT, y - 14.0), crate::picture::canvas::RULE, "");
        for (x, cell) in columns.iter().zip([row.name, &row.a, &row.b]) {
            canvas.text(*x, y, &fitted(cell, 12.0, 310.0), Lettering::of(12.0));
        }
    }
    y + 20.0
}

/// Draws one document over its whole time; returns the bottom edge.
fn whole(canvas: &mut Canvas, d: &RpcStat, axes: &Axes, name: &str, top: f64) -> f64 {
    let axis = TimeAxis { left: LEFT, width: WIDTH - LEFT - RIGHT, from_s: 0.0, to_s: axes.to_s, zero_s: 0.0 };
    let mut y = top + 28.0;
    for line in wrap(&clean(&format!("{name}{}", d.sentence)), TITLE_COLUMNS) {
        canvas.text(MARGIN, y, &line, Lettering::of(TITLE).bold());
        y += TITLE_LINE;
    }
    canvas.text(MARGIN, y, &fitted(&subtitle(d), 12.0, (WIDTH - 2.0 * MARGIN) * 1.1), Lettering::of(12.0).in_colour(FAINT));
    y += 22.0;
    y = shades::legend(canvas, d, LEFT, WIDTH - MARGIN, y);
    let waited = if axes.waits { WAITED + 6.0 } else { 0.0 };
    let panels_top = y + waited + axes.rows.height();
    let bottom = panels_top + panels::height(&axes.scales);
    shades::behind(canvas, &d.waits, &axis, y, bottom);
    axis.draw(canvas, y, bottom);
    if axes.waits {
        rows::name(canvas, &axis, y + 1.0, "waited for");
        shades::row(canvas, &d.waits, &axis, y, WAITED);
    }
    axes.rows.draw(canvas, d, &axis, y + waited);
    panels::draw(canvas, d, &axes.scales, &axis, panels_top);
    let end = axis.x(d.wall_s);
    if axis.right() - end > 120.0 {
        canvas.text(end + 5.0, bottom - 3.0, &format!("ends after {}", duration(d.wall_s)), Lettering::of(11.0).in_colour(FAINT));
    }
    let y = bottom + AXIS;
    // Bin widths depend on each recording's lengths, so heights of bars cannot be compared.
    match d.drain_cycles.as_ref().and_then(|cycles| Some((cycles, Lengths::of(cycles)?))) {
        Some((cycles, lengths)) => {
            lengths.draw(canvas, cycles, LEFT, y);
            y + lengths::HEIGHT + 16.0
        }
        None => y + 10.0,
    }
}

/// Formats duration, bytes and recorder.
fn subtitle(d: &RpcStat) -> String {
    let mut said = super::how_long(d);
    let rate = |bytes: u64| d.rate_bytes_per_s().map_or_else(String::new, |_| format!(" ({})", bit_rate(bytes as f64 / d.wall_s)));
    for (name, bytes) in [("sent", d.sent_bytes), ("received", d.received_bytes)] {
        if let Some(bytes) = bytes {
            said += &format!("; {name} {}{}", size(bytes), rate(bytes));
        }
    }
    if d.retransmissions + d.tcp_retransmissions == 0 {
        said += "; nothing was sent again";
    }
    let server = d.procedures.first().map(|p| format!("; server {}", p.server)).unwrap_or_default();
    format!("{said}{server}; recorder: {}; each bin {}", d.recorder, duration(d.series.bin_s))
}
