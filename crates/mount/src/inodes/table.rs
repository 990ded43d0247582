//! The files and directories the kernel knows. It says how often it was told of each, and when it has forgotten one; what
//! it has forgotten and nobody has open is not kept here either, so that the table is as large as the kernel's caches and
//! no larger. How large those may be is [`crate::inodes::shrinker`]'s.

use crate::inodes::revalidation::Names;
use crate::fuse::reply::Attr;
use crate::inodes::shared_file::Shared;
use crate::inodes::shrinker::Trimming;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use thalweg_store::protocol::metadata::{Attributes, FileId, FileKind, Place};
use thalweg_trace::ObjectId;

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 16;

/// Names of a path that are followed upward.
const MOST_NAMES: usize = 64;

/// A file or directory.
pub struct Node {
    /// Its number in the store.
    pub id: FileId,
    /// What it is.
    pub kind: FileKind,
    /// The table's number for it: one that is forgotten and found again has another.
    pub serial: u64,
    state: Mutex<NodeState>,
}

/// What is remembered of a file or directory between requests.
#[derive(Default)]
pub struct NodeState {
    /// What all who have it open here share, while somebody has.
    pub open: Weak<Shared>,
    /// Mode and group when last seen: what is made in a directory may inherit from them.
    pub mode: u32,
    /// See there.
    pub gid: u32,
    /// The change counter that the kernel's attributes are of.
    pub told_change: Option<u64>,
    /// The change counter that the kernel's copies of its bytes are of.
    pub cached_change: Option<u64>,
    /// What the kernel was told of a file last, with its size.
    pub known: Option<Box<KnownAttr>>,
    /// Locks of programs here on it, as owners: `close` has to free them.
    pub lock_owners: Vec<u64>,
    /// What a directory was when last seen, and how many have it open here: to them it still is one when it is removed.
    pub directory: Option<Box<Attributes>>,
    /// See there.
    pub open_directories: u64,
    /// The names it was found under.
    pub names: Names,
    /// Its row in the mount's recording of itself.
    pub object: Option<ObjectId>,
    /// A symbolic link's target: it never changes.
    pub target: Option<Box<[u8]>>,
    /// When the servers were asked who said that it has no extended attributes.
    pub bare: Option<Instant>,
    /// Why the last layout that was asked for it was refused.
    pub layout_error: Option<Box<str>>,
}

/// Attributes as the kernel was told them.
pub struct KnownAttr {
    /// They.
    pub attr: Attr,
    /// The change counter they are of.
    pub change: u64,
    /// When the servers were asked.
    pub asked: Instant,
}

impl NodeState {
    /// Whether nobody has had it open since the kernel was told of it: then the kernel has none of its bytes.
    pub fn was_never_open(&self) -> bool {
        self.open.ptr_eq(&Weak::new())
    }
}

impl Node {
    fn new(attributes: &Attributes, serial: u64) -> Node {
        Node { id: attributes.id, kind: attributes.kind, serial, state: Mutex::default() }
    }

    /// Its state, locked. Nothing is asked of a server while it is held.
    pub fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all who have it open here share.
    pub fn shared(&self) -> Option<Arc<Shared>> {
        self.state().open.upgrade()
    }

    /// Attributes that the kernel is going to be told, and that were asked for at `asked`.
    pub fn tell(&self, attributes: &Attributes, asked: Instant) {
        let mut state = self.state();
        if self.kind == FileKind::File && state.was_never_open() {
            // Of nothing, all is of any change; and the kernel need not forget what it was told when the file is opened.
            state.cached_change = Some(attributes.change);
        }
        state.bare = (attributes.extended_bytes == 0).then_some(asked);
        if state.target.is_none()
            && let Some(target) = &attributes.target
        {
            state.target = Some(target.as_slice().into());
        }
        state.mode = attributes.mode;
        state.gid = attributes.gid;
        state.told_change = Some(attributes.change);
        if self.kind == FileKind::Directory {
            state.directory = Some(Box::new(attributes.clone()));
        }
    }

    /// The same with the size: for who asks again soon.
    pub fn know(&self, attr: &Attr, change: u64, asked: Instant) {
        if self.kind == FileKind::File {
            self.state().known = Some(Box::new(KnownAttr { attr: *attr, change, asked }));
        }
    }

    /// After a change of our own: if it was the only one since the last look, what the kernel has stays true.
    pub fn changed_here(&self, attributes: &Attributes) {
        let mut state = self.state();
        let alone = state.cached_change.is_some_and(|known| known.checked_add(1) == Some(attributes.change));
        state.cached_change = alone.then_some(attributes.change);
        state.mode = attributes.mode;
        state.gid = attributes.gid;
    }
}

struct Entry {
    node: Arc<Node>,
    lookups: u64,
}

/// The table.
pub struct Table {
    parts: [Mutex<HashMap<FileId, Entry>>; PARTS],
    root: Arc<Node>,
    known: AtomicUsize,
    serial: AtomicU64,
    /// What of it may go when it becomes too much.
    pub trimming: Trimming,
}

impl Table {
    /// With nothing but the mounted directory.
    /// `most`: as many as the kernel should know at a time.
    pub fn new(root: &Attributes, most: usize) -> Table {
        let root_node = Arc::new(Node::new(root, 0));
        root_node.tell(root, Instant::now());
        Table {
            parts: std::array::from_fn(|_| Mutex::default()),
            root: root_node,
            known: AtomicUsize::new(0),
            serial: AtomicU64::new(1),
            trimming: Trimming::new(most),
        }
    }

    fn part_of(id: FileId) -> usize {
        id.0 as usize % PARTS
    }

    fn part(&self, id: FileId) -> MutexGuard<'_, HashMap<FileId, Entry>> {
        self.parts[Table::part_of(id)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store's number of what the kernel calls `node`.
    pub fn id(&self, node: u64) -> FileId {
        if node == crate::fuse::abi::ROOT { self.root.id } else { FileId(node) }
    }

    /// What the kernel calls a file or directory.
    pub fn number(&self, id: FileId) -> u64 {
        if id == self.root.id { crate::fuse::abi::ROOT } else { id.0 }
    }

    /// One that the kernel knows. `None`: it does not, or no longer.
    pub fn get(&self, node: u64) -> Option<Arc<Node>> {
        let id = self.id(node);
        if id == self.root.id {
            return Some(Arc::clone(&self.root));
        }
        self.part(id).get(&id).map(|entry| Arc::clone(&entry.node))
    }

    /// One that the kernel is told of now, by what was asked for at `asked`, under a name in a directory, which it believes for `lifetime`.
    pub fn remember(
        &self,
        (attributes, asked): (&Attributes, Instant),
        (directory, name): (FileId, &[u8]),
        lifetime: Duration,
    ) -> Arc<Node> {
        if attributes.id == self.root.id {
            self.root.tell(attributes, asked);
            return Arc::clone(&self.root);
        }
        let mut part = self.part(attributes.id);
        let mut is_new = false;
        let entry = part.entry(attributes.id).or_insert_with(|| {
            is_new = true;
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            Entry { node: Arc::new(Node::new(attributes, serial)), lookups: 0 }
        });
        entry.lookups += 1;
        let node = Arc::clone(&entry.node);
        drop(part);
        if is_new {
            self.known.fetch_add(1, Ordering::Relaxed);
            self.trimming.told(&node);
        }
        node.tell(attributes, asked);
        node.state().names.found(directory, name, lifetime);
        node
    }

    /// What a file or directory was last called, from the mounted directory on: for people only. `known` is its state.
    pub fn path(&self, id: FileId, known: &NodeState) -> String {
        let mut names = Vec::new();
        let mut place = known.names.last().cloned();
        while let Some(Place { from: directory, path: name }) = place {
            names.push(String::from_utf8_lossy(&name).into_owned());
            if directory == self.root.id || names.len() > MOST_NAMES {
                break;
            }
            place = self.part(directory).get(&directory).and_then(|entry| entry.node.state().names.last().cloned());
        }
        names.reverse();
        if names.is_empty() { id.to_string() } else { format!("/{}", names.join("/")) }
    }

    /// The kernel was told of it so many times, and has forgotten that.
    pub fn forget(&self, node: u64, lookups: u64) {
        self.forget_all(vec![(node, lookups)]);
    }

    /// The same of many: each part of the table is locked once.
    pub fn forget_all(&self, mut nodes: Vec<(u64, u64)>) {
        nodes.iter_mut().for_each(|(node, _)| *node = self.id(*node).0);
        nodes.sort_unstable_by_key(|(node, _)| Table::part_of(FileId(*node)));
        let mut gone = Vec::new();
        for some in nodes.chunk_by(|(a, _), (b, _)| Table::part_of(FileId(*a)) == Table::part_of(FileId(*b))) {
            let mut part = self.part(FileId(some[0].0));
            for (node, lookups) in some {
                let id = FileId(*node);
                let Some(entry) = part.get_mut(&id) else { continue };
                entry.lookups = entry.lookups.saturating_sub(*lookups);
                if entry.lookups == 0 {
                    gone.extend(part.remove(&id));
                }
            }
            if part.len() * 4 < part.capacity() {
                let room = part.len() * 2;
                part.shrink_to(room);
            }
        }
        // What they kept is let go when nobody has to wait for it.
        self.known.fetch_sub(gone.len(), Ordering::Relaxed);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// Whether the kernel knows of nothing but the mounted directory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        let part = |part: &Mutex<HashMap<FileId, Entry>>| {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.values().map(|entry| Arc::clone(&entry.node)).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(part).collect()
    }
}
