//! The memory that all connections of a server take for large payloads together: a bounded number of bytes, in buffers
//! that are used again. (Given back to the allocator each time, they would be cleared again each time, and how much the
//! allocator keeps would be its own affair.)
//!
//! A credential other than the store's own has at most three quarters of them in use: clients that send half a payload, or do not take what they
//! asked for, keep nobody else waiting.

use std::collections::HashMap;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_wire::trust::{CredentialId, Identity, Rights};

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
    /// Bytes in use, of each credential that has some.
    of: HashMap<CredentialId, u64>,
}

impl Pool {
    /// `bytes` in all.
    pub(super) fn new(bytes: u64) -> Pool {
        Pool { state: Mutex::default(), given_back: Condvar::new(), whole: bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A buffer with room for `bytes` (not more than the whole), waiting until there is one for this credential.
    pub(super) fn take(&self, bytes: u64, who: &Identity) -> Vec<u8> {
        let bytes = bytes.min(self.whole);
        let most = if who.rights == Rights::Store { self.whole } else { self.whole - self.whole / 4 };
        let mut state = self.state();
        loop {
            let has = state.of.get(&who.id).copied().unwrap_or(0);
            // (What is more than its part altogether, it gets alone.)
            if has > 0 && has + bytes > most {
                self.given_back.wait(&mut state);
                continue;
            }
            if let Some(place) = state.free.iter().position(|b| b.capacity() as u64 >= bytes) {
                let buffer = state.free.swap_remove(place);
                *state.of.entry(who.id).or_default() += buffer.capacity() as u64;
                return buffer;
            }
            if state.bytes + bytes <= self.whole {
                let buffer = Vec::with_capacity(bytes as usize);
                state.bytes += buffer.capacity() as u64;
                *state.of.entry(who.id).or_default() += buffer.capacity() as u64;
                return buffer;
            }
            match state.free.pop() {
                Some(too_small) => state.bytes -= too_small.capacity() as u64,
                None => self.given_back.wait(&mut state),
            }
        }
    }

    /// Gives a buffer back that this credential had.
    pub(super) fn give(&self, buffer: Vec<u8>, who: &Identity) {
        let mut state = self.state();
        let left = state.of.get(&who.id).map_or(0, |has| has.saturating_sub(buffer.capacity() as u64));
        match left {
            0 => _ = state.of.remove(&who.id),
            left => _ = state.of.insert(who.id, left),
        }
        state.free.push(buffer);
        drop(state);
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
                        let buffer = pool.take(wanted, &Identity::store());
                        assert!(buffer.capacity() as u64 >= wanted);
                        assert!(pool.state().bytes <= 1000);
                        pool.give(buffer, &Identity::store());
                    }
                });
            }
        });
    }
    #[test]
    fn a_credential_that_keeps_what_it_took_leaves_a_quarter_to_others() {
        let pool = Pool::new(1000);
        let who = |of: u8| Identity { id: CredentialId([of; 16]), rights: Rights::Read, ..Identity::store() };
        let (one, other) = (who(1), who(2));
        let mut kept: Vec<Vec<u8>> = (0..3).map(|_| pool.take(250, &one)).collect();
        std::thread::scope(|scope| {
            let fourth = scope.spawn(|| pool.take(250, &one));
            // It comes at once, though the first asks for more.
            pool.give(pool.take(250, &other), &other);
            assert!(!fourth.is_finished());
            pool.give(kept.pop().unwrap(), &one);
            pool.give(fourth.join().unwrap(), &one);
        });
        kept.into_iter().for_each(|buffer| pool.give(buffer, &one));
        assert!(pool.state().of.is_empty());
    }
}
