//! Quantiles of durations in bounded memory: counts in buckets an eighth of a power of two wide, so that a quantile is within 5 % of the
//! truth.

use crate::limits::observe as limits;

/// A distribution of lengths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lengths {
    counts: Vec<u32>,
    /// Number of lengths.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

fn bucket(ns: u64) -> usize {
    let exponent = 63 - (ns | 1).leading_zeros() as usize;
    let eighth = if exponent >= 3 { (ns >> (exponent - 3)) as usize & 7 } else { 0 };
    exponent * 8 + eighth
}

fn middle_ns(bucket: usize) -> u64 {
    let (exponent, eighth) = (bucket / 8, (bucket % 8) as u64);
    if exponent < 3 { 1 << exponent } else { ((8 + eighth) << (exponent - 3)) + (1_u64 << (exponent - 3)) / 2 }
}

impl Lengths {
    /// Adds a length.
    pub(crate) fn add(&mut self, ns: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; limits::BUCKETS];
        }
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Adds a length of which only a part is counted here: it lies in several places, most of it in this one.
    pub(crate) fn add_part(&mut self, part_ns: u64, whole_ns: u64) {
        self.add(whole_ns);
        self.total_ns -= whole_ns - part_ns;
    }

    /// Number and sum of the lengths, without short ones that have next to no part of the time.
    pub(crate) fn without_short(&self) -> (u64, u64) {
        let short = bucket(self.longest_ns / limits::SHORT_PART);
        let few = self.counts.iter().enumerate().take(short);
        let (count, ns) = few.fold((0, 0), |(count, ns), (b, &n)| (count + u64::from(n), ns + u64::from(n) * middle_ns(b)));
        let is_next_to_none = ns <= self.total_ns / limits::NEXT_TO_NONE_PART && count < self.count;
        if is_next_to_none { (self.count - count, self.total_ns - ns) } else { (self.count, self.total_ns) }
    }

    /// Adds all lengths of another distribution.
    pub(crate) fn add_all(&mut self, other: &Lengths) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// The length below which this part of them lies; 0 if there are none.
    pub(crate) fn quantile_ns(&self, part: f64) -> u64 {
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (b, &n) in self.counts.iter().enumerate() {
            seen += u64::from(n);
            if seen >= wanted {
                return middle_ns(b).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

/// The exact quantile of a sorted slice: the smallest value with this part of all at or below it.
pub(crate) fn of_sorted(sorted: &[u64], part: f64) -> Option<u64> {
    let at = ((sorted.len() as f64 * part).ceil() as usize).max(1) - 1;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quantile_is_within_a_fourteenth_of_the_exact_one(mut values in prop::collection::vec(8_u64..1 << 40, 1..200), part in 0.01_f64..1.0) {
            let mut lengths = Lengths::default();
            values.iter().for_each(|&v| lengths.add(v));
            values.sort_unstable();
            let exact = of_sorted(&values, part).unwrap() as f64;
            let estimate = lengths.quantile_ns(part) as f64;
            prop_assert!((estimate - exact).abs() <= exact / 14.0 + 1.0, "{estimate} for {exact}");
        }
    }
}
