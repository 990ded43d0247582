//! `basic_dist`: the whole file on one datafile. Logical and physical offsets are equal.

use crate::spec::Arguments;
use crate::{Distribution, Kind, LayoutError, MAX_OFFSET, Piece};

/// Description for the registry.
pub(super) const KIND: Kind = Kind { name: "basic_dist", summary: "the whole file on one datafile", parameters: &[] };

/// The whole file on one datafile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicDist;

pub(super) fn build(arguments: &Arguments<'_>) -> Result<BasicDist, LayoutError> {
    arguments.datafiles_exactly(1)?;
    Ok(BasicDist)
}

impl Distribution for BasicDist {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    #[inline]
    fn num_datafiles(&self) -> u32 {
        1
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Piece {
        Piece { datafile: 0, logical_offset: logical, physical_offset: logical, length: MAX_OFFSET - logical }
    }

    #[inline]
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64 {
        if datafile == 0 { logical } else { 0 }
    }

    #[inline]
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64> {
        (datafile == 0 && physical < MAX_OFFSET).then_some(physical)
    }
}
