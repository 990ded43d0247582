//! Memory after a burst. What thousands of connections had stays with the allocator when they are closed, in pieces between what is in use still: a
//! server that was busy once would stay large.

use crate::limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most connections there were since memory went back.
#[derive(Debug, Default)]
pub(super) struct Burst {
    most: AtomicUsize,
}

impl Burst {
    /// So many connections are open, one of them new.
    pub(super) fn came(&self, open: usize) {
        self.most.fetch_max(open, Ordering::Relaxed);
    }

    /// So many are open still: where a burst is over, the allocator gives back what it keeps of it.
    pub(super) fn left(&self, open: usize) {
        if self.is_over(open) {
            #[cfg(target_env = "gnu")]
            // SAFETY: it takes no memory of ours, and may be called by any thread.
            unsafe {
                libc::malloc_trim(0);
            }
        }
    }

    /// Whether three quarters of many connections have gone; once for each time that they have.
    fn is_over(&self, open: usize) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let over = most >= limits::BURST && open <= most / 4;
        over && self.most.compare_exchange(most, open, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_over_once_when_three_quarters_have_gone_and_a_few_connections_are_none() {
        let burst = Burst::default();
        let over = |open: &usize| burst.is_over(*open);
        burst.came(limits::BURST - 1);
        assert!(![limits::BURST / 2, 1, 0].iter().any(over));
        burst.came(4 * limits::BURST);
        let ends: Vec<usize> = (0..4 * limits::BURST).rev().filter(over).collect();
        assert_eq!(ends, [limits::BURST, limits::BURST / 4]);
    }
}
