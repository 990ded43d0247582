//! The trait of a distribution: five answers from which all others follow.
//!
//! The methods are PVFS2's. A distribution gives the piece at an offset, the rank of an offset on a datafile, and the inverse
//! mapping; file size and truncate are then the same code for every distribution, correct for sparse files too, because they rest
//! on the rank contract alone (see the crate's page).

use std::fmt;

use crate::{LayoutError, MAX_OFFSET};

/// Bytes that are contiguous both in the file and on one datafile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index of the datafile, from 0.
    pub datafile: u32,
    /// Offset in the file, in bytes.
    pub logical_offset: u64,
    /// Offset in the datafile, in bytes.
    pub physical_offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A distribution function with its parameters, for a fixed number of datafiles.
///
/// Offsets are at most [`MAX_OFFSET`]; [`crate::Layout`] enforces this for offsets from outside. No method allocates, except
/// those that return text.
pub trait Distribution: fmt::Debug + Send + Sync {
    /// Returns the registered name, as in a [`crate::Spec`].
    fn name(&self) -> &'static str;

    /// Returns every parameter with its value as text, defaults included, in order of registration. A layout made from them is
    /// equal to this one.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// Returns the number of datafiles.
    fn num_datafiles(&self) -> u32;

    /// Returns the piece that starts at `logical`. It ends with the strip, or later where strips of one datafile are adjacent;
    /// never past [`MAX_OFFSET`].
    fn piece_at(&self, logical: u64) -> Piece;

    /// Returns the rank of `logical` on `datafile`: how many of the datafile's bytes have a logical offset below `logical`. If
    /// the byte at `logical` is on `datafile`, its rank is its physical offset. 0 for a nonexistent datafile.
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64;

    /// Returns the logical offset of the byte at `physical` on `datafile`. `None`: at or past [`MAX_OFFSET`], or no such
    /// datafile.
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64>;

    /// Returns the file's size, given the sizes of all its datafiles in bytes (0 for a missing one): the largest mapped end,
    /// which is correct for sparse files too.
    fn logical_file_size(&self, datafile_sizes: &[u64]) -> Result<u64, LayoutError> {
        let datafiles = self.num_datafiles();
        if datafile_sizes.len() != datafiles as usize {
            let what = format!("{} datafile sizes given: expected {datafiles}", datafile_sizes.len());
            return Err(LayoutError::Sizes { distribution: self.name(), what });
        }
        let mut size = 0;
        for (datafile, &bytes) in (0..datafiles).zip(datafile_sizes) {
            let Some(last) = bytes.checked_sub(1) else { continue };
            let last_logical = self.physical_to_logical(datafile, last).ok_or_else(|| LayoutError::Sizes {
                distribution: self.name(),
                what: format!("datafile {datafile} has {bytes} bytes: the file would be larger than {MAX_OFFSET} bytes"),
            })?;
            size = size.max(last_logical + 1);
        }
        Ok(size)
    }

    /// Returns the size of `datafile` in a file of `file_size` bytes without holes: its size after truncate.
    ///
    /// A shorter datafile may stay shorter, except the one with the file's last byte: it alone must have its full size for
    /// [`Distribution::logical_file_size`] to be `file_size`.
    #[inline]
    fn datafile_size(&self, datafile: u32, file_size: u64) -> u64 {
        self.logical_to_physical(datafile, file_size)
    }
}
