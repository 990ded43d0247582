//! Reading ahead: while one range of pairs is used, the next one is fetched by a thread.

use crate::database::Table;
use std::collections::VecDeque;
use thalweg_base::sync::{Condvar, Mutex};

/// Ranges that wait to be fetched at most: what comes later is fetched by who needs it.
const WAITING: usize = 8;

/// What is to be fetched, and what is being fetched.
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
    /// What begins at `end` is likely to be asked for next; `None`: nothing follows.
    pub(super) fn ask(&self, table: Table, end: Option<&Vec<u8>>) {
        let Some(end) = end else { return };
        let mut state = self.state.lock();
        let is_asked = |(of, from): &(Table, Vec<u8>)| *of == table && from == end;
        if state.waiting.len() < WAITING && !state.waiting.iter().chain(&state.fetching).any(is_asked) {
            state.waiting.push_back((table, end.clone()));
            self.changed.notify_all();
        }
    }

    /// If what begins at `from` is being fetched, waits until it is, and answers `true`. What is only waiting is left to who asks.
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

    /// No more of it.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// What is to be fetched next, when there is something; what was fetched before is. `None`: no more of it.
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
