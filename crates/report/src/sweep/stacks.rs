//! The causes along a parameter as stacked bars: where the limit changes hands is where the colours do.

use super::{code, fill, fill_unknown, in_order, ink_on, legend};
use crate::picture::canvas::{Canvas, FAINT, Lettering, RULE, fitted};
use thalweg_explain::Cause;

/// Stacked bars.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// Above them.
    pub title: String,
    /// Below the title, smaller; may be empty.
    pub subtitle: String,
    /// What the bars are.
    pub x_name: String,
    /// From left to right.
    pub stacks: Vec<CauseStack>,
}

/// A bar.
#[derive(Clone, Debug, Default)]
pub struct CauseStack {
    /// Below it.
    pub label: String,
    /// The shares of the wall time; empty: not known.
    pub shares: Vec<(Cause, f64)>,
    /// Where nothing is known: why.
    pub note: String,
}

const WIDTH: f64 = 956.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 62.0;
const HEIGHT: f64 = 200.0;
const WIDEST: f64 = 110.0;
const SIZE: f64 = 12.0;
/// A share that has room for letters.
const READABLE: f64 = 0.09;

/// Draws them.
pub fn stacked_causes(picture: &Stacks) -> String {
    let mut canvas = Canvas::default();
    canvas.head(20.0, &picture.title, &picture.subtitle, WIDTH - 40.0);
    let faint = Lettering::of(SIZE).in_colour(FAINT);
    let step = ((WIDTH - LEFT - 24.0) / picture.stacks.len().max(1) as f64).min(WIDEST);
    for percent in [0, 25, 50, 75, 100] {
        let y = TOP + HEIGHT * (1.0 - f64::from(percent) / 100.0);
        canvas.line((LEFT, y), (LEFT + step * picture.stacks.len() as f64, y), RULE, "");
        canvas.text(LEFT - 8.0, y + 4.0, &format!("{percent} %"), faint.held("end"));
    }
    let causes = in_order(picture.stacks.iter().flat_map(|stack| &stack.shares).map(|(cause, _)| *cause));
    for (n, stack) in picture.stacks.iter().enumerate() {
        let (x, width) = (LEFT + step * n as f64 + step * 0.1, step * 0.8);
        bar(&mut canvas, stack, &causes, (x, width));
        canvas.text(x + width / 2.0, TOP + HEIGHT + 18.0, &fitted(&stack.label, SIZE, step), faint.held("middle"));
    }
    canvas.text(LEFT, TOP + HEIGHT + 38.0, &fitted(&picture.x_name, SIZE, WIDTH - LEFT), faint);
    let end = legend(&mut canvas, &causes, (LEFT, TOP + HEIGHT + 62.0), WIDTH - 20.0);
    canvas.finish(WIDTH, end + 20.0, &picture.title)
}

/// The causes of all bars in one order, so that a colour can be followed from bar to bar.
fn bar(canvas: &mut Canvas, stack: &CauseStack, causes: &[Cause], (x, width): (f64, f64)) {
    let mut y = TOP + HEIGHT;
    for cause in causes {
        let share: f64 = stack.shares.iter().filter(|(of, _)| of == cause).map(|(_, share)| share).sum();
        if share <= 0.0 {
            continue;
        }
        let height = HEIGHT * share;
        y -= height;
        fill(canvas, (x, y, width, height), *cause);
        if share >= READABLE {
            let text = format!("{} {:.0} %", code(*cause), share * 100.0);
            canvas.text(
                x + width / 2.0,
                y + height / 2.0 + 4.0,
                &fitted(&text, 10.5, width),
                Lettering::of(10.5).in_colour(ink_on(*cause)).held("middle"),
            );
        }
        canvas.hint(x, y, width, height, &format!("{}: {} {:.1} %", stack.label, cause.name(), share * 100.0));
    }
    if stack.shares.is_empty() {
        fill_unknown(canvas, (x, TOP, width, HEIGHT));
        canvas.text(x + width / 2.0, TOP + HEIGHT / 2.0, &fitted(&stack.note, SIZE, width), Lettering::of(SIZE).held("middle"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_stacked_and_what_is_not_known_is_hatched() {
        let stack =
            |label: &str, shares: &[(Cause, f64)]| CauseStack { label: label.into(), shares: shares.to_vec(), note: "timed out".into() };
        let stacks = vec![
            stack("64Ki", &[(Cause::ClientRead, 0.7), (Cause::NetworkBandwidth, 0.3)]),
            stack("1Mi", &[(Cause::NetworkBandwidth, 0.96), (Cause::ClientRead, 0.04)]),
            stack("4Mi", &[]),
        ];
        let svg = stacked_causes(&Stacks { title: "T".into(), x_name: "block".into(), stacks, ..Stacks::default() });
        for text in [">cR 70 %<", ">nB 96 %<", ">timed out<", "1Mi: client.read 4.0 %", ">nB network.bandwidth<"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert!(!svg.contains("NaN") && !stacked_causes(&Stacks::default()).contains("NaN"));
    }
}
