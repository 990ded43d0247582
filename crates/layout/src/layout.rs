//! The methods of a layout: making one from a spec, converting it back, and cutting ranges into pieces.

use std::ops::Range;

use crate::distributions;
use crate::segments::{FlowBuffers, Pieces};
use crate::{Distribution, Layout, LayoutError, MAX_OFFSET, Spec};

impl Layout {
    /// Makes the layout of a new file: `spec` over `requested` datafiles (`None`: as many as the distribution says, or one per
    /// target), with `available` targets.
    pub fn new(spec: &Spec, requested: Option<u32>, available: u32) -> Result<Layout, LayoutError> {
        distributions::build(spec, requested, available)
    }

    /// Returns name and parameters, defaults included. With the number of datafiles it reproduces the layout.
    pub fn spec(&self) -> Spec {
        let parameters = self.parameters().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Spec { name: self.name().to_owned(), parameters }
    }

    /// Returns the number of datafiles.
    #[inline]
    pub fn num_datafiles(&self) -> u32 {
        Distribution::num_datafiles(self)
    }

    /// Returns the sizes of all datafiles, in order, for a file of `file_size` bytes without holes: their sizes after truncate.
    /// See [`Distribution::datafile_size`] for sparse files.
    pub fn datafile_sizes(&self, file_size: u64) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.num_datafiles()).map(move |datafile| self.datafile_size(datafile, file_size))
    }

    /// Returns the part of a logical range on `datafile`: always one physical range, possibly empty.
    #[inline]
    pub fn physical_range(&self, datafile: u32, logical_offset: u64, length: u64) -> Range<u64> {
        let end = end_of(logical_offset, length);
        self.logical_to_physical(datafile, logical_offset)..self.logical_to_physical(datafile, end)
    }

    /// Cuts a logical range into pieces, in logical order.
    pub fn pieces(&self, logical_offset: u64, length: u64) -> Pieces<'_, Layout> {
        Pieces::new(self, logical_offset..end_of(logical_offset, length))
    }

    /// Cuts the part of a logical range on `datafile` into physically contiguous flow buffers of at most `buffer_bytes` bytes (at
    /// least 1).
    pub fn flow_buffers(&self, datafile: u32, logical_offset: u64, length: u64, buffer_bytes: u64) -> FlowBuffers {
        FlowBuffers::new(datafile, self.physical_range(datafile, logical_offset, length), buffer_bytes)
    }
}

/// Returns the end of a range, clamped to the largest offset.
#[inline]
fn end_of(offset: u64, length: u64) -> u64 {
    offset.saturating_add(length).min(MAX_OFFSET)
}
