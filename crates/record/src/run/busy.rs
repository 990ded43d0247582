//! How many of the machine's processors were busy during a recording, by any program: what of that is not the recorded threads' own is others'.

use crate::proc::system::{TICK_NS, cpu_ticks};
use thalweg_trace::Time;

/// Ticks are too coarse to say anything of a shorter time.
const SHORTEST_NS: u64 = 10 * TICK_NS;

/// What processors had been idle for at an instant.
pub(super) struct Idle {
    at: Time,
    ns: u64,
    processors: usize,
}

impl Idle {
    /// Now.
    pub(super) fn now() -> Idle {
        Idle::of(&std::fs::read_to_string("/proc/stat").unwrap_or_default(), Time::now())
    }

    fn of(stat: &str, at: Time) -> Idle {
        let each: Vec<u64> = cpu_ticks(stat).map(|(_, [_, _, _, idle, waiting, ..])| (idle + waiting) * TICK_NS).collect();
        Idle { at, ns: each.iter().sum(), processors: each.len() }
    }

    /// How many processors were busy from then until `later`, on average; `None` where that was too short to say, or nothing is known.
    pub(super) fn busy_until(&self, later: &Idle) -> Option<f64> {
        let ns = later.at.since(self.at);
        let idle_ns = later.ns.saturating_sub(self.ns);
        let is_known = ns >= SHORTEST_NS && self.processors > 0 && self.processors == later.processors;
        is_known.then(|| (self.processors as f64 - idle_ns as f64 / ns as f64).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64, idle: [u64; 2]) -> Idle {
        let stat = format!("cpu  0 0 0 0 0 0 0 0\ncpu0 5 0 5 {} 0 0 0 0 0 0\ncpu1 9 0 9 {} 3 0 0 0 0 0\n", idle[0], idle[1]);
        Idle::of(&stat, Time::from_monotonic_ns(ms * 1_000_000))
    }

    #[test]
    fn processors_that_were_not_idle_were_busy() {
        let began = at(1_000, [100, 100]);
        assert_eq!(began.busy_until(&at(2_000, [100, 150])), Some(1.5));
        assert_eq!(began.busy_until(&at(2_000, [201, 200])), Some(0.0), "ticks are coarse");
        assert_eq!(began.busy_until(&at(1_050, [100, 100])), None);
    }
}
