//! Formats figures of a layout study.

use crate::plot::MIB;
use thalweg_measure::Estimate;
use thalweg_study::Bar;

/// Formats a rate in MiB/s.
pub(super) fn rate(bytes_per_s: f64) -> String {
    let value = bytes_per_s / MIB;
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Formats a size with the largest binary unit in which it is a whole number.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes} B"), |(name, shift)| format!("{} {name}", bytes >> shift))
}

/// Formats a ratio with its interval.
pub(super) fn ratio(e: &Estimate) -> String {
    format!("{:.3} ({:.3} – {:.3})", e.median, e.low, e.high)
}

/// Formats a target.
pub(super) fn promised(bar: &Bar) -> String {
    bar.most.map_or_else(|| format!("≥ {:.2}", bar.least), |most| format!("{:.2} – {most:.2}", bar.least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_unit_and_three_digits() {
        assert_eq!((rate(40.0 * 1048576.0), rate(1234.5 * 1048576.0)), ("40.0".into(), "1234".into()));
        assert_eq!((size(64 << 20), size(1536), size(3 << 30)), ("64 MiB".into(), "1536 B".into(), "3 GiB".into()));
    }
}
