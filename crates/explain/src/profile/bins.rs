//! A profile's time in bins of equal length.

use crate::limits::profile::{BIN_NS, MAX_BINS};

/// The bins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bins {
    start_ns: i64,
    pub(super) bin_ns: i64,
    pub(super) count: usize,
}

impl Bins {
    pub(super) fn new(start_ns: i64, end_ns: i64) -> Bins {
        let wall_ns = end_ns.saturating_sub(start_ns).max(1);
        let least = wall_ns.div_euclid(MAX_BINS as i64).saturating_add(1);
        let bin_ns = least.div_euclid(BIN_NS).saturating_add(1).saturating_mul(BIN_NS);
        let count = wall_ns.div_euclid(bin_ns) + i64::from(wall_ns % bin_ns != 0);
        Bins { start_ns, bin_ns, count: (count.max(1) as usize).min(MAX_BINS) }
    }

    /// The bin of an instant; instants outside belong to the first or last bin.
    pub(super) fn at(&self, at_ns: i64) -> usize {
        let bin = at_ns.saturating_sub(self.start_ns).div_euclid(self.bin_ns).max(0) as usize;
        bin.min(self.count - 1)
    }

    /// Spreads an amount evenly from one instant to another.
    pub(super) fn spread(&self, from_ns: i64, to_ns: i64, amount: f64, over: &mut [f64]) {
        let length = to_ns.saturating_sub(from_ns);
        let (first, last) = (self.at(from_ns), self.at(to_ns.saturating_sub(1)));
        if length <= 0 || first >= last {
            over[first] += amount;
            return;
        }
        for (bin, over) in over.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = self.start_ns.saturating_add(self.bin_ns.saturating_mul(bin as i64));
            // Time outside of all bins is in the first or last one.
            let from = if bin == first { from_ns } else { begin };
            let to = if bin == last { to_ns } else { begin.saturating_add(self.bin_ns) };
            *over += amount * to.saturating_sub(from) as f64 / length as f64;
        }
    }
}
