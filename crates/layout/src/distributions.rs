//! The list of distributions. To add one, add a file in `distributions/` and a line in the list below.
//!
//! [`Layout`] dispatches with `match` rather than a trait object: a mapping takes a few nanoseconds, and is inlined into the
//! iterators this way.

use crate::error::shortened;
use crate::spec::Arguments;
use crate::{Distribution, Kind, LayoutError, MAX_OFFSET, Piece, Spec};

macro_rules! distributions {
    ($($module:ident :: $type:ident,)*) => {
        $(mod $module;)*
        $(use $module::$type;)*

        /// A file's layout: a distribution with its parameters and number of datafiles. Immutable.
        ///
        /// Cheap to clone; made by [`Layout::new`].
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Layout {
            $(#[allow(missing_docs)] $type($type),)*
        }

        /// Returns a description of every registered distribution, in order of registration.
        pub fn kinds() -> &'static [Kind] {
            const KINDS: &[Kind] = &[$($module::KIND,)*];
            KINDS
        }

        /// Makes a layout of the distribution named in `spec`.
        pub(crate) fn build(spec: &Spec, requested: Option<u32>, available: u32) -> Result<Layout, LayoutError> {
            let arguments = |kind| Arguments::new(kind, spec, requested, available);
            match spec.name.as_str() {
                $(name if name == $module::KIND.name => $module::build(&arguments(&$module::KIND)?).map(Layout::$type),)*
                name => Err(LayoutError::UnknownDistribution {
                    name: shortened(name),
                    known: kinds().iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "),
                }),
            }
        }

        macro_rules! dispatch {
            ($layout:expr, $distribution:ident => $answer:expr) => {
                match $layout { $(Layout::$type($distribution) => $answer,)* }
            };
        }
    };
}

distributions! {
    basic_dist::BasicDist,
    simple_stripe::SimpleStripe,
    varstrip_dist::VarstripDist,
    twod_stripe::TwodStripe,
}

impl Distribution for Layout {
    fn name(&self) -> &'static str {
        dispatch!(self, distribution => distribution.name())
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        dispatch!(self, distribution => distribution.parameters())
    }

    #[inline]
    fn num_datafiles(&self) -> u32 {
        dispatch!(self, distribution => distribution.num_datafiles())
    }

    #[inline]
    fn piece_at(&self, logical: u64) -> Piece {
        dispatch!(self, distribution => distribution.piece_at(logical.min(MAX_OFFSET)))
    }

    #[inline]
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64 {
        dispatch!(self, distribution => distribution.logical_to_physical(datafile, logical.min(MAX_OFFSET)))
    }

    #[inline]
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64> {
        dispatch!(self, distribution => distribution.physical_to_logical(datafile, physical.min(MAX_OFFSET)))
    }
}
