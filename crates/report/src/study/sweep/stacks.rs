//! Stacked bars of causes, or of profile classes, along a parameter: a change of the limit shows as a change of colour.

use super::band::{Band, fill, fill_unknown, in_order, ink_on, legend};
use crate::picture::canvas::{Canvas, FAINT, Lettering, RULE, fitted};

/// Stacked bars.
#[derive(Clone, Debug)]
pub(crate) struct Stacks<B> {
    /// The title.
    pub(crate) title: String,
    /// The subtitle; may be empty.
    pub(crate) subtitle: String,
    /// Name of the parameter.
    pub(crate) x_name: String,
    /// The bars, from left to right.
    pub(crate) stacks: Vec<Stack<B>>,
}

/// A stacked bar.
#[derive(Clone, Debug)]
pub(crate) struct Stack<B> {
    /// The label below it.
    pub(crate) label: String,
    /// The shares of the whole; empty if not known.
    pub(crate) shares: Vec<(B, f64)>,
    /// The reason, if nothing is known.
    pub(crate) note: String,
}

const WIDTH: f64 = 956.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 62.0;
const HEIGHT: f64 = 200.0;
const WIDEST: f64 = 110.0;
const SIZE: f64 = 12.0;
/// Minimum share with room for letters.
const READABLE: f64 = 0.09;

/// Draws the bars as SVG.
pub(crate) fn stacked<B: Band>(picture: &Stacks<B>) -> String {
    let mut canvas = Canvas::default();
    canvas.head(20.0, &picture.title, &picture.subtitle, WIDTH - 40.0);
    let faint = Lettering::of(SIZE).in_colour(FAINT);
    let step = ((WIDTH - LEFT - 24.0) / picture.stacks.len().max(1) as f64).min(WIDEST);
    for percent in [0, 25, 50, 75, 100] {
        let y = TOP + HEIGHT * (1.0 - f64::from(percent) / 100.0);
        canvas.line((LEFT, y), (LEFT + step * picture.stacks.len() as f64, y), RULE, "");
        canvas.text(LEFT - 8.0, y + 4.0, &format!("{percent} %"), faint.held("end"));
    }
    let bands = in_order(picture.stacks.iter().flat_map(|stack| &stack.shares).map(|(band, _)| band.clone()));
    for (n, stack) in picture.stacks.iter().enumerate() {
        let (x, width) = (LEFT + step * n as f64 + step * 0.1, step * 0.8);
        bar(&mut canvas, stack, &bands, (x, width));
        canvas.text(x + width / 2.0, TOP + HEIGHT + 18.0, &fitted(&stack.label, SIZE, step), faint.held("middle"));
    }
    canvas.text(LEFT, TOP + HEIGHT + 38.0, &fitted(&picture.x_name, SIZE, WIDTH - LEFT), faint);
    let end = legend(&mut canvas, &bands, (LEFT, TOP + HEIGHT + 62.0), WIDTH - 20.0);
    canvas.finish(WIDTH, end + 20.0, &picture.title)
}

/// Draws a bar with its bands in a common order, so that a colour can be followed from bar to bar.
fn bar<B: Band>(canvas: &mut Canvas, stack: &Stack<B>, bands: &[B], (x, width): (f64, f64)) {
    let mut y = TOP + HEIGHT;
    for band in bands {
        let share: f64 = stack.shares.iter().filter(|(of, _)| of == band).map(|(_, share)| share).sum();
        if share <= 0.0 {
            continue;
        }
        let height = HEIGHT * share;
        y -= height;
        fill(canvas, (x, y, width, height), band);
        if share >= READABLE {
            let text = format!("{} {:.0} %", band.letters(), share * 100.0);
            canvas.text(
                x + width / 2.0,
                y + height / 2.0 + 4.0,
                &fitted(&text, 10.5, width),
                Lettering::of(10.5).in_colour(ink_on(band)).held("middle"),
            );
        }
        canvas.hint(x, y, width, height, &format!("{}: {} {:.1} %", stack.label, band.words(), share * 100.0));
    }
    if stack.shares.is_empty() {
        fill_unknown(canvas, (x, TOP, width, HEIGHT));
        canvas.text(x + width / 2.0, TOP + HEIGHT / 2.0, &fitted(&stack.note, SIZE, width), Lettering::of(SIZE).held("middle"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::band::ProfileClass;
    use super::*;
    use thalweg_explain::Cause;

    #[test]
    fn shares_are_stacked_and_what_is_not_known_is_hatched() {
        let stack = |label: &str, shares: &[(Cause, f64)]| Stack { label: label.into(), shares: shares.to_vec(), note: "timed out".into() };
        let stacks = vec![
            stack("64Ki", &[(Cause::ClientRead, 0.7), (Cause::NetworkBandwidth, 0.3)]),
            stack("1Mi", &[(Cause::NetworkBandwidth, 0.96), (Cause::ClientRead, 0.04)]),
            stack("4Mi", &[]),
        ];
        let picture = |stacks| Stacks { title: "T".into(), subtitle: String::new(), x_name: "block".into(), stacks };
        let svg = stacked(&picture(stacks));
        for text in [">cR 70 %<", ">nB 96 %<", ">timed out<", "1Mi: client.read 4.0 %", ">nB network.bandwidth<"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert!(!svg.contains("NaN") && !stacked(&picture(Vec::new())).contains("NaN"));
    }

    #[test]
    fn classes_of_a_profile_stand_in_the_order_of_its_table() {
        let class = |place, name: &str, title: &str| ProfileClass { name: name.into(), title: title.into(), place };
        let (idle, copy) = (class(0, "idle", "idle"), class(5, "copy", "memory copy"));
        let stack = Stack { label: "1".into(), shares: vec![(copy, 0.6), (idle, 0.4)], note: String::new() };
        let svg = stacked(&Stacks { title: "T".into(), subtitle: String::new(), x_name: "n".into(), stacks: vec![stack] });
        let at = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text} is missing in {svg}"));
        assert!(at("1: idle 40.0 %") < at("1: memory copy 60.0 %") && svg.contains(">copy memory copy<"));
    }
}
