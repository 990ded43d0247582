//! Shrinks the kernel's cache of inodes.
//!
//! An inode the kernel caches is also kept here, and the kernel drops inodes only when its own memory is short. So a listing of a million
//! files would leave a million inodes in both. Past a limit, the kernel is asked to drop those it has had longest: first unused ones that
//! were never open (cached pages of opened files are worth more), and if that is not enough, all unused ones.

use crate::inodes::inode::Inode;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_client::wire::protocol::metadata::FileId;

/// Files per request to the kernel.
const BATCH: usize = 512;
/// Multiple of the limit at which files that were opened are dropped too.
const FAR_TOO_MANY: usize = 4;

/// A file with its serial number in the table: one that was forgotten and found again has a new one.
type Listed = (FileId, u64);

/// Inodes the kernel knows, in the order they were given.
pub(crate) struct Shrinker {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    order: VecDeque<Listed>,
    /// Inodes the kernel was asked to drop: some may be in use.
    asked: Vec<Listed>,
    /// Number of inodes that triggers the next run.
    due: usize,
    ended: bool,
}

impl Shrinker {
    /// Keeps the number of inodes below `limit`.
    pub(crate) fn new(limit: usize) -> Shrinker {
        Shrinker { limit, state: Mutex::new(State { due: limit, ..State::default() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds an inode the kernel did not know.
    pub(crate) fn added(&self, inode: &Inode) {
        let mut state = self.state();
        state.order.push_back((inode.id, inode.serial));
        if state.order.len() > state.due {
            self.changed.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn finish(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// Calls `prune` for inodes to drop, until [`Shrinker::finish`], or an error: the kernel does not support it. `find` returns an inode
    /// if the kernel still knows it; `known` returns how many it knows.
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
            // Down to three quarters, so that this is not repeated for each inode.
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

/// Splits inodes into those to drop and those to keep, leaving out those already forgotten. `all`: drop also those that were opened.
fn choose(find: &impl Fn(FileId, u64) -> Option<Arc<Inode>>, oldest: Vec<Listed>, all: bool) -> (Vec<Listed>, Vec<Listed>) {
    let known = oldest.into_iter().filter_map(|(id, serial)| find(id, serial));
    let (go, stay): (Vec<_>, Vec<_>) = known.partition(|inode| {
        let state = inode.state();
        all || state.was_never_open() && state.open_directories == 0
    });
    let listed = |inodes: Vec<Arc<Inode>>| inodes.iter().map(|inode| (inode.id, inode.serial)).collect();
    (listed(go), listed(stay))
}
