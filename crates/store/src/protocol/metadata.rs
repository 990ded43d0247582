//! What is said to the metadata service: names, attributes, layouts.
//!
//! A file or directory has a number that is never used again ([`FileId`]); the root's is 1. A *place* is a path that
//! starts at a directory of a known number, so that a mount can walk from where it is and a command from the root.

pub use super::checked::Name;
use super::common::BootVerifier;
pub use super::drafts::DraftEntry;
use super::locks::{LockOperation, LockReply};
pub use super::many::{NewFile, Small, SmallReply};
pub use super::numbers::{FileId, TargetId};
pub use super::page::{After, Detail};
pub use super::settled::{Closed, End, Lengths, Settled};
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
    /// A path, which whoever reads names follows; the service never does.
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
    /// Last change of content, as far as the service was told.
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
}

/// An I/O server of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEntry {
    /// Its name: `io0`.
    pub name: String,
    /// The label of the machine it is on.
    pub node: String,
    /// `HOST:PORT`.
    pub address: String,
}

/// A target of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetEntry {
    /// Its number, for good.
    pub target: TargetId,
    /// Its server: index into [`StoreMap::servers`].
    pub server: u32,
    /// Its directory on that server.
    pub directory: String,
}

/// Who is who in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreMap {
    /// The store's identity.
    pub store: u64,
    /// The I/O servers.
    pub servers: Vec<ServerEntry>,
    /// The targets, by number.
    pub targets: Vec<TargetEntry>,
}

impl StoreMap {
    /// A target and its server.
    pub fn target(&self, target: TargetId) -> Option<(&TargetEntry, &ServerEntry)> {
        let entry = &self.targets[self.targets.binary_search_by_key(&target, |t| t.target).ok()?];
        Some((entry, self.servers.get(entry.server as usize)?))
    }
}

/// A request to the metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataRequest {
    /// Files this client has closed since its last request: a removed file's datafiles stay while it is open, and its size is
    /// known again when its last writer has gone. At most [`crate::limits::CLOSED`].
    pub closed: Vec<Closed>,
    /// What is asked.
    pub operation: Operation,
}

/// What is asked of the metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// [`MetadataReply::Map`].
    StoreMap,
    /// Attributes of each place: [`MetadataReply::Many`], an error in place of those that are not there.
    Stat {
        /// Which.
        places: Vec<Place>,
        /// With sizes where the service can prove them.
        sizes: bool,
    },
    /// A page of a directory: [`MetadataReply::Page`].
    List {
        /// The directory.
        place: Place,
        /// Where it begins.
        after: After,
        /// Names in the page at most; the service has a bound of its own.
        most: u32,
        /// How much of each.
        detail: Detail,
        /// The client's number of this walk through the directory; 0 if no page of it will be asked for as [`After::Page`].
        walk: u32,
    },
    /// Makes a directory: [`MetadataReply::Attributes`].
    MakeDirectory {
        /// Which.
        place: Place,
        /// Owner and permissions.
        owner: Owner,
        /// Also those above it; one that is there already is no error then.
        parents: bool,
    },
    /// Makes an empty file and opens it for writing: [`MetadataReply::Attributes`].
    Create {
        /// Which.
        place: Place,
        /// Owner and permissions.
        owner: Owner,
        /// What to do when the name is taken by a file.
        existing: Existing,
        /// The layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Opens a file: [`MetadataReply::Attributes`].
    Open {
        /// Which.
        place: Place,
        /// Whether bytes of it may be changed: its size is not known here until this has ended.
        write: bool,
    },
    /// Says that these files are open: after the service has been away. [`MetadataReply::Opened`].
    Reopen {
        /// Which, and whether for writing.
        files: Vec<(FileId, bool)>,
    },
    /// Gives a file or directory another name: [`MetadataReply::Attributes`].
    Rename {
        /// Its name.
        from: Place,
        /// The file that must have this name; `None`: whichever has it. A copy finishes with its own file, and not
        /// with that of another copy that has taken its `.partial` name meanwhile.
        only: Option<FileId>,
        /// Its new one.
        to: Place,
        /// Whether an existing file or empty directory of the new name is replaced.
        replace: bool,
        /// Attributes that change with it: what a copy finishes with, in one round trip.
        set: SetAttributes,
    },
    /// Removes a file: [`MetadataReply::Done`].
    Unlink {
        /// Which.
        place: Place,
        /// The file that must have this name; `None`: whichever has it.
        only: Option<FileId>,
    },
    /// Removes an empty directory: [`MetadataReply::Done`].
    RemoveDirectory {
        /// Which.
        place: Place,
    },
    /// Changes attributes: [`MetadataReply::Attributes`].
    SetAttributes {
        /// Of what.
        place: Place,
        /// To what.
        set: SetAttributes,
    },
    /// Sets a file's size: [`MetadataReply::Done`] when every I/O server has done it.
    Truncate {
        /// Which.
        place: Place,
        /// Bytes.
        size_bytes: u64,
    },
    /// Puts everything answered so far on media: [`MetadataReply::Synced`].
    Sync,
    /// [`MetadataReply::Status`].
    Status,
    /// Makes an empty file and does not open it: [`MetadataReply::Attributes`].
    MakeFile {
        /// Which.
        place: Place,
        /// Owner and permissions.
        owner: Owner,
        /// What to do when the name is taken by a file.
        existing: Existing,
        /// The layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Makes a symbolic link, a named pipe, a socket or a device: [`MetadataReply::Attributes`].
    MakeNode {
        /// Which.
        place: Place,
        /// What.
        node: NewNode,
        /// Owner and permissions.
        owner: Owner,
    },
    /// Asks for a symbolic link's target: [`MetadataReply::Bytes`].
    ReadSymlink {
        /// Which.
        place: Place,
    },
    /// Gives a file one more name: [`MetadataReply::Attributes`].
    Link {
        /// The file.
        file: Place,
        /// Its new name.
        to: Place,
    },
    /// Two names exchange what they stand for, in one step: [`MetadataReply::Done`].
    Exchange {
        /// One.
        one: Place,
        /// The other.
        other: Place,
    },
    /// An extended attribute's value: [`MetadataReply::Value`].
    GetExtended {
        /// Of what.
        place: Place,
        /// Its name.
        name: Vec<u8>,
    },
    /// The names of all extended attributes: [`MetadataReply::ExtendedNames`].
    ListExtended {
        /// Of what.
        place: Place,
    },
    /// Sets an extended attribute: [`MetadataReply::Done`].
    SetExtended {
        /// Of what.
        place: Place,
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Whether it may or must be there already.
        how: SetExtended,
    },
    /// Removes an extended attribute: [`MetadataReply::Done`].
    RemoveExtended {
        /// Of what.
        place: Place,
        /// Its name.
        name: Vec<u8>,
    },
    /// Gives a file without bytes, which nobody has open, another layout: [`MetadataReply::Attributes`].
    Relayout {
        /// Which.
        place: Place,
        /// The layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Says that bytes were written to a file: [`MetadataReply::Attributes`].
    Written {
        /// Which.
        file: FileId,
        /// Where the last of them ends.
        size_bytes: u64,
    },
    /// About locks and turns; only on a connection that began with [`LockOperation::Hello`].
    Lock(LockOperation),
    /// Many at once, in order, each with its own outcome, in as few transactions as possible: [`MetadataReply::Each`]. One
    /// that fails does not stop the others.
    Many {
        /// What; at most [`crate::limits::MANY`].
        operations: Vec<Small>,
    },
    /// Files that copies have made and not finished: [`MetadataReply::Drafts`].
    Drafts {
        /// Those after this one.
        after: Option<FileId>,
    },
    /// Removes a draft whose maker is gone: [`MetadataReply::Done`].
    RemoveDraft {
        /// Which.
        file: FileId,
        /// For at least so long, by the service's clock.
        abandoned_for_ns: u64,
    },
}

impl Operation {
    /// Whether a file may be written after this was answered that was not before.
    pub(crate) fn begins_writing(&self) -> bool {
        match self {
            Operation::Create { .. } | Operation::MakeFile { .. } | Operation::Open { write: true, .. } | Operation::Reopen { .. } => true,
            Operation::Many { operations } => operations.iter().any(|one| matches!(one, Small::Create(_) | Small::MakeFile(_))),
            _ => false,
        }
    }
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
    /// It must not: [`crate::ErrorKind::Exists`].
    Create,
    /// It must: [`crate::ErrorKind::NoAttribute`].
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

/// Why one of many could not be had: errno and text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The errno.
    pub errno: i32,
    /// The text.
    pub message: String,
}

/// A reply of the metadata service.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and a file's attributes are what is mostly asked for")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataReply {
    /// It is done.
    Done,
    /// Who is who.
    Map(StoreMap),
    /// Of one file or directory.
    Attributes(Attributes),
    /// In the order asked; fewer than asked when a message does not hold more.
    Many(Vec<Result<Attributes, Refusal>>),
    /// A page of a directory.
    Page {
        /// In order of name, as bytes.
        #[serde(with = "super::page")]
        entries: Vec<DirectoryEntry>,
        /// Whether there are more.
        more: bool,
    },
    /// Which of the files are still there.
    Opened(Vec<FileId>),
    /// Everything answered before is on media, by this start of the service.
    Synced(BootVerifier),
    /// How the service is.
    Status(Status),
    /// A symbolic link's target.
    Bytes(Vec<u8>),
    /// An extended attribute's value, if there is such an attribute.
    Value(Option<Vec<u8>>),
    /// The names of extended attributes, in order.
    ExtendedNames(Vec<Vec<u8>>),
    /// About locks and turns.
    Lock(LockReply),
    /// What became of each of many operations, in their order. Fewer than asked when a message does not hold more: those
    /// without an outcome were not begun.
    Each(Vec<Result<SmallReply, Refusal>>),
    /// Drafts, in order of number, and whether there are more.
    Drafts {
        /// These.
        drafts: Vec<DraftEntry>,
        /// Whether there are more.
        more: bool,
    },
}

/// How the metadata service is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Bytes of the file system its database is on.
    pub size_bytes: u64,
    /// Bytes of it that are free.
    pub free_bytes: u64,
    /// Removals and truncations that I/O servers have not done yet.
    pub pending_intents: u64,
    /// Files open at clients.
    pub open_files: u64,
    /// Locked ranges.
    pub locks: u64,
    /// Requests that wait for locks.
    pub lock_waits: u64,
}
