//! When a parameter may be tried again.

use super::rules::{FIRST_WAIT, LONGEST_WAIT};
use std::time::Duration;

/// Back-off and step size of one parameter.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    /// Earliest next probe.
    next_at: Duration,
    wait: Duration,
    /// Failed probes since the last gain.
    pub fails: u32,
    /// Whether to step by half instead of doubling: if doubling was too much, the optimum may lie between.
    is_fine: bool,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { next_at: Duration::ZERO, wait: FIRST_WAIT, fails: 0, is_fine: false }
    }
}

impl Retry {
    /// Whether it may be tried now.
    pub(super) fn is_open(&self, now: Duration) -> bool {
        now >= self.next_at
    }

    /// Returns the next value above this one.
    pub(super) fn above(&self, value: u64) -> u64 {
        if self.is_fine { value + (value / 2).max(1) } else { value.saturating_mul(2) }
    }

    /// Records a failed probe: doubles the back-off, and alternates between fine and coarse steps. `chance` in 0..1 spreads the back-off
    /// by a quarter either way, so that two tuners do not probe in step.
    pub(super) fn failed(&mut self, now: Duration, chance: f64) {
        self.next_at = now + self.wait.mul_f64(0.75 + chance / 2.0);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.fails += 1;
        self.is_fine = !self.is_fine;
    }

    /// Records a successful probe: the next may follow immediately.
    pub(super) fn gained(&mut self, now: Duration) {
        *self = Retry { next_at: now, ..Retry::default() };
    }

    /// Blocks probes until `then`.
    pub(super) fn close_until(&mut self, then: Duration) {
        self.next_at = self.next_at.max(then);
    }

    /// Allows probes again after the path has changed.
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
        let (mut retry, mut now, mut waits) = (Retry::default(), Duration::ZERO, Vec::new());
        for _ in 0..6 {
            retry.failed(now, 0.5);
            waits.push((retry.next_at - now).as_secs());
            now = retry.next_at;
        }
        assert_eq!(waits, [2, 4, 8, 16, 16, 16]);
    }
}
