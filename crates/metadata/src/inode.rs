//! The encoding of inodes, directory entries and intents in the database.
//!
//! A value begins with the version of its encoding, so that old versions can be read while the newest is written; the rest is postcard.
//! Enums only gain variants at their end. Inodes are written in version 6 and read in versions 1 to 6, intents written in version 2 and
//! read in versions 1 and 2; everything else has version 1.
//!
//! Layouts gained a lot, at their end, with inodes of version 6 and intents of version 2. Both end with their layout, and "no lot" is one
//! zero byte, so an earlier row with a zero byte appended can be read as a current one.

use crate::database::{DatabaseError, PUT_BACK, Table, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_base::release::RELEASE;
use thalweg_wire::protocol::metadata::{
    Attributes, FileId, FileKind, FileLayout, LayoutChoice, Lengths, Lost, LotId, NewNode, Owner, TargetId,
};
use thalweg_wire::{Error, ErrorKind, Result};

const VERSION: u8 = 1;
const INODE_VERSION_TWO: u8 = 2;
const INODE_VERSION_THREE: u8 = 3;
const INODE_VERSION_FOUR: u8 = 4;
const INODE_VERSION_FIVE: u8 = 5;
const INODE_VERSION: u8 = 6;
const INTENT_VERSION: u8 = 2;
/// The encoding of "no lot", appended to rows from before lots existed.
const NO_LOT: u8 = 0;

/// A file, a directory, or another object with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub accessed_ns: i64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub created_ns: i64,
    pub change: u64,
    /// Total bytes of the names and values of its extended attributes.
    pub extended_bytes: u32,
    /// The size reported by the last client that flushed its writes.
    pub written: Option<Written>,
    /// Knowledge of a file's size.
    pub sizing: Sizing,
    /// Acknowledged bytes that are lost.
    pub lost: Option<Box<Lost>>,
    pub node: Node,
}

/// Knowledge of a file's size ([`super::sizes`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sizing {
    /// No writers and nothing in flight, but only the I/O servers know the size.
    Unknown,
    /// There may be writers, or messages of a lost writer may still arrive.
    Open,
    /// No writers and nothing in flight; this is the size if no server's machine has been restarted since.
    Settled(Settlement),
    /// As [`Sizing::Unknown`], for a file whose bytes belong to these machine starts and this round.
    Unasked { boots: u32, unsynced: Option<u64> },
}

/// The settled state of a file without writers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settlement {
    pub size_bytes: u64,
    /// The count of machine starts ([`super::sizes::boots`]).
    pub boots: u32,
    /// The lengths of its datafiles.
    pub lengths: Lengths,
    /// The round ([`super::sizes::rounds`]) that syncs its bytes; `None` if they are synced.
    pub unsynced: Option<u64>,
}

impl Settlement {
    /// Returns the settlement of a file without bytes.
    pub(crate) fn empty(boots: u32) -> Settlement {
        Settlement::truncated(0, boots)
    }

    /// Returns the settlement of a truncated file: its datafiles have exactly the lengths of its layout, and are synced.
    pub(crate) fn truncated(size_bytes: u64, boots: u32) -> Settlement {
        Settlement { size_bytes, boots, lengths: Lengths::Whole, unsynced: None }
    }
}

/// A lower bound of a file's size at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub size_bytes: u64,
    /// The inode's `change` at that time. The size is exact while the inode's value is the same and there are no writers.
    pub change: u64,
}

/// The type of an inode, and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Node {
    File(FileLayout),
    Directory {
        /// The parent directory; the root is its own parent.
        parent: FileId,
        default_layout: Option<LayoutChoice>,
    },
    Symlink(Vec<u8>),
    Fifo,
    Socket,
    CharacterDevice(u32),
    BlockDevice(u32),
}

impl Node {
    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Node::File(_) => FileKind::File,
            Node::Directory { .. } => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Fifo => FileKind::Fifo,
            Node::Socket => FileKind::Socket,
            Node::CharacterDevice(_) => FileKind::CharacterDevice,
            Node::BlockDevice(_) => FileKind::BlockDevice,
        }
    }
}

impl From<NewNode> for Node {
    fn from(new: NewNode) -> Node {
        match new {
            NewNode::Symlink(target) => Node::Symlink(target),
            NewNode::Fifo => Node::Fifo,
            NewNode::Socket => Node::Socket,
            NewNode::CharacterDevice(device) => Node::CharacterDevice(device),
            NewNode::BlockDevice(device) => Node::BlockDevice(device),
        }
    }
}

/// The fields at the start of every version.
#[derive(Deserialize)]
struct Stem {
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    accessed_ns: i64,
    modified_ns: i64,
    changed_ns: i64,
    created_ns: i64,
    change: u64,
}

/// An inode of version 1.
#[derive(Deserialize)]
struct InodeOne {
    stem: Stem,
    node: Node,
}

impl From<InodeOne> for Inode {
    fn from(one: InodeOne) -> Inode {
        Inode::of(one.stem, (0, None), one.node)
    }
}

/// An inode of version 2.
#[derive(Deserialize)]
struct InodeTwo {
    stem: Stem,
    extended_bytes: u32,
    written: Option<Written>,
    node: Node,
}

impl From<InodeTwo> for Inode {
    /// Its writers used a protocol version that this release does not support: nothing of theirs is in flight.
    fn from(two: InodeTwo) -> Inode {
        Inode::of(two.stem, (two.extended_bytes, two.written), two.node)
    }
}

/// An inode of version 3.
#[derive(Deserialize)]
struct InodeThree {
    stem: Stem,
    extended_bytes: u32,
    written: Option<Written>,
    sizing: SizingThree,
    node: Node,
}

#[derive(Deserialize)]
enum SizingThree {
    Unknown,
    Open,
    Settled { size_bytes: u64, boots: u32 },
}

impl From<InodeThree> for Inode {
    /// Datafile lengths and sync state were not stored. Round 0 precedes all rounds, so the bytes never count as lost.
    fn from(three: InodeThree) -> Inode {
        let mut inode = Inode::of(three.stem, (three.extended_bytes, three.written), three.node);
        inode.sizing = match three.sizing {
            SizingThree::Unknown => Sizing::Unknown,
            SizingThree::Open => Sizing::Open,
            SizingThree::Settled { size_bytes, boots } => {
                Sizing::Settled(Settlement { size_bytes, boots, lengths: Lengths::Unknown, unsynced: Some(0) })
            }
        };
        inode
    }
}

/// An inode of version 4.
#[derive(Deserialize)]
struct InodeFour {
    stem: Stem,
    extended_bytes: u32,
    written: Option<Written>,
    sizing: Sizing,
    node: Node,
}

impl From<InodeFour> for Inode {
    /// Losses were not stored.
    fn from(four: InodeFour) -> Inode {
        let inode = Inode::of(four.stem, (four.extended_bytes, four.written), four.node);
        Inode { sizing: four.sizing, ..inode }
    }
}

impl Inode {
    /// Builds an inode from parts of an earlier version; its size must be fetched.
    fn of(stem: Stem, (extended_bytes, written): (u32, Option<Written>), node: Node) -> Inode {
        let Stem { mode, uid, gid, links, accessed_ns, modified_ns, changed_ns, created_ns, change } = stem;
        let (sizing, lost) = (Sizing::Unknown, None);
        Inode {
            mode,
            uid,
            gid,
            links,
            accessed_ns,
            modified_ns,
            changed_ns,
            created_ns,
            change,
            extended_bytes,
            written,
            sizing,
            lost,
            node,
        }
    }

    pub(crate) fn new(node: Node, owner: Owner, now_ns: i64) -> Inode {
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
            extended_bytes: 0,
            written: None,
            sizing: Sizing::Unknown,
            lost: None,
            node,
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        self.node.kind()
    }

    /// Returns a file's lot, or the lot for files created in a directory.
    pub(crate) fn lot(&self) -> Option<LotId> {
        match &self.node {
            Node::File(layout) => layout.lot,
            Node::Directory { default_layout, .. } => default_layout.as_ref()?.lot,
            _ => None,
        }
    }

    /// Records a change of its content.
    pub(crate) fn modified(&mut self, now_ns: i64) {
        self.modified_ns = now_ns;
        self.changed(now_ns);
    }

    /// Records a change of its attributes.
    pub(crate) fn changed(&mut self, now_ns: i64) {
        self.changed_ns = now_ns;
        self.change += 1;
    }

    pub(crate) fn attributes(self, id: FileId) -> Attributes {
        let kind = self.kind();
        let (mut device, mut link, mut layout, mut default_layout) = (0, None, None, None);
        match self.node {
            Node::File(of_file) => layout = Some(Arc::new(of_file)),
            Node::Directory { default_layout: of_directory, .. } => default_layout = of_directory,
            Node::Symlink(target) => link = Some(target),
            Node::CharacterDevice(number) | Node::BlockDevice(number) => device = number,
            Node::Fifo | Node::Socket => {}
        }
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
            device,
            target_bytes: link.as_ref().map_or(0, |target| target.len() as u64),
            extended_bytes: self.extended_bytes,
            target: link,
            size_bytes: None,
            settled: None,
            lost: self.lost,
            layout,
            default_layout,
        }
    }
}

/// An inode without its node, which follows at the end of the row.
#[derive(Deserialize)]
struct Head {
    stem: Stem,
    extended_bytes: u32,
    #[expect(dead_code, reason = "it precedes fields that are read")]
    written: Option<Written>,
    sizing: Sizing,
    lost: Option<Box<Lost>>,
}

/// Decoded layouts by their encoding, so that each is decoded once per page of a directory.
#[derive(Default)]
pub(crate) struct Layouts(HashMap<Vec<u8>, Arc<FileLayout>>);

impl Layouts {
    fn get(&mut self, bytes: &[u8]) -> Option<Arc<FileLayout>> {
        if let Some(layout) = self.0.get(bytes) {
            return Some(Arc::clone(layout));
        }
        let layout: Arc<FileLayout> = Arc::new(postcard::from_bytes(bytes).ok()?);
        self.0.insert(bytes.to_vec(), Arc::clone(&layout));
        Some(layout)
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Decodes attributes and the knowledge of the size directly from an inode's value. Equivalent to [`decode_inode`], but decodes a layout
/// once for all files that share it.
pub(crate) fn decode_attributes(id: FileId, key: &[u8], value: &[u8], layouts: &mut Layouts) -> Result<(Attributes, Sizing)> {
    match quick_attributes(id, value, layouts) {
        Some(read) => Ok(read),
        None => {
            let inode = decode_inode(key, value)?;
            let sizing = inode.sizing.clone();
            Ok((inode.attributes(id), sizing))
        }
    }
}

/// Decodes a file's value of the current version; `None` for another node or version, or a damaged value.
fn quick_attributes(id: FileId, value: &[u8], layouts: &mut Layouts) -> Option<(Attributes, Sizing)> {
    let (&version, rest) = value.split_first()?;
    if !matches!(version, INODE_VERSION | INODE_VERSION_FIVE) {
        return None;
    }
    let (head, node) = postcard::take_from_bytes::<Head>(rest).ok()?;
    // A file is the first variant of `Node`.
    let (&0, layout) = node.split_first()? else { return None };
    let layout = if version == INODE_VERSION { Cow::Borrowed(layout) } else { Cow::Owned(without_lot(layout)) };
    let attributes = Attributes {
        id,
        kind: FileKind::File,
        mode: head.stem.mode,
        uid: head.stem.uid,
        gid: head.stem.gid,
        links: head.stem.links,
        accessed_ns: head.stem.accessed_ns,
        modified_ns: head.stem.modified_ns,
        changed_ns: head.stem.changed_ns,
        created_ns: head.stem.created_ns,
        change: head.stem.change,
        device: 0,
        target_bytes: 0,
        extended_bytes: head.extended_bytes,
        target: None,
        size_bytes: None,
        settled: None,
        lost: head.lost,
        layout: Some(layouts.get(&layout)?),
        default_layout: None,
    };
    Some((attributes, head.sizing))
}

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub id: FileId,
    pub kind: FileKind,
}

/// An operation that was promised and that the I/O servers have not all completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Intent {
    /// Remove the file's datafiles.
    Remove {
        /// The targets they are on.
        targets: Vec<TargetId>,
        /// The lot they are in.
        lot: Option<LotId>,
    },
    /// Resize the datafiles to their lengths in a file of this size.
    Truncate {
        /// The size in bytes.
        size_bytes: u64,
        /// The file's layout.
        layout: FileLayout,
    },
}

impl Intent {
    /// Returns the intent to remove the datafiles of a file with this layout.
    pub(crate) fn remove(layout: &FileLayout) -> Intent {
        Intent::Remove { targets: layout.targets.clone(), lot: layout.lot }
    }
}

/// Returns the key of an inode or intent.
pub(crate) fn id_key(id: FileId) -> [u8; 8] {
    id.0.to_be_bytes()
}

/// Decodes the number in a key.
pub(crate) fn id_of(key: &[u8]) -> Option<FileId> {
    Some(FileId(u64::from_be_bytes(key.get(..8)?.try_into().ok()?)))
}

/// Returns the key of a directory entry.
pub(crate) fn entry_key(parent: FileId, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&id_key(parent));
    key.extend_from_slice(name);
    key
}

/// Returns the key of an extended attribute.
pub(crate) fn extended_key(id: FileId, name: &[u8]) -> Vec<u8> {
    entry_key(id, name)
}

/// Encodes a value other than an inode.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![VERSION]).expect("plain values always encode")
}

/// Decodes a value other than an inode.
pub(crate) fn decode<T: DeserializeOwned>(table: Table, key: &[u8], value: &[u8]) -> Result<T> {
    let decoded = match value.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest).ok(),
        _ => None,
    };
    decoded.ok_or_else(|| unreadable(table, key, value))
}

/// Encodes an inode.
pub(crate) fn encode_inode(inode: &Inode) -> Vec<u8> {
    postcard::to_extend(inode, vec![INODE_VERSION]).expect("plain values always encode")
}

/// Decodes an inode.
pub(crate) fn decode_inode(key: &[u8], value: &[u8]) -> Result<Inode> {
    let decoded = match value.split_first() {
        Some((&INODE_VERSION, rest)) => postcard::from_bytes(rest).ok(),
        Some((version, rest)) => earlier_inode(*version, &without_lot(rest)),
        None => None,
    };
    decoded.ok_or_else(|| unreadable(Table::Inodes, key, value))
}

/// Decodes an inode of an earlier version.
fn earlier_inode(version: u8, rest: &[u8]) -> Option<Inode> {
    match version {
        INODE_VERSION_FIVE => postcard::from_bytes(rest).ok(),
        INODE_VERSION_FOUR => postcard::from_bytes(rest).ok().map(|four: InodeFour| four.into()),
        INODE_VERSION_THREE => postcard::from_bytes(rest).ok().map(|three: InodeThree| three.into()),
        INODE_VERSION_TWO => postcard::from_bytes(rest).ok().map(|two: InodeTwo| two.into()),
        VERSION => postcard::from_bytes(rest).ok().map(|one: InodeOne| one.into()),
        _ => None,
    }
}

/// Appends "no lot" to a row from before lots existed.
fn without_lot(row: &[u8]) -> Vec<u8> {
    [row, &[NO_LOT]].concat()
}

/// Encodes an intent.
pub(crate) fn encode_intent(intent: &Intent) -> Vec<u8> {
    postcard::to_extend(intent, vec![INTENT_VERSION]).expect("plain values always encode")
}

/// Decodes an intent.
pub(crate) fn decode_intent(key: &[u8], value: &[u8]) -> Result<Intent> {
    let decoded = match value.split_first() {
        Some((&INTENT_VERSION, rest)) => postcard::from_bytes(rest).ok(),
        Some((&VERSION, rest)) => postcard::from_bytes(&without_lot(rest)).ok(),
        _ => None,
    };
    decoded.ok_or_else(|| unreadable(Table::Intents, key, value))
}

fn unreadable(table: Table, key: &[u8], value: &[u8]) -> Error {
    let newest = match table {
        Table::Inodes => INODE_VERSION,
        Table::Intents => INTENT_VERSION,
        _ => VERSION,
    };
    let (what, advice) = match value.first() {
        Some(version) if *version > newest => {
            (format!("version {version}, and {RELEASE} reads up to {newest}"), "use the release that wrote it, or a newer one".into())
        }
        _ => (format!("{} bytes", value.len()), format!("it is damaged, {PUT_BACK}")),
    };
    Error::new(ErrorKind::Io, format!("the metadata database has a row that cannot be read ({}, {what}): {advice}", shown_key(table, key)))
}

/// Returns the error for a missing mandatory row.
pub(crate) fn missing(table: Table, key: &[u8], why: &str) -> Error {
    let row = shown_key(table, key);
    Error::new(ErrorKind::Io, format!("the metadata database is damaged, a row is missing ({row}) {why}: {PUT_BACK}"))
}

/// Reads the bytes of a number in the store's own state, at `key`.
pub(crate) fn number_at<const BYTES: usize, V: View + ?Sized>(view: &V, key: &[u8]) -> Result<Option<[u8; BYTES]>> {
    let number = |value: Vec<u8>| value.as_slice().try_into().map_err(|_| unreadable(Table::State, key, &value));
    view.get(Table::State, key)?.map(number).transpose()
}

fn shown_key(table: Table, key: &[u8]) -> String {
    let is_text = table == Table::State;
    let shown = if is_text { String::from_utf8_lossy(key).into_owned() } else { key.iter().map(|b| format!("{b:02x}")).collect() };
    format!("table {}, key {shown}", table.name())
}

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Error {
        let kind = match error {
            DatabaseError { full: true, .. } => ErrorKind::NoSpace,
            DatabaseError { held: true, .. } => ErrorKind::Busy,
            _ => ErrorKind::Io,
        };
        Error::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests;
