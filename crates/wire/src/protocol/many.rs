//! Many operations in one request to the metadata service.

use super::files::{Attributes, Existing, LayoutChoice, NewNode, Owner, Place, SetAttributes};
use super::numbers::FileId;
use serde::{Deserialize, Serialize};

/// One of many operations in one request; each is as the [`super::metadata::Operation`] of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Small {
    /// Makes an empty file and opens it for writing.
    Create(NewFile),
    /// Makes an empty file and does not open it.
    MakeFile(NewFile),
    MakeDirectory {
        place: Place,
        owner: Owner,
        parents: bool,
    },
    Unlink {
        place: Place,
        only: Option<FileId>,
    },
    RemoveDirectory {
        place: Place,
    },
    Rename {
        from: Place,
        only: Option<FileId>,
        to: Place,
        replace: bool,
        set: SetAttributes,
    },
    SetAttributes {
        place: Place,
        set: SetAttributes,
    },
    Written {
        file: FileId,
        size_bytes: u64,
    },
    Stat {
        place: Place,
        sizes: bool,
    },
    /// Makes a symbolic link, a named pipe, a socket or a device.
    MakeNode {
        place: Place,
        node: NewNode,
        owner: Owner,
    },
}

/// A file to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Which.
    pub place: Place,
    /// Owner and permissions.
    pub owner: Owner,
    /// What to do when the name is taken by a file.
    pub existing: Existing,
    /// The layout.
    pub layout: LayoutChoice,
    /// The client's node, for [`super::metadata::Placement::Local`].
    pub node: String,
}

/// What became of a [`Small`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "most are the large one, in one list")]
pub enum SmallReply {
    /// It is done.
    Done,
    /// Of what was made, changed, or asked for.
    Attributes(Attributes),
}
