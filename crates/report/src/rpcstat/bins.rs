//! Combines time bins into the available columns.

use thalweg_explain::rpcstat::document::Series;

/// How bins are combined into one column.
#[derive(Clone, Copy)]
pub(super) enum Fold {
    Mean,
    Most,
    Least,
}

/// Returns the number of bins within the time recorded.
pub(super) fn bins_within(series: &Series, wall_s: f64) -> usize {
    ((wall_s / series.bin_s.max(1e-12)).ceil() as usize).clamp(1, series.calls.len().max(1))
}

/// Combines `values` into at most `columns` columns; absent values are NaN.
pub(super) fn folded(values: &[f64], columns: usize, fold: Fold) -> Vec<f64> {
    let columns = columns.min(values.len()).max(1);
    let column = |i: usize| {
        let (from, to) = (i * values.len() / columns, ((i + 1) * values.len() / columns).max(i * values.len() / columns + 1));
        let there: Vec<f64> = values.get(from..to.min(values.len())).unwrap_or(&[]).iter().copied().filter(|v| v.is_finite()).collect();
        if there.is_empty() {
            return f64::NAN;
        }
        match fold {
            Fold::Mean => there.iter().sum::<f64>() / there.len() as f64,
            Fold::Most => there.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Fold::Least => there.iter().copied().fold(f64::INFINITY, f64::min),
        }
    };
    (0..columns).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_has_no_part_in_a_column() {
        assert_eq!(folded(&[1.0, 3.0, f64::NAN, f64::NAN], 2, Fold::Mean)[0], 2.0);
        assert!(folded(&[1.0, 3.0, f64::NAN, f64::NAN], 2, Fold::Most)[1].is_nan());
        assert_eq!(folded(&[5.0], 40, Fold::Least), [5.0]);
    }
}
