//! Whole trees: parents before children, the entries of a directory together, then each of its directories in turn.
//!
//! A tree of small directories is a chain of round trips if each is listed when its turn comes. Here the directories whose turn comes next
//! are asked for before ([`ahead`](super::ahead)), and as soon as one of them is there, so are those in it.
//!
//! Memory: the window of the directory that is read, what is ahead, and the names of directories that were found and whose turn
//! is still to come: those beside the way from the root to here.

use super::ahead::Ahead;
use super::{Walk, WalkEntry, WalkMode, Walker};
use std::collections::VecDeque;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{FileId, FileKind, Place};
use thalweg_wire::{Error, ErrorKind, Result};

/// The deepest directory that is gone into, and the longest path: several times what a path can name, since trees can be moved into
/// trees. What is above it is in memory.
const DEPTH_MOST: usize = 4096;
const PATH_BYTES_MOST: usize = 16 * thalweg_wire::limits::PATH_BYTES;

/// How to walk a tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Directories whose first entries are asked for and have not come, at most; 0: each is asked for when its turn comes.
    pub directories_ahead: u32,
    /// The deepest entries to come; those of the place itself are at depth 1.
    pub depth_most: u32,
    /// Directories come once more when all below them has come ([`Visit::Left`]).
    pub leaving: bool,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions { directories_ahead: 32, depth_most: u32::MAX, leaving: false }
    }
}

/// Why an entry comes.
#[derive(Clone, Debug)]
pub enum Visit {
    /// It was listed.
    Found,
    /// A directory that was listed cannot be read, or not to its end. Its entry has come before; what could be read, too.
    Unreadable(Error),
    /// All that is below this directory has come.
    Left,
}

/// One entry of a tree.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// Its path from the place where the tree begins, without a leading `/`.
    pub path: Vec<u8>,
    /// How deep: 1 for what is in the place itself.
    pub depth: u32,
    /// The directory it was listed in. At depth 1: what the place begins at, which is the directory if the place is a number alone.
    pub parent: FileId,
    /// The entry. (Of a directory that comes once more: as it was listed.)
    pub entry: WalkEntry,
    /// Why it comes.
    pub visit: Visit,
}

/// A walk through a tree. Symbolic links are entries, and are not followed.
pub struct Tree {
    walker: Walker,
    options: TreeOptions,
    levels: Vec<Level>,
    ahead: Ahead,
    /// Of all walks of this tree: a server that does not answer is found out once.
    group: u32,
    ended: bool,
}

/// A directory on the way down.
struct Level {
    /// Its path and its entry; `None`: the place where the tree begins.
    of: Option<(Vec<u8>, WalkEntry)>,
    /// Its number; and that of the directory it is in.
    id: FileId,
    parent: FileId,
    walk: Option<Walk>,
    /// Directories in it whose turn is still to come.
    below: VecDeque<(Vec<u8>, WalkEntry)>,
}

impl Walker {
    /// All below a place. Nothing is asked before the first [`Tree::next`].
    pub fn tree(&self, place: &Place, options: TreeOptions) -> Tree {
        let mut state = self.shared.state.lock();
        let (group, depth) = (state.core.new_group(), state.core.read_depth());
        state.core.hold_group(group);
        let id = state.core.open(place.clone(), None, group, depth);
        drop(state);
        let walk = Some(self.walk(id, String::from_utf8_lossy(&place.path).into_owned()));
        let level = Level { of: None, id: place.from, parent: place.from, walk, below: VecDeque::new() };
        let directories = if self.options().mode == WalkMode::Synchronous { 0 } else { options.directories_ahead };
        let ahead = Ahead::new(self.clone(), group, directories);
        Tree { walker: self.clone(), options, levels: vec![level], ahead, group, ended: false }
    }
}

impl Tree {
    /// The next entry; `None` at the end. A directory that cannot be read is an entry ([`Visit::Unreadable`]) and the walk goes on;
    /// an error is that of the place where the tree begins, or of a metadata service that is gone, and ends it.
    pub fn next(&mut self, tracer: &mut Tracer) -> Option<Result<TreeEntry>> {
        loop {
            if self.ended {
                return None;
            }
            let depth = self.levels.len() as u32;
            let level = self.levels.last_mut()?;
            if let Some(walk) = &mut level.walk {
                if walk.is_empty_here() {
                    self.look_ahead();
                }
                let level = self.levels.last_mut()?;
                match level.walk.as_mut()?.next(tracer) {
                    Some(Ok(entry)) => return Some(Ok(self.found(entry))),
                    Some(Err(error)) => {
                        level.walk = None;
                        let Some((path, entry)) = level.of.clone().filter(|_| !error.breaks_connection()) else {
                            self.ended = true;
                            return Some(Err(error));
                        };
                        let visit = Visit::Unreadable(error);
                        return Some(Ok(TreeEntry { path, depth: depth - 1, parent: level.parent, entry, visit }));
                    }
                    None => level.walk = None,
                }
            } else if let Some((path, entry)) = level.below.pop_front() {
                let (id, parent) = (entry.id, level.id);
                if let Some(error) = self.endless(&path, id) {
                    return Some(Ok(TreeEntry { path, depth, parent, entry, visit: Visit::Unreadable(error) }));
                }
                let walk = (depth < self.options.depth_most).then(|| self.open(id, &path));
                self.levels.push(Level { of: Some((path, entry)), id, parent, walk, below: VecDeque::new() });
            } else {
                let left = self.levels.pop()?;
                if let Some((path, entry)) = left.of.filter(|_| self.options.leaving) {
                    return Some(Ok(TreeEntry { path, depth: depth - 1, parent: left.parent, entry, visit: Visit::Left }));
                }
            }
        }
    }

    fn found(&mut self, entry: WalkEntry) -> TreeEntry {
        let depth = self.levels.len() as u32;
        let Some(level) = self.levels.last_mut() else { unreachable!("an entry was found in it") };
        let path = joined(level.of.as_ref().map(|(path, _)| path.as_slice()), &entry.name);
        if entry.kind == FileKind::Directory && (depth < self.options.depth_most || self.options.leaving) {
            level.below.push_back((path.clone(), entry.clone()));
        }
        TreeEntry { path, depth, parent: level.id, entry, visit: Visit::Found }
    }

    /// Why a directory is not gone into: a tree has an end, and a server that says otherwise is not followed.
    fn endless(&self, path: &[u8], id: FileId) -> Option<Error> {
        let problem = if self.levels.iter().any(|level| level.of.is_some() && level.id == id) {
            "a directory that is in itself: the metadata service is wrong".to_owned()
        } else if self.levels.len() > DEPTH_MOST || path.len() > PATH_BYTES_MOST {
            format!("deeper than {DEPTH_MOST} directories, or of a path of more than {PATH_BYTES_MOST} bytes")
        } else {
            return None;
        };
        Some(Error::new(ErrorKind::LinkLoop, problem))
    }

    /// The walk of a directory whose turn has come: perhaps it has begun already.
    fn open(&mut self, id: FileId, path: &[u8]) -> Walk {
        let label = String::from_utf8_lossy(path).into_owned();
        let begun = self.ahead.take(id).unwrap_or_else(|| {
            let mut state = self.walker.shared.state.lock();
            let depth = state.core.read_depth();
            state.core.open(Place::of(id), None, self.group, depth)
        });
        self.walker.walk(begun, label)
    }

    /// Asks for directories whose turn comes next: those that were found, deepest first, and those that are about to be found.
    fn look_ahead(&mut self) {
        let depth = self.levels.len() as u32;
        if depth >= self.options.depth_most {
            return;
        }
        let Some(here) = self.levels.last().and_then(|level| level.walk.as_ref()).map(Walk::id) else { return };
        let found = self.levels.iter().rev().map(|level| level.below.iter().map(|(_, entry)| entry.id));
        self.ahead.fill(here, found, self.options.depth_most.saturating_sub(depth));
    }

    /// Whether the next entry is here: then [`Tree::next`] does not wait for it. Else it may, and what has been made of the last ones is
    /// better shown before.
    pub fn is_ready(&self) -> bool {
        self.levels.last().and_then(|level| level.walk.as_ref()).is_some_and(|walk| !walk.is_empty_here())
    }

    /// Does not go into the directory that [`Tree::next`] gave last.
    pub fn prune(&mut self) {
        if let Some(level) = self.levels.last_mut()
            && let Some((_, entry)) = level.below.pop_back()
        {
            self.ahead.let_go(entry.id);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.walker.shared.state.lock().core.let_group_go(self.group);
    }
}

fn joined(parent: Option<&[u8]>, name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(parent.map_or(0, |p| p.len() + 1) + name.len());
    if let Some(parent) = parent {
        path.extend_from_slice(parent);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
