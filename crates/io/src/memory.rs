//! The memory pool for large payloads, shared by all connections of a server: a bounded number of bytes in reusable buffers.
//! (Returned to the allocator, buffers would be zeroed at each use, and the memory kept would be up to the allocator.)
//!
//! A credential other than the store's own may use at most three quarters of the pool: clients that send half a payload, or do
//! not read their replies, block no other client.

use std::collections::HashMap;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_wire::trust::{CredentialId, Identity, Rights};

/// A pool of payload buffers.
pub(super) struct Pool {
    state: Mutex<State>,
    given_back: Condvar,
    whole: u64,
}

#[derive(Default)]
struct State {
    /// Bytes of all buffers, free or in use.
    bytes: u64,
    free: Vec<Vec<u8>>,
    /// Bytes in use by each credential.
    of: HashMap<CredentialId, u64>,
}

impl Pool {
    /// Makes a pool of `bytes`.
    pub(super) fn new(bytes: u64) -> Pool {
        Pool { state: Mutex::default(), given_back: Condvar::new(), whole: bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes a buffer of at least `bytes` (capped at the pool's size), waiting until this credential may have one.
    pub(super) fn take(&self, bytes: u64, who: &Identity) -> Vec<u8> {
        let bytes = bytes.min(self.whole);
        let most = if who.rights == Rights::Store { self.whole } else { self.whole - self.whole / 4 };
        let mut state = self.state();
        loop {
            let has = state.of.get(&who.id).copied().unwrap_or(0);
            // A request larger than the credential's part is granted if it uses nothing else.
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

    /// Returns a buffer taken by this credential.
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
            // Granted immediately, although the first credential waits for more.
            pool.give(pool.take(250, &other), &other);
            assert!(!fourth.is_finished());
            pool.give(kept.pop().unwrap(), &one);
            pool.give(fourth.join().unwrap(), &one);
        });
        kept.into_iter().for_each(|buffer| pool.give(buffer, &one));
        assert!(pool.state().of.is_empty());
    }
}
