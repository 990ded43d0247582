//! What a target's checksums have shown since its server was started.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// Counts of one target.
#[derive(Default)]
pub struct Counts {
    /// Reads and writes refused because a block did not match.
    damaged: AtomicU64,
    /// Unverified blocks whose recomputed sum differed from the stored one.
    recomputed: AtomicU64,
    /// Datafiles whose sums could not be stored, or were damaged themselves.
    unsummed: AtomicU64,
    said: Mutex<Option<Instant>>,
    unsaid: AtomicU64,
}

/// Least time between two lines about damage.
const REST: Duration = Duration::from_secs(10);

impl Counts {
    /// Counts damage, and writes a line about it unless one was written a moment ago.
    pub(super) fn is_damaged(&self, problem: &str) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        let mut said = self.said.lock();
        if said.is_some_and(|said| said.elapsed() < REST) {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return;
        }
        *said = Some(Instant::now());
        let others = match self.unsaid.swap(0, Ordering::Relaxed) {
            0 => String::new(),
            others => format!(" ({others} more since the last line)"),
        };
        eprintln!("thalweg: damaged data: {problem}{others}");
    }

    pub(super) fn are_recomputed(&self, blocks: u64) {
        self.recomputed.fetch_add(blocks, Ordering::Relaxed);
    }

    pub(super) fn is_unsummed(&self) {
        self.unsummed.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests refused because of damage.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Unverified blocks whose recomputed sum differed.
    pub fn recomputed(&self) -> u64 {
        self.recomputed.load(Ordering::Relaxed)
    }

    /// Datafiles that lost their sums.
    pub fn unsummed(&self) -> u64 {
        self.unsummed.load(Ordering::Relaxed)
    }
}
