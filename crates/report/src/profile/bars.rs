//! Grouped bars of a profile: a group for each class, a bar for each machine or run.

use super::ProfileColumn;
use super::classes::Row;
use super::colours::OF_COLUMNS;
use crate::picture::axis::{label, ticks};
use crate::picture::canvas::{Canvas, FAINT, Lettering, Path, RULE, fitted, text_width};
use thalweg_base::numbers::percent;

const WIDTH: f64 = 956.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 56.0;
const BAR: f64 = 13.0;
const BETWEEN: f64 = 9.0;
const SIZE: f64 = 12.0;
const BOTTOM: f64 = 28.0;

/// Draws the bars as SVG.
pub(super) fn bars(columns: &[ProfileColumn<'_>], rows: &[Row]) -> String {
    let most = rows.iter().flat_map(|row| &row.shares).flatten().copied().fold(0.0, f64::max).max(0.01);
    let group = BAR * columns.len() as f64 + BETWEEN;
    let height = TOP + group * rows.len() as f64 + BOTTOM;
    let room = WIDTH - LEFT - RIGHT;
    let x = |share: f64| LEFT + room * share / most;
    let mut canvas = Canvas::default();
    legend(&mut canvas, columns);
    let marks = ticks(0.0, most * 100.0, 8);
    for &at in &marks.at {
        canvas.line((x(at / 100.0), TOP - 6.0), (x(at / 100.0), height - BOTTOM), RULE, "");
        let lettering = Lettering::of(SIZE).in_colour(FAINT).held("middle");
        canvas.text(x(at / 100.0), height - 10.0, &format!("{} %", label(at, marks.step)), lettering);
    }
    for (place, row) in rows.iter().enumerate() {
        let top = TOP + group * place as f64;
        let middle = top + BAR * columns.len() as f64 / 2.0 + SIZE / 3.0;
        canvas.text(LEFT - 10.0, middle, &fitted(&row.title, SIZE, LEFT - 16.0), Lettering::of(SIZE).held("end"));
        for (number, share) in row.shares.iter().enumerate() {
            let (y, Some(share)) = (top + BAR * number as f64, *share) else { continue };
            let mut path = Path::default();
            path.rectangle(0.0, 1.0, x(share) - LEFT, BAR - 2.0);
            canvas.path(LEFT, y, &path, OF_COLUMNS[number % OF_COLUMNS.len()]);
            canvas.text(x(share) + 5.0, y + BAR - 3.0, &percent(share), Lettering::of(10.5).in_colour(FAINT));
            canvas.hint(LEFT, y, room, BAR, &format!("{}, {}: {}", row.title, columns[number].name, percent(share)));
        }
    }
    canvas.finish(WIDTH, height, "CPU time by class")
}

fn legend(canvas: &mut Canvas, columns: &[ProfileColumn<'_>]) {
    canvas.text(20.0, 22.0, "CPU time by class", Lettering::of(15.0).bold());
    let mut x = LEFT;
    for (number, column) in columns.iter().enumerate() {
        let name = fitted(&column.name, SIZE, 140.0);
        canvas.rectangle(x, 31.0, 11.0, 11.0, OF_COLUMNS[number % OF_COLUMNS.len()], 1.0);
        canvas.text(x + 16.0, 41.0, &name, Lettering::of(SIZE));
        x += 34.0 + text_width(&name, SIZE);
    }
}
