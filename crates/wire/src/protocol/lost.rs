//! Acknowledged bytes of a file that were lost later: a write-behind failed, because a disk was full or a server was away.
//!
//! Losses are recorded by datafile and physical range, so that a lost strip does not implicate its neighbours. A file with very
//! many separate losses keeps one covering range per datafile: too much may be reported lost, never too little.

use super::checked;
use crate::limits;
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum separate ranges.
const RANGES: usize = 256;

/// A range of a datafile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LostRange {
    /// The datafile's index.
    pub index: u32,
    /// The first byte, within the datafile.
    pub start: u64,
    /// The end, exclusive.
    pub end: u64,
}

/// The lost ranges of a file: sorted, neither overlapping nor adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    #[serde(deserialize_with = "ranges")]
    ranges: Vec<LostRange>,
    /// The logical end of the last lost byte: the file is at least this long.
    #[serde(deserialize_with = "checked::bounded_size")]
    end_bytes: u64,
}

impl Lost {
    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges, in order.
    pub fn ranges(&self) -> &[LostRange] {
        &self.ranges
    }

    /// Returns the minimum length of the file; 0 when nothing is lost.
    pub fn end_bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { self.end_bytes }
    }

    /// Whether any byte of the range is lost.
    pub fn overlaps(&self, range: &LostRange) -> bool {
        let from = self.ranges.partition_point(|one| (one.index, one.end) <= (range.index, range.start));
        range.start < range.end && self.ranges.get(from).is_some_and(|one| one.index == range.index && one.start < range.end)
    }

    /// Marks a range lost, in a file at least `end_bytes` long.
    pub fn add(&mut self, range: LostRange, end_bytes: u64) {
        if range.start >= range.end {
            return;
        }
        self.end_bytes = self.end_bytes().max(end_bytes);
        let from = self.ranges.partition_point(|one| (one.index, one.end) < (range.index, range.start));
        let to = self.ranges.partition_point(|one| (one.index, one.start) <= (range.index, range.end));
        let merged = match &self.ranges[from..to] {
            [] => range,
            touched => LostRange {
                index: range.index,
                start: range.start.min(touched[0].start),
                end: range.end.max(touched[touched.len() - 1].end),
            },
        };
        self.ranges.splice(from..to, [merged]);
        if self.ranges.len() > RANGES {
            self.cover();
        }
    }

    /// Marks a range no longer lost.
    pub fn remove(&mut self, range: &LostRange) {
        if !self.overlaps(range) {
            return;
        }
        let cut = |one: &LostRange| {
            let is_apart = one.index != range.index || one.end <= range.start || range.end <= one.start;
            let before = LostRange { end: if is_apart { one.end } else { range.start }, ..*one };
            let after = LostRange { start: if is_apart { one.end } else { range.end }, ..*one };
            [before, after].into_iter().filter(|left| left.start < left.end)
        };
        self.ranges = self.ranges.iter().flat_map(cut).collect();
        if self.ranges.len() > RANGES {
            self.cover();
        }
    }

    /// Adds all losses of `other`.
    pub fn merge(&mut self, other: &Lost) {
        other.ranges.iter().for_each(|range| self.add(*range, other.end_bytes));
    }

    /// Removes all losses of `other`.
    pub fn subtract(&mut self, other: &Lost) {
        other.ranges.iter().for_each(|range| self.remove(range));
    }

    /// Merges the ranges of each datafile into one.
    fn cover(&mut self) {
        self.ranges.dedup_by(|next, one| {
            let is_same = next.index == one.index;
            if is_same {
                one.end = next.end;
            }
            is_same
        });
    }
}

/// Decodes ranges, refusing any that [`Lost`] cannot hold.
fn ranges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LostRange>, D::Error> {
    let ranges = Vec::<LostRange>::deserialize(from)?;
    let is_valid = |one: &LostRange| one.start < one.end && one.end <= limits::FILE_BYTES && (one.index as usize) < limits::DATAFILES;
    let is_apart = |one: &LostRange, next: &LostRange| (one.index, one.end) < (next.index, next.start);
    if ranges.len() > limits::DATAFILES || !ranges.iter().all(is_valid) || !ranges.is_sorted_by(is_apart) {
        return Err(checked::refuse("lost ranges that are too many, empty, or not in order"));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(index: u32, start: u64, end: u64) -> LostRange {
        LostRange { index, start, end }
    }

    fn of(ranges: &[LostRange]) -> Lost {
        let mut lost = Lost::default();
        ranges.iter().for_each(|range| lost.add(*range, 1000));
        lost
    }

    #[test]
    fn what_is_lost_is_what_was_added_and_not_removed() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut lost, mut model) = (Lost::default(), [[false; 64]; 3]);
        for _ in 0..5000 {
            let (index, start, length, adds) = (next(3) as u32, next(60), next(5), next(2) == 0);
            let one = range(index, start, (start + length).min(64));
            if adds {
                lost.add(one, 64);
            } else {
                lost.remove(&one);
            }
            (one.start..one.end).for_each(|at| model[index as usize][at as usize] = adds);
            for (index, row) in (0..).zip(&model) {
                for (at, is_lost) in (0..).zip(row) {
                    assert_eq!(lost.overlaps(&range(index, at, at + 1)), *is_lost, "{lost:?}: byte {at} of datafile {index}");
                }
            }
            let bytes = postcard::to_stdvec(&lost).unwrap();
            assert_eq!(postcard::from_bytes::<Lost>(&bytes).unwrap(), lost);
        }
    }

    #[test]
    fn very_many_losses_are_covered_and_ranges_out_of_order_are_refused() {
        let many: Vec<LostRange> = (0..600).map(|n| range(n % 2, u64::from(n) * 10, u64::from(n) * 10 + 1)).collect();
        let lost = of(&many);
        assert!(lost.ranges().len() <= RANGES + 1);
        assert!(many.iter().all(|range| lost.overlaps(range)));
        for ranges in [vec![range(0, 5, 5)], vec![range(0, 5, 9), range(0, 9, 11)], vec![range(1, 0, 1), range(0, 0, 1)]] {
            let bytes = postcard::to_stdvec(&(ranges, 9_u64)).unwrap();
            assert!(postcard::from_bytes::<Lost>(&bytes).is_err());
        }
    }
}
