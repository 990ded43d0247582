//! How often what runs is sampled.
//!
//! A sample of a virtual machine's processor costs 15 to 30 µs, nearly all of it for the clock's interrupt: a thousand a second are two per cent of
//! everybody's time. What a program does is known to a few per cent after some hundred samples. So they are many when recorded threads begin to
//! work, and fewer when they go on; each says how long it stands for.

use crate::kernel::perf::SAMPLE_NS;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// What one stands for of threads that have worked for a while.
pub(crate) const SELDOM_NS: u64 = 3_607_009;

/// For how long samples are many.
const OFTEN: Duration = Duration::from_millis(500);
/// Threads that were not sampled for so long begin to work when they are.
const REST: Duration = Duration::from_secs(1);

/// The clocks of all processors, and their pace.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    clocks: Vec<OwnedFd>,
    pace: Pace,
}

impl Sampling {
    /// A clock that samples, at [`SAMPLE_NS`].
    pub(crate) fn add(&mut self, clock: OwnedFd) {
        self.clocks.push(clock);
    }

    /// Called now and then with the number of samples so far: how long one stands for from now on, where that is another.
    pub(crate) fn tick(&mut self, now: Instant, samples: u64) -> Option<u64> {
        let period_ns = self.pace.tick(now, samples)?;
        let all = self.clocks.iter().all(|clock| set_period(clock, period_ns));
        all.then_some(period_ns)
    }
}

/// When samples are to be many.
#[derive(Debug)]
struct Pace {
    /// Since when they are.
    often: Option<Instant>,
    /// When threads were seen to work last.
    worked: Option<Instant>,
    samples: u64,
}

impl Default for Pace {
    /// A recording begins with many.
    fn default() -> Pace {
        Pace { often: Some(Instant::now()), worked: None, samples: 0 }
    }
}

impl Pace {
    /// The period that samples have from now on, if it is another.
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

/// Whether the clock has this period now.
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
