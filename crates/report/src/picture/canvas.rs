//! Writes SVG: well-formed by construction, with short numbers and escaped text.

use std::fmt::Write;

/// Width of a character at font size 1, estimated for the widest common sans-serif font.
const CHARACTER_WIDTH: f64 = 0.6;

/// Estimates the width of a text in pixels.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    thalweg_base::text::width(text) as f64 * size * CHARACTER_WIDTH
}

/// Cuts the text in its middle to about `width` pixels.
pub(crate) fn fitted(text: &str, size: f64, width: f64) -> String {
    thalweg_base::text::cut(&thalweg_base::text::clean(text), (width / size / CHARACTER_WIDTH) as usize)
}

/// Escapes characters reserved in XML, and replaces those that XML 1.0 does not permit.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in thalweg_base::text::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats a number with at most one digit after the point.
fn number(v: f64) -> String {
    let v = if v.is_finite() { v } else { 0.0 };
    let rounded = (v * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 { format!("{rounded:.0}") } else { format!("{rounded:.1}") }
}

/// A text style.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lettering {
    /// Font size in pixels.
    pub size: f64,
    /// The colour.
    pub colour: &'static str,
    /// The anchor: `start`, `middle` or `end`.
    pub anchor: &'static str,
    /// Whether it is bold.
    pub bold: bool,
}

/// The text colour.
pub(crate) const INK: &str = "#1B2430";
/// The colour of explanatory text.
pub(crate) const FAINT: &str = "#5A6573";
/// The colour of rules.
pub(crate) const RULE: &str = "#D8DCE2";
/// The background.
pub(crate) const PAPER: &str = "#fff";
/// The colour of lines behind the data.
pub(crate) const GRID: &str = "#EDEFF2";
/// The colour of the line below each lane.
pub(crate) const HAIR: &str = "#F0F2F4";
/// The colour of axes.
pub(crate) const AXIS: &str = "#9AA3AE";

/// The colours that a dark page replaces: what is neutral, and what would be too dark to see. Text on bars is in [`ON_LIGHT`] or
/// [`ON_DARK`], which stay. The style of pages ([`crate::style::STATIC_STYLE`]) has the same.
pub(crate) const DARK: &[(&str, &str)] = &[
    (PAPER, "#14181D"),
    (INK, "#E4E8EC"),
    (FAINT, "#9AA5B1"),
    (RULE, "#343C46"),
    (GRID, "#262C34"),
    (HAIR, "#20262D"),
    (AXIS, "#77828F"),
    ("#E4E4E4", "#3A424C"),
    ("#0072B2", "#3A9BDC"),
    ("#A50F15", "#E5484D"),
    ("#472258", "#A36BC2"),
    ("#563035", "#B08A84"),
    ("#1B20CF", "#7C80FF"),
    ("#11605A", "#2FA295"),
    ("#882255", "#C4608F"),
    ("#5B6B82", "#8394AD"),
];

impl Lettering {
    /// Returns the style of plain text of this size.
    pub(crate) const fn of(size: f64) -> Lettering {
        Lettering { size, colour: INK, anchor: "start", bold: false }
    }
    /// Returns the style in bold.
    pub(crate) const fn bold(self) -> Lettering {
        Lettering { bold: true, ..self }
    }
    /// Returns the style in another colour.
    pub(crate) const fn in_colour(self, colour: &'static str) -> Lettering {
        Lettering { colour, ..self }
    }
    /// Returns the style with another anchor.
    pub(crate) const fn held(self, anchor: &'static str) -> Lettering {
        Lettering { anchor, ..self }
    }
}

/// The data of an SVG path, relative to where it will be drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    /// Whether the path is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a rectangle.
    pub(crate) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let (w, h) = (number(width.max(0.1)), number(height));
        let _ = write!(self.0, "M{} {}h{w}v{h}h-{w}z", number(x), number(y));
    }

    /// Adds a polygon.
    pub(crate) fn polygon(&mut self, corners: &[(f64, f64)]) {
        for (n, (x, y)) in corners.iter().enumerate() {
            let _ = write!(self.0, "{}{} {}", if n == 0 { 'M' } else { 'L' }, number(*x), number(*y));
        }
        self.0.push('z');
    }

    /// Adds an area of adjacent steps (left, right, top, bottom).
    pub(crate) fn steps(&mut self, steps: &[(f64, f64, f64, f64)]) {
        let Some(first) = steps.first() else { return };
        let _ = write!(self.0, "M{} {}", number(first.0), number(first.3));
        for (_, right, top, _) in steps {
            let _ = write!(self.0, "V{}H{}", number(*top), number(*right));
        }
        for (left, _, _, bottom) in steps.iter().rev() {
            let _ = write!(self.0, "V{}H{}", number(*bottom), number(*left));
        }
        self.0.push('z');
    }
}

/// A step: left x, right x, and y; `None` if there is nothing to draw.
pub(crate) type Step = (f64, f64, Option<f64>);

/// Writes steps as relative moves, rounded so that errors do not accumulate.
fn step_moves(out: &mut String, at: &mut (f64, f64), x: f64, y: f64) {
    let round = |v: f64| if v.is_finite() { (v * 10.0).round() / 10.0 } else { 0.0 };
    let (x, y) = (round(x), round(y));
    if y != at.1 {
        let _ = write!(out, "v{}", number(y - at.1));
    }
    if x != at.0 {
        let _ = write!(out, "h{}", number(x - at.0));
    }
    *at = (x, y);
}

impl Path {
    /// Adds a line of adjacent steps, interrupted where a value is absent.
    pub(crate) fn step_line(&mut self, steps: &[Step]) {
        let mut at: Option<(f64, f64)> = None;
        for (i, (left, right, y)) in steps.iter().enumerate() {
            let Some(y) = *y else {
                at = None;
                continue;
            };
            let mut from = at.unwrap_or_else(|| {
                let _ = write!(self.0, "M{} {}", number(*left), number(y));
                ((left * 10.0).round() / 10.0, (y * 10.0).round() / 10.0)
            });
            let goes_on = |next: &Step| next.2.is_some_and(|next| (next - y).abs() < 0.05);
            if !steps.get(i + 1).is_some_and(goes_on) {
                step_moves(&mut self.0, &mut from, *right, y);
            }
            at = Some(from);
        }
    }

    /// Adds the area between adjacent steps and a level.
    pub(crate) fn step_area(&mut self, steps: &[Step], level: f64) {
        for run in steps.split(|step| step.2.is_none()) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let _ = write!(self.0, "M{} {}", number(first.0), number(level));
            let mut at = ((first.0 * 10.0).round() / 10.0, (level * 10.0).round() / 10.0);
            for (i, (_, right, y)) in run.iter().enumerate() {
                let y = y.unwrap_or(level);
                if !run.get(i + 1).is_some_and(|next| next.2.is_some_and(|next| (next - y).abs() < 0.05)) {
                    step_moves(&mut self.0, &mut at, *right, y);
                }
            }
            step_moves(&mut self.0, &mut at, last.1, level);
            self.0.push('z');
        }
    }
}

/// A picture under construction.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    /// Draws a path with its origin at (x, y).
    pub(crate) fn path(&mut self, x: f64, y: f64, path: &Path, fill: &str) {
        let _ = writeln!(self.body, r#"<path transform="translate({} {})" fill="{fill}" d="{}"/>"#, number(x), number(y), path.0);
    }

    /// Fills a path with its origin at 0, semi-transparent.
    pub(crate) fn veil(&mut self, path: &Path, fill: &str, opacity: f64) {
        let _ = writeln!(self.body, r#"<path fill="{fill}" fill-opacity="{opacity}" d="{}"/>"#, path.0);
    }

    /// Draws a path as a line, with its origin at 0; `dash` is SVG's dash pattern, or empty.
    pub(crate) fn stroke(&mut self, path: &Path, colour: &str, width: f64, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        let _ = writeln!(self.body, r#"<path fill="none" stroke="{colour}" stroke-width="{}"{dash} d="{}"/>"#, number(width), path.0);
    }

    /// Draws a rectangle.
    pub(crate) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, opacity: f64) {
        let opacity = if opacity < 1.0 { format!(r#" fill-opacity="{opacity}""#) } else { String::new() };
        let (w, h) = (number(width), number(height));
        let _ = writeln!(self.body, r#"<rect x="{}" y="{}" width="{w}" height="{h}" fill="{fill}"{opacity}/>"#, number(x), number(y));
    }

    /// Adds an invisible rectangle with a tooltip.
    pub(crate) fn hint(&mut self, x: f64, y: f64, width: f64, height: f64, text: &str) {
        let (w, h) = (number(width), number(height));
        let _ = writeln!(
            self.body,
            r#"<rect x="{}" y="{}" width="{w}" height="{h}" fill="none" pointer-events="all"><title>{}</title></rect>"#,
            number(x),
            number(y),
            escape(text)
        );
    }

    /// Draws a straight line; `dash` is SVG's dash pattern, or empty.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let _ = writeln!(self.body, r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}"{dash}/>"#);
    }

    /// Draws a thick straight line.
    pub(crate) fn thick_line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dash: &str) {
        let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let _ = writeln!(self.body, r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}" stroke-width="2"{dash}/>"#);
    }

    /// Draws text with its baseline at y.
    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str, lettering: Lettering) {
        let bold = if lettering.bold { r#" font-weight="600""# } else { "" };
        let anchor = if lettering.anchor == "start" { String::new() } else { format!(r#" text-anchor="{}""#, lettering.anchor) };
        let _ = writeln!(
            self.body,
            r#"<text x="{}" y="{}" font-size="{}" fill="{}"{anchor}{bold}>{}</text>"#,
            number(x),
            number(y),
            number(lettering.size),
            lettering.colour,
            escape(text)
        );
    }

    /// Draws a picture's title, and below it a smaller subtitle, which may be empty.
    pub(crate) fn head(&mut self, left: f64, title: &str, subtitle: &str, width: f64) {
        self.text(left, 24.0, &fitted(title, 17.0, width), Lettering::of(17.0).bold());
        self.text(left, 43.0, &fitted(subtitle, 12.0, width), Lettering::of(12.0).in_colour(FAINT));
    }

    /// Returns the SVG document of `width` × `height` pixels with this title.
    pub(crate) fn finish(self, width: f64, height: f64, title: &str) -> String {
        self.document(width, height, title, "")
    }

    /// Returns the SVG document, with a style that replaces colours where the reader prefers a dark page.
    pub(crate) fn finish_for_both(self, width: f64, height: f64, title: &str) -> String {
        let style = dark_style(&self.body);
        self.document(width, height, title, &style)
    }

    fn document(self, width: f64, height: f64, title: &str, style: &str) -> String {
        let (w, h) = (number(width), number(height));
        let stripes = |id: &str, turned: u8| {
            format!(
                "<pattern id=\"{id}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate({turned})\">\
                 <rect width=\"1.6\" height=\"5\" fill=\"#fff\" fill-opacity=\".75\"/></pattern>"
            )
        };
        let stop = if self.body.contains("url(#stop)") { stripes("stop", 0) } else { String::new() };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             font-family=\"Helvetica, Arial, sans-serif\">\n<title>{}</title>\n{style}<defs>{}{stop}</defs>\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"{PAPER}\"/>\n{}</svg>\n",
            escape(title),
            stripes("server", 45),
            self.body
        )
    }
}

/// Returns a style element that replaces the colours that occur, each in all elements that have it. Attributes stay in the elements, so a
/// renderer without styles draws the picture for white paper.
fn dark_style(body: &str) -> String {
    let mut rules = String::new();
    for (light, dark) in DARK {
        for attribute in ["fill", "stroke"] {
            let selector = format!("{attribute}=\"{light}\"");
            if (*light == PAPER && attribute == "fill") || body.contains(&selector) {
                let _ = write!(rules, "[{selector}]{{{attribute}:{dark}}}");
            }
        }
    }
    format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_are_short() {
        let mut canvas = Canvas::default();
        canvas.text(1.04, 2.0, "a<b>&\"\u{1}", Lettering::of(10.0));
        let svg = canvas.finish(10.0, 10.0, "t");
        assert!(svg.contains("<text x=\"1\" y=\"2\" font-size=\"10\" fill=\"#1B2430\">a&lt;b&gt;&amp;&quot;\u{fffd}</text>"), "{svg}");
    }

    #[test]
    fn a_line_of_steps_is_interrupted_where_nothing_is_known() {
        let mut path = Path::default();
        path.step_line(&[(0.0, 1.0, Some(3.0)), (1.0, 2.5, Some(3.0)), (2.5, 3.0, Some(5.0)), (3.0, 4.0, None), (4.0, 5.0, Some(1.0))]);
        assert_eq!(path.0, "M0 3h2.5v2h0.5M4 1h1");
        let mut path = Path::default();
        path.step_area(&[(0.0, 1.0, Some(3.0)), (1.0, 2.0, None), (2.0, 3.0, Some(8.0))], 9.0);
        assert_eq!(path.0, "M0 9v-6h1v6zM2 9v-1h1v1z");
    }

    #[test]
    fn steps_close_into_an_area() {
        let mut path = Path::default();
        path.steps(&[(0.0, 1.0, 3.0, 9.0), (1.0, 2.5, 5.0, 9.0)]);
        assert_eq!(path.0, "M0 9V3H1V5H2.5V9H1V9H0z");
    }
}
