//! Estimates a thread's system time spent on names and attributes: the part that neither bytes, page faults nor
//! context switches account for. It is recorded as that, and marked as inferred.

use thalweg_base::proc::stat::tick_ns;

/// Minimum ticks for an estimate.
const ENOUGH_TICKS: u64 = 4;

/// Upper limits on the cost of a byte, a call that moves bytes, a fault, and a context switch.
const BYTE_NS: f64 = 1.0;
const CALL_NS: f64 = 1_500.0;
const FAULT_NS: f64 = 8_000.0;
const TURN_NS: f64 = 5_000.0;

/// A thread's CPU time in ticks, and its page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuUsage {
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub faults: u64,
}

/// Bytes that a process moved by system calls, and the number of these calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub bytes: u64,
    pub calls: u64,
}

/// A thread's work in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct InKernel {
    /// The recent share of its running time spent on names and attributes.
    pub on_names: f64,
    before: Option<(CpuUsage, Calls, u64)>,
}

impl InKernel {
    /// Updates the estimate: the thread's own usage and its process's calls, how often it went to sleep, and whether
    /// its process has sockets (whose traffic is not counted).
    pub(super) fn note(&mut self, now: Option<(CpuUsage, Calls)>, sleeps: u64, has_sockets: bool) {
        let Some((work, calls)) = now.filter(|_| !has_sockets) else {
            (self.on_names, self.before) = (0.0, None);
            return;
        };
        let Some((work_before, calls_before, sleeps_before)) = self.before else {
            self.before = Some((work, calls, sleeps));
            return;
        };
        let user = work.user_ticks.saturating_sub(work_before.user_ticks);
        let system = work.system_ticks.saturating_sub(work_before.system_ticks);
        if user + system < ENOUGH_TICKS {
            return;
        }
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let known_ns = since(calls.bytes, calls_before.bytes) * BYTE_NS
            + since(calls.calls, calls_before.calls) * CALL_NS
            + since(work.faults, work_before.faults) * FAULT_NS
            + since(sleeps, sleeps_before) * TURN_NS;
        let part = system as f64 / (user + system) as f64;
        self.on_names = if known_ns * 2.0 < system as f64 * tick_ns() as f64 { part } else { 0.0 };
        self.before = Some((work, calls, sleeps));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the estimate for 30 ticks of system and 10 of user time.
    fn on_names(calls: Calls, faults: u64, sleeps: u64, has_sockets: bool) -> f64 {
        let mut kernel = InKernel::default();
        kernel.note(Some(Default::default()), 0, has_sockets);
        kernel.note(Some((CpuUsage { user_ticks: 10, system_ticks: 30, faults }, calls)), sleeps, has_sockets);
        kernel.on_names
    }

    #[test]
    fn time_in_the_kernel_that_nothing_accounts_for_is_for_names() {
        let few = Calls { bytes: 1 << 20, calls: 100 };
        assert_eq!(on_names(few, 100, 5, false), 0.75);
        assert_eq!(on_names(Calls { bytes: 1 << 30, calls: 100 }, 100, 5, false), 0.0, "it moved bytes");
        assert_eq!(on_names(Calls { bytes: 1, calls: 300_000 }, 100, 5, false), 0.0, "it moved them one by one");
        assert_eq!(on_names(few, 100_000, 5, false), 0.0, "it touched memory");
        assert_eq!(on_names(few, 100, 100_000, false), 0.0, "it slept and woke");
        assert_eq!(on_names(few, 100, 5, true), 0.0, "it may have sent and received");
    }

    #[test]
    fn a_few_ticks_prove_nothing() {
        let mut kernel = InKernel::default();
        kernel.note(Some(Default::default()), 0, false);
        kernel.note(Some((CpuUsage { user_ticks: 0, system_ticks: 3, faults: 0 }, Calls::default())), 0, false);
        assert_eq!(kernel.on_names, 0.0);
    }
}
