//! The axes of the picture: a time axis for all panels, and an axis for each panel's quantity.

use crate::picture::axis::{label, ticks};
use crate::picture::canvas::{Canvas, FAINT, Lettering, RULE};
use thalweg_base::numbers::{BIT_RATES, TIMES, count, size};

/// Font size of an axis.
pub(super) const SMALL: f64 = 11.0;

/// A time axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    /// Its left end, in pixels.
    pub left: f64,
    /// Its width, in pixels.
    pub width: f64,
    /// The time at its left end.
    pub from_s: f64,
    /// The time at its right end.
    pub to_s: f64,
    /// The time labelled 0.
    pub zero_s: f64,
}

impl TimeAxis {
    /// Returns the position of a time, clamped to the axis.
    pub(super) fn x(&self, s: f64) -> f64 {
        let part = (s - self.from_s) / (self.to_s - self.from_s).max(1e-12);
        self.left + if part.is_finite() { part.clamp(0.0, 1.0) * self.width } else { 0.0 }
    }

    /// Returns the position of its right end.
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Draws lines at its ticks from `top` to `bottom`, and the times below.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64, bottom: f64) {
        let (low, high) = (self.from_s - self.zero_s, self.to_s - self.zero_s);
        let unit = TIMES.suiting(low.abs().max(high.abs()));
        let ticks = ticks(low / unit.size, high / unit.size, 12);
        for tick in &ticks.at {
            let x = self.x(self.zero_s + tick * unit.size);
            canvas.line((x, top), (x, bottom + 4.0), RULE, "");
            canvas.text(x, bottom + 16.0, &label(*tick, ticks.step), Lettering::of(SMALL).in_colour(FAINT).held("middle"));
        }
        canvas.line((self.left, bottom), (self.right(), bottom), FAINT, "");
        canvas.text(self.right() + 14.0, bottom + 16.0, unit.name, Lettering::of(SMALL).in_colour(FAINT));
    }
}

/// The quantity of a panel's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Bytes per second, labelled in bits.
    BitRate,
    /// Counts, or counts per second.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// A panel's axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    quantity: Quantity,
}

/// Units of bytes.
const SIZES: [(&str, f64); 4] = [("bytes", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];

impl Scale {
    /// Returns a linear axis from 0 to slightly above `most`.
    pub(super) fn linear(most: f64, quantity: Quantity) -> Scale {
        let high = if most.is_finite() && most > 0.0 { most * 1.06 } else { 1.0 };
        Scale { low: 0.0, high, is_log: false, quantity }
    }

    /// Returns a logarithmic axis between powers of 10 (for bytes, of 4) around the values.
    pub(super) fn log(least: f64, most: f64, quantity: Quantity) -> Scale {
        let base = base(quantity);
        let (least, most) = if least.is_finite() && most.is_finite() && least > 0.0 && most >= least { (least, most) } else { (1.0, 1.0) };
        let low = base.powf((least.ln() / base.ln() - 1e-9).floor());
        let high = base.powf((most.ln() / base.ln() + 1e-9).ceil());
        Scale { low, high: if high > low { high } else { low * base }, is_log: true, quantity }
    }

    /// Whether it is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Returns the position of a value, from 0 at the bottom to 1 at the top.
    pub(super) fn part(&self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value.max(1e-300) / self.low).ln() / (self.high / self.low).ln(),
            false => value / self.high,
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the unit of its ticks; may be empty.
    pub(super) fn unit(&self) -> &'static str {
        match self.quantity {
            Quantity::BitRate => BIT_RATES.suiting(self.high).name,
            Quantity::Bytes if !self.is_log => self.size().0,
            _ => "",
        }
    }

    fn size(&self) -> (&'static str, f64) {
        *SIZES.iter().rev().find(|(_, size)| self.high >= *size).unwrap_or(&SIZES[0])
    }

    /// Returns its ticks with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_log {
            return self.powers();
        }
        let unit = match self.quantity {
            Quantity::BitRate => BIT_RATES.suiting(self.high).size,
            Quantity::Bytes => self.size().1,
            _ => 1.0,
        };
        let ticks = ticks(0.0, self.high / unit, 4);
        let whole = self.quantity == Quantity::Count;
        let said = |tick: f64| if whole { count(tick.round() as u64) } else { label(tick, ticks.step) };
        ticks.at.iter().filter(|tick| !whole || tick.fract().abs() < 1e-6).map(|tick| (tick * unit, said(*tick))).collect()
    }

    fn powers(&self) -> Vec<(f64, String)> {
        let base = base(self.quantity);
        let all = ((self.high / self.low).ln() / base.ln()).round() as i32;
        let every = (all / 4).max(1) as usize;
        let said = |value: f64| match self.quantity {
            Quantity::Bytes => size(value.round() as u64),
            Quantity::Seconds => {
                let unit = TIMES.suiting(value);
                format!("{:.0} {}", value / unit.size, unit.name)
            }
            _ => count(value.round() as u64),
        };
        (0..=all).step_by(every).map(|n| self.low * base.powi(n)).map(|value| (value, said(value))).collect()
    }
}

fn base(quantity: Quantity) -> f64 {
    if quantity == Quantity::Bytes { 4.0 } else { 10.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_ends_at_powers_and_shows_every_value() {
        let scale = Scale::log(120e-6, 0.45, Quantity::Seconds);
        let said: Vec<String> = scale.ticks().into_iter().map(|(_, said)| said).collect();
        assert_eq!(said, ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!((scale.part(100e-6), scale.part(1.0)), (0.0, 1.0));
        assert_eq!(scale.part(0.0), 0.0);
        let said: Vec<String> = Scale::log(70e3, 900e3, Quantity::Bytes).ticks().into_iter().map(|(_, said)| said).collect();
        assert_eq!(said, ["64 KiB", "256 KiB", "1 MiB"]);
    }

    #[test]
    fn calls_have_whole_ticks_and_rates_are_in_bits() {
        let said: Vec<String> = Scale::linear(1.0, Quantity::Count).ticks().into_iter().map(|(_, said)| said).collect();
        assert_eq!(said, ["0", "1"]);
        let rate = Scale::linear(125e6, Quantity::BitRate);
        assert_eq!((rate.unit(), rate.ticks().last().map(|(v, _)| *v)), ("Gb/s", Some(125e6)));
        assert!(Scale::linear(f64::NAN, Quantity::Count).part(f64::INFINITY).is_finite());
    }
}
