//! Writes at offsets so large that a target's file system may not support them in one datafile, however empty it is: ext4's limit is 16
//! TiB, others' 2 TiB or 2^63. The program gets an error from the write, as on such a file system itself. If the write were acknowledged
//! and sent later, its bytes would be lost and the file damaged.
//!
//! So the first write of a file beyond [`SURE_BYTES`] of a datafile is acknowledged only once at its servers, and success is remembered:
//! file systems' limits lie just below a power of two, so one write proves all offsets up to there. (Asking for the limit would take
//! another message, with a different answer for each target.)

use std::collections::HashMap;
use thalweg_base::sync::Mutex;
use thalweg_layout::Layout;

/// Datafile size that every suitable file system supports.
const SURE_BYTES: u64 = 1 << 40;
/// Maximum distance of a limit below a power of two.
const BELOW_BYTES: u64 = 64 << 10;

/// Proven sizes of a file's datafiles.
#[derive(Debug, Default)]
pub(crate) struct FarWrites(Mutex<HashMap<u32, u64>>);

/// Ends of a write in datafiles that are not proven to be possible.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unproven(Vec<(u32, u64)>);

impl FarWrites {
    /// Returns what a write must prove; `None`: nothing.
    pub(crate) fn unproven(&self, layout: &Layout, offset: u64, length: u64) -> Option<Unproven> {
        // An offset in a datafile is never larger than that in the file.
        if offset.saturating_add(length) <= SURE_BYTES {
            return None;
        }
        let known = self.0.lock();
        let ends = (0..layout.num_datafiles()).map(|datafile| (datafile, layout.physical_range(datafile, offset, length)));
        let ends = ends.filter(|(_, range)| !range.is_empty()).map(|(datafile, range)| (datafile, range.end));
        let ends: Vec<_> = ends.filter(|(datafile, end)| *end > *known.get(datafile).unwrap_or(&SURE_BYTES)).collect();
        (!ends.is_empty()).then_some(Unproven(ends))
    }

    /// Records that the write has arrived.
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
