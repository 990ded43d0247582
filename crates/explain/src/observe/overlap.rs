//! Intervals, added backward: how many, how many of them sequential, how many simultaneous.

use crate::limits::observe as limits;
use crate::observe::quantile::Lengths;
use std::collections::BinaryHeap;
use std::ops::Range;
use thalweg_base::ranges;

/// Time covered by these intervals (from, to), in nanoseconds.
pub(crate) fn together_ns(intervals: Vec<(i64, i64)>) -> i64 {
    let mut ranges: Vec<Range<i64>> = intervals.into_iter().map(|(from, to)| from..to).collect();
    ranges::merge(&mut ranges);
    ranges::length(&ranges)
}

/// Intervals (requests from asking to answer), added by descending end.
#[derive(Debug)]
pub(crate) struct Overlap {
    /// Their lengths.
    pub lengths: Lengths,
    /// The longest chain of sequential ones: each asked when the previous one had been answered.
    pub in_a_row: u64,
    /// Most in progress at one time.
    pub most_at_once: u64,
    /// Time with at least one in progress.
    pub busy_ns: u64,
    /// Start of the first.
    pub first: i64,
    /// End of the last.
    pub last: i64,
    /// Start of the earliest busy stretch, as far as known.
    busy_from: i64,
    /// Start of the chain's last link, the latest possible.
    link_from: i64,
    /// Starts of those in progress, latest first.
    open: BinaryHeap<i64>,
}

impl Default for Overlap {
    fn default() -> Overlap {
        Overlap {
            lengths: Lengths::default(),
            in_a_row: 0,
            most_at_once: 0,
            busy_ns: 0,
            first: i64::MAX,
            last: i64::MIN,
            busy_from: i64::MAX,
            link_from: i64::MAX,
            open: BinaryHeap::new(),
        }
    }
}

impl Overlap {
    /// Adds one; they come by descending end.
    pub(crate) fn add(&mut self, start: i64, end: i64) {
        let start = start.min(end);
        self.lengths.add((end - start) as u64);
        (self.first, self.last) = (self.first.min(start), self.last.max(end));
        self.busy_ns += (end.min(self.busy_from) - start.min(self.busy_from)) as u64;
        self.busy_from = self.busy_from.min(start);
        // The chain is longest if each link is the one that began last.
        if end <= self.link_from {
            self.in_a_row += 1;
            self.link_from = start;
        } else {
            self.link_from = self.link_from.max(start);
        }
        while self.open.peek().is_some_and(|&from| from >= end) {
            self.open.pop();
        }
        if self.open.len() < limits::MOST_OPEN {
            self.open.push(start);
        }
        self.most_at_once = self.most_at_once.max(self.open.len() as u64);
    }

    /// Number of intervals.
    pub(crate) fn count(&self) -> u64 {
        self.lengths.count
    }

    /// Mean number in progress while any was.
    pub(crate) fn at_once(&self) -> Option<f64> {
        (self.busy_ns > 0).then(|| self.lengths.total_ns as f64 / self.busy_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(mut intervals: Vec<(i64, i64)>) -> Overlap {
        intervals.sort_by_key(|i| std::cmp::Reverse(i.1));
        let mut overlap = Overlap::default();
        intervals.iter().for_each(|&(start, end)| overlap.add(start, end));
        overlap
    }

    #[test]
    fn questions_one_after_the_other_are_a_chain_and_those_at_once_are_not() {
        let serial = of((0..10).map(|i| (i * 10, i * 10 + 9)).collect());
        assert_eq!((serial.in_a_row, serial.most_at_once, serial.busy_ns), (10, 1, 90));
        let pairs = of((0..10).flat_map(|i| [(i * 10, i * 10 + 9), (i * 10 + 1, i * 10 + 9)]).collect());
        assert_eq!((pairs.in_a_row, pairs.most_at_once, pairs.count()), (10, 2, 20));
        let at_once = of(vec![(0, 100); 8]);
        assert_eq!((at_once.in_a_row, at_once.most_at_once), (1, 8));
        assert_eq!(at_once.at_once(), Some(8.0));
    }

    proptest! {
        #[test]
        fn what_is_counted_is_what_there_is(intervals in prop::collection::vec((0_i64..200, 1_i64..60), 1..60)) {
            let intervals: Vec<(i64, i64)> = intervals.into_iter().map(|(start, length)| (start, start + length)).collect();
            let overlap = of(intervals.clone());
            let under_way = |at: i64| intervals.iter().filter(|i| i.0 <= at && at < i.1).count() as u64;
            prop_assert_eq!(overlap.most_at_once, (0..300).map(under_way).max().unwrap());
            prop_assert_eq!(overlap.busy_ns, (0..300).filter(|&at| under_way(at) > 0).count() as u64);
            // The longest chain, by brute force.
            let mut by_end = intervals;
            by_end.sort_by_key(|i| i.1);
            let (mut chain, mut free) = (0, i64::MIN);
            for (start, end) in by_end {
                if start >= free {
                    (chain, free) = (chain + 1, end);
                }
            }
            prop_assert_eq!(overlap.in_a_row, chain);
        }
    }
}
