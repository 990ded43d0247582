//! Pictures of a parameter sweep that other pages do not need: a heat map of points ([`heat_map`]), and the causes or the classes of a profile
//! along a parameter as stacked bars ([`stacked`]). SVG, no script; a cell says more when it is pointed at.

mod band;
mod heat;
mod stacks;

pub use band::{Band, ProfileClass};
pub use heat::{HeatCell, HeatMap, heat_map};
pub use stacks::{Stack, Stacks, stacked};

use crate::picture::canvas::{Canvas, Lettering, RULE, text_width};
use crate::picture::palette::is_light;

/// A rectangle in a band's colour, hatched where it is the server's.
fn fill(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64), band: &impl Band) {
    canvas.rectangle(x, y, width, height, band.colour(), 1.0);
    if band.is_hatched() {
        canvas.rectangle(x, y, width, height, "url(#server)", 0.5);
    }
}

/// A rectangle for what has no figure.
fn fill_unknown(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64)) {
    canvas.rectangle(x, y, width, height, RULE, 1.0);
    canvas.rectangle(x, y, width, height, "url(#server)", 1.0);
}

/// Each band once, in the order of the legend.
fn in_order<B: Band>(bands: impl Iterator<Item = B>) -> Vec<B> {
    let mut bands: Vec<B> = bands.collect();
    bands.sort_by_key(Band::rank);
    bands.dedup();
    bands
}

/// The colour of text on a band's colour.
fn ink_on(band: &impl Band) -> &'static str {
    if is_light(band.colour()) { "#1B2430" } else { "#ffffff" }
}

/// The bands that a picture shows, each with its letters; where it ends.
fn legend<B: Band>(canvas: &mut Canvas, bands: &[B], (left, top): (f64, f64), right: f64) -> f64 {
    const SIZE: f64 = 11.5;
    let (mut x, mut y) = (left, top);
    for band in bands {
        let (letters, words) = (band.letters(), band.words());
        let text = if letters == words { words } else { format!("{letters} {words}") };
        let width = 36.0 + text_width(&text, SIZE);
        if x + width > right && x > left {
            (x, y) = (left, y + 18.0);
        }
        fill(canvas, (x, y - 10.0, 12.0, 12.0), band);
        canvas.text(x + 17.0, y, &text, Lettering::of(SIZE));
        x += width;
    }
    if bands.is_empty() { top - 18.0 } else { y }
}
