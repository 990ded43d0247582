//! Axis ticks at round numbers.

/// Ticks of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Distance between ticks, in the axis's unit.
    pub step: f64,
    /// Positions of the ticks.
    pub at: Vec<f64>,
}

/// Returns at most `most` (≥ 2) ticks within [low, high], at multiples of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks(low: f64, high: f64, most: usize) -> Ticks {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return Ticks { step: 1.0, at: vec![low] };
    }
    let rough = span / most.max(2) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|s| span / s <= most.max(2) as f64).unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    Ticks { step, at: (first..=last).map(|n| n as f64 * step).collect() }
}

/// Formats a tick's label with the digits that the step needs.
pub(crate) fn label(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_bounds() {
        assert_eq!(ticks(0.0, 2.05, 10).at.len(), 5);
        assert_eq!(ticks(0.0, 10.0, 10).step, 1.0);
        for (low, high) in [(0.0, 1e-6), (0.812, 0.905), (3.0, 3.1e4), (0.0, 7.0)] {
            for most in 2..14 {
                let t = ticks(low, high, most);
                assert!(t.at.len() <= most + 1 && t.at.iter().all(|v| *v >= low - t.step * 1e-6 && *v <= high + t.step * 1e-6), "{t:?}");
            }
        }
        assert_eq!(ticks(1.0, 1.0, 5).at, [1.0]);
    }

    #[test]
    fn labels_have_the_digits_the_step_needs() {
        assert_eq!(label(0.5, 0.25), "0.5");
        assert_eq!(label(0.25, 0.05), "0.25");
        assert_eq!(label(20.0, 10.0), "20");
    }
}
