//! Returns memory to the system after a burst of connections. The allocator would keep the memory of thousands of closed
//! connections, fragmented among live allocations, and a server that was busy once would stay large.

use crate::limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of connections since memory was last returned.
#[derive(Debug, Default)]
pub(super) struct Burst {
    most: AtomicUsize,
}

impl Burst {
    /// Notes a new connection, of `open` now open.
    pub(super) fn opened(&self, open: usize) {
        self.most.fetch_max(open, Ordering::Relaxed);
    }

    /// Notes a closed connection, `open` remaining; after a burst, trims the allocator.
    pub(super) fn closed(&self, open: usize) {
        if self.is_over(open) {
            #[cfg(target_env = "gnu")]
            // SAFETY: malloc_trim touches no memory of ours and may be called from any thread.
            unsafe {
                libc::malloc_trim(0);
            }
        }
    }

    /// Whether three quarters of a burst's connections have closed; true once per burst.
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
        burst.opened(limits::BURST - 1);
        assert!(![limits::BURST / 2, 1, 0].iter().any(over));
        burst.opened(4 * limits::BURST);
        let ends: Vec<usize> = (0..4 * limits::BURST).rev().filter(over).collect();
        assert_eq!(ends, [limits::BURST, limits::BURST / 4]);
    }
}
