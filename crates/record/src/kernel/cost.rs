//! Cost of a recorder's kernel programs, as the kernel counts it. The counting itself costs two clock reads per
//! program run, so it is on only part of the time.

use super::object::{Program, descriptor};
use crate::worker::thread_cpu;
use libbpf_rs::libbpf_sys;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Costs are counted for the first [`COUNTED`] of each such period.
const COUNT_PERIOD: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_millis(200);

/// Nanoseconds that programs ran while counting was on, and their number of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub ns: u64,
    pub runs: u64,
}

impl Cost {
    /// Returns the cost of all these programs so far.
    pub(crate) fn of<'a>(programs: impl Iterator<Item = &'a Program>) -> Cost {
        programs.filter_map(facts).fold(Cost::default(), |sum, more| Cost { ns: sum.ns + more.run_time_ns, runs: sum.runs + more.run_cnt })
    }
}

/// Returns the kernel's information on a program.
pub(crate) fn facts(program: &Program) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: the structure is as large as said, and the descriptor is the program's.
    let result = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(program.fd.as_raw_fd(), (&raw mut info).cast(), &raw mut size) };
    (result == 0).then_some(info)
}

/// CPU time a recorder has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Used by its thread.
    pub reader_ns: u64,
    /// Used by its programs, extrapolated from the counted periods; `None` if the kernel did not count.
    pub programs_ns: Option<u64>,
}

/// Switches the kernel's counting on and off, and measures the CPU time of the calling thread.
#[derive(Debug)]
pub(crate) struct Counting {
    statistics: Option<OwnedFd>,
    since: Instant,
    period: Instant,
    began: Instant,
    counted: Duration,
    cpu_before: Duration,
}

impl Counting {
    /// Begins, with counting on.
    pub(crate) fn begin() -> Counting {
        let now = Instant::now();
        Counting { statistics: statistics().ok(), since: now, period: now, began: now, counted: Duration::ZERO, cpu_before: thread_cpu() }
    }

    /// Switches counting on or off as due; call it periodically.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.statistics.is_some() && now - self.since >= COUNTED {
            self.stop(now);
        } else if self.statistics.is_none() && now - self.period >= COUNT_PERIOD {
            (self.statistics, self.since, self.period) = (statistics().ok(), now, now);
        }
    }

    fn stop(&mut self, now: Instant) {
        if self.statistics.take().is_some() {
            self.counted += now - self.since;
        }
    }

    /// Ends the measurement; `counted` is what the programs cost while counting was on.
    pub(crate) fn end(mut self, counted: Cost) -> Spent {
        self.stop(Instant::now());
        let extrapolated = || u128::from(counted.ns) * self.began.elapsed().as_nanos() / self.counted.as_nanos();
        let ns = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        Spent {
            reader_ns: ns(thread_cpu().saturating_sub(self.cpu_before).as_nanos()),
            programs_ns: (!self.counted.is_zero()).then(|| ns(extrapolated())),
        }
    }
}

/// Makes the kernel count program run times until the descriptor is closed.
pub(crate) fn statistics() -> std::io::Result<OwnedFd> {
    // SAFETY: a system call without pointers; 0 is BPF_STATS_RUN_TIME.
    descriptor(unsafe { libbpf_sys::bpf_enable_stats(0) })
}
