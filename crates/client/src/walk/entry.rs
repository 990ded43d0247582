//! The results of a walk.

use std::time::Instant;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Attributes, FileId, FileKind};

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// Name: bytes, not text. A listed name is a valid [`thalweg_wire::protocol::metadata::Name`].
    pub name: Vec<u8>,
    /// Number of the file or directory.
    pub id: FileId,
    /// Type of the entry.
    pub kind: FileKind,
    /// Attributes, if requested.
    pub attributes: Option<Attributes>,
    /// A file's size, or the error from determining it. `None`: not requested, or not a file.
    pub size: Option<Result<Size>>,
    /// Time of the oldest request whose answer is included: the data is not older.
    pub asked: Instant,
}

/// Size of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// End of its last byte, at some time between request and answer.
    pub size_bytes: u64,
    /// Space allocated to its datafiles, known only if the I/O servers were asked.
    pub allocated_bytes: Option<u64>,
    /// Source of the size.
    pub from: SizeFrom,
}

/// Source of a file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFrom {
    /// The metadata service, which could prove it.
    Metadata,
    /// The I/O servers of its datafiles.
    Glimpse,
}

/// Attributes and size of one file or directory.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// Attributes.
    pub attributes: Attributes,
    /// A file's size; `None`: not requested, or not a file.
    pub size: Option<Size>,
    /// Time of the oldest request whose answer is included.
    pub asked: Instant,
}
