//! The end of a promise: when the time that was left at the service's last message has passed.
//!
//! No wall clock ends a promise: the service's and this machine's may jump, and both may be wrong. The service sends its own time
//! along with the date, and the difference is the time left, counted on the machine's boot-time clock (which runs during sleep).
//! The anchor is stored with the share, so that a restart of the server continues the count. Only after a reboot is there nothing
//! but the wall clock: then the time left is what it says plus [`limits::CLOCK_SKEW`], so that a clock ahead by no more than that
//! ends nothing early, until the service's next message.

use serde::{Deserialize, Serialize};
use thalweg_wire::limits;

/// The time on both clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
    /// Nanoseconds since the machine was started.
    pub boot_ns: i64,
}

/// A source of time.
pub(crate) trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Identifies the boot from which the second clock counts.
    fn boot(&self) -> &str;
}

/// The machine's clocks.
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

/// A date, and the time left until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deadline {
    /// Nanoseconds since 1970, by the service's clock.
    pub until_ns: i64,
    /// Time left, ns...
    left_ns: i64,
    /// ... counted from this moment: nanoseconds since the machine was started.
    boot_ns: i64,
    /// Identifies the boot.
    boot: String,
}

impl Deadline {
    /// Makes a deadline, received when the service's clock read `service_ns`.
    pub(crate) fn new(until_ns: i64, service_ns: i64, clock: &dyn Clock) -> Deadline {
        let left_ns = until_ns.saturating_sub(service_ns);
        Deadline { until_ns, left_ns, boot_ns: clock.now().boot_ns, boot: clock.boot().to_owned() }
    }

    /// Returns when it ends, ns since the machine was started.
    fn end_ns(&self) -> i64 {
        self.boot_ns.saturating_add(self.left_ns)
    }

    /// Returns the later of two deadlines for one date: the service's clock may have jumped in between.
    pub(crate) fn or_later(&self, other: Deadline) -> Deadline {
        if self.boot == other.boot && self.end_ns() >= other.end_ns() { self.clone() } else { other }
    }

    /// Whether it ends later than another by more than message delays.
    pub(crate) fn is_much_later(&self, than: &Deadline) -> bool {
        self.boot != than.boot || self.end_ns().saturating_sub(than.end_ns()) > 1_000_000_000
    }

    /// Continues the count; after a reboot, by the wall clock.
    pub(crate) fn again(self, clock: &dyn Clock) -> Deadline {
        if self.boot == clock.boot() {
            return self;
        }
        let skew_ns = i64::try_from(limits::CLOCK_SKEW.as_nanos()).unwrap_or(i64::MAX);
        let most_ns = self.left_ns;
        let anew = Deadline::new(self.until_ns, clock.now().wall_ns.saturating_sub(skew_ns), clock);
        Deadline { left_ns: anew.left_ns.min(most_ns), ..anew }
    }

    /// Makes it expired, also across reboots.
    pub(crate) fn over(self) -> Deadline {
        Deadline { left_ns: i64::MIN, ..self }
    }

    /// Whether it has expired.
    pub(crate) fn is_over(&self, now: &Now) -> bool {
        now.boot_ns.saturating_sub(self.boot_ns) >= self.left_ns
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::{Clock, Now};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A clock set by a test.
    pub(crate) struct Fake {
        pub wall_ns: AtomicI64,
        pub boot_ns: AtomicI64,
        pub boot: String,
    }

    impl Fake {
        pub(crate) fn new(wall_ns: i64, boot_ns: i64, boot: &str) -> Fake {
            Fake { wall_ns: wall_ns.into(), boot_ns: boot_ns.into(), boot: boot.to_owned() }
        }

        /// Advances both clocks.
        pub(crate) fn pass(&self, ns: i64) {
            self.wall_ns.fetch_add(ns, Ordering::SeqCst);
            self.boot_ns.fetch_add(ns, Ordering::SeqCst);
        }

        /// Sets the wall clock.
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
        // 100 s are left; the rebooted machine's clock is ahead by the maximum skew.
        let rebooted = Fake::new(400 * SECOND + skew, 3, "b");
        let again = deadline.clone().again(&rebooted);
        rebooted.pass(100 * SECOND - 1);
        assert!(!again.is_over(&rebooted.now()));
        rebooted.pass(1);
        assert!(again.is_over(&rebooted.now()));
        // A clock that is behind does not prolong it.
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
