//! Walks whole trees: parents before children, the entries of a directory together, then each of its subdirectories.
//!
//! A tree of small directories would be a chain of round trips if each were listed when its turn comes. The next directories are requested
//! in advance ([`ahead`](super::ahead)), and once one is listed, so are its subdirectories.
//!
//! Memory: the window of the current directory, the prefetched directories, and the names of directories found and not yet visited: the
//! siblings along the path from the root.

use super::ahead::Ahead;
use super::{Walk, WalkEntry, WalkMode, Walker};
use std::collections::VecDeque;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{FileId, FileKind, FilePath};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bounds: depth of the tree and length of a path, several times what a path can name, since trees can be moved into trees. The levels
/// above are in memory.
const DEPTH_MOST: usize = 4096;
const PATH_BYTES_MOST: usize = 16 * thalweg_wire::limits::PATH_BYTES;

/// Options of a tree walk.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Bound: directories requested whose first entries have not arrived; 0: no prefetching of directories.
    pub directories_ahead: u32,
    /// Maximum depth of entries; those of the starting place are at depth 1.
    pub depth_most: u32,
    /// Whether a directory is returned again after everything below it ([`Visit::Left`]).
    pub leaving: bool,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions { directories_ahead: 32, depth_most: u32::MAX, leaving: false }
    }
}

/// Reason an entry is returned.
#[derive(Clone, Debug)]
pub enum Visit {
    /// The entry was listed.
    Found,
    /// A listed directory cannot be read completely. Its entry, and what could be read, were returned before.
    Unreadable(Error),
    /// Everything below this directory was returned.
    Left,
}

/// One entry of a tree.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// Path from the starting place, without a leading `/`.
    pub path: Vec<u8>,
    /// Depth; 1 for the entries of the starting place.
    pub depth: u32,
    /// Directory that lists the entry. At depth 1, it is the number at which the starting place begins, which is the directory itself if
    /// the place is only a number.
    pub parent: FileId,
    /// The entry; for [`Visit::Left`], as it was listed.
    pub entry: WalkEntry,
    /// Reason it is returned.
    pub visit: Visit,
}

/// A walk through a tree. Symbolic links are returned as entries, and not followed.
pub struct Tree {
    walker: Walker,
    options: TreeOptions,
    levels: Vec<Level>,
    ahead: Ahead,
    /// Group of all walks of this tree: a silent server costs one timeout.
    group: u32,
    ended: bool,
}

/// A directory on the way down.
struct Level {
    /// Path and entry; `None`: the starting place.
    of: Option<(Vec<u8>, WalkEntry)>,
    /// Number of the directory, and of its parent.
    id: FileId,
    parent: FileId,
    walk: Option<Walk>,
    /// Subdirectories not visited yet.
    below: VecDeque<(Vec<u8>, WalkEntry)>,
}

impl Walker {
    /// Walks everything below a place. Nothing is requested before the first [`Tree::next`].
    pub fn tree(&self, place: &FilePath, options: TreeOptions) -> Tree {
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
    /// Returns the next entry; `None` at the end. An unreadable directory is an entry ([`Visit::Unreadable`]), and the walk continues. An
    /// error concerns the starting place or an unreachable metadata service, and ends the walk.
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
        let Some(level) = self.levels.last_mut() else { unreachable!("a level is current") };
        let path = joined(level.of.as_ref().map(|(path, _)| path.as_slice()), &entry.name);
        if entry.kind == FileKind::Directory && (depth < self.options.depth_most || self.options.leaving) {
            level.below.push_back((path.clone(), entry.clone()));
        }
        TreeEntry { path, depth, parent: level.id, entry, visit: Visit::Found }
    }

    /// Returns the reason not to descend into a directory: a tree must be finite, even if a server claims otherwise.
    fn endless(&self, path: &[u8], id: FileId) -> Option<Error> {
        let problem = if self.levels.iter().any(|level| level.of.is_some() && level.id == id) {
            "a directory that contains itself: an error of the metadata service".to_owned()
        } else if self.levels.len() > DEPTH_MOST || path.len() > PATH_BYTES_MOST {
            format!("deeper than {DEPTH_MOST} directories, or a path longer than {PATH_BYTES_MOST} bytes")
        } else {
            return None;
        };
        Some(Error::new(ErrorKind::LinkLoop, problem))
    }

    /// Opens the walk of a directory whose turn has come, prefetched or new.
    fn open(&mut self, id: FileId, path: &[u8]) -> Walk {
        let label = String::from_utf8_lossy(path).into_owned();
        let begun = self.ahead.take(id).unwrap_or_else(|| {
            let mut state = self.walker.shared.state.lock();
            let depth = state.core.read_depth();
            state.core.open(FilePath::of(id), None, self.group, depth)
        });
        self.walker.walk(begun, label)
    }

    /// Requests the next directories: those found, deepest first, and those about to be found.
    fn look_ahead(&mut self) {
        let depth = self.levels.len() as u32;
        if depth >= self.options.depth_most {
            return;
        }
        let Some(here) = self.levels.last().and_then(|level| level.walk.as_ref()).map(Walk::id) else { return };
        let found = self.levels.iter().rev().map(|level| level.below.iter().map(|(_, entry)| entry.id));
        self.ahead.fill(here, found, self.options.depth_most.saturating_sub(depth));
    }

    /// Whether [`Tree::next`] returns without waiting. If not, show earlier results before calling it.
    pub fn is_ready(&self) -> bool {
        self.levels.last().and_then(|level| level.walk.as_ref()).is_some_and(|walk| !walk.is_empty_here())
    }

    /// Skips the contents of the directory that [`Tree::next`] returned last.
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
