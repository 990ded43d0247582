//! Files and directories, in the terms shared by all messages.
//!
//! A file or directory has a number that is never reused ([`FileId`]); the root's is 1. A [`FilePath`] starts at a directory of a
//! known number: a mount resolves from where it is, a command from the root.

use super::lost::Lost;
use super::names::Name;
use super::numbers::{FileId, LotId, TargetId};
use super::settled::Settled;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thalweg_layout::Spec;

/// A path relative to a directory. An empty path names the directory itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilePath {
    /// The directory where the path starts.
    pub from: FileId,
    /// Names separated by `/`. Bytes, not text.
    pub path: Vec<u8>,
}

impl FilePath {
    /// Makes a path from the root; a leading `/` is optional.
    pub fn at(path: impl AsRef<[u8]>) -> FilePath {
        FilePath { from: FileId::ROOT, path: path.as_ref().to_vec() }
    }

    /// Names the file or directory with this number.
    pub fn of(id: FileId) -> FilePath {
        FilePath { from: id, path: Vec::new() }
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file, striped over targets.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, resolved by clients, never by the service.
    Symlink,
    /// A named pipe: the store keeps only its name.
    Fifo,
    /// A socket: the store keeps only its name.
    Socket,
    /// A character device: the store keeps only its name and number.
    CharacterDevice,
    /// A block device: the store keeps only its name and number.
    BlockDevice,
}

/// A file's layout. Immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayout {
    /// The distribution, with its parameters' defaults filled in.
    pub spec: Spec,
    /// The target of each datafile, in order; the length is the number of datafiles.
    #[serde(deserialize_with = "super::checked::targets")]
    pub targets: Vec<TargetId>,
    /// The file's lot. The last field, so that rows without it can be read.
    pub lot: Option<LotId>,
}

/// The attributes of a file or directory at the metadata service. A file's size is on the I/O servers; the service knows it only
/// while the file cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Number.
    pub id: FileId,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits (12 bits).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory, 2 + its subdirectories.
    pub links: u32,
    /// Last read, ns since 1970 on the service's clock, like all times here. Set on request only.
    pub accessed_ns: i64,
    /// Last change of content of which the service was notified.
    pub modified_ns: i64,
    /// Last change of attributes or content.
    pub changed_ns: i64,
    /// Creation.
    pub created_ns: i64,
    /// Increases with every change the service makes.
    pub change: u64,
    /// A device's number; otherwise 0.
    pub device: u32,
    /// Length of a symbolic link's target; otherwise 0.
    pub target_bytes: u64,
    /// Bytes of the names and values of its extended attributes; 0: none.
    pub extended_bytes: u32,
    /// A symbolic link's target.
    pub target: Option<Vec<u8>>,
    /// A file's size at some moment between request and reply, if sizes were requested and the service can prove this size. `None`: ask the
    /// I/O servers.
    #[serde(deserialize_with = "super::checked::known_size")]
    pub size_bytes: Option<u64>,
    /// What the service knows of a file's datafiles: in replies with attributes, in pages with sizes, and when a file is opened.
    pub settled: Option<Settled>,
    /// Acknowledged bytes that are lost, until they are written again or the file is truncated.
    pub lost: Option<Box<Lost>>,
    /// A file's layout. Files of one page with equal layouts share it.
    pub layout: Option<Arc<FileLayout>>,
    /// A directory's default layout for new files.
    pub default_layout: Option<LayoutChoice>,
}

/// Which targets hold a new file's datafiles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Consecutive targets by number, from this one or a random one.
    RoundRobin {
        /// The target of the first datafile.
        first: Option<TargetId>,
    },
    /// These targets, one per datafile.
    Targets(Vec<TargetId>),
    /// Targets of servers on the writer's node, round-robin from a random one.
    Local,
}

/// The requested layout of a new file; fields left out come from its directory, then from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutChoice {
    /// Distribution and parameters.
    pub spec: Option<Spec>,
    /// Number of datafiles; default: what the distribution says, or one per target.
    pub datafiles: Option<u32>,
    /// Placement; default: round-robin from a random target.
    pub placement: Option<Placement>,
    /// The lot; default: the directory's. The last field, as in [`FileLayout`].
    pub lot: Option<LotId>,
}

/// An object to make that is neither file nor directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewNode {
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device of this number.
    CharacterDevice(u32),
    /// A block device of this number.
    BlockDevice(u32),
}

/// Whether an extended attribute to be set may, must or must not exist already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetExtended {
    /// It may exist.
    Either,
    /// It must not exist: [`crate::error::ErrorKind::Exists`].
    Create,
    /// It must exist: [`crate::error::ErrorKind::NoAttribute`].
    Replace,
}

/// What creating a file does if a file of its name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// Fail.
    Refuse,
    /// Replace it; the old file is removed.
    Replace,
    /// The new file is a copy's draft, renamed when complete. It replaces only another draft. The service remembers that it is a
    /// draft until it is renamed.
    Draft,
}

/// Ownership and permissions of a new file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Permission bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Attributes to change; `None`: unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of content.
    pub modified: Option<SetTime>,
    /// A directory's default layout; `Some(None)` removes it.
    pub default_layout: Option<Option<LayoutChoice>>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The service's current time.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Name,
    /// Number of the file or directory.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Its attributes, if requested.
    pub attributes: Option<Attributes>,
}

/// A file made by an unfinished copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftEntry {
    /// Number.
    pub file: FileId,
    /// Its directory and its name there.
    pub place: FilePath,
    /// Its path from the root, if the service can find it quickly.
    pub path: Option<Vec<u8>>,
    /// Its layout.
    pub layout: FileLayout,
    /// How long the client that made it has been gone, in ns; `None`: it is being written, or that client may come back.
    pub abandoned_for_ns: Option<u64>,
}
