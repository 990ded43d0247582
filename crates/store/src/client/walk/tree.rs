//! Whole trees: parents before children, the entries of a directory together, then each of its directories in turn.

use super::{Walk, WalkEntry, Walker};
use crate::error::{Error, Result};
use crate::protocol::metadata::{FileId, FileKind, Place};
use std::collections::VecDeque;
use thalweg_trace::Tracer;

/// How to walk a tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Directories whose first entries are asked for before their turn, at most.
    pub directories_ahead: u32,
    /// The deepest entries to come; those of the place itself are at depth 1.
    pub depth_most: u32,
    /// Directories come once more when all below them has come ([`Visit::Left`]).
    pub leaving: bool,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions { directories_ahead: 16, depth_most: u32::MAX, leaving: false }
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
    /// All below a place.
    pub fn tree(&self, place: &Place, options: TreeOptions) -> Tree {
        let level = Level { of: None, id: place.from, parent: place.from, walk: Some(self.directory(place)), below: VecDeque::new() };
        Tree { walker: self.clone(), options, levels: vec![level], ended: false }
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
            let Some(level) = self.levels.last_mut() else { return None };
            if let Some(walk) = &mut level.walk {
                match walk.next(tracer) {
                    Some(Ok(entry)) => {
                        let path = joined(level.of.as_ref().map(|(path, _)| path.as_slice()), &entry.name);
                        if entry.kind == FileKind::Directory && (depth < self.options.depth_most || self.options.leaving) {
                            level.below.push_back((path.clone(), entry.clone()));
                        }
                        return Some(Ok(TreeEntry { path, depth, parent: level.id, entry, visit: Visit::Found }));
                    }
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
                let walk = (depth < self.options.depth_most).then(|| self.walker.directory(&Place::of(entry.id)));
                let (id, parent) = (entry.id, level.id);
                self.levels.push(Level { of: Some((path, entry)), id, parent, walk, below: VecDeque::new() });
            } else {
                let left = self.levels.pop()?;
                if let Some((path, entry)) = left.of.filter(|_| self.options.leaving) {
                    return Some(Ok(TreeEntry { path, depth: depth - 1, parent: left.parent, entry, visit: Visit::Left }));
                }
            }
        }
    }

    /// Does not go into the directory that [`Tree::next`] gave last.
    pub fn prune(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.below.pop_back();
        }
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
