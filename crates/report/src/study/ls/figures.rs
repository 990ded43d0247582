//! Formats figures of a study of listings.

use thalweg_measure::Estimate;
use thalweg_study::Bar;

/// Formats a figure with three significant digits.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 99_950.0 => format!("{:.0} k", value / 1e3),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

pub(super) fn interval(e: &Estimate) -> String {
    format!("{} ({} – {})", figure(e.median), figure(e.low), figure(e.high))
}

/// Formats a target.
pub(super) fn promised(bar: &Bar) -> String {
    match bar.most {
        None => format!("≥ {}", figure(bar.least)),
        Some(most) => format!("≤ {}", figure(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let found = [0.0, 0.01234, 0.5, 3.456, 45.67, 456.7, 45_678.0, 456_789.0].map(figure);
        assert_eq!(found, ["0.00", "0.0123", "0.50", "3.46", "45.7", "457", "45678", "457 k"]);
    }
}
