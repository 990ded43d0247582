//! Lists directories of a tree before their turn.
//!
//! They are begun in the order of their turns, as far as known: once a directory is listed, its subdirectories come next, before its
//! siblings. Two bounds apply: requests without an answer, and entries waiting to be read. If entries of far directories take the room of
//! nearer ones found later, the farthest is dropped.

use super::Walker;
use super::core::{Core, WalkId};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_wire::protocol::metadata::{FileId, FilePath};

/// Cost of a prefetched directory besides its entries, in entries.
const DIRECTORY_TAKES: usize = 8;

/// Walks that were begun before their reader needs them.
pub(super) struct Ahead {
    walker: Walker,
    group: u32,
    /// Bound: requests without an answer.
    most: usize,
    begun: HashMap<FileId, Begun>,
}

struct Begun {
    walk: WalkId,
    /// Known subdirectories, each with the round trips that led to it.
    directories: Vec<(FileId, u32)>,
    /// Number of its entries examined so far.
    seen: u64,
}

/// A directory in the order of turns.
#[derive(Clone, Copy)]
struct Next {
    id: FileId,
    depth: u32,
    is_begun: bool,
}

impl Ahead {
    /// Starts without walks; at most `most` requests may be unanswered.
    pub(super) fn new(walker: Walker, group: u32, most: u32) -> Ahead {
        Ahead { walker, group, most: most as usize, begun: HashMap::new() }
    }

    /// Takes the walk of this directory, if begun.
    pub(super) fn take(&mut self, id: FileId) -> Option<WalkId> {
        self.begun.remove(&id).map(|begun| begun.walk)
    }

    /// Drops this directory's walk: it will not be read.
    pub(super) fn let_go(&mut self, id: FileId) {
        if let Some(begun) = self.begun.remove(&id) {
            self.walker.shared.state.lock().core.close(begun.walk);
        }
    }

    /// Begins walks: of directories in the one being read (`here`) that the reader has not reached, of those `found` (by level, deepest
    /// first; the first level precedes those in `here`), and of their subdirectories, `levels` deep.
    pub(super) fn fill<I: Iterator<Item = FileId>>(&mut self, here: WalkId, found: impl Iterator<Item = I>, levels: u32) {
        if self.most == 0 {
            return;
        }
        let shared = Arc::clone(&self.walker.shared);
        let mut state = shared.state.lock();
        let core = &mut state.core;
        let (mut unanswered, mut held) = (0, 0);
        for begun in self.begun.values_mut() {
            let (is_there, items) = core.standing(begun.walk);
            unanswered += usize::from(!is_there);
            held += items + DIRECTORY_TAKES;
            let (directories, seen) = core.directories(begun.walk, begun.seen);
            begun.directories.extend(directories);
            begun.seen = seen;
        }
        if unanswered * 2 > self.most {
            return;
        }
        let room = self.walker.options().window_most as usize;
        let page = (room / self.most).max(1) as u32;
        let read_depth = core.read_depth();
        let mut order = Vec::new();
        let mut found = found;
        let nearest = found.next();
        nearest.into_iter().flatten().for_each(|id| self.enqueue(id, read_depth, levels, &mut order));
        core.directories(here, 0).0.into_iter().for_each(|(id, depth)| self.enqueue(id, depth, levels, &mut order));
        for id in found.flatten() {
            if order.len() > 2 * (self.most + self.begun.len()) {
                break;
            }
            self.enqueue(id, read_depth, levels, &mut order);
        }
        let mut last = order.len();
        for at in 0..order.len() {
            let next = order[at];
            if next.is_begun {
                continue;
            }
            if unanswered >= self.most {
                break;
            }
            while held + DIRECTORY_TAKES > room {
                // Drops the farthest walk, but only for a nearer one.
                last = match (at + 1..last).rev().find(|far| order[*far].is_begun) {
                    Some(far) => far,
                    None => return,
                };
                held = held.saturating_sub(self.close(core, order[last].id));
            }
            let walk = core.open(FilePath::of(next.id), None, self.group, next.depth);
            core.start(walk, page);
            self.begun.insert(next.id, Begun { walk, directories: Vec::new(), seen: 0 });
            unanswered += 1;
            held += DIRECTORY_TAKES;
        }
    }

    fn close(&mut self, core: &mut Core, id: FileId) -> usize {
        self.begun.remove(&id).map_or(0, |begun| {
            let items = core.standing(begun.walk).1;
            core.close(begun.walk);
            items + DIRECTORY_TAKES
        })
    }

    /// Appends this directory and, after it, its subdirectories.
    fn enqueue(&self, id: FileId, depth: u32, levels: u32, order: &mut Vec<Next>) {
        if order.len() > 2 * (self.most + self.begun.len()) {
            return;
        }
        let begun = self.begun.get(&id);
        order.push(Next { id, depth, is_begun: begun.is_some() });
        if levels > 1
            && let Some(begun) = begun
        {
            begun.directories.iter().for_each(|(id, depth)| self.enqueue(*id, *depth, levels - 1, order));
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.walker.shared.state.lock();
        self.begun.values().for_each(|begun| state.core.close(begun.walk));
    }
}
