//! The memory that all connections of a server take for large payloads together: a bounded number of bytes, in buffers
//! that are used again. (Given back to the allocator each time, they would be cleared again each time, and how much the
//! allocator keeps would be its own affair.)

use crate::sync::{Condvar, Mutex, MutexGuard};

/// So many bytes, shared by all connections.
pub(super) struct Pool {
    state: Mutex<State>,
    given_back: Condvar,
    whole: u64,
}

#[derive(Default)]
struct State {
    /// Bytes of all buffers, in use or not.
    bytes: u64,
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// `bytes` in all.
    pub(super) fn new(bytes: u64) -> Pool {
        Pool { state: Mutex::default(), given_back: Condvar::new(), whole: bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A buffer with room for `bytes` (not more than the whole), waiting until there is one.
    pub(super) fn take(&self, bytes: u64) -> Vec<u8> {
        let bytes = bytes.min(self.whole);
        let mut state = self.state();
        loop {
            if let Some(place) = state.free.iter().position(|b| b.capacity() as u64 >= bytes) {
                return state.free.swap_remove(place);
            }
            if state.bytes + bytes <= self.whole {
                let buffer = Vec::with_capacity(bytes as usize);
                state.bytes += buffer.capacity() as u64;
                return buffer;
            }
            match state.free.pop() {
                Some(too_small) => state.bytes -= too_small.capacity() as u64,
                None => self.given_back.wait(&mut state),
            }
        }
    }

    /// Gives a buffer back.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        self.state().free.push(buffer);
        self.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_whole_and_everybody_gets_a_turn() {
        let pool = Pool::new(1000);
        std::thread::scope(|scope| {
            for n in 0..16_u64 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..50 {
                        let wanted = 100 + (n * 37 + round * 91) % 400;
                        let buffer = pool.take(wanted);
                        assert!(buffer.capacity() as u64 >= wanted);
                        assert!(pool.state().bytes <= 1000);
                        pool.give(buffer);
                    }
                });
            }
        });
    }
}
