//! Plots of measurements with their intervals, as SVG, and pages of them: self-contained, to be read with and without scripts.
//!
//! The x axis is logarithmic or linear, with ticks given by the caller (sizes, numbers of nodes); the y axis begins at 0, or is logarithmic
//! if figures differ by orders of magnitude. A curve is identified by its colour, its marks and the name at its end; a vertical bar is the
//! interval, and a short flat line beside a mark is the expected value. Each mark has a tooltip.

use crate::interactive::document::DocumentPage;
use crate::picture::axis::{label, ticks};
use crate::picture::canvas::{Canvas, FAINT, INK, Lettering, Path, RULE, escape, fitted};
use serde::Serialize;
use std::fmt::Write;

/// Bytes per MiB, the unit of most axes.
pub(crate) const MIB: f64 = (1 << 20) as f64;

/// A plot of curves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plot {
    /// The title.
    pub(crate) title: String,
    /// The subtitle; may be empty.
    pub(crate) subtitle: String,
    /// Name of the x axis.
    pub(crate) x_name: String,
    /// Ticks of the x axis with their labels. At least one; positive if the axis is logarithmic.
    pub(crate) x_marks: Vec<(f64, String)>,
    /// Whether the x axis is linear.
    pub(crate) x_is_linear: bool,
    /// Name of the y axis, with its unit.
    pub(crate) y_name: String,
    /// Whether the y axis is logarithmic.
    pub(crate) y_is_log: bool,
    /// The curves; later ones are drawn over earlier ones.
    pub(crate) curves: Vec<Curve>,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    /// Its name.
    pub(crate) name: String,
    /// Number of its look, the same in every plot.
    pub(crate) look: usize,
    /// Whether others are compared with it: drawn dashed, in the colour of text.
    pub(crate) is_reference: bool,
    /// Whether its marks are not joined by a line.
    pub(crate) is_loose: bool,
    /// Its marks, from left to right.
    pub(crate) dots: Vec<Dot>,
}

/// A measured figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dot {
    /// Its x value.
    pub(crate) x: f64,
    /// The measured value.
    pub(crate) y: f64,
    /// The interval's lower end.
    pub(crate) low: f64,
    /// The interval's upper end.
    pub(crate) high: f64,
    /// The expected value.
    pub(crate) expected: Option<f64>,
    /// The tooltip.
    pub(crate) hint: String,
}

/// Okabe and Ito's palette, distinguishable with all common kinds of colour vision, and some further colours.
const COLOURS: &[&str] = &["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#8C7A00", "#5B6B82"];

const WIDTH: f64 = 956.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 52.0;
/// Width of the names at the curves' ends.
const NAMES: f64 = 272.0;
const SMALL: f64 = 12.0;
const LINE: f64 = 16.0;
/// Radius of a mark's tooltip area.
const REACH: f64 = 9.0;
/// Horizontal offset between curves.
const ASIDE: f64 = 2.4;

/// Draws a plot as SVG.
pub(crate) fn plot(plot: &Plot) -> String {
    let scale = Scale::of(plot);
    let mut canvas = Canvas::default();
    canvas.head(LEFT - 44.0, &plot.title, &plot.subtitle, WIDTH - 40.0);
    axes(&mut canvas, plot, &scale);
    let shown: Vec<&Curve> = plot.curves.iter().filter(|curve| !curve.dots.is_empty()).collect();
    // Offset, so that intervals at the same x can be distinguished.
    let aside = |number: usize| (number as f64 - (shown.len() as f64 - 1.0) / 2.0) * ASIDE;
    shown.iter().enumerate().for_each(|(number, curve)| draw(&mut canvas, curve, &scale, aside(number)));
    names(&mut canvas, &shown, &scale, aside);
    // Drawn last, so that a mark under another curve has its tooltip too.
    for (number, dot) in shown.iter().enumerate().flat_map(|(number, curve)| curve.dots.iter().map(move |dot| (number, dot))) {
        let (x, y) = (scale.x(dot.x) + aside(number), scale.y(dot.y));
        canvas.hint(x - REACH, y - REACH, 2.0 * REACH, 2.0 * REACH, &dot.hint);
    }
    canvas.finish(WIDTH, HEIGHT, &plot.title)
}

/// Maps values to pixels.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    x_is_linear: bool,
    y_is_log: bool,
}

impl Scale {
    fn of(plot: &Plot) -> Scale {
        let dots = || plot.curves.iter().flat_map(|curve| &curve.dots);
        let xs = || plot.x_marks.iter().map(|m| m.0).chain(dots().map(|d| d.x)).filter(|x| plot.x_is_linear || *x > 0.0);
        let (least, most) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
        let top = dots().map(|d| d.high.max(d.y).max(d.expected.unwrap_or(0.0))).fold(0.0, f64::max);
        let bottom = dots().map(|d| d.low.min(d.y)).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        let y = match plot.y_is_log {
            true if bottom.is_finite() => (bottom / 1.5, top * 1.5),
            true => (1.0, 10.0),
            false => (0.0, if top > 0.0 { top * 1.06 } else { 1.0 }),
        };
        let x = if least < most { (least, most) } else { (least.min(1.0) / 2.0, most.max(1.0) * 2.0) };
        let x = if plot.x_is_linear { x } else { (x.0.ln(), x.1.ln()) };
        Scale { x, y, x_is_linear: plot.x_is_linear, y_is_log: plot.y_is_log }
    }

    fn x(&self, value: f64) -> f64 {
        let room = WIDTH - LEFT - NAMES - 24.0;
        let value = if self.x_is_linear { value } else { value.max(1e-300).ln() };
        LEFT + 12.0 + room * (value - self.x.0) / (self.x.1 - self.x.0)
    }

    fn y(&self, value: f64) -> f64 {
        let room = HEIGHT - TOP - BOTTOM;
        let part = match self.y_is_log {
            true => (value.max(self.y.0).ln() - self.y.0.ln()) / (self.y.1.ln() - self.y.0.ln()),
            false => (value - self.y.0) / (self.y.1 - self.y.0),
        };
        TOP + room * (1.0 - part.clamp(0.0, 1.0))
    }
}

fn axes(canvas: &mut Canvas, plot: &Plot, scale: &Scale) {
    let faint = Lettering::of(SMALL).in_colour(FAINT);
    let (right, bottom) = (WIDTH - NAMES, HEIGHT - BOTTOM);
    let marks: Vec<(f64, String)> = if scale.y_is_log {
        let first = scale.y.0.log10().ceil() as i32;
        let tens = (first..=scale.y.1.log10().floor() as i32).map(|power| 10_f64.powi(power));
        tens.map(|value| (value, if value >= 1.0 { format!("{value:.0}") } else { value.to_string() })).collect()
    } else {
        let ticks = ticks(scale.y.0, scale.y.1, 8);
        ticks.at.iter().map(|value| (*value, label(*value, ticks.step))).collect()
    };
    for (value, text) in marks {
        let y = scale.y(value);
        canvas.line((LEFT, y), (right, y), RULE, "");
        canvas.text(LEFT - 8.0, y + 4.0, &text, faint.held("end"));
    }
    canvas.line((LEFT, bottom), (right, bottom), FAINT, "");
    for (value, text) in &plot.x_marks {
        let x = scale.x(*value);
        canvas.line((x, bottom), (x, bottom + 4.0), FAINT, "");
        canvas.text(x, bottom + 18.0, text, faint.held("middle"));
    }
    canvas.text((LEFT + right) / 2.0, bottom + 38.0, &plot.x_name, faint.held("middle"));
    canvas.text(LEFT - 44.0, TOP - 11.0, &fitted(&plot.y_name, SMALL, 200.0), faint.held("start"));
}

fn colour(curve: &Curve) -> &'static str {
    if curve.is_reference { INK } else { COLOURS[curve.look % COLOURS.len()] }
}

fn draw(canvas: &mut Canvas, curve: &Curve, scale: &Scale, aside: f64) {
    let colour = colour(curve);
    let dash = if curve.is_reference { "6 4" } else { "" };
    for pair in curve.dots.windows(2).filter(|_| !curve.is_loose) {
        let at = |dot: &Dot| (scale.x(dot.x) + aside, scale.y(dot.y));
        canvas.thick_line(at(&pair[0]), at(&pair[1]), colour, dash);
    }
    for dot in &curve.dots {
        let (x, y) = (scale.x(dot.x) + aside, scale.y(dot.y));
        canvas.line((x, scale.y(dot.low)), (x, scale.y(dot.high)), colour, "");
        if let Some(expected) = dot.expected {
            let at = scale.y(expected);
            canvas.thick_line((x - 9.0, at), (x - 3.0, at), colour, "");
        }
        mark(canvas, curve.look, x, y, colour);
    }
}

/// Draws a disc, square, diamond or triangle: marks differ where colours repeat.
fn mark(canvas: &mut Canvas, look: usize, x: f64, y: f64, colour: &str) {
    let mut path = Path::default();
    let corners: &[(f64, f64)] = match look % 4 {
        0 => &[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)],
        1 => &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
        2 => &[(0.0, -5.0), (4.6, 3.6), (-4.6, 3.6)],
        _ => &[(-1.8, -4.4), (1.8, -4.4), (4.4, -1.8), (4.4, 1.8), (1.8, 4.4), (-1.8, 4.4), (-4.4, 1.8), (-4.4, -1.8)],
    };
    path.polygon(corners);
    canvas.path(x, y, &path, colour);
}

/// Draws names beside the curves' last marks, moved apart where they would overlap.
fn names(canvas: &mut Canvas, curves: &[&Curve], scale: &Scale, aside: impl Fn(usize) -> f64) {
    let end = |curve: &Curve| curve.dots.last().map_or(0.0, |dot| scale.y(dot.y));
    let mut order: Vec<(usize, &Curve)> = curves.iter().copied().enumerate().collect();
    order.sort_by(|a, b| end(a.1).total_cmp(&end(b.1)));
    let mut places: Vec<f64> = order.iter().map(|(_, curve)| end(curve)).collect();
    let lowest = HEIGHT - BOTTOM;
    for i in 0..places.len() {
        let least = if i == 0 { TOP } else { places[i - 1] + LINE };
        places[i] = places[i].max(least);
    }
    for i in (0..places.len()).rev() {
        let most = lowest - (places.len() - 1 - i) as f64 * LINE;
        places[i] = places[i].min(most);
    }
    let x = WIDTH - NAMES + 18.0;
    for ((number, curve), y) in order.into_iter().zip(places) {
        let last = curve.dots.last().map_or(x, |dot| scale.x(dot.x) + aside(number));
        canvas.line((last + 6.0, end(curve)), (x - 4.0, y), RULE, "");
        mark(canvas, curve.look, x + 4.0, y, colour(curve));
        let lettering = Lettering { bold: curve.is_reference, ..Lettering::of(SMALL).in_colour(INK) };
        canvas.text(x + 14.0, y + 4.0, &fitted(&curve.name, SMALL, NAMES - 36.0), lettering);
    }
}

/// A page of plots and tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// The title.
    pub(crate) title: String,
    /// Paragraphs below the title.
    pub(crate) lead: Vec<String>,
    /// The sections.
    pub(crate) sections: Vec<Section>,
}

/// A part of a page.
#[derive(Clone, Debug)]
pub(crate) enum Section {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A plot.
    Plot(Box<Plot>),
    /// A picture as SVG.
    Picture(String),
    /// Preformatted text.
    Preformatted(String),
    /// A table: heads and rows; columns of numbers, except the first column, are right-aligned.
    Table(Vec<String>, Vec<Vec<String>>),
}

/// Formats the page of a document as one self-contained HTML file; this page is its static part.
pub(crate) fn page<D: Serialize>(page: &Page, document: &DocumentPage<'_, D>) -> String {
    let mut fixed = format!("<h1>{}</h1>\n", escape(&page.title));
    for text in &page.lead {
        let _ = writeln!(fixed, "<p class=\"faint\">{}</p>", escape(text));
    }
    fixed += &sections(&page.sections);
    document.html(&page.title, &fixed)
}

/// Formats sections as HTML.
pub(crate) fn sections(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        match section {
            Section::Heading(text) => {
                let _ = writeln!(out, "<h2>{}</h2>", escape(text));
            }
            Section::Text(text) => {
                let _ = writeln!(out, "<p>{}</p>", escape(text));
            }
            Section::Plot(it) => {
                let _ = writeln!(out, "<div class=\"picture\">\n{}</div>", plot(it));
            }
            Section::Preformatted(text) => {
                let lines: Vec<String> = text.lines().map(escape).collect();
                let _ = writeln!(out, "<pre>{}</pre>", lines.join("\n"));
            }
            Section::Picture(svg) => {
                let _ = writeln!(out, "<div class=\"picture\">\n{svg}</div>");
            }
            Section::Table(heads, rows) => table(&mut out, heads, rows),
        }
    }
    out
}

fn table(out: &mut String, heads: &[String], rows: &[Vec<String>]) {
    let is_number = |column: usize| {
        let figure = |text: &String| text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || c == '–');
        column > 0 && rows.iter().all(|row| row.get(column).is_none_or(figure))
    };
    let class = |column: usize| if is_number(column) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"tables\"><table>\n<tr>");
    for (column, head) in heads.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escape(head));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, text) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(log: bool) -> Plot {
        let curve = |name: &str, look, height: f64| Curve {
            name: name.into(),
            look,
            is_reference: look == 0,
            is_loose: false,
            dots: (0..3)
                .map(|n| {
                    let y = height + f64::from(n);
                    let x = f64::from(1 << (20 + 2 * n));
                    Dot { x, y, low: y * 0.9, high: y * 1.1, expected: Some(y * 1.2), hint: format!("{name} <{n}>") }
                })
                .collect(),
        };
        Plot {
            title: "A & B".into(),
            subtitle: "of an example".into(),
            x_name: "part".into(),
            x_marks: vec![(1048576.0, "1 MiB".into()), (4194304.0, "4 MiB".into())],
            x_is_linear: false,
            y_name: "MiB/s".into(),
            y_is_log: log,
            curves: vec![curve("local", 0, 40.0), curve("one", 1, 38.0), curve("two", 2, 37.9), Curve::default()],
        }
    }

    #[test]
    fn every_mark_says_more_and_nothing_leaves_the_picture() {
        for log in [false, true] {
            let svg = plot(&example(log));
            assert_eq!(svg.matches("<title>").count(), 1 + 9);
            assert!(svg.contains("A &amp; B") && svg.contains("one &lt;1&gt;"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
        let none = plot(&Plot::default());
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
    }

    #[test]
    fn names_that_end_at_one_height_are_moved_apart() {
        let svg = plot(&example(false));
        let of = |name: &str| {
            let line = svg.lines().find(|l| l.starts_with("<text") && l.ends_with(&format!(">{name}</text>"))).unwrap();
            line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!((of("one") - of("two")).abs() >= LINE - 0.2);
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let sections = vec![
            Section::Heading("h".into()),
            Section::Plot(Box::new(example(false))),
            Section::Table(vec!["a".into(), "n".into()], vec![vec!["x<y".into(), "1.5".into()]]),
        ];
        let document = ["</script>"];
        let page = page(&Page { title: "t".into(), lead: vec!["l".into()], sections }, &DocumentPage::of("sweep", &document, "short"));
        let fixed = page.split_once("<main id=\"static\">").unwrap().1.split_once("</main>").unwrap().0;
        assert!(fixed.contains("<td class=\"n\">1.5</td>") && fixed.contains("x&lt;y") && !fixed.contains("href="));
        assert!(!fixed.contains("<script") && !fixed.contains("src="));
        assert!(page.contains(r#""view":"sweep","document":["\u003c/script>"],"short":"short"}"#));
    }
}
