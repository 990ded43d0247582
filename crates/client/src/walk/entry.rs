//! What a walk gives its reader.

use std::time::Instant;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Attributes, FileId, FileKind};

/// One name of a directory.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    /// The name: bytes, not text. What was listed is a [`thalweg_wire::protocol::metadata::Name`].
    pub name: Vec<u8>,
    /// What it stands for.
    pub id: FileId,
    /// What that is.
    pub kind: FileKind,
    /// Its attributes, where they were asked for.
    pub attributes: Option<Attributes>,
    /// A file's size, or why it could not be had. `None`: not asked for, or no file.
    pub size: Option<Result<Size>>,
    /// When the oldest request was sent whose answer is in here: what is known is of no earlier moment.
    pub asked: Instant,
}

/// How large a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// End of its last byte, at some moment between the question and the answer.
    pub size_bytes: u64,
    /// Space that its datafiles take; only the I/O servers know.
    pub allocated_bytes: Option<u64>,
    /// Who said so.
    pub from: SizeFrom,
}

/// Who said how large a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFrom {
    /// The metadata service, which could prove it.
    Metadata,
    /// The I/O servers of its datafiles.
    Glimpse,
}

/// What is known of one file or directory.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its attributes.
    pub attributes: Attributes,
    /// A file's size; `None`: not asked for, or no file.
    pub size: Option<Size>,
    /// When the oldest request was sent whose answer is in here.
    pub asked: Instant,
}
