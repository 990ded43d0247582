//! What a distribution is: five answers from which all others follow.
//!
//! The methods are PVFS2's. A distribution gives the piece an offset lies in, the rank of an offset on a datafile, and
//! the way back; file size and truncate are then the same code for every distribution, right for sparse files too, because
//! they rest on the rank contract alone (see the crate's page).

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
/// Offsets are at most [`MAX_OFFSET`]; [`crate::Layout`] sees to it for what comes from outside. No method allocates,
/// except those that make text.
pub trait Distribution: fmt::Debug + Send + Sync {
    /// The registered name, as in a [`crate::Spec`].
    fn name(&self) -> &'static str;

    /// Every parameter with its value as text, defaults included, in the order of registration. Making a layout from
    /// them gives an equal one.
    fn parameters(&self) -> Vec<(&'static str, String)>;

    /// How many datafiles the file has.
    fn num_datafiles(&self) -> u32;

    /// The datafile and physical offset of the byte at `logical`, and how many bytes from there on are contiguous on
    /// both sides: to the strip's end, or further where strips of one datafile adjoin. Never past [`MAX_OFFSET`].
    fn piece_at(&self, logical: u64) -> Piece;

    /// The rank of `logical` on `datafile`: the number of bytes of it whose logical offset is below `logical`. Where
    /// the byte at `logical` is on `datafile`, this is its physical offset. 0 for a datafile there is not.
    fn logical_to_physical(&self, datafile: u32, logical: u64) -> u64;

    /// The logical offset of the byte at `physical` on `datafile`. `None` when it would be at or past [`MAX_OFFSET`],
    /// or there is no such datafile.
    fn physical_to_logical(&self, datafile: u32, physical: u64) -> Option<u64>;

    /// The file's size, from the sizes of all its datafiles in bytes (0 for one that does not exist yet): the largest
    /// mapped end, which is right for sparse files too.
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

    /// The size datafile `datafile` has in a file of `file_size` bytes without holes: what truncate gives it.
    ///
    /// A datafile that is shorter already may stay so, except the one that holds the file's last byte: it alone must
    /// have its full size for [`Distribution::logical_file_size`] to be `file_size`.
    #[inline]
    fn datafile_size(&self, datafile: u32, file_size: u64) -> u64 {
        self.logical_to_physical(datafile, file_size)
    }
}
