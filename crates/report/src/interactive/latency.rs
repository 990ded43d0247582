//! How long spans took, for a page that leaves spans out: counts by lane, kind and duration, four bins an octave.

/// Starts of the bins within an octave, as the highest 64 bits of a duration: 2^(1/4), 2^(1/2) and 2^(3/4), rounded up.
const QUARTERS: [u64; 3] = [0x9837_f051_8db8_a970, 0xb504_f333_f9de_6485, 0xd744_fcca_d69d_6af5];

/// Returns the bin of a duration: `floor(4 * log2(max(1, ns)))`.
fn bin(ns: u64) -> u8 {
    let ns = ns.max(1);
    let zeros = ns.leading_zeros();
    let within = QUARTERS.iter().filter(|start| ns << zeros >= **start).count();
    ((63 - zeros) * 4) as u8 + within as u8
}

/// Counts of one kind on one lane, from the first bin in use to the last.
#[derive(Debug, Default)]
struct Counts {
    first: u8,
    counts: Vec<u32>,
}

impl Counts {
    fn add(&mut self, bin: u8) {
        if self.counts.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, usize::from(self.first - bin)));
            self.first = bin;
        }
        let at = usize::from(bin - self.first);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }
}

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LatencyRow {
    /// The slot of the lane.
    pub(super) slot: u32,
    /// Kind and state: the look of a span.
    pub(super) look: u8,
    /// The bin.
    pub(super) bin: u8,
    /// Number of spans.
    pub(super) count: u32,
}

/// Counts of all lanes; they take no more memory than the kinds of span on each lane.
#[derive(Debug)]
pub(super) struct Latency {
    /// By slot; of each the looks in use, which are few.
    counts: Vec<Vec<(u8, Counts)>>,
}

impl Latency {
    /// Returns no counts, for this number of slots.
    pub(super) fn new(slots: usize) -> Latency {
        Latency { counts: (0..slots).map(|_| Vec::new()).collect() }
    }

    /// Counts a span.
    pub(super) fn add(&mut self, slot: u32, look: u8, start_ns: i64, end_ns: i64) {
        let looks = &mut self.counts[slot as usize];
        let at = looks.iter().position(|(known, _)| *known == look).unwrap_or_else(|| {
            looks.push((look, Counts::default()));
            looks.len() - 1
        });
        looks[at].1.add(bin(end_ns.abs_diff(start_ns)));
    }

    /// Returns the counts that are not 0, by slot, look and bin.
    pub(super) fn rows(&self) -> Vec<LatencyRow> {
        let mut rows = Vec::new();
        for (slot, looks) in self.counts.iter().enumerate() {
            for (look, counts) in looks {
                let used = counts.counts.iter().enumerate().filter(|(_, count)| **count > 0);
                let row =
                    |(at, count): (usize, &u32)| LatencyRow { slot: slot as u32, look: *look, bin: counts.first + at as u8, count: *count };
                rows.extend(used.map(row));
            }
        }
        rows.sort_unstable();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_is_a_quarter_of_an_octave() {
        for ns in (0..63).flat_map(|octave| [1 << octave, (1 << octave) + 1, 3 << octave >> 1, 5 << octave >> 2]) {
            let exact = (4.0 * (ns as f64).max(1.0).log2()).floor();
            assert!((f64::from(bin(ns)) - exact).abs() < f64::EPSILON, "{ns}: {} or {exact}", bin(ns));
        }
        assert_eq!((bin(0), bin(1), bin(2), bin(1_000), bin(u64::MAX)), (0, 0, 4, 39, 255));
    }

    #[test]
    fn every_span_is_counted_once() {
        let mut latency = Latency::new(2);
        for (slot, duration) in [(1, 1_000), (1, 1_001), (1, 10), (1, 1_000_000), (0, 1_000)] {
            latency.add(slot, 8, 50, 50 + duration);
        }
        let rows: Vec<_> = latency.rows().iter().map(|row| (row.slot, row.look, row.bin, row.count)).collect();
        assert_eq!(rows, [(0, 8, 39, 1), (1, 8, 13, 1), (1, 8, 39, 2), (1, 8, 79, 1)]);
    }
}
