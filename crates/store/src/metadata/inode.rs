//! Inodes, directory entries and intents as the database holds them.
//!
//! A value begins with the version of its encoding, so that one can be read while another is written;
//! the rest is postcard. Enums only ever gain members at their end.

use super::database::{DatabaseError, Table};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::metadata::{Attributes, FileId, FileKind, FileLayout, LayoutChoice, Owner, TargetId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub accessed_ns: i64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub created_ns: i64,
    pub change: u64,
    pub node: Node,
}

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Node {
    File(FileLayout),
    Directory {
        /// The directory it is in; the root's is itself.
        parent: FileId,
        default_layout: Option<LayoutChoice>,
    },
    /// Room in the format; nothing makes one.
    Symlink(Vec<u8>),
}

impl Inode {
    pub fn new(node: Node, owner: Owner, now_ns: i64) -> Inode {
        let links = if matches!(node, Node::Directory { .. }) { 2 } else { 1 };
        Inode {
            mode: owner.mode & 0o7777,
            uid: owner.uid,
            gid: owner.gid,
            links,
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
            created_ns: now_ns,
            change: 1,
            node,
        }
    }

    pub fn kind(&self) -> FileKind {
        match self.node {
            Node::File(_) => FileKind::File,
            Node::Directory { .. } => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
        }
    }

    /// Notes that its content changed.
    pub fn modified(&mut self, now_ns: i64) {
        self.modified_ns = now_ns;
        self.changed(now_ns);
    }

    /// Notes that its attributes changed.
    pub fn changed(&mut self, now_ns: i64) {
        self.changed_ns = now_ns;
        self.change += 1;
    }

    pub fn attributes(self, id: FileId) -> Attributes {
        let kind = self.kind();
        let (layout, default_layout) = match self.node {
            Node::File(layout) => (Some(layout), None),
            Node::Directory { default_layout, .. } => (None, default_layout),
            Node::Symlink(_) => (None, None),
        };
        Attributes {
            id,
            kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            links: self.links,
            accessed_ns: self.accessed_ns,
            modified_ns: self.modified_ns,
            changed_ns: self.changed_ns,
            created_ns: self.created_ns,
            change: self.change,
            layout,
            default_layout,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub id: FileId,
    pub kind: FileKind,
}

/// What the service has promised and the I/O servers have not all done yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intent {
    /// The file's datafiles go.
    Remove {
        /// Where they are.
        targets: Vec<TargetId>,
    },
    /// The file's datafiles get the sizes that they have in a file of this size.
    Truncate {
        /// Bytes.
        size_bytes: u64,
        /// The file's layout.
        layout: FileLayout,
    },
}

/// Key of an inode or intent.
pub(super) fn id_key(id: FileId) -> [u8; 8] {
    id.0.to_be_bytes()
}

/// The number in a key.
pub(super) fn id_of(key: &[u8]) -> Option<FileId> {
    Some(FileId(u64::from_be_bytes(key.get(..8)?.try_into().ok()?)))
}

/// Key of a directory entry.
pub(super) fn entry_key(parent: FileId, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&id_key(parent));
    key.extend_from_slice(name);
    key
}

/// A value.
pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("plain values always encode")
}

/// From a value.
pub(super) fn decode<T: DeserializeOwned>(table: Table, key: &[u8], value: &[u8]) -> Result<T> {
    let decoded = match value.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).ok(),
        _ => None,
    };
    decoded.ok_or_else(|| {
        Error::new(
            ErrorKind::Io,
            format!(
                "the metadata database has a row that this program cannot read (table {}, key {}, version {}): use the program that wrote it",
                table.name(),
                key.iter().map(|b| format!("{b:02x}")).collect::<String>(),
                value.first().map_or(-1, |v| i32::from(*v)),
            ),
        )
    })
}

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Error {
        let kind = if error.full { ErrorKind::NoSpace } else { ErrorKind::Io };
        Error::new(kind, error.to_string())
    }
}
