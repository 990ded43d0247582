//! Pictures of a parameter sweep that other pages do not need: a heat map of points ([`heat_map`]), and the causes along a parameter as
//! stacked bars ([`stacked_causes`]). SVG, no script; a cell says more when it is pointed at.

mod heat;
mod stacks;

pub use heat::{HeatCell, HeatMap, heat_map};
pub use stacks::{CauseStack, Stacks, stacked_causes};

use crate::picture::canvas::{Canvas, Lettering, RULE, text_width};
use crate::picture::palette::{cause_style, is_hatched, is_light};
use thalweg_explain::Cause;

/// A cause in two letters: at which end, and what. Every cause has its own (a test holds that).
fn code(cause: Cause) -> String {
    let name = cause.name();
    let Some((end, what)) = name.split_once('.') else { return if name == "recorder" { "re".into() } else { "?".into() } };
    let letter = match what {
        "metadata" => 'D',
        "runqueue" => 'Q',
        "loss" => 'X',
        "rwnd" => 'W',
        "sync" => 'F',
        "unknown" => '?',
        other => other.chars().next().unwrap_or('?').to_ascii_uppercase(),
    };
    format!("{}{letter}", &end[..1])
}

/// A rectangle in a cause's colour, hatched where it is the server's.
fn fill(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64), cause: Cause) {
    canvas.rectangle(x, y, width, height, cause_style(cause).colour, 1.0);
    if is_hatched(cause) {
        canvas.rectangle(x, y, width, height, "url(#server)", 0.5);
    }
}

/// A rectangle for what has no figure.
fn fill_unknown(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64)) {
    canvas.rectangle(x, y, width, height, RULE, 1.0);
    canvas.rectangle(x, y, width, height, "url(#server)", 1.0);
}

/// Each cause once, in the order of the legend.
fn in_order(causes: impl Iterator<Item = Cause>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = causes.collect();
    causes.sort_by_key(|cause| cause.name());
    causes.dedup();
    causes
}

/// The colour of text on a cause's colour.
fn ink_on(cause: Cause) -> &'static str {
    if is_light(cause_style(cause).colour) { "#1B2430" } else { "#ffffff" }
}

/// The causes that a picture shows, each with its letters; where it ends.
fn legend(canvas: &mut Canvas, causes: &[Cause], (left, top): (f64, f64), right: f64) -> f64 {
    const SIZE: f64 = 11.5;
    let (mut x, mut y) = (left, top);
    for cause in causes {
        let text = format!("{} {}", code(*cause), cause.name());
        let width = 30.0 + text_width(&text, SIZE);
        if x + width > right && x > left {
            (x, y) = (left, y + 18.0);
        }
        fill(canvas, (x, y - 10.0, 12.0, 12.0), *cause);
        canvas.text(x + 17.0, y, &text, Lettering::of(SIZE));
        x += width;
    }
    if causes.is_empty() { top - 18.0 } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_letters_of_its_own() {
        let mut codes: Vec<String> = Cause::ALL.iter().map(|cause| code(*cause)).collect();
        codes.sort();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all, "{codes:?}");
    }
}
