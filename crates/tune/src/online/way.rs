//! When a parameter may be tried again.

use super::rules::{FIRST_WAIT, LONGEST_WAIT};
use std::time::Duration;

/// One parameter's way up.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Not before.
    next_at: Duration,
    wait: Duration,
    /// Failed since it last gained.
    pub fails: u32,
    /// By half instead of twice: where twice was too much, the best may lie between.
    is_fine: bool,
}

impl Default for Way {
    fn default() -> Way {
        Way { next_at: Duration::ZERO, wait: FIRST_WAIT, fails: 0, is_fine: false }
    }
}

impl Way {
    /// Whether it may be tried now.
    pub(super) fn is_open(&self, now: Duration) -> bool {
        now >= self.next_at
    }

    /// The value that is next above this one.
    pub(super) fn above(&self, value: u64) -> u64 {
        if self.is_fine { value + (value / 2).max(1) } else { value.saturating_mul(2) }
    }

    /// A probe failed: the next one is later by twice as much, and finer or coarser than this one. `chance` in 0..1 spreads it by a quarter
    /// either way, so that two tuners do not probe in step.
    pub(super) fn failed(&mut self, now: Duration, chance: f64) {
        self.next_at = now + self.wait.mul_f64(0.75 + chance / 2.0);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.fails += 1;
        self.is_fine = !self.is_fine;
    }

    /// A probe gained: the next may follow at once.
    pub(super) fn gained(&mut self, now: Duration) {
        *self = Way { next_at: now, ..Way::default() };
    }

    /// Not before then, whatever else happens.
    pub(super) fn close_until(&mut self, then: Duration) {
        self.next_at = self.next_at.max(then);
    }

    /// The path has changed: what failed may not now.
    pub(super) fn reopen(&mut self, now: Duration) {
        self.next_at = self.next_at.min(now);
        self.wait = FIRST_WAIT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_probes_are_twice_as_far_apart_each_time_up_to_a_limit() {
        let (mut way, mut now, mut waits) = (Way::default(), Duration::ZERO, Vec::new());
        for _ in 0..6 {
            way.failed(now, 0.5);
            waits.push((way.next_at - now).as_secs());
            now = way.next_at;
        }
        assert_eq!(waits, [2, 4, 8, 16, 16, 16]);
    }
}
