//! Who was waited for, over time: shades behind the panels, a row in strong colours with letters, and the legend.

use super::axes::{SMALL, TimeAxis};
use crate::picture::canvas::{Canvas, FAINT, Lettering, Path, text_width};
use thalweg_base::numbers::{duration, percent, whole_percent};
use thalweg_explain::rpcstat::document::{Quiet, RpcStat, WaitInterval, WaitedFor};

/// The look of one kind of waiting.
pub(super) struct Look {
    /// The kind.
    pub kind: WaitedFor,
    /// Its letter.
    pub letter: &'static str,
    /// Its name in the legend.
    pub name: &'static str,
    /// Its colour in the row.
    strong: &'static str,
    /// Its shade behind the panels.
    light: &'static str,
    /// Whether it is hatched.
    is_hatched: bool,
}

const fn look(kind: WaitedFor, letter: &'static str, name: &'static str, colours: [&'static str; 2], is_hatched: bool) -> Look {
    Look { kind, letter, name, strong: colours[0], light: colours[1], is_hatched }
}

const SERVER: [&str; 2] = ["#D55E00", "#F8D2B4"];
const CLIENT: [&str; 2] = ["#0072B2", "#BFDCF0"];
const NETWORK: [&str; 2] = ["#882255", "#E3C3D3"];

/// All kinds, in the order of the legend.
pub(super) const LOOKS: [Look; 5] = [
    look(WaitedFor::ServerQueueFull, "S", "the server, queue full", SERVER, false),
    look(WaitedFor::ServerQueuePartly, "s", "the server, queue partly full (a reply came next)", SERVER, true),
    look(WaitedFor::ClientQueuePartly, "c", "the client, queue partly full (a call came next)", CLIENT, true),
    look(WaitedFor::ClientQueueEmpty, "C", "the client, queue empty", CLIENT, false),
    look(WaitedFor::Network, "N", "the network (TCP sent again)", NETWORK, false),
];

/// Returns the total time of a kind, in seconds.
pub(super) fn seconds(quiet: &Quiet, kind: WaitedFor) -> f64 {
    match kind {
        WaitedFor::ServerQueueFull => quiet.full_s,
        WaitedFor::ServerQueuePartly => quiet.between_then_reply_s,
        WaitedFor::ClientQueuePartly => quiet.between_then_call_s,
        WaitedFor::ClientQueueEmpty => quiet.empty_s,
        WaitedFor::Network => quiet.network_s,
    }
}

/// Line height of the legend.
const LINE: f64 = 17.0;
/// Kinds with a smaller share of the time are not in the legend.
const LEAST_SHARE: f64 = 0.000_5;
/// With more intervals than this, narrow ones are combined.
const MANY: usize = 800;
/// Width of a column of combined intervals.
const COLUMN: f64 = 2.0;
/// Maximum number of tooltips.
const MAX_HINTS: usize = 200;
/// Minimum width of an interval with a tooltip.
const HINT_WIDTH: f64 = 4.0;

/// Returns the intervals as rectangles from left to right, one path for each of [`LOOKS`].
fn rectangles(waits: &[WaitInterval], axis: &TimeAxis, top: f64, height: f64) -> [Path; 5] {
    let mut paths: [Path; 5] = Default::default();
    let columns = (axis.width / COLUMN).ceil() as usize + 1;
    let mut covered = vec![[0.0; 5]; columns];
    for wait in waits {
        let (left, right) = (axis.x(wait.start_s), axis.x(wait.end_s));
        let Some(number) = LOOKS.iter().position(|look| look.kind == wait.waited_for) else { continue };
        if right - left >= COLUMN || waits.len() <= MANY {
            paths[number].rectangle(left, top, right - left, height);
            continue;
        }
        // It lies in one column or two.
        let first = (((left - axis.left) / COLUMN) as usize).min(columns - 1);
        let edge = (axis.left + (first + 1) as f64 * COLUMN).min(right);
        covered[first][number] += edge - left;
        covered[(first + 1).min(columns - 1)][number] += right - edge;
    }
    for (column, parts) in covered.iter().enumerate() {
        let mut x = axis.left + column as f64 * COLUMN;
        for (number, width) in parts.iter().enumerate().filter(|(_, width)| **width >= 0.05) {
            paths[number].rectangle(x, top, *width, height);
            x += width;
        }
    }
    paths
}

fn fill(canvas: &mut Canvas, paths: &[Path; 5], colour: impl Fn(&Look) -> &'static str) {
    for (path, look) in paths.iter().zip(&LOOKS).filter(|(path, _)| !path.is_empty()) {
        canvas.path(0.0, 0.0, path, colour(look));
        if look.is_hatched {
            canvas.path(0.0, 0.0, path, "url(#server)");
        }
    }
}

/// Draws the shades behind the panels.
pub(super) fn behind(canvas: &mut Canvas, waits: &[WaitInterval], axis: &TimeAxis, top: f64, bottom: f64) {
    fill(canvas, &rectangles(waits, axis, top, bottom - top), |look| look.light);
}

/// Draws the row in strong colours, with letters where there is room.
pub(super) fn row(canvas: &mut Canvas, waits: &[WaitInterval], axis: &TimeAxis, top: f64, height: f64) {
    canvas.hint(
        axis.left,
        top,
        axis.width,
        height,
        "Who was waited for while no bytes moved; white: bytes moved, or the wait is too short to be seen",
    );
    fill(canvas, &rectangles(waits, axis, top, height), |look| look.strong);
    let mut hints = 0;
    for wait in waits {
        let (left, right) = (axis.x(wait.start_s), axis.x(wait.end_s));
        if right - left < HINT_WIDTH || hints == MAX_HINTS {
            continue;
        }
        hints += 1;
        let Some(look) = LOOKS.iter().find(|look| look.kind == wait.waited_for) else { continue };
        if right - left >= 14.0 {
            let x = f64::midpoint(left, right);
            canvas.rectangle(x - 6.0, top + 1.0, 12.0, height - 2.0, look.strong, 1.0);
            canvas.text(x, top + height - 3.0, look.letter, Lettering::of(SMALL).in_colour("#ffffff").bold().held("middle"));
        }
        let length = duration(wait.end_s - wait.start_s);
        canvas.hint(left, top, right - left, height, &format!("Waiting for {}: {length} from {}", look.name, duration(wait.start_s)));
    }
}

/// Draws the legend with the share of each kind; returns its bottom edge.
pub(super) fn legend(canvas: &mut Canvas, d: &RpcStat, left: f64, right: f64, top: f64) -> f64 {
    let share = |look: &Look| seconds(&d.quiet, look.kind) / d.wall_s.max(1e-12);
    let shown: Vec<&Look> = LOOKS.iter().filter(|look| share(look) >= LEAST_SHARE).collect();
    if shown.is_empty() {
        canvas.text(left, top, "Bytes move nearly all of the time", Lettering::of(SMALL).in_colour(FAINT));
        return top + LINE;
    }
    let head = match d.waits.is_empty() {
        true => "While no bytes move, everything waits for (times not known, or each too short to draw):",
        false => "Shaded: no bytes move, and everything waits for",
    };
    canvas.text(left, top, head, Lettering::of(SMALL).in_colour(FAINT));
    let (mut x, mut y) = (left, top + LINE);
    for look in shown {
        let share = share(look);
        let drawn: f64 = d.waits.iter().filter(|wait| wait.waited_for == look.kind).map(|wait| wait.end_s - wait.start_s).sum();
        let drawn = drawn / d.wall_s.max(1e-12);
        let mut text = format!("{}: {} of the time", look.name, percent(share));
        if share >= 0.01 && drawn < 0.8 * share && !d.waits.is_empty() {
            text += &match drawn < 0.005 {
                true => ", in parts too short to draw".to_owned(),
                false => format!(", {} in parts long enough to draw", whole_percent(drawn)),
            };
        }
        let width = 22.0 + text_width(&text, SMALL) * 0.84 + 18.0;
        if x > left && x + width > right {
            (x, y) = (left, y + LINE);
        }
        canvas.rectangle(x, y - 10.0, 16.0, 12.0, look.strong, 1.0);
        if look.is_hatched {
            canvas.rectangle(x, y - 10.0, 16.0, 12.0, "url(#server)", 1.0);
            canvas.rectangle(x + 3.0, y - 9.0, 10.0, 10.0, look.strong, 1.0);
        }
        canvas.text(x + 8.0, y, look.letter, Lettering::of(SMALL).in_colour("#ffffff").bold().held("middle"));
        canvas.text(x + 22.0, y, &text, Lettering::of(SMALL));
        x += width;
    }
    y + LINE
}
