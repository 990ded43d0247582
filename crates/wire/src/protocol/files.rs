//! Files and directories, as all messages speak of them.
//!
//! A file or directory has a number that is never used again ([`FileId`]); the root's is 1. A *place* is a path that
//! starts at a directory of a known number, so that a mount can walk from where it is and a command from the root.

use super::lost::Lost;
use super::names::Name;
use super::numbers::{FileId, LotId, TargetId};
use super::settled::Settled;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thalweg_layout::Spec;

/// A path from a directory. An empty path is the directory itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Where the path starts.
    pub from: FileId,
    /// Names separated by `/`. Bytes, not text.
    pub path: Vec<u8>,
}

impl Place {
    /// A path from the root; a leading `/` may be left out.
    pub fn at(path: impl AsRef<[u8]>) -> Place {
        Place { from: FileId::ROOT, path: path.as_ref().to_vec() }
    }

    /// The file or directory of this number.
    pub fn of(id: FileId) -> Place {
        Place { from: id, path: Vec::new() }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// Bytes, striped over targets.
    File,
    /// Names.
    Directory,
    /// A path, which readers of names follow; the service never does.
    Symlink,
    /// A named pipe: only its name is here.
    Fifo,
    /// A socket: only its name is here.
    Socket,
    /// A character device: only its name and number are here.
    CharacterDevice,
    /// A block device: only its name and number are here.
    BlockDevice,
}

/// How a file is laid out. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayout {
    /// The distribution, its parameters' defaults included.
    pub spec: Spec,
    /// The target of each datafile, in order; their number is the number of datafiles.
    #[serde(deserialize_with = "super::checked::targets")]
    pub targets: Vec<TargetId>,
    /// The lot that it is in. The last field, so that a row that has none can be read.
    pub lot: Option<LotId>,
}

/// What is known of a file or directory at the metadata service. A file's size is at the I/O servers; the service knows it only
/// while nobody can be changing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits (12 bits).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names it has; a directory: 2 + its subdirectories.
    pub links: u32,
    /// Last read, nanoseconds since 1970 on the service's clock, as all times here. Set only on request.
    pub accessed_ns: i64,
    /// Last change of content, as far as the service was notified.
    pub modified_ns: i64,
    /// Last change of attributes or content.
    pub changed_ns: i64,
    /// Made.
    pub created_ns: i64,
    /// Grows with every change the service makes.
    pub change: u64,
    /// A device's number, as its maker gave it; otherwise 0.
    pub device: u32,
    /// Length of a symbolic link's target; otherwise 0.
    pub target_bytes: u64,
    /// Bytes of names and values of its extended attributes: 0 says that it has none.
    pub extended_bytes: u32,
    /// What a symbolic link points to.
    pub target: Option<Vec<u8>>,
    /// A file's size, where sizes were asked for and the service can prove it: the size that the file had at some moment
    /// between the question and the answer. `None`: the I/O servers know.
    #[serde(deserialize_with = "super::checked::known_size")]
    pub size_bytes: Option<u64>,
    /// What the service can say of a file's datafiles: in answers about attributes, in pages with sizes, and when it is opened.
    pub settled: Option<Settled>,
    /// What of a file's bytes was acknowledged and is lost, until it is written again or the file is truncated.
    pub lost: Option<Box<Lost>>,
    /// A file's layout. Files of one page that are laid out alike share it.
    pub layout: Option<Arc<FileLayout>>,
    /// A directory's default for files created in it.
    pub default_layout: Option<LayoutChoice>,
}

/// Which targets a new file's datafiles go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Target after target, in order of number, from this one or from a random one.
    RoundRobin {
        /// The first datafile's target.
        first: Option<TargetId>,
    },
    /// These, one for each datafile.
    Targets(Vec<TargetId>),
    /// Targets of servers on the writer's node, round-robin from a random one.
    Local,
}

/// What is asked of a new file's layout; what is left out comes from its directory, then from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutChoice {
    /// Distribution and parameters.
    pub spec: Option<Spec>,
    /// How many datafiles; otherwise what the distribution says, or one on each target.
    pub datafiles: Option<u32>,
    /// Where they go; otherwise round-robin from a random target.
    pub placement: Option<Placement>,
    /// The lot that it is in; otherwise its directory's. The last field, as in [`FileLayout`].
    pub lot: Option<LotId>,
}

/// What is made besides files and directories.
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

/// Whether an extended attribute that is set may or must be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetExtended {
    /// It may.
    Either,
    /// It must not: [`crate::error::ErrorKind::Exists`].
    Create,
    /// It must: [`crate::error::ErrorKind::NoAttribute`].
    Replace,
}

/// What a new file does to an old one of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// Fails.
    Refuse,
    /// Takes its name; the old one is removed.
    Replace,
    /// The new file is the draft of a copy, which renames it when it is whole. It takes the place of another draft and of nothing
    /// else. The service remembers that it is one until it has another name.
    Draft,
}

/// Who owns a new file or directory, and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Permission bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Attributes to change; `None`: as it is.
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
    /// A directory's default layout; `Some(None)` takes it away.
    pub default_layout: Option<Option<LayoutChoice>>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The service's now.
    Now,
    /// Nanoseconds since 1970.
    At(i64),
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Name,
    /// What it stands for.
    pub id: FileId,
    /// What that is.
    pub kind: FileKind,
    /// Its attributes, where they were asked for.
    pub attributes: Option<Attributes>,
}

/// A file that a copy has made and not finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftEntry {
    /// Its number.
    pub file: FileId,
    /// Its directory and its name there.
    pub place: Place,
    /// Its path from the root, if that was quick to find.
    pub path: Option<Vec<u8>>,
    /// Its layout.
    pub layout: FileLayout,
    /// For how long its maker has been gone; `None`: it is being written, or its maker may come back.
    pub abandoned_for_ns: Option<u64>,
}
