//! The event queue, ordered by time, then by insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event's time and insertion number.
type Due = Reverse<(u64, u64)>;

/// A queue of events.
pub(super) struct Events<E> {
    due: BinaryHeap<(Due, Same<E>)>,
    arranged: u64,
}

/// Wraps the event so that it does not affect the order.
struct Same<E>(E);

impl<E> PartialEq for Same<E> {
    fn eq(&self, _: &Same<E>) -> bool {
        true
    }
}
impl<E> Eq for Same<E> {}
impl<E> PartialOrd for Same<E> {
    fn partial_cmp(&self, other: &Same<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Same<E> {
    fn cmp(&self, _: &Same<E>) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<E> Events<E> {
    pub(super) fn new() -> Events<E> {
        Events { due: BinaryHeap::new(), arranged: 0 }
    }

    pub(super) fn at(&mut self, at_ns: u64, event: E) {
        self.arranged += 1;
        self.due.push((Reverse((at_ns, self.arranged)), Same(event)));
    }

    pub(super) fn next(&mut self) -> Option<(u64, E)> {
        self.due.pop().map(|(Reverse((at_ns, _)), Same(event))| (at_ns, event))
    }
}
