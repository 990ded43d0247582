//! Bands of stacked bars and colours of cells: causes of wall time, or classes of CPU time.

use crate::picture::canvas::{Canvas, Lettering, RULE, text_width};
use crate::picture::palette::{cause_style, is_hatched, is_light};
use crate::profile::colour_of_class;
use thalweg_explain::Cause;

/// A part of a stacked bar.
pub(crate) trait Band: Clone + PartialEq {
    /// Returns an abbreviation of about two letters.
    fn letters(&self) -> String;
    /// Returns its name, for the legend.
    fn words(&self) -> String;
    /// Returns its colour.
    fn colour(&self) -> &'static str;
    /// Whether it is hatched.
    fn is_hatched(&self) -> bool {
        false
    }
    /// Returns its sort key, the same in all bars, so that a colour can be followed.
    fn rank(&self) -> (usize, String);
}

impl Band for Cause {
    /// Returns a cause as two letters: its end and its kind. They are unique (a test checks that).
    fn letters(&self) -> String {
        let name = self.name();
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

    fn words(&self) -> String {
        self.name().to_owned()
    }

    fn colour(&self) -> &'static str {
        cause_style(*self).colour
    }

    fn is_hatched(&self) -> bool {
        is_hatched(*self)
    }

    fn rank(&self) -> (usize, String) {
        (0, self.name().to_owned())
    }
}

/// A class of `thalweg profile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfileClass {
    /// Its name in the rules.
    pub(crate) name: String,
    /// Its display name.
    pub(crate) title: String,
    /// Its position in the profile's table.
    pub(crate) place: usize,
}

impl Band for ProfileClass {
    fn letters(&self) -> String {
        self.name.clone()
    }

    fn words(&self) -> String {
        self.title.clone()
    }

    fn colour(&self) -> &'static str {
        colour_of_class(&self.name)
    }

    fn rank(&self) -> (usize, String) {
        (self.place, self.name.clone())
    }
}

/// Draws a rectangle in a band's colour, hatched if it is the server's.
pub(super) fn fill(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64), band: &impl Band) {
    canvas.rectangle(x, y, width, height, band.colour(), 1.0);
    if band.is_hatched() {
        canvas.rectangle(x, y, width, height, "url(#server)", 0.5);
    }
}

/// Draws a rectangle for a missing figure.
pub(super) fn fill_unknown(canvas: &mut Canvas, (x, y, width, height): (f64, f64, f64, f64)) {
    canvas.rectangle(x, y, width, height, RULE, 1.0);
    canvas.rectangle(x, y, width, height, "url(#server)", 1.0);
}

/// Returns each band once, in the order of the legend.
pub(super) fn in_order<B: Band>(bands: impl Iterator<Item = B>) -> Vec<B> {
    let mut bands: Vec<B> = bands.collect();
    bands.sort_by_key(Band::rank);
    bands.dedup();
    bands
}

/// Returns the colour of text on a band's colour.
pub(super) fn ink_on(band: &impl Band) -> &'static str {
    if is_light(band.colour()) { "#1B2430" } else { "#ffffff" }
}

/// Draws the legend of bands with their letters; returns its bottom edge.
pub(super) fn legend<B: Band>(canvas: &mut Canvas, bands: &[B], (left, top): (f64, f64), right: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_letters_of_its_own() {
        let mut codes: Vec<String> = Cause::ALL.iter().map(Band::letters).collect();
        codes.sort();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all, "{codes:?}");
    }
}
