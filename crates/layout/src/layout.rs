//! A layout as its users see it: made from a spec, turned into a spec and back, asked for pieces.

use std::ops::Range;

use crate::distributions;
use crate::segments::{FlowBuffers, Pieces};
use crate::{Distribution, Layout, LayoutError, MAX_OFFSET, Spec};

impl Layout {
    /// The layout of a new file: `spec` over `requested` datafiles (`None`: as many as the distribution says, or one on
    /// each target) when there are `available` targets.
    pub fn new(spec: &Spec, requested: Option<u32>, available: u32) -> Result<Layout, LayoutError> {
        distributions::build(spec, requested, available)
    }

    /// Name and parameters, defaults included. With the number of datafiles it makes an equal layout.
    pub fn spec(&self) -> Spec {
        let parameters = self.parameters().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Spec { name: self.name().to_owned(), parameters }
    }

    /// How many datafiles the file has.
    #[inline]
    pub fn num_datafiles(&self) -> u32 {
        Distribution::num_datafiles(self)
    }

    /// The sizes of all datafiles, in order, of a file of `file_size` bytes without holes: what truncate gives them.
    /// See [`Distribution::datafile_size`] for sparse files.
    pub fn datafile_sizes(&self, file_size: u64) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.num_datafiles()).map(move |datafile| self.datafile_size(datafile, file_size))
    }

    /// The bytes of `datafile` that a logical range has: always one physical range, empty when it has none.
    #[inline]
    pub fn physical_range(&self, datafile: u32, logical_offset: u64, length: u64) -> Range<u64> {
        let end = end_of(logical_offset, length);
        self.logical_to_physical(datafile, logical_offset)..self.logical_to_physical(datafile, end)
    }

    /// A logical range over all datafiles, in logical order.
    pub fn pieces(&self, logical_offset: u64, length: u64) -> Pieces<'_, Layout> {
        Pieces::new(self, logical_offset..end_of(logical_offset, length))
    }

    /// What of a logical range is on `datafile`, in physically contiguous flow buffers of at most `buffer_bytes` bytes
    /// (at least 1).
    pub fn flow_buffers(&self, datafile: u32, logical_offset: u64, length: u64, buffer_bytes: u64) -> FlowBuffers {
        FlowBuffers::new(datafile, self.physical_range(datafile, logical_offset, length), buffer_bytes)
    }
}

/// Ranges past the largest offset end there.
#[inline]
fn end_of(offset: u64, length: u64) -> u64 {
    offset.saturating_add(length).min(MAX_OFFSET)
}
