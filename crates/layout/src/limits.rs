//! Limits of files and layouts.

/// The largest file size, and the largest end offset, in bytes. The last byte a file can have is at `MAX_OFFSET - 1`.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// Maximum datafiles of a file. Bounds the memory that a layout from a peer can make us allocate.
pub(crate) const MAX_DATAFILES: u32 = 65_536;

/// Maximum strips of a varstrip. Bounds the memory that a layout from a peer can make us allocate.
pub(crate) const MAX_STRIPS: usize = 65_536;
