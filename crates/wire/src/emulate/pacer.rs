//! A device as a queue in virtual time. Reads no clock: callers pass monotonic times in ns.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use std::ops::Range;

/// The queue of one device, as the time at which the device is next free.
#[derive(Debug)]
pub(super) struct Pacer {
    bytes_per_s: Option<u64>,
    free_ns: u64,
}

impl Pacer {
    /// Returns an idle device of this rate; `None`: bytes take no time.
    pub(super) fn new(bytes_per_s: Option<u64>) -> Pacer {
        Pacer { bytes_per_s, free_ns: 0 }
    }

    /// Returns the ns that `bytes` take.
    pub(super) fn takes_ns(&self, bytes: u64) -> u64 {
        self.bytes_per_s.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000 / u128::from(rate)).min(u128::from(u64::MAX >> 2)) as u64)
    }

    /// Queues a request issued at `asked_ns` that takes `fixed_ns` besides its bytes; returns when the device starts and finishes
    /// it.
    pub(super) fn take(&mut self, asked_ns: u64, fixed_ns: u64, bytes: u64) -> Range<u64> {
        let start = self.free_ns.max(asked_ns);
        self.free_ns = start.saturating_add(fixed_ns).saturating_add(self.takes_ns(bytes));
        start..self.free_ns
    }
}

/// Sleeps until `ns` of the monotonic clock; returns immediately if that has passed.
pub(crate) fn sleep_until(ns: u64) {
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // Interrupted by a signal: sleep again.
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn requests_take_their_turns_at_the_devices_rate() {
        let mut pacer = Pacer::new(Some(100_000_000));
        assert_eq!(pacer.take(5 * MS, 0, 1_000_000), 5 * MS..15 * MS);
        assert_eq!(pacer.take(6 * MS, 0, 500_000), 15 * MS..20 * MS, "behind the one before it");
        assert_eq!(pacer.take(30 * MS, 2 * MS, 100_000), 30 * MS..33 * MS, "when it is asked for, if it is free");
        assert_eq!(pacer.take(31 * MS, 0, 0), 33 * MS..33 * MS);
    }

    #[test]
    fn who_wakes_up_late_delays_nobody_else() {
        let mut pacer = Pacer::new(Some(1 << 20));
        // Two callers alternate; each issues its next request a fifth of a request late.
        let mut asks = [0_u64, 0];
        let mut last = 0;
        for turn in 0..1000 {
            let done = pacer.take(asks[turn % 2], 0, 1 << 10);
            asks[turn % 2] = done.end + pacer.takes_ns(1 << 10) / 5;
            last = done.end;
        }
        assert_eq!(last, 1000 * pacer.takes_ns(1 << 10), "busy all the time");
    }

    #[test]
    fn bytes_that_take_longer_than_time_has_do_not_wrap() {
        let mut pacer = Pacer::new(Some(1));
        let first = pacer.take(1, 0, u64::MAX);
        assert!(first.end > first.start && pacer.take(1, u64::MAX, u64::MAX).end == u64::MAX);
        assert_eq!(Pacer::new(None).take(7, 0, u64::MAX), 7..7);
    }

    #[test]
    fn a_sleep_ends_no_earlier_than_it_should() {
        let now = || thalweg_trace::Time::now().ns() as u64;
        let until = now() + 2 * MS;
        sleep_until(until);
        assert!(now() >= until);
        sleep_until(until - MS);
    }
}
