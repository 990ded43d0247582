//! Controls the sampling rate.
//!
//! A sample of a virtual machine's CPU costs 15 to 30 µs, nearly all of it for the clock's interrupt: a thousand a
//! second are two per cent of all CPU time. Some hundred samples show what a program does to within a few per cent.
//! So samples are frequent when recorded threads begin to work, and rarer as they continue; each carries the time it
//! represents.

use crate::perf::{SAMPLE_NS, SELDOM_NS};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long samples stay frequent.
const OFTEN: Duration = Duration::from_millis(500);
/// Threads not sampled for this long begin to work when they are sampled again.
const REST: Duration = Duration::from_secs(1);

/// The clocks of all CPUs, and their pace.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    clocks: Vec<OwnedFd>,
    pace: Pace,
}

impl Sampling {
    /// Adds a sampling clock, set to [`SAMPLE_NS`].
    pub(crate) fn add(&mut self, clock: OwnedFd) {
        self.clocks.push(clock);
    }

    /// Takes the number of samples so far; returns the new period if it changes. Call it periodically.
    pub(crate) fn tick(&mut self, now: Instant, samples: u64) -> Option<u64> {
        let period_ns = self.pace.tick(now, samples)?;
        let all = self.clocks.iter().all(|clock| set_period(clock, period_ns));
        all.then_some(period_ns)
    }
}

/// Decides when samples are frequent.
#[derive(Debug)]
struct Pace {
    /// Since when they are.
    often: Option<Instant>,
    /// When threads were last seen working.
    worked: Option<Instant>,
    samples: u64,
}

impl Default for Pace {
    /// A recording begins with frequent samples.
    fn default() -> Pace {
        Pace { often: Some(Instant::now()), worked: None, samples: 0 }
    }
}

impl Pace {
    /// Returns the new sampling period, if it changes.
    fn tick(&mut self, now: Instant, samples: u64) -> Option<u64> {
        let before = self.often;
        if samples != self.samples {
            if self.worked.is_none_or(|worked| now - worked >= REST) {
                self.often = Some(now);
            }
            (self.worked, self.samples) = (Some(now), samples);
        }
        self.often = self.often.filter(|since| now - *since < OFTEN);
        (self.often.is_some() != before.is_some()).then_some(if self.often.is_some() { SAMPLE_NS } else { SELDOM_NS })
    }
}

/// Sets a clock's period; returns whether that succeeded.
fn set_period(clock: &OwnedFd, period_ns: u64) -> bool {
    /// PERF_EVENT_IOC_PERIOD: `_IOW('$', 4, __u64)`.
    const PERIOD: libc::c_ulong = 0x4008_2404;
    // SAFETY: the kernel reads eight bytes, which live until it has.
    unsafe { libc::ioctl(clock.as_raw_fd(), PERIOD as _, std::ptr::from_ref(&period_ns)) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_many_where_work_begins_and_few_while_it_goes_on_or_nothing_does() {
        let mut pace = Pace::default();
        let begun = pace.often.unwrap();
        assert_eq!(pace.tick(begun + OFTEN / 2, 0), None);
        assert_eq!(pace.tick(begun + OFTEN, 0), Some(SELDOM_NS), "nothing works");
        let work = begun + 4 * OFTEN;
        assert_eq!(pace.tick(work, 1), Some(SAMPLE_NS), "the first works");
        assert_eq!(pace.tick(work + OFTEN / 2, 400), None);
        assert_eq!(pace.tick(work + OFTEN, 800), Some(SELDOM_NS));
        assert_eq!(pace.tick(work + 2 * OFTEN, 900), None, "it goes on");
        assert_eq!(pace.tick(work + 2 * OFTEN + REST / 2, 900), None);
        assert_eq!(pace.tick(work + 2 * OFTEN + REST, 901), Some(SAMPLE_NS), "it rested");
    }
}
