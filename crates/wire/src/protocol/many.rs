//! Batches of operations in one request to the metadata service.

use super::files::{Attributes, Existing, FilePath, LayoutChoice, NewNode, Owner, SetAttributes};
use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// One operation of a batch, equivalent to the [`super::metadata::Operation`] of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Small {
    /// Makes an empty file and opens it for writing.
    Create(NewFile),
    /// Makes an empty file without opening it.
    MakeFile(NewFile),
    MakeDirectory {
        place: FilePath,
        owner: Owner,
        parents: bool,
    },
    Unlink {
        place: FilePath,
        only: Option<FileId>,
    },
    RemoveDirectory {
        place: FilePath,
    },
    Rename {
        from: FilePath,
        only: Option<FileId>,
        to: FilePath,
        replace: bool,
        set: SetAttributes,
    },
    SetAttributes {
        place: FilePath,
        set: SetAttributes,
    },
    Written {
        file: FileId,
        size_bytes: u64,
    },
    Stat {
        place: FilePath,
        sizes: bool,
    },
    /// Makes a symbolic link, a named pipe, a socket or a device.
    MakeNode {
        place: FilePath,
        node: NewNode,
        owner: Owner,
    },
}

/// A file to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Path.
    pub place: FilePath,
    /// Owner and permissions.
    pub owner: Owner,
    /// What to do if a file of this name exists.
    pub existing: Existing,
    /// The layout.
    pub layout: LayoutChoice,
    /// The client's node, for [`super::metadata::Placement::Local`].
    pub node: String,
}

/// The result of a [`Small`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "most are the large one, in one list")]
pub enum SmallReply {
    /// Done.
    Done,
    /// Attributes of the object made, changed or asked for.
    Attributes(Attributes),
}
