//! `simple_stripe`: strips of one size, round-robin over all datafiles.

use crate::divisor::Divisor;
use crate::spec::{Arguments, ParameterInfo, ParameterType};
use crate::{Distribution, Kind, LayoutError, MAX_OFFSET, Piece};

/// Description for the registry.
pub(super) const KIND: Kind = Kind {
    name: "simple_stripe",
    summary: "strips of one size, round-robin over all datafiles",
    parameters: &[ParameterInfo { name: "strip_size", kind: ParameterType::Int64, default: Some("65536"), summary: "bytes of a strip" }],
};

/// Strips of one size, round-robin over all datafiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleStripe {
    datafiles: u32,
    strip: Divisor,
    /// Bytes of one strip on every datafile.
    stripe: Divisor,
}

pub(super) fn build(arguments: &Arguments<'_>) -> Result<SimpleStripe, LayoutError> {
    let strip_size = arguments.size("strip_size")?;
    let datafiles = arguments.datafiles_requested()?;
    let stripe = arguments.product("strip_size × datafiles", &[strip_size, datafiles.into()])?;
    Ok(SimpleStripe { datafiles, strip: Divisor::new(strip_size), stripe: Divisor::new(stripe) })
}

impl Distribution for SimpleStripe {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("strip_size", self.strip.value().to_string())]
    }

    #[inline]
    fn num_datafiles(&self) -> u32 {
        self.datafiles
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Piece {
        let (row, in_stripe) = self.stripe.divide(logical);
        let (datafile, in_strip) = self.strip.divide(in_stripe);
        let to_strip_end = self.strip.value() - in_strip;
        let to_file_end = MAX_OFFSET - logical;
        Piece {
            datafile: datafile as u32,
            logical_offset: logical,
            physical_offset: row * self.strip.value() + in_strip,
            // With a single datafile every strip is adjacent to the next.
            length: if self.datafiles == 1 { to_file_end } else { to_strip_end.min(to_file_end) },
        }
    }

    #[inline]
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64 {
        if datafile >= self.datafiles {
            return 0;
        }
        let strip = self.strip.value();
        let (row, in_stripe) = self.stripe.divide(logical);
        row * strip + in_stripe.saturating_sub(u64::from(datafile) * strip).min(strip)
    }

    #[inline]
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64> {
        if datafile >= self.datafiles {
            return None;
        }
        let (row, in_strip) = self.strip.divide(physical);
        let in_stripe = u64::from(datafile) * self.strip.value() + in_strip;
        let logical = row.checked_mul(self.stripe.value())?.checked_add(in_stripe)?;
        (logical < MAX_OFFSET).then_some(logical)
    }
}
