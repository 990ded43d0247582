//! Shrinking the kernel's cache of inodes.
//!
//! What the kernel knows is known here too, and it forgets only when its own memory is short. So a listing of a million files would leave
//! a million inodes in both. Past a limit, the kernel is asked to drop those it has known for longest: first what nobody uses and nobody
//! has opened (pages of opened files are worth more), and if that is not enough, all that nobody uses.

use crate::inodes::inode::Inode;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_client::wire::protocol::metadata::FileId;

/// Files in one request to the kernel.
const BATCH: usize = 512;
/// So many times what there should be at most, and files that were opened are dropped too.
const FAR_TOO_MANY: usize = 4;

/// A file, and the table's number for it: one that was forgotten and found again is another.
type Listed = (FileId, u64);

/// What the kernel knows, in the order in which it was given.
pub(crate) struct Shrinker {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    order: VecDeque<Listed>,
    /// What the kernel was asked to drop: some of it may be in use.
    asked: Vec<Listed>,
    /// As soon as there are more, something is done.
    due: usize,
    ended: bool,
}

impl Shrinker {
    /// For so many at most.
    pub(crate) fn new(limit: usize) -> Shrinker {
        Shrinker { limit, state: Mutex::new(State { due: limit, ..State::default() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The kernel is given a file that it did not know.
    pub(crate) fn added(&self, inode: &Inode) {
        let mut state = self.state();
        state.order.push_back((inode.id, inode.serial));
        if state.order.len() > state.due {
            self.changed.notify_one();
        }
    }

    /// There will be no more.
    pub(crate) fn finish(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// Calls `prune` for what should go, until [`Shrinker::finish`], or an error: the kernel does not know how. `find`: an inode, if the
    /// kernel knows it still; `known`: how many it knows.
    pub(crate) fn run(
        &self,
        find: impl Fn(FileId, u64) -> Option<Arc<Inode>>,
        known: impl Fn() -> usize,
        mut prune: impl FnMut(&[u64]) -> std::io::Result<()>,
    ) {
        let mut state = self.state();
        while !state.ended {
            if state.order.len() <= state.due {
                self.changed.wait(&mut state);
                continue;
            }
            let asked_before = std::mem::take(&mut state.asked);
            // Down to three quarters, so that this is not done for each.
            let many = state.order.len() - (self.limit - self.limit / 4).min(state.order.len());
            let oldest: Vec<Listed> = state.order.drain(..many).collect();
            drop(state);
            let stays: Vec<Listed> = asked_before.into_iter().filter(|(id, serial)| find(*id, *serial).is_some()).collect();
            let all = known() > self.limit.saturating_mul(FAR_TOO_MANY);
            let (asked, kept) = choose(&find, oldest, all);
            let numbers: Vec<u64> = asked.iter().map(|(id, _)| id.0).collect();
            let done = numbers.chunks(BATCH).try_for_each(&mut prune);
            state = self.state();
            state.order.extend(stays.into_iter().chain(kept));
            state.asked = asked;
            state.due = self.limit.max(state.order.len()) + self.limit / 8;
            if done.is_err() {
                state.due = usize::MAX;
                state.order = VecDeque::new();
            }
        }
    }
}

/// What of these is to go, and what is not; what has gone already is neither. `all`: also those that were opened.
fn choose(find: &impl Fn(FileId, u64) -> Option<Arc<Inode>>, oldest: Vec<Listed>, all: bool) -> (Vec<Listed>, Vec<Listed>) {
    let known = oldest.into_iter().filter_map(|(id, serial)| find(id, serial));
    let (go, stay): (Vec<_>, Vec<_>) = known.partition(|inode| {
        let state = inode.state();
        all || state.was_never_open() && state.open_directories == 0
    });
    let listed = |inodes: Vec<Arc<Inode>>| inodes.iter().map(|inode| (inode.id, inode.serial)).collect();
    (listed(go), listed(stay))
}
