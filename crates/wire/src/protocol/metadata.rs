//! Requests to the metadata service: names, attributes, layouts.

pub use super::common::Refusal;
use super::common::{BootVerifier, Witnessed};
use super::credentials::{CredentialBook, CredentialOperation, Revoked};
pub use super::files::{
    Attributes, DirectoryEntry, DraftEntry, Existing, FileKind, FileLayout, FilePath, LayoutChoice, NewNode, Owner, Placement,
    SetAttributes, SetExtended, SetTime,
};
use super::locks::{LockOperation, LockReply};
pub use super::lost::{Lost, LostRange};
use super::lots::{LotOperation, LotReport};
pub use super::many::{NewFile, Small, SmallReply};
pub use super::map::{ServerEntry, StoreMap, TargetEntry};
pub use super::names::Name;
pub use super::numbers::{FileId, LotId, RequestNumber, TargetId};
pub use super::page::{After, Detail};
pub use super::settled::{Closed, End, Lengths, Settled};
use serde::{Deserialize, Serialize};

/// A request to the metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataRequest {
    /// Files this client has closed since its last request: a removed file's datafiles stay while it is open, and its size
    /// becomes known again when its last writer closes it. At most [`crate::limits::CLOSED`].
    pub closed: Vec<Closed>,
    /// The directory whose attributes after the change the client wants: [`MetadataReply::Changed`].
    pub directory: Option<FileId>,
    /// Number by which the service recognises a retry and executes the request only once; `None`: the request is not retried.
    pub number: Option<RequestNumber>,
    /// The operation.
    pub operation: Operation,
}

impl MetadataRequest {
    /// Makes a request that is not retried and reports no closed files.
    pub fn of(operation: Operation) -> MetadataRequest {
        MetadataRequest { closed: Vec::new(), directory: None, number: None, operation }
    }
}

/// An operation of the metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Reads the store map: [`MetadataReply::Map`].
    StoreMap,
    /// Reads attributes: [`MetadataReply::Many`], with an error for each place that does not exist.
    Stat {
        /// The files and directories.
        places: Vec<FilePath>,
        /// Include sizes where the service can prove them.
        sizes: bool,
    },
    /// Reads a page of a directory: [`MetadataReply::Page`].
    List {
        /// The directory.
        place: FilePath,
        /// Where it begins.
        after: After,
        /// Maximum names in the page; the service has a limit of its own.
        most: u32,
        /// How much to return of each.
        detail: Detail,
        /// The client's number of this walk; 0 if no page of it will be requested as [`After::Page`].
        walk: u32,
    },
    /// Makes a directory: [`MetadataReply::Attributes`].
    MakeDirectory {
        /// The new directory.
        place: FilePath,
        /// Owner and permissions.
        owner: Owner,
        /// Also make missing parents, and accept an existing directory.
        parents: bool,
    },
    /// Makes an empty file and opens it for writing: [`MetadataReply::Attributes`].
    Create {
        /// The new file.
        place: FilePath,
        /// Owner and permissions.
        owner: Owner,
        /// What to do if a file of this name exists.
        existing: Existing,
        /// The layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Opens a file: [`MetadataReply::Attributes`].
    Open {
        /// The file.
        place: FilePath,
        /// Open for writing: the service does not know the size until this use ends.
        write: bool,
    },
    /// Declares files open after the service was away: [`MetadataReply::Opened`].
    Reopen {
        /// Each file, and whether it is open for writing.
        files: Vec<(FileId, bool)>,
    },
    /// Renames a file or directory: [`MetadataReply::Attributes`].
    Rename {
        /// The old name.
        from: FilePath,
        /// The file that must have the old name; `None`: any. A copy thus renames its own file, not that of another copy that has
        /// taken the `.partial` name meanwhile.
        only: Option<FileId>,
        /// The new name.
        to: FilePath,
        /// Whether to replace an existing file or empty directory of the new name.
        replace: bool,
        /// Attributes to set in the same step: a copy finishes in one round trip.
        set: SetAttributes,
    },
    /// Removes a file: [`MetadataReply::Done`].
    Unlink {
        /// The file.
        place: FilePath,
        /// The file that must have this name; `None`: any.
        only: Option<FileId>,
    },
    /// Removes an empty directory: [`MetadataReply::Done`].
    RemoveDirectory {
        /// The directory.
        place: FilePath,
    },
    /// Changes attributes: [`MetadataReply::Attributes`].
    SetAttributes {
        /// The file or directory.
        place: FilePath,
        /// The new attributes.
        set: SetAttributes,
    },
    /// Sets a file's size: [`MetadataReply::Done`] when every I/O server has applied it.
    Truncate {
        /// The file.
        place: FilePath,
        /// New size, bytes.
        size_bytes: u64,
    },
    /// Syncs everything answered so far to stable storage: [`MetadataReply::Synced`].
    Sync,
    /// Reads the service's status: [`MetadataReply::Status`].
    Status,
    /// Makes an empty file without opening it: [`MetadataReply::Attributes`].
    MakeFile {
        /// The new file.
        place: FilePath,
        /// Owner and permissions.
        owner: Owner,
        /// What to do if a file of this name exists.
        existing: Existing,
        /// The layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Makes a symbolic link, a named pipe, a socket or a device: [`MetadataReply::Attributes`].
    MakeNode {
        /// The new name.
        place: FilePath,
        /// What to make.
        node: NewNode,
        /// Owner and permissions.
        owner: Owner,
    },
    /// Reads a symbolic link's target: [`MetadataReply::Bytes`].
    ReadSymlink {
        /// The link.
        place: FilePath,
    },
    /// Adds a hard link to a file: [`MetadataReply::Attributes`].
    Link {
        /// The file.
        file: FilePath,
        /// The new name.
        to: FilePath,
    },
    /// Exchanges two names atomically: [`MetadataReply::Done`].
    Exchange {
        /// The first name.
        one: FilePath,
        /// The second name.
        other: FilePath,
    },
    /// Reads an extended attribute: [`MetadataReply::Value`].
    GetExtended {
        /// The file or directory.
        place: FilePath,
        /// The attribute's name.
        name: Vec<u8>,
    },
    /// Lists the names of all extended attributes: [`MetadataReply::ExtendedNames`].
    ListExtended {
        /// The file or directory.
        place: FilePath,
    },
    /// Sets an extended attribute: [`MetadataReply::Done`].
    SetExtended {
        /// The file or directory.
        place: FilePath,
        /// The attribute's name.
        name: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// Whether the attribute may or must exist already.
        how: SetExtended,
    },
    /// Removes an extended attribute: [`MetadataReply::Done`].
    RemoveExtended {
        /// The file or directory.
        place: FilePath,
        /// The attribute's name.
        name: Vec<u8>,
    },
    /// Changes the layout of an empty file that is not open anywhere: [`MetadataReply::Attributes`].
    Relayout {
        /// The file.
        place: FilePath,
        /// The new layout.
        layout: LayoutChoice,
        /// The client's node, for [`Placement::Local`].
        node: String,
    },
    /// Reports bytes written to a file: [`MetadataReply::Attributes`].
    Written {
        /// The file.
        file: FileId,
        /// End of the last byte written.
        size_bytes: u64,
    },
    /// Locks and append turns; only on a connection that began with [`LockOperation::Hello`].
    Lock(LockOperation),
    /// Executes a batch in order, in as few transactions as possible, with one result per operation: [`MetadataReply::Each`]. A
    /// failure does not stop the rest.
    Many {
        /// The operations, at most [`crate::limits::MANY`].
        operations: Vec<Small>,
    },
    /// Lists files made by unfinished copies: [`MetadataReply::Drafts`].
    Drafts {
        /// Start after this file.
        after: Option<FileId>,
    },
    /// Removes a draft whose maker is gone: [`MetadataReply::Done`].
    RemoveDraft {
        /// The file.
        file: FileId,
        /// Minimum time abandoned, ns by the service's clock.
        abandoned_for_ns: u64,
    },
    /// Sent by an I/O server: reports the latest durable state of the metadata that it has witnessed, and asks for the next
    /// change to witness: [`MetadataReply::Witness`], at the latest after [`crate::limits::WITNESS_WAIT`]. An error if the
    /// metadata is older than the report.
    Witness {
        /// The server's name in the store.
        server: String,
        /// The state of which its targets were notified.
        seen: Witnessed,
        /// The last revocation of credentials it knows; a newer one is answered immediately.
        revision: u64,
    },
    /// Reports acknowledged bytes of a file as lost, and lost bytes as written again; durable when answered:
    /// [`MetadataReply::Attributes`].
    Lost {
        /// The file.
        file: FileId,
        /// Newly lost.
        lost: Lost,
        /// No longer lost.
        mended: Lost,
    },
    /// Lots: [`MetadataReply::Lots`].
    Lot(LotOperation),
    /// Credentials: [`MetadataReply::Credentials`].
    Credential(CredentialOperation),
    /// Reads the next part of a backup of all names: [`MetadataReply::Backup`], with rows as payload. The parts of one connection are of
    /// one moment, that of part 0, and are asked for in order. Only with the store's own credential.
    Backup {
        /// The part's number.
        part: u64,
    },
}

impl Operation {
    /// Whether the operation may start new writing to a file.
    pub fn begins_writing(&self) -> bool {
        match self {
            Operation::Create { .. } | Operation::MakeFile { .. } | Operation::Open { write: true, .. } => true,
            Operation::Reopen { files } => files.iter().any(|(_, write)| *write),
            Operation::Many { operations } => operations.iter().any(|one| matches!(one, Small::Create(_) | Small::MakeFile(_))),
            _ => false,
        }
    }

    /// Whether the service stores the result in the same transaction, so that a retry under the same number executes once. Other
    /// operations that change something take more than one transaction, or concern no names.
    pub fn is_done_once(&self) -> bool {
        matches!(
            self,
            Operation::MakeDirectory { .. }
                | Operation::Create { .. }
                | Operation::MakeFile { .. }
                | Operation::MakeNode { .. }
                | Operation::Link { .. }
                | Operation::Exchange { .. }
                | Operation::Rename { .. }
                | Operation::Unlink { .. }
                | Operation::RemoveDirectory { .. }
                | Operation::SetAttributes { .. }
                | Operation::SetExtended { .. }
                | Operation::RemoveExtended { .. }
                | Operation::Written { .. }
                | Operation::Many { .. }
        )
    }
}

/// A reply of the metadata service.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and a file's attributes are what is mostly asked for")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataReply {
    /// Done.
    Done,
    /// The store map.
    Map(StoreMap),
    /// Attributes of one file or directory.
    Attributes(Attributes),
    /// Done, with the attributes of the directory named in the request read after the change (weak cache consistency in NFS
    /// version 3, RFC 1813 section 2.6).
    Changed {
        /// Attributes of the object made or changed, for operations that return attributes.
        made: Option<Attributes>,
        /// Attributes of the directory.
        directory: Attributes,
    },
    /// Attributes in the order of the request; fewer than requested if a message cannot hold more.
    Many(Vec<Result<Attributes, Refusal>>),
    /// A page of a directory.
    Page {
        /// In byte order of names.
        #[serde(with = "super::page")]
        entries: Vec<DirectoryEntry>,
        /// Whether more entries follow.
        more: bool,
    },
    /// The files that still exist.
    Opened(Vec<FileId>),
    /// Everything answered before is durable; the verifier is of this start of the service.
    Synced(BootVerifier),
    /// The service's status.
    Status(Status),
    /// A symbolic link's target.
    Bytes(Vec<u8>),
    /// An extended attribute's value; `None`: no such attribute.
    Value(Option<Vec<u8>>),
    /// Names of extended attributes, in order.
    ExtendedNames(Vec<Vec<u8>>),
    /// Locks and append turns.
    Lock(LockReply),
    /// The results of a batch, in order. Fewer than requested when a message cannot hold more: operations without a result were
    /// not started.
    Each(Vec<Result<SmallReply, Refusal>>),
    /// Drafts, in order of number.
    Drafts {
        /// The drafts.
        drafts: Vec<DraftEntry>,
        /// Whether more follow.
        more: bool,
    },
    /// The next change for an I/O server to witness.
    Witness {
        /// The last change on stable storage.
        change: u64,
        /// The metadata is older than the server's report, and an administrator has accepted that: its targets continue from this
        /// start.
        accepted: bool,
        /// The revoked credentials, if newer than the server's.
        revoked: Option<Revoked>,
    },
    /// Lots.
    Lots(Vec<LotReport>),
    /// Credentials.
    Credentials(CredentialBook),
    /// A part of a backup.
    Backup {
        /// The moment: the start of the service, and the last change in it.
        of: Witnessed,
        /// Whether more parts follow.
        more: bool,
    },
}

/// The metadata service's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Size of the file system with its database.
    pub size_bytes: u64,
    /// Free space on that file system.
    pub free_bytes: u64,
    /// Removals and truncations that I/O servers have not applied yet.
    pub pending_intents: u64,
    /// Files open at clients.
    pub open_files: u64,
    /// Locked byte ranges.
    pub locks: u64,
    /// Requests waiting for locks.
    pub lock_waits: u64,
}
