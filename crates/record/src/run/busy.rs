//! How many of the machine's CPUs were busy during a recording, and how many of those the command used: the rest,
//! apart from recorded servers, belongs to other programs.

use std::mem::MaybeUninit;
use thalweg_base::proc::processors::{self, Processor};
use thalweg_base::proc::stat::tick_ns;
use thalweg_trace::Time;

/// Minimum ticks; they are too coarse for shorter intervals.
const FEWEST_TICKS: u64 = 10;

/// Accumulated CPU usage at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    at: Time,
    /// Idle time of all CPUs together.
    idle_ns: u64,
    /// CPU time of this process and its ended children.
    own_ns: u64,
    processors: usize,
}

/// CPUs in use between two instants, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct InUse {
    /// By all programs.
    pub(super) busy: f64,
    /// By the command, its ended descendants, and the recorder.
    pub(super) own: f64,
}

impl Used {
    /// Reads the current usage.
    pub(super) fn now() -> Used {
        let own_ns = used_ns(libc::RUSAGE_SELF) + used_ns(libc::RUSAGE_CHILDREN);
        Used::of(&processors::here(), own_ns, Time::now())
    }

    fn of(all: &[Processor], own_ns: u64, at: Time) -> Used {
        let idle_ns = all.iter().map(|cpu| (cpu.idle + cpu.waiting) * tick_ns()).sum();
        Used { at, idle_ns, own_ns, processors: all.len() }
    }

    /// Returns the CPUs in use from then until `later`; `None` if the interval is too short, or usage is unknown.
    pub(super) fn until(&self, later: &Used) -> Option<InUse> {
        let ns = later.at.since(self.at);
        let part = |since: u64, until: u64| until.saturating_sub(since) as f64 / ns as f64;
        let is_known = ns >= FEWEST_TICKS * tick_ns() && self.processors > 0 && self.processors == later.processors;
        is_known.then(|| InUse {
            busy: (self.processors as f64 - part(self.idle_ns, later.idle_ns)).max(0.0),
            own: part(self.own_ns, later.own_ns),
        })
    }
}

/// Returns the CPU time of this process, or of its waited-for children and their descendants.
fn used_ns(of: libc::c_int) -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the given structure; zeroed, it is a valid one too.
    let usage = unsafe {
        libc::getrusage(of, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64, idle: [u64; 2], own_ms: u64) -> Used {
        let [first, second] = idle.map(|ticks| Processor { user: 5, system: 5, idle: ticks, ..Processor::default() });
        let second = Processor { number: 1, waiting: 3, ..second };
        Used::of(&[first, second], own_ms * 1_000_000, Time::from_monotonic_ns(ms * 1_000_000))
    }

    #[test]
    fn processors_that_were_not_idle_were_busy_with_the_command_or_others() {
        let began = at(1_000, [100, 100], 50);
        assert_eq!(began.until(&at(2_000, [100, 150], 950)), Some(InUse { busy: 1.5, own: 0.9 }));
        assert_eq!(began.until(&at(2_000, [201, 200], 50)).map(|used| used.busy), Some(0.0), "ticks are coarse");
        assert_eq!(began.until(&at(1_050, [100, 100], 60)), None);
    }

    #[test]
    fn a_child_that_was_waited_for_counts_as_own() {
        let before = Used::now();
        let mut child =
            std::process::Command::new("sh").args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]).spawn().expect("sh");
        assert!(child.wait().expect("it ends").success());
        assert!(Used::now().own_ns > before.own_ns);
    }
}
