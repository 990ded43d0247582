//! Batches: entries of a tree copied together.

use crate::files::FileHandle;
use std::ops::Range;
use thalweg_bulk::resize;
use thalweg_wire::Error;
use thalweg_wire::protocol::metadata::{FileId, NewNode};

/// Largest file copied in a batch, in bytes.
pub const SMALL_BYTES: u64 = 1 << 20;
/// Maximum entries per batch: the closing message has one operation for each.
const BATCH_ENTRIES: usize = 256;
/// Maximum bytes of small files per batch: with the last file, at most one request to an I/O server.
pub(super) const BATCH_BYTES: u64 = thalweg_wire::limits::MANY_BYTES - SMALL_BYTES;

/// One entry of the source, as found by the walk.
pub(super) struct Item {
    /// Path below the tree, without a leading `/`; bytes, not text.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    pub kept: KeptAttributes,
    /// Location in the store, if the source is one.
    pub stored: Option<Stored>,
}

/// Type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Directory,
    /// A file with its size in bytes.
    File(u64),
    /// A symbolic link (its target is known only after the entry is loaded), a pipe, a socket or a device.
    Node(NewNode),
}

/// Attributes that a copy can preserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptAttributes {
    /// Mode, 12 bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Access time, in ns since 1970.
    pub accessed_ns: i64,
    pub modified_ns: i64,
}

/// An entry of a store.
pub(super) struct Stored {
    pub id: FileId,
    /// Change counter of the entry.
    pub change: u64,
    /// Open handle; files only.
    pub handle: Option<FileHandle>,
}

/// Progress of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Bytes not read: a large file, or an entry without bytes.
    Found,
    /// Bytes are in the batch's memory.
    Loaded(Range<usize>),
    /// Not copied.
    Failed(Error),
    /// Not copied because its directory, already reported, was not.
    Skipped,
    /// A device node, not requested.
    LeftOut,
    /// Copied.
    Done,
}

pub(super) struct Entry {
    pub item: Item,
    pub state: State,
    /// Whether it was modified during the copy.
    pub modified: bool,
    /// Data ranges of a small file; `None`: no holes.
    pub data: Option<Vec<Range<u64>>>,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Ranges that are damaged at rest and were left out.
    pub damaged: Vec<Range<u64>>,
}

impl Entry {
    /// Whether it is still to be made.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Found | State::Loaded(_))
    }

    /// Whether it is a file copied on its own.
    pub(super) fn is_large(&self) -> bool {
        matches!((&self.item.kind, &self.state), (EntryKind::File(size), State::Found) if *size > SMALL_BYTES)
    }
}

/// Entries in the order found: a directory precedes its contents.
#[derive(Default)]
pub(super) struct Batch {
    pub entries: Vec<Entry>,
    /// Bytes of the small files.
    pub memory: Vec<u8>,
    /// Bytes of all its files, small and large, as found by the walk.
    pub size_bytes: u64,
    small_bytes: u64,
    has_large: bool,
    pub has_directories: bool,
    /// Paths of the source that could not be read, with their errors.
    pub unread: Vec<(Vec<u8>, Error)>,
}

impl Batch {
    /// Empties the batch, keeping its memory.
    pub(super) fn clear(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        *self = Batch { memory, ..Batch::default() };
    }

    /// Whether the batch takes no more entries.
    pub(super) fn is_full(&self) -> bool {
        self.has_large || self.entries.len() >= BATCH_ENTRIES || self.small_bytes >= BATCH_BYTES
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, item: Item) {
        match item.kind {
            EntryKind::File(size) => {
                self.size_bytes += size;
                if size > SMALL_BYTES {
                    self.has_large = true;
                } else {
                    self.small_bytes += size;
                }
            }
            EntryKind::Directory => self.has_directories = true,
            EntryKind::Node(_) => {}
        }
        self.entries.push(Entry { item, state: State::Found, modified: false, data: None, hole_bytes: 0, damaged: Vec::new() });
    }

    /// Adds an entry that cannot be copied.
    pub(super) fn push_failed(&mut self, item: Item, error: Error) {
        self.entries.push(Entry { item, state: State::Failed(error), modified: false, data: None, hole_bytes: 0, damaged: Vec::new() });
    }

    /// Returns memory for all small files, not zeroed.
    pub(super) fn memory_for_small(&mut self) -> &mut [u8] {
        // One extra byte per file lets the reader detect growth.
        let wanted = self.small_bytes as usize + self.entries.len() + 1;
        if self.memory.len() < wanted {
            resize(&mut self.memory, wanted);
        }
        &mut self.memory
    }
}

/// Formats a path for an error.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Returns the parent of a path; empty: the tree's root.
pub(super) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}
