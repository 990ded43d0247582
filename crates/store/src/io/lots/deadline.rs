//! When a promise ends: by the wall clock and by the time that has passed, whichever is later.
//!
//! A wall clock that jumps forward must not end a promise, so that as much time as there was left when it was made must have passed too, by
//! the clock that counts since the machine was started (asleep or not). One that jumps back makes it last longer, which harms nobody. The
//! anchor of both clocks is kept with the share, so that a restart of the server goes on counting; after a restart of the machine the wall
//! clock of that moment is believed once more. The clocks of the service, which made the date, and of this machine may differ by
//! [`crate::limits::CLOCK_SKEW`]: by so much, and no more, a promise may end early.

use serde::{Deserialize, Serialize};

/// What time it is, by both clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::io) struct Now {
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
    /// Nanoseconds since the machine was started.
    pub boot_ns: i64,
}

/// Where the time comes from.
pub(in crate::io) trait Clock: Send + Sync {
    /// Both clocks, now.
    fn now(&self) -> Now;

    /// Which start of the machine its second clock counts from.
    fn boot(&self) -> &str;
}

/// The machine's.
pub(in crate::io) struct Machine {
    boot: String,
}

impl Machine {
    pub(in crate::io) fn new() -> Machine {
        Machine { boot: thalweg_trace::machine::boot_id() }
    }
}

impl Clock for Machine {
    fn now(&self) -> Now {
        use rustix::time::{ClockId, clock_gettime};
        let ns = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
        };
        Now { wall_ns: ns(ClockId::Realtime), boot_ns: ns(ClockId::Boottime) }
    }

    fn boot(&self) -> &str {
        &self.boot
    }
}

/// A date, and what both clocks said when it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::io) struct Deadline {
    /// Nanoseconds since 1970.
    pub until_ns: i64,
    pub wall_ns: i64,
    pub boot_ns: i64,
    /// Which start of the machine.
    pub boot: String,
}

impl Deadline {
    /// Given now.
    pub(in crate::io) fn new(until_ns: i64, clock: &dyn Clock) -> Deadline {
        let Now { wall_ns, boot_ns } = clock.now();
        Deadline { until_ns, wall_ns, boot_ns, boot: clock.boot().to_owned() }
    }

    /// The same, counted on: after a restart of the machine from now on.
    pub(in crate::io) fn again(self, clock: &dyn Clock) -> Deadline {
        if self.boot == clock.boot() { self } else { Deadline::new(self.until_ns, clock) }
    }

    /// Whether it is over.
    pub(in crate::io) fn is_over(&self, now: &Now) -> bool {
        let left_ns = self.until_ns.saturating_sub(self.wall_ns);
        now.wall_ns >= self.until_ns && now.boot_ns.saturating_sub(self.boot_ns) >= left_ns
    }
}

#[cfg(test)]
pub(in crate::io) mod fake {
    use super::{Clock, Now};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A clock that a test sets.
    pub(in crate::io) struct Fake {
        pub wall_ns: AtomicI64,
        pub boot_ns: AtomicI64,
        pub boot: String,
    }

    impl Fake {
        pub(in crate::io) fn new(wall_ns: i64, boot_ns: i64, boot: &str) -> Fake {
            Fake { wall_ns: wall_ns.into(), boot_ns: boot_ns.into(), boot: boot.to_owned() }
        }

        /// Time passes.
        pub(in crate::io) fn pass(&self, ns: i64) {
            self.wall_ns.fetch_add(ns, Ordering::SeqCst);
            self.boot_ns.fetch_add(ns, Ordering::SeqCst);
        }

        /// Somebody sets the wall clock.
        pub(in crate::io) fn jump(&self, ns: i64) {
            self.wall_ns.fetch_add(ns, Ordering::SeqCst);
        }
    }

    impl Clock for Fake {
        fn now(&self) -> Now {
            Now { wall_ns: self.wall_ns.load(Ordering::SeqCst), boot_ns: self.boot_ns.load(Ordering::SeqCst) }
        }

        fn boot(&self) -> &str {
            &self.boot
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;

    #[test]
    fn a_promise_ends_at_its_date_and_a_clock_that_jumps_forward_does_not_end_it() {
        let clock = Fake::new(1000, 50, "a");
        let deadline = Deadline::new(1500, &clock);
        clock.jump(400_000);
        assert!(!deadline.is_over(&clock.now()), "the wall clock alone ends nothing");
        clock.pass(499);
        assert!(!deadline.is_over(&clock.now()));
        clock.pass(1);
        assert!(deadline.is_over(&clock.now()));
    }

    #[test]
    fn a_clock_that_jumps_back_makes_a_promise_longer_and_never_shorter() {
        let clock = Fake::new(1000, 50, "a");
        let deadline = Deadline::new(1500, &clock);
        clock.jump(-300);
        clock.pass(500);
        assert!(!deadline.is_over(&clock.now()));
        clock.pass(300);
        assert!(deadline.is_over(&clock.now()));
    }

    #[test]
    fn a_restart_of_the_server_counts_on_and_one_of_the_machine_begins_anew() {
        let clock = Fake::new(1000, 50, "a");
        let deadline = Deadline::new(1500, &clock);
        clock.pass(400);
        clock.jump(10_000);
        let deadline = deadline.again(&clock);
        assert!(!deadline.is_over(&clock.now()), "the jump is still known as one");
        clock.pass(100);
        assert!(deadline.is_over(&clock.now()));
        let rebooted = Fake::new(1400, 3, "b");
        let deadline = deadline.again(&rebooted);
        assert!(!deadline.is_over(&rebooted.now()));
        rebooted.pass(100);
        assert!(deadline.is_over(&rebooted.now()));
    }

    #[test]
    fn dates_at_the_ends_of_time_are_no_trouble() {
        let clock = Fake::new(i64::MAX - 1, 0, "a");
        assert!(Deadline::new(i64::MIN, &clock).is_over(&clock.now()));
        let early = Fake::new(i64::MIN, 0, "a");
        assert!(!Deadline::new(i64::MAX, &early).is_over(&early.now()));
    }
}
