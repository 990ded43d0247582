//! When a promise ends: when as much time has passed as there was left when it was given.
//!
//! No wall clock ends a promise: neither the service's nor this machine's may jump, and both may be wrong. The service says, with the date, what
//! its own clock says, and the difference is what is left; from there on the clock counts that runs since the machine was started (asleep or
//! not). The anchor is kept with the share, so that a restart of the server goes on counting. Only a restart of the machine leaves
//! nothing else than its wall clock: then what is left is what that says and [`limits::CLOCK_SKEW`] more, so that a clock ahead by
//! no more than that ends nothing early; and the service's next word counts again.

use serde::{Deserialize, Serialize};
use thalweg_wire::limits;

/// What time it is, by both clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
    /// Nanoseconds since the machine was started.
    pub boot_ns: i64,
}

/// Where the time comes from.
pub(crate) trait Clock: Send + Sync {
    /// Both clocks, now.
    fn now(&self) -> Now;

    /// Which start of the machine its second clock counts from.
    fn boot(&self) -> &str;
}

/// The machine's.
pub(crate) struct Machine {
    boot: String,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { boot: thalweg_base::machine::boot_id() }
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

/// A date, and how long it is to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deadline {
    /// Nanoseconds since 1970, by the service's clock.
    pub until_ns: i64,
    /// What is left of it...
    left_ns: i64,
    /// ... from this moment on: nanoseconds since the machine was started.
    boot_ns: i64,
    /// Which start of the machine.
    boot: String,
}

impl Deadline {
    /// Given now, when the service's clock says `service_ns`.
    pub(crate) fn new(until_ns: i64, service_ns: i64, clock: &dyn Clock) -> Deadline {
        let left_ns = until_ns.saturating_sub(service_ns);
        Deadline { until_ns, left_ns, boot_ns: clock.now().boot_ns, boot: clock.boot().to_owned() }
    }

    /// When it ends, since the machine was started.
    fn end_ns(&self) -> i64 {
        self.boot_ns.saturating_add(self.left_ns)
    }

    /// The same date, given once more: the service's clock may have jumped in between, and what ends later counts.
    pub(crate) fn or_later(&self, other: Deadline) -> Deadline {
        if self.boot == other.boot && self.end_ns() >= other.end_ns() { self.clone() } else { other }
    }

    /// Whether it ends later than another by more than messages take.
    pub(crate) fn is_much_later(&self, than: &Deadline) -> bool {
        self.boot != than.boot || self.end_ns().saturating_sub(than.end_ns()) > 1_000_000_000
    }

    /// The same, counted on: after a restart of the machine by its wall clock.
    pub(crate) fn again(self, clock: &dyn Clock) -> Deadline {
        if self.boot == clock.boot() {
            return self;
        }
        let skew_ns = i64::try_from(limits::CLOCK_SKEW.as_nanos()).unwrap_or(i64::MAX);
        let most_ns = self.left_ns;
        let anew = Deadline::new(self.until_ns, clock.now().wall_ns.saturating_sub(skew_ns), clock);
        Deadline { left_ns: anew.left_ns.min(most_ns), ..anew }
    }

    /// One that is over, after a restart of the machine too.
    pub(crate) fn over(self) -> Deadline {
        Deadline { left_ns: i64::MIN, ..self }
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self, now: &Now) -> bool {
        now.boot_ns.saturating_sub(self.boot_ns) >= self.left_ns
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::{Clock, Now};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A clock that a test sets.
    pub(crate) struct Fake {
        pub wall_ns: AtomicI64,
        pub boot_ns: AtomicI64,
        pub boot: String,
    }

    impl Fake {
        pub(crate) fn new(wall_ns: i64, boot_ns: i64, boot: &str) -> Fake {
            Fake { wall_ns: wall_ns.into(), boot_ns: boot_ns.into(), boot: boot.to_owned() }
        }

        /// Time passes.
        pub(crate) fn pass(&self, ns: i64) {
            self.wall_ns.fetch_add(ns, Ordering::SeqCst);
            self.boot_ns.fetch_add(ns, Ordering::SeqCst);
        }

        /// Somebody sets the wall clock.
        pub(crate) fn jump(&self, ns: i64) {
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
    fn a_promise_ends_when_its_time_has_passed_and_no_clock_that_jumps_ends_it() {
        let clock = Fake::new(1000, 50, "a");
        let deadline = Deadline::new(1500, 1000, &clock);
        clock.jump(400_000);
        clock.pass(499);
        assert!(!deadline.is_over(&clock.now()), "the wall clock ends nothing");
        clock.jump(-900_000);
        clock.pass(1);
        assert!(deadline.is_over(&clock.now()), "and keeps nothing");
    }

    #[test]
    fn a_date_that_is_given_again_by_a_clock_that_jumped_ends_nothing_early() {
        let clock = Fake::new(1000, 50, "a");
        let first = Deadline::new(1500, 1000, &clock);
        clock.pass(100);
        for (service_ns, left) in [(1100, 400), (9000, 400), (1050, 450)] {
            let again = first.or_later(Deadline::new(1500, service_ns, &clock));
            assert_eq!(again.boot_ns + again.left_ns, clock.now().boot_ns + left, "{service_ns}");
        }
    }

    #[test]
    fn a_restart_of_the_server_counts_on_and_after_one_of_the_machine_a_skewed_clock_ends_nothing_early() {
        const SECOND: i64 = 1_000_000_000;
        let skew = limits::CLOCK_SKEW.as_nanos() as i64;
        let clock = Fake::new(0, 50, "a");
        let deadline = Deadline::new(500 * SECOND, 0, &clock);
        clock.pass(400 * SECOND);
        clock.jump(10_000 * SECOND);
        let deadline = deadline.again(&clock);
        assert!(!deadline.is_over(&clock.now()), "the jump counts no more than before");
        // 100 s are left; the clock of the machine that was started again is ahead by all that it may be.
        let rebooted = Fake::new(400 * SECOND + skew, 3, "b");
        let again = deadline.clone().again(&rebooted);
        rebooted.pass(100 * SECOND - 1);
        assert!(!again.is_over(&rebooted.now()));
        rebooted.pass(1);
        assert!(again.is_over(&rebooted.now()));
        // One that is behind makes it no longer than it was.
        let behind = Fake::new(-9000 * SECOND, 3, "b");
        let again = deadline.clone().again(&behind);
        behind.pass(500 * SECOND);
        assert!(again.is_over(&behind.now()));
        assert!(deadline.over().again(&Fake::new(0, 3, "c")).is_over(&Fake::new(0, 3, "c").now()), "what was over stays so");
    }

    #[test]
    fn dates_at_the_ends_of_time_are_no_trouble() {
        let clock = Fake::new(i64::MAX - 1, 0, "a");
        assert!(Deadline::new(i64::MIN, i64::MAX, &clock).is_over(&clock.now()));
        assert!(!Deadline::new(i64::MAX, i64::MIN, &clock).is_over(&clock.now()));
        let early = Fake::new(i64::MIN, i64::MAX, "b");
        assert!(!Deadline::new(i64::MAX, 0, &clock).again(&early).is_over(&Fake::new(0, i64::MAX, "b").now()));
    }
}
