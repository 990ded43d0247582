//! The kernel forgets what is more than the mount will keep.
//!
//! What the kernel knows is known here too, and it forgets only when its memory is short; the memory here does not count for that. So a
//! listing of a million files would leave a million of them in both. Past a number, the kernel is asked to drop those it has known
//! for longest: what nobody uses and nobody has opened (the pages of those that were opened are worth more), and what that is not
//! enough for, all that nobody uses.

use crate::inodes::table::{Node, Table};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use thalweg_store::protocol::metadata::FileId;

/// Files in one request to the kernel.
const BATCH: usize = 512;
/// So many times what there should be at most, and files that were opened are dropped too.
const FAR_TOO_MANY: usize = 4;

/// A file, and the table's number for it: one that was forgotten and found again is another.
type Told = (FileId, u64);

/// What the kernel knows, in the order in which it was told.
pub struct Trimming {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    order: VecDeque<Told>,
    /// What the kernel was asked to drop: some of it may be in use.
    asked: Vec<Told>,
    /// As soon as there are more, something is done.
    due: usize,
    ended: bool,
}

impl Trimming {
    /// For so many at most.
    pub fn new(most: usize) -> Trimming {
        Trimming { most, state: Mutex::new(State { due: most, ..State::default() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is told of a file that it did not know.
    pub fn told(&self, node: &Node) {
        let mut state = self.state();
        state.order.push_back((node.id, node.serial));
        if state.order.len() > state.due {
            self.changed.notify_one();
        }
    }

    /// There will be no more.
    pub fn finish(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// Calls `prune` for what should go, until [`Trimming::finish`], or an error: the kernel does not know how.
    pub fn watch(&self, table: &Table, mut prune: impl FnMut(&[u64]) -> std::io::Result<()>) {
        let mut state = self.state();
        while !state.ended {
            if state.order.len() <= state.due {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let asked_before = std::mem::take(&mut state.asked);
            // Down to three quarters, so that this is not done for each.
            let many = state.order.len() - (self.most - self.most / 4).min(state.order.len());
            let oldest: Vec<Told> = state.order.drain(..many).collect();
            drop(state);
            let stays: Vec<Told> = asked_before.into_iter().filter(|told| find(table, *told).is_some()).collect();
            let (asked, kept) = self.choose(table, oldest);
            let nodes: Vec<u64> = asked.iter().map(|(id, _)| id.0).collect();
            let done = nodes.chunks(BATCH).try_for_each(&mut prune);
            state = self.state();
            state.order.extend(stays.into_iter().chain(kept));
            state.asked = asked;
            state.due = self.most.max(state.order.len()) + self.most / 8;
            if done.is_err() {
                state.due = usize::MAX;
                state.order = VecDeque::new();
            }
        }
    }

    /// What of these is to go, and what is not; what has gone already is neither.
    fn choose(&self, table: &Table, oldest: Vec<Told>) -> (Vec<Told>, Vec<Told>) {
        let all = table.len() > self.most.saturating_mul(FAR_TOO_MANY);
        let known = oldest.into_iter().filter_map(|told| find(table, told).map(|node| (told, node)));
        let (go, stay): (Vec<_>, Vec<_>) = known.partition(|(_, node)| {
            let state = node.state();
            all || state.was_never_open() && state.open_directories == 0
        });
        let told = |all: Vec<(Told, _)>| all.into_iter().map(|(told, _)| told).collect();
        (told(go), told(stay))
    }
}

fn find(table: &Table, (id, serial): Told) -> Option<std::sync::Arc<Node>> {
    table.get(id.0).filter(|node| node.serial == serial)
}
