//! Read-ahead: a thread fetches the next range of pairs while one is in use.

use crate::database::Table;
use std::collections::VecDeque;
use thalweg_base::sync::{Condvar, Mutex};

/// Bound: queued ranges. Later ones are fetched by their reader.
const WAITING: usize = 8;

/// The queue of ranges to fetch, and the one being fetched.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Table, Vec<u8>)>,
    fetching: Option<(Table, Vec<u8>)>,
    stop: bool,
}

impl Ahead {
    /// Queues the range that starts at `end`, which is likely to be read next; `None`: there is none.
    pub(super) fn ask(&self, table: Table, end: Option<&Vec<u8>>) {
        let Some(end) = end else { return };
        let mut state = self.state.lock();
        let is_asked = |(of, from): &(Table, Vec<u8>)| *of == table && from == end;
        if state.waiting.len() < WAITING && !state.waiting.iter().chain(&state.fetching).any(is_asked) {
            state.waiting.push_back((table, end.clone()));
            self.changed.notify_all();
        }
    }

    /// If the range starting at `from` is being fetched, waits for it and returns `true`. A queued range is left to the caller.
    pub(super) fn wait_for(&self, table: Table, from: &[u8]) -> bool {
        let mut state = self.state.lock();
        let is_this = |(of, at): &(Table, Vec<u8>)| *of == table && at == from;
        state.waiting.retain(|range| !is_this(range));
        let is_fetched = state.fetching.as_ref().is_some_and(is_this);
        while state.fetching.as_ref().is_some_and(is_this) {
            self.changed.wait(&mut state);
        }
        is_fetched
    }

    /// Ends read-ahead.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Marks the last range as fetched, and waits for the next; `None` at the end of read-ahead.
    pub(super) fn next(&self) -> Option<(Table, Vec<u8>)> {
        let mut state = self.state.lock();
        state.fetching = None;
        self.changed.notify_all();
        while !state.stop {
            state.fetching = state.waiting.pop_front();
            if state.fetching.is_some() {
                return state.fetching.clone();
            }
            self.changed.wait(&mut state);
        }
        None
    }
}
