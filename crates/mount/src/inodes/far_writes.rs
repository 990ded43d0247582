//! Writes so far into a file that the file system of a target may have no room for them in one datafile, however empty it is: ext4 ends at 16 TiB,
//! others at 2 TiB or at 2^63. A program hears of that when it writes, as it does on such a file system itself. Were such bytes answered for and
//! sent later, they would be lost, and their file be damaged.
//!
//! So the first write of a file past [`SURE_BYTES`] of a datafile is at its servers before it is answered, and what that proves is remembered: the
//! bounds of file systems lie just below a power of two, so that one write counts for all up to there. (Asking for the bound would be one more
//! message, and the answer another for each target.)

use std::collections::HashMap;
use thalweg_base::sync::Mutex;
use thalweg_layout::Layout;

/// A file of this size fits on every file system that a target can be on.
const SURE_BYTES: u64 = 1 << 40;
/// How far below a power of two a bound may lie.
const BELOW_BYTES: u64 = 64 << 10;

/// Up to where datafiles of a file are known to reach.
#[derive(Debug, Default)]
pub(crate) struct FarWrites(Mutex<HashMap<u32, u64>>);

/// The ends of a write in datafiles of which it is not known whether they can be so long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unproven(Vec<(u32, u64)>);

impl FarWrites {
    /// What a write has to prove; `None`: nothing.
    pub(crate) fn unproven(&self, layout: &Layout, offset: u64, length: u64) -> Option<Unproven> {
        // A byte is nowhere further into a datafile than into the file.
        if offset.saturating_add(length) <= SURE_BYTES {
            return None;
        }
        let known = self.0.lock();
        let ends = (0..layout.num_datafiles()).map(|datafile| (datafile, layout.physical_range(datafile, offset, length)));
        let ends = ends.filter(|(_, range)| !range.is_empty()).map(|(datafile, range)| (datafile, range.end));
        let ends: Vec<_> = ends.filter(|(datafile, end)| *end > *known.get(datafile).unwrap_or(&SURE_BYTES)).collect();
        (!ends.is_empty()).then_some(Unproven(ends))
    }

    /// The write has arrived.
    pub(crate) fn proven(&self, Unproven(ends): Unproven) {
        let mut known = self.0.lock();
        for (datafile, end) in ends {
            let bound = end.checked_next_power_of_two().map_or(end, |power| power - BELOW_BYTES);
            let reaches = known.entry(datafile).or_default();
            *reaches = (*reaches).max(end).max(bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::Spec;

    #[test]
    fn a_far_write_is_proven_once_for_all_below_the_next_bound_and_again_beside_it() {
        const TI: u64 = 1 << 40;
        let layout = Layout::new(&Spec::new("simple_stripe").with("strip_size", 65_536), Some(2), 2).unwrap();
        let far = FarWrites::default();
        assert_eq!(far.unproven(&layout, 0, TI), None);
        assert_eq!(far.unproven(&layout, TI, 1 << 20), None, "half of it is in each datafile");
        let first = far.unproven(&layout, 6 * TI, 10).unwrap();
        assert_eq!(first, Unproven(vec![(0, 3 * TI + 10)]));
        far.proven(first);
        assert_eq!(far.unproven(&layout, 6 * TI, 65_536), None);
        assert_eq!(far.unproven(&layout, 8 * TI - (1 << 20), 10), None);
        assert!(far.unproven(&layout, 6 * TI + 65_536, 10).is_some(), "another target");
        assert!(far.unproven(&layout, 8 * TI - 131_072, 10).is_some() && far.unproven(&layout, 8 * TI, 10).is_some(), "beside a bound");
        assert!(far.unproven(&layout, i64::MAX as u64 - 1, 1).is_some());
    }
}
