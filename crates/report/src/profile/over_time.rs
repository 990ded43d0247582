//! Classes over time, stacked: 100 % is all processors.

use super::ProfileColumn;
use super::classes::Row;
use super::colours;
use crate::picture::axis::{label, ticks};
use crate::picture::canvas::{Canvas, FAINT, Lettering, Path, RULE, fitted};
use thalweg_base::numbers::percent;

const WIDTH: f64 = 956.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const SIZE: f64 = 12.0;
const LINE: f64 = 15.0;

/// Draws the classes of column `number` over time as SVG; `None` if there is no time series.
pub(super) fn over_time(column: &ProfileColumn<'_>, number: usize, rows: &[Row]) -> Option<String> {
    let over = &column.profile.over_time;
    let bins = over.lines.first().map(|line| line.shares.len()).filter(|bins| *bins > 0)?;
    let (room_x, room_y) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let wall_s = (over.bin_s * bins as f64).min(column.profile.wall_s).max(1e-9);
    let x = |bin: usize| LEFT + room_x * (over.bin_s * bin as f64).min(wall_s) / wall_s;
    let y = |share: f64| TOP + room_y * (1.0 - share.clamp(0.0, 1.0));
    let mut canvas = Canvas::default();
    canvas.text(20.0, 24.0, &fitted(&format!("{} over time", column.name), 15.0, WIDTH - 40.0), Lettering::of(15.0).bold());
    let mut below = vec![0.0_f64; bins];
    // Work at the bottom, idle time on top.
    let order = rows.iter().filter(|row| row.class != "idle").chain(rows.iter().filter(|row| row.class == "idle"));
    for row in order.clone() {
        let Some(line) = over.lines.iter().find(|line| line.class == row.class) else { continue };
        let step = |bin: usize| (x(bin), x(bin + 1), y(below[bin] + line.shares[bin]), y(below[bin]));
        let mut path = Path::default();
        path.steps(&(0..bins).map(step).collect::<Vec<_>>());
        canvas.path(0.0, 0.0, &path, colours::of(&row.class));
        below.iter_mut().zip(&line.shares).for_each(|(below, share)| *below += share);
    }
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        canvas.line((LEFT, y(share)), (WIDTH - RIGHT, y(share)), RULE, if share == 0.0 { "" } else { "2 3" });
        canvas.text(LEFT - 8.0, y(share) + 4.0, &format!("{:.0} %", share * 100.0), Lettering::of(SIZE).in_colour(FAINT).held("end"));
    }
    let marks = ticks(0.0, wall_s, 10);
    for &at in &marks.at {
        let lettering = Lettering::of(SIZE).in_colour(FAINT).held("middle");
        canvas.text(LEFT + room_x * at / wall_s, HEIGHT - BOTTOM + 18.0, &format!("{} s", label(at, marks.step)), lettering);
    }
    let shown: Vec<&Row> = order.filter(|row| over.lines.iter().any(|line| line.class == row.class)).collect();
    for (place, row) in shown.iter().rev().enumerate() {
        let top = TOP + LINE * place as f64;
        canvas.rectangle(WIDTH - RIGHT + 18.0, top, 11.0, 11.0, colours::of(&row.class), 1.0);
        let share = row.shares.get(number).copied().flatten().map(percent).unwrap_or_default();
        canvas.text(WIDTH - RIGHT + 35.0, top + 10.0, &fitted(&row.title, SIZE, 168.0), Lettering::of(SIZE));
        canvas.text(WIDTH - 10.0, top + 10.0, &share, Lettering::of(SIZE).in_colour(FAINT).held("end"));
    }
    Some(canvas.finish(WIDTH, HEIGHT.max(TOP + LINE * shown.len() as f64 + 12.0), &format!("{} over time", column.name)))
}
