//! Ranges of bytes, times or any ordered type: merged and measured.
//!
//! A list is *in order* if its ranges are ascending and do not touch. Empty ranges are dropped.

use std::ops::{Range, Sub};

/// Sorts ranges and joins those that touch or overlap.
pub fn merge<T: Ord + Copy>(ranges: &mut Vec<Range<T>>) {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
}

/// Adds a range to a list in order, keeping it in order.
pub fn add<T: Ord + Copy>(ranges: &mut Vec<Range<T>>, range: Range<T>) {
    if range.start >= range.end {
        return;
    }
    let from = ranges.partition_point(|known| known.end < range.start);
    let to = ranges.partition_point(|known| known.start <= range.end);
    let merged = match ranges[from..to] {
        [] => range,
        ref touched => range.start.min(touched[0].start)..range.end.max(touched[touched.len() - 1].end),
    };
    ranges.splice(from..to, [merged]);
}

/// Appends a range, extending the last one if the new one begins at its end. The list need not be in order, and its ranges may overlap.
pub fn append<T: Ord + Copy>(ranges: &mut Vec<Range<T>>, range: Range<T>) {
    match ranges.last_mut() {
        _ if range.start >= range.end => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Returns the intersection of two ranges, which may be empty.
pub fn overlap<T: Ord + Copy>(one: &Range<T>, other: &Range<T>) -> Range<T> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// Returns the total length of the ranges.
pub fn length<T: Sub<Output = T> + std::iter::Sum + Copy>(ranges: &[Range<T>]) -> T {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Vec::new();
        for range in [10..20, 30..40, 0..5, 20..25, 26..27, 24..31, 5..10] {
            add(&mut ranges, range);
        }
        assert_eq!(ranges, std::slice::from_ref(&(0..40)));
        add(&mut ranges, 50..60);
        add(&mut ranges, 45..48);
        assert_eq!(ranges, [0..40, 45..48, 50..60]);
        add(&mut ranges, 47..52);
        assert_eq!(ranges, [0..40, 45..60]);
    }

    #[test]
    fn only_what_goes_on_from_the_last_is_one_with_it() {
        let mut ranges = Vec::new();
        for range in [0..4, 4..8, 9..10, 2..3, 3..5] {
            append(&mut ranges, range);
        }
        assert_eq!(ranges, [0..8, 9..10, 2..5]);
    }

    #[test]
    fn what_two_ranges_have_in_common_may_be_nothing() {
        assert_eq!([overlap(&(0..5), &(3..9)), overlap(&(3..9), &(0..5)), overlap(&(0..9), &(2..3))], [3..5, 3..5, 2..3]);
        assert!(overlap(&(0..5), &(5..9)).is_empty() && overlap(&(7..9), &(0..5)).is_empty());
    }

    proptest! {
        #[test]
        fn merged_ranges_hold_the_same_and_are_in_order(of in prop::collection::vec((0_i64..60, 0_i64..12), 0..20)) {
            let all: Vec<Range<i64>> = of.into_iter().map(|(start, length)| start..start + length).collect();
            let (mut merged, mut added) = (all.clone(), Vec::new());
            merge(&mut merged);
            all.iter().for_each(|range| add(&mut added, range.clone()));
            prop_assert_eq!(&merged, &added);
            prop_assert!(merged.iter().all(|range| range.start < range.end) && merged.windows(2).all(|two| two[0].end < two[1].start));
            let held: Vec<i64> = (0..80).filter(|at| all.iter().any(|range| range.contains(at))).collect();
            let kept: Vec<i64> = merged.iter().flat_map(|range| range.clone()).collect();
            prop_assert_eq!(length(&merged), held.len() as i64);
            prop_assert_eq!(kept, held);
        }
    }
}
