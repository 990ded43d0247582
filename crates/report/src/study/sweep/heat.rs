//! A heat map: a cell for each pair of values, with its figure, and its cause as colour and letters. A point without a figure is hatched
//! and says why; no point is left out.

use super::band::{Band, fill, fill_unknown, in_order, ink_on, legend};
use crate::picture::canvas::{Canvas, FAINT, INK, Lettering, fitted, text_width};
use thalweg_explain::Cause;

/// A heat map.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeatMap {
    /// The title.
    pub(crate) title: String,
    /// The subtitle; may be empty.
    pub(crate) subtitle: String,
    /// Name of the columns' parameter.
    pub(crate) x_name: String,
    /// Name of the rows' parameter; may be empty.
    pub(crate) y_name: String,
    /// Values of the columns.
    pub(crate) columns: Vec<String>,
    /// Values of the rows, from the top.
    pub(crate) rows: Vec<String>,
    /// Cells, by row.
    pub(crate) cells: Vec<Vec<HeatCell>>,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeatCell {
    /// Its figure, or why it has none.
    pub(crate) text: String,
    /// Its cause, if known.
    pub(crate) cause: Option<Cause>,
    /// Its figure scaled from minimum (0) to maximum (1), which is its shade if the cause is not known; `None` without a figure.
    pub(crate) level: Option<f64>,
    /// Whether it is framed as the best.
    pub(crate) is_best: bool,
    /// The tooltip.
    pub(crate) hint: String,
}

const WIDTH: f64 = 956.0;
const LEFT: f64 = 130.0;
const TOP: f64 = 92.0;
const CELL: f64 = 38.0;
const WIDEST: f64 = 130.0;
const SIZE: f64 = 12.0;

/// Draws a heat map as SVG.
pub(crate) fn heat_map(map: &HeatMap) -> String {
    let mut canvas = Canvas::default();
    canvas.head(20.0, &map.title, &map.subtitle, WIDTH - 40.0);
    let width = ((WIDTH - LEFT - 24.0) / map.columns.len().max(1) as f64).min(WIDEST);
    let bottom = TOP + CELL * map.rows.len() as f64;
    let faint = Lettering::of(SIZE).in_colour(FAINT);
    canvas.text(LEFT, TOP - 26.0, &fitted(&map.x_name, SIZE, WIDTH - LEFT), faint);
    canvas.text(LEFT - 10.0, TOP - 8.0, &fitted(&map.y_name, SIZE, LEFT - 20.0), faint.held("end"));
    for (n, label) in map.columns.iter().enumerate() {
        canvas.text(LEFT + width * (n as f64 + 0.5), TOP - 8.0, &fitted(label, SIZE, width - 4.0), faint.held("middle"));
    }
    for (n, (label, cells)) in map.rows.iter().zip(&map.cells).enumerate() {
        let y = TOP + CELL * n as f64;
        canvas.text(LEFT - 10.0, y + CELL / 2.0 + 4.0, &fitted(label, SIZE, LEFT - 20.0), faint.held("end"));
        for (column, cell) in cells.iter().enumerate() {
            draw(&mut canvas, cell, (LEFT + width * column as f64, y), width);
        }
    }
    let causes = in_order(map.cells.iter().flatten().filter_map(|cell| cell.cause));
    let end = legend(&mut canvas, &causes, (LEFT, bottom + 24.0), WIDTH - 20.0);
    canvas.finish(WIDTH, end + 20.0, &map.title)
}

fn draw(canvas: &mut Canvas, cell: &HeatCell, (x, y): (f64, f64), width: f64) {
    let inside = (x + 1.0, y + 1.0, width - 2.0, CELL - 2.0);
    let ink = match (cell.cause, cell.level) {
        (Some(cause), Some(_)) => {
            fill(canvas, inside, &cause);
            ink_on(&cause)
        }
        (None, Some(level)) => {
            canvas.rectangle(inside.0, inside.1, inside.2, inside.3, "#0072B2", (8.0 + 52.0 * level.clamp(0.0, 1.0)).round() / 100.0);
            INK
        }
        (_, None) => {
            fill_unknown(canvas, inside);
            INK
        }
    };
    // On a hatched background, letters need a plain background.
    let room = width - 8.0;
    let text = fitted(&cell.text, SIZE, room);
    if cell.level.is_none() || cell.cause.is_some_and(crate::picture::palette::is_hatched) {
        let half = (text_width(&text, SIZE) / 2.0 + 3.0).min(width / 2.0 - 2.0);
        let ground = cell.cause.filter(|_| cell.level.is_some()).map_or("#fff", |cause| crate::picture::palette::cause_style(cause).colour);
        canvas.rectangle(x + width / 2.0 - half, y + 7.0, half * 2.0, 15.0, ground, 0.9);
    }
    canvas.text(x + width / 2.0, y + 19.0, &text, Lettering::of(SIZE).in_colour(ink).held("middle").bold());
    if let Some(cause) = cell.cause.filter(|_| cell.level.is_some()) {
        canvas.text(x + width / 2.0, y + 32.0, &cause.letters(), Lettering::of(10.0).in_colour(ink).held("middle"));
    }
    if cell.is_best {
        let (right, bottom) = (x + width - 1.5, y + CELL - 1.5);
        for (from, to) in [
            ((x + 1.5, y + 1.5), (right, y + 1.5)),
            ((right, y + 1.5), (right, bottom)),
            ((right, bottom), (x + 1.5, bottom)),
            ((x + 1.5, bottom), (x + 1.5, y + 1.5)),
        ] {
            canvas.thick_line(from, to, INK, "");
        }
    }
    canvas.hint(x, y, width, CELL, &cell.hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_number_and_its_cause_and_what_has_none_is_hatched() {
        let cell = |text: &str, cause, level| HeatCell { text: text.into(), cause, level, is_best: false, hint: format!("hint <{text}>") };
        let rows = vec![
            vec![cell("12 MiB/s", Some(Cause::ClientRead), Some(0.5)), cell("failed", None, None)],
            vec![HeatCell { is_best: true, ..cell("20 MiB/s", Some(Cause::ServerWrite), Some(1.0)) }, cell("3 MiB/s", None, Some(0.0))],
        ];
        let words = |words: [&str; 2]| words.map(String::from).to_vec();
        let map = HeatMap { title: "A & B".into(), columns: words(["1", "2"]), rows: words(["x", "y"]), cells: rows, ..HeatMap::default() };
        let svg = heat_map(&map);
        for text in
            [">12 MiB/s<", ">failed<", ">20 MiB/s<", ">3 MiB/s<", ">cR<", ">sW<", ">cR client.read<", "A &amp; B", "hint &lt;failed&gt;"]
        {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("<title>").count(), 1 + 4);
        assert!(svg.matches("url(#server)").count() >= 2 && !svg.contains("NaN"));
        assert!(!heat_map(&HeatMap::default()).contains("NaN"));
    }
}
