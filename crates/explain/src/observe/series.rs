//! Counter values over time: lookups at, between and around instants.

/// Values of one counter of one end of a connection, in order of time.
pub(super) type Series = Vec<(i64, i64)>;

/// The last value at or before an instant.
pub(super) fn at(series: &Series, instant: i64) -> Option<i64> {
    let after = series.partition_point(|&(t, _)| t <= instant);
    series.get(after.checked_sub(1)?).map(|&(_, v)| v)
}

/// The largest value within an interval, or else the last before it.
pub(super) fn most(series: &Series, start: i64, end: i64) -> Option<i64> {
    let (first, after) = (series.partition_point(|&(t, _)| t < start), series.partition_point(|&(t, _)| t <= end));
    series[first..after].iter().map(|&(_, v)| v).max().or_else(|| at(series, start))
}

/// At each instant, the largest value from then on.
pub(super) fn widest_from(series: &Series) -> Series {
    let mut widest = series.clone();
    for at in (1..widest.len()).rev() {
        widest[at - 1].1 = widest[at - 1].1.max(widest[at].1);
    }
    widest
}

/// Whether a value has grown: it is larger than it was a given time, and a given number of readings, before. True if there are fewer readings.
pub(super) fn grew(series: &Series, instant: i64, (ns, readings): (i64, usize)) -> bool {
    let after = series.partition_point(|&(t, _)| t <= instant);
    let before = series.partition_point(|&(t, _)| t <= instant.saturating_sub(ns)).min(after.saturating_sub(readings));
    let earlier = before.checked_sub(1).map(|i| series[i].1);
    earlier.is_none_or(|earlier| series[after - 1].1 > earlier)
}

/// An accumulated value at an instant, interpolated between the two known ones.
pub(super) fn between(series: &Series, instant: i64) -> Option<f64> {
    let after = series.partition_point(|&(t, _)| t <= instant);
    match (after.checked_sub(1).and_then(|i| series.get(i)), series.get(after)) {
        (Some(&(t0, v0)), Some(&(t1, v1))) if t1 > t0 => Some(v0 as f64 + (v1 - v0) as f64 * (instant - t0) as f64 / (t1 - t0) as f64),
        (Some(&(_, v)), _) | (None, Some(&(_, v))) => Some(v as f64),
        (None, None) => None,
    }
}

/// Whether any of these instants, in order, lies within an interval.
pub(super) fn any_within(instants: &[i64], start: i64, end: i64) -> bool {
    let first = instants.partition_point(|&t| t < start);
    instants.get(first).is_some_and(|&t| t <= end)
}
