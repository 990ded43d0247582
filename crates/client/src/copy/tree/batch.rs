//! What is copied together.

use crate::files::FileHandle;
use std::ops::Range;
use thalweg_bulk::resize;
use thalweg_wire::Error;
use thalweg_wire::protocol::metadata::{FileId, NewNode};

/// The largest file that is copied together with others.
pub const SMALL_BYTES: u64 = 1 << 20;
/// Entries in a batch at most: the closing message has one operation for each.
const BATCH_ENTRIES: usize = 256;
/// Bytes of all small files in a batch, at most. (With the last one, no more than one request to an I/O server holds.)
pub(super) const BATCH_BYTES: u64 = thalweg_wire::limits::MANY_BYTES - SMALL_BYTES;

/// One entry of the source, as its walk found it.
pub(super) struct Item {
    /// Its path below the tree, without a leading `/`. Bytes, not text.
    pub path: Vec<u8>,
    pub what: What,
    pub kept: Kept,
    /// Where it is, if the source is a store.
    pub stored: Option<Stored>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Directory,
    /// A file of so many bytes.
    File(u64),
    /// A symbolic link (its target is known when it is loaded), a pipe, a socket or a device.
    Node(NewNode),
}

/// Attributes that a copy may keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// 12 bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Since 1970.
    pub accessed_ns: i64,
    pub modified_ns: i64,
}

/// An entry of a store.
pub(super) struct Stored {
    pub id: FileId,
    /// Grows with every change.
    pub change: u64,
    /// A file's.
    pub handle: Option<FileHandle>,
}

/// How far an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known of its bytes yet: a large file, or what has none.
    Found,
    /// Its bytes are in the batch's memory.
    Loaded(Range<usize>),
    /// It was not copied.
    Failed(Error),
    /// Nor was the directory that it is in, which was reported.
    Skipped,
    /// A device node: only those are copied that were asked for.
    LeftOut,
    /// It is there.
    Done,
}

pub(super) struct Entry {
    pub item: Item,
    pub state: State,
    /// It was written to while it was copied.
    pub modified: bool,
    /// What of a small file is not holes; `None`: all of it.
    pub data: Option<Vec<Range<u64>>>,
    /// Bytes of it in holes.
    pub hole_bytes: u64,
}

impl Entry {
    /// Whether it is still to be made.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Found | State::Loaded(_))
    }

    /// Whether it is a file that moves alone.
    pub(super) fn is_large(&self) -> bool {
        matches!((&self.item.what, &self.state), (What::File(size), State::Found) if *size > SMALL_BYTES)
    }
}

/// Entries, in the order in which they were found: directories before what is in them.
#[derive(Default)]
pub(super) struct Batch {
    pub entries: Vec<Entry>,
    /// Bytes of small files.
    pub memory: Vec<u8>,
    /// Bytes of the files in it, small and large, as the walk found them.
    pub size_bytes: u64,
    small_bytes: u64,
    has_large: bool,
    pub has_directories: bool,
    /// What could not be read of the source, by path.
    pub unread: Vec<(Vec<u8>, Error)>,
}

impl Batch {
    /// Begins anew, with the memory that is there.
    pub(super) fn clear(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        *self = Batch { memory, ..Batch::default() };
    }

    /// Whether nothing more is to be put in.
    pub(super) fn is_full(&self) -> bool {
        self.has_large || self.entries.len() >= BATCH_ENTRIES || self.small_bytes >= BATCH_BYTES
    }

    /// Puts an entry in.
    pub(super) fn push(&mut self, item: Item) {
        match item.what {
            What::File(size) => {
                self.size_bytes += size;
                if size > SMALL_BYTES {
                    self.has_large = true;
                } else {
                    self.small_bytes += size;
                }
            }
            What::Directory => self.has_directories = true,
            What::Node(_) => {}
        }
        self.entries.push(Entry { item, state: State::Found, modified: false, data: None, hole_bytes: 0 });
    }

    /// Puts an entry in that cannot be copied.
    pub(super) fn push_failed(&mut self, item: Item, error: Error) {
        self.entries.push(Entry { item, state: State::Failed(error), modified: false, data: None, hole_bytes: 0 });
    }

    /// Memory for all small files, which is not cleared.
    pub(super) fn memory_for_small(&mut self) -> &mut [u8] {
        // One byte more for each, by which a reader sees that a file has grown.
        let wanted = self.small_bytes as usize + self.entries.len() + 1;
        if self.memory.len() < wanted {
            resize(&mut self.memory, wanted);
        }
        &mut self.memory
    }
}

/// A path as an error shows it.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// The directory that a path is in; empty: the tree's own.
pub(super) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}
