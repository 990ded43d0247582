//! The memory of all windows of one client: a fixed number of bytes, shared by all open files.
//!
//! A holder (one file's window) gets what it requests while memory is plentiful. Once three quarters are lent, a holder gets no more than
//! an equal share of the total; one that has more keeps it until it is used up, and the others are asked to release what they can spare:
//! read-ahead not yet requested, writes that could be sent. A holder that gets nothing reads and writes synchronously, so no holder ever
//! waits for another's memory.
//!
//! Returned memory is reused: recently touched pages are several times faster than new ones.

use super::engine::memory::{Bytes, Lender, RequestMemory};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Mutex, thread};
use thalweg_wire::limits;

/// Bound: returned bytes kept for reuse.
const KEPT_BYTES: u64 = 32 << 20;
/// Interval at which holders are asked to release what they have held for too long.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Memory shared by the windows of one client; see the module documentation.
pub struct Budget {
    total_bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lent_bytes: u64,
    kept_bytes: u64,
    kept: HashMap<usize, Vec<Bytes>>,
    holders: HashMap<u64, Holder>,
    last: u64,
    /// Whether the thread that polls holders runs.
    is_kept: bool,
}

struct Holder {
    lent_bytes: u64,
    window: Weak<dyn Window>,
}

/// A holder of a budget's memory. Both functions are called from any thread, and must not block.
pub(crate) trait Window: Send + Sync {
    /// Memory is short: releases what can be spared, now or once it is on a server.
    fn relieve(&self);
    /// Called periodically: releases what was held for too long.
    fn look(&self, now: Instant);
}

/// A holder's share of a budget.
pub(crate) struct Share {
    budget: Arc<Budget>,
    number: u64,
}

/// A number of bytes lent to a holder until this is dropped.
pub(crate) struct Lent {
    budget: Arc<Budget>,
    number: u64,
    bytes: u64,
}

/// Lender of memory that is not part of any holder's share.
struct UnsharedLender(Arc<Budget>);

impl Default for Budget {
    fn default() -> Budget {
        Budget { total_bytes: AtomicU64::new(limits::WINDOWS_BYTES), state: Mutex::default() }
    }
}

impl Budget {
    /// Returns the total number of bytes.
    pub fn total(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Sets the total number of bytes. Memory already lent stays lent.
    pub fn set_total(&self, bytes: u64) {
        self.total_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes lent.
    pub fn lent(&self) -> u64 {
        self.state.lock().lent_bytes
    }

    /// Returns memory of `bytes` bytes, preceded by `before` bytes, for a thread that receives requests. Not part of any holder's share
    /// until it is used for write-behind ([`Share::lend`]).
    pub fn for_requests(self: &Arc<Self>, before: usize, bytes: usize) -> Arc<RequestMemory> {
        let all = before + bytes;
        let kept = self.state.lock().kept_of(all, self.total());
        let bytes = kept.unwrap_or_else(|| RequestMemory::to_lend(all));
        Arc::new(RequestMemory::lent(bytes, before, Box::new(UnsharedLender(Arc::clone(self)))))
    }

    /// UnsharedLender returned memory for reuse, up to [`KEPT_BYTES`].
    fn keep(&self, bytes: Bytes) {
        let many = bytes.len() as u64;
        let mut state = self.state.lock();
        if state.kept_bytes + many <= KEPT_BYTES.min(self.total() / 4) {
            state.kept_bytes += many;
            state.kept.entry(bytes.len()).or_default().push(bytes);
        }
    }

    /// Adds a holder.
    pub(crate) fn share(self: &Arc<Self>, window: Weak<dyn Window>) -> Share {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.holders.insert(number, Holder { lent_bytes: 0, window });
        if !state.is_kept {
            let budget = Arc::downgrade(self);
            let keeper = thread::Builder::new().name("windows".to_owned());
            // Without this thread, windows keep their memory until asked to release it, which is not an error.
            state.is_kept = keeper.spawn(move || keep(&budget)).is_ok();
        }
        Share { budget: Arc::clone(self), number }
    }

    /// Returns all windows; `None`: no holders are left, and the calling thread ends.
    fn windows(&self) -> Option<Vec<Arc<dyn Window>>> {
        let mut state = self.state.lock();
        if state.holders.is_empty() {
            state.is_kept = false;
            return None;
        }
        Some(state.holders.values().filter_map(|h| h.window.upgrade()).collect())
    }
}

impl State {
    /// Returns reusable memory of this size. If there is none and all of `total` bytes are lent or kept, drops the kept memory, to make
    /// room for a new allocation.
    fn kept_of(&mut self, bytes: usize, total: u64) -> Option<Bytes> {
        let kept = self.kept.get_mut(&bytes).and_then(Vec::pop);
        if kept.is_some() {
            self.kept_bytes -= bytes as u64;
        } else if self.lent_bytes + self.kept_bytes > total {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        kept
    }
}

fn keep(budget: &Weak<Budget>) {
    loop {
        thread::sleep(POLL_INTERVAL);
        let Some(windows) = budget.upgrade().and_then(|budget| budget.windows()) else { return };
        let now = Instant::now();
        windows.iter().for_each(|window| window.look(now));
    }
}

impl Share {
    /// Returns memory of `bytes` bytes, with arbitrary content; `None`: none available now.
    pub(crate) fn take(&self, bytes: usize) -> Option<Arc<RequestMemory>> {
        let lent = self.lend(bytes)?;
        let kept = self.budget.state.lock().kept_of(bytes, self.budget.total());
        let bytes = kept.unwrap_or_else(|| RequestMemory::to_lend(bytes));
        Some(Arc::new(RequestMemory::lent(bytes, 0, Box::new(lent))))
    }

    /// Counts this many bytes of the caller's own memory as lent; `None`: the budget is exhausted.
    pub(crate) fn lend(&self, bytes: usize) -> Option<Lent> {
        if let Some(lent) = self.try_lend(bytes) {
            return Some(lent);
        }
        let others: Vec<Arc<dyn Window>> = {
            let state = self.budget.state.lock();
            let others = state.holders.iter().filter(|(number, holder)| **number != self.number && holder.lent_bytes > 0);
            others.filter_map(|(_, holder)| holder.window.upgrade()).collect()
        };
        others.iter().for_each(|window| window.relieve());
        self.try_lend(bytes)
    }

    fn try_lend(&self, bytes: usize) -> Option<Lent> {
        let mut guard = self.budget.state.lock();
        let state = &mut *guard;
        let (wanted, total) = (bytes as u64, self.budget.total());
        let holding = state.holders.iter().filter(|(number, holder)| **number == self.number || holder.lent_bytes > 0).count() as u64;
        let mine = state.holders.get_mut(&self.number)?;
        let lent = state.lent_bytes + wanted;
        let is_plenty = lent <= total / 4 * 3;
        if lent > total || !(is_plenty || mine.lent_bytes + wanted <= total / holding.max(1)) {
            return None;
        }
        mine.lent_bytes += wanted;
        state.lent_bytes = lent;
        Some(Lent { budget: Arc::clone(&self.budget), number: self.number, bytes: wanted })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.state.lock().holders.remove(&self.number);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.lent_bytes -= self.bytes;
        if let Some(holder) = state.holders.get_mut(&self.number) {
            holder.lent_bytes -= self.bytes;
        }
    }
}

impl Lender for Lent {
    fn give_back(&self, bytes: Bytes) {
        self.budget.keep(bytes);
    }
}

impl Lender for UnsharedLender {
    fn give_back(&self, bytes: Bytes) {
        self.0.keep(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Spends(Mutex<Vec<Arc<RequestMemory>>>);

    impl Window for Spends {
        fn relieve(&self) {
            self.0.lock().clear();
        }
        fn look(&self, _: Instant) {}
    }

    fn holder(budget: &Arc<Budget>) -> (Arc<Spends>, Share) {
        let window = Arc::new(Spends(Mutex::default()));
        let share = budget.share(Arc::downgrade(&window) as Weak<dyn Window>);
        (window, share)
    }

    #[test]
    fn never_more_than_the_whole_and_everybody_gets_a_part() {
        let budget = Arc::new(Budget::default());
        budget.set_total(1000);
        let (first, share) = holder(&budget);
        while let Some(memory) = share.take(100) {
            first.0.lock().push(memory);
        }
        assert_eq!(budget.lent(), 1000, "alone, one may have it all");
        let (second, other) = holder(&budget);
        for _ in 0..5 {
            let memory = other.take(100).expect("who has more than its part is asked to let go");
            second.0.lock().push(memory);
        }
        assert!(budget.lent() <= 1000);
        drop((first, second));
        assert_eq!(budget.lent(), 0);
    }

    #[test]
    fn what_comes_back_after_its_holder_has_gone_is_counted_back() {
        let budget = Arc::new(Budget::default());
        let (window, share) = holder(&budget);
        let memory = share.take(4096).unwrap();
        drop((window, share));
        assert_eq!(budget.lent(), 4096);
        drop(memory);
        assert_eq!(budget.lent(), 0);
    }
}
