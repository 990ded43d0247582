//! The bounds of files and layouts.

/// The largest file size, and so the largest end offset, in bytes. The last byte a file can have is at `MAX_OFFSET - 1`.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// The most datafiles a file can have. Bounds what a layout read from a peer can make us allocate.
pub(crate) const MAX_DATAFILES: u32 = 65_536;

/// The most strips a varstrip may name. Bounds what a layout read from a peer can make us allocate.
pub(crate) const MAX_STRIPS: usize = 65_536;
