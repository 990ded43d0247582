//! What is said to the metadata service: names, attributes, layouts.

pub use super::common::Refusal;
use super::common::{BootVerifier, Witnessed};
use super::credentials::{CredentialBook, CredentialOperation, Revoked};
pub use super::files::{
    Attributes, DirectoryEntry, DraftEntry, Existing, FileKind, FileLayout, LayoutChoice, NewNode, Owner, Place, Placement, SetAttributes,
    SetExtended, SetTime,
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
    /// Files this client has closed since its last request: a removed file's datafiles stay while it is open, and its size is
    /// known again when its last writer has gone. At most [`crate::limits::CLOSED`].
    pub closed: Vec<Closed>,
    /// The directory whose attributes are wanted as they are after a change: [`MetadataReply::Changed`].
    pub directory: Option<FileId>,
    /// Under which it may be sent again, if its answer is lost, and is done once; `None`: it is not sent again.
    pub number: Option<RequestNumber>,
    /// What is asked.
    pub operation: Operation,
}

impl MetadataRequest {
    /// A request that is not sent again, and says nothing of closed files.
    pub fn of(operation: Operation) -> MetadataRequest {
        MetadataRequest { closed: Vec::new(), directory: None, number: None, operation }
    }
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
    /// Renames a file or directory: [`MetadataReply::Attributes`].
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
    /// Puts everything answered so far on stable storage: [`MetadataReply::Synced`].
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
    /// An I/O server says how far it knows the metadata to have come, durably, and asks for the next change that it is to witness:
    /// [`MetadataReply::Witness`], at the latest after [`crate::limits::WITNESS_WAIT`]. An error if the metadata is older than that.
    Witness {
        /// The server's name in the store.
        server: String,
        /// What its targets have been notified of.
        seen: Witnessed,
        /// The last revocation of credentials that it knows of: of another it is notified at once.
        revision: u64,
    },
    /// Says that acknowledged bytes of a file are lost, and that others which were are written again; durable when it is answered:
    /// [`MetadataReply::Attributes`].
    Lost {
        /// Which.
        file: FileId,
        /// Lost now.
        lost: Lost,
        /// Not lost any more.
        mended: Lost,
    },
    /// About lots: [`MetadataReply::Lots`].
    Lot(LotOperation),
    /// About credentials: [`MetadataReply::Credentials`].
    Credential(CredentialOperation),
}

impl Operation {
    /// Whether a file may be written after this was answered that was not before.
    pub fn begins_writing(&self) -> bool {
        match self {
            Operation::Create { .. } | Operation::MakeFile { .. } | Operation::Open { write: true, .. } => true,
            Operation::Reopen { files } => files.iter().any(|(_, write)| *write),
            Operation::Many { operations } => operations.iter().any(|one| matches!(one, Small::Create(_) | Small::MakeFile(_))),
            _ => false,
        }
    }

    /// Whether the service remembers what became of it, as a part of the same transaction: sent again under its number, it is done once. What else
    /// changes something takes more than one transaction, or is of no one's names.
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
    /// It is done.
    Done,
    /// Who is who.
    Map(StoreMap),
    /// Of one file or directory.
    Attributes(Attributes),
    /// A change is done, and attributes of the directory that the request names were read after it (NFS version 3 calls that weak cache
    /// consistency, RFC 1813 section 2.6).
    Changed {
        /// Of what was made or changed, where the answer has attributes.
        made: Option<Attributes>,
        /// The directory's.
        directory: Attributes,
    },
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
    /// Everything answered before is durable, by this start of the service.
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
    /// What an I/O server is to witness.
    Witness {
        /// The last change that is on stable storage.
        change: u64,
        /// The metadata is older than what this server has seen, and somebody has accepted that: its targets go on from this start.
        accepted: bool,
        /// What is revoked, if that is news to it.
        revoked: Option<Revoked>,
    },
    /// Lots.
    Lots(Vec<LotReport>),
    /// Credentials.
    Credentials(CredentialBook),
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
