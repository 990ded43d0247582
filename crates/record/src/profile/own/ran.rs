//! How long the sampled threads ran, outside and in the kernel.
//!
//! A thread has a clock on each CPU, which expires after each period that the thread runs there, and a count of how
//! long it ran. So the number of expirations is known: those with a sample were outside the kernel, the others in it.
//! What ran after the last expiration is in neither; of a process that ends within a period, that is all.

use std::collections::HashMap;

/// Time of the sampled threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub run_ns: u64,
    pub user_ns: u64,
    pub kernel_ns: u64,
    /// Time after the last expirations.
    pub short_ns: u64,
}

/// The counts so far.
#[derive(Debug)]
pub(super) struct Ran {
    period_ns: u64,
    /// Samples of living threads, by thread and CPU.
    samples: HashMap<(u32, u32), u64>,
    /// What ended threads ran on each CPU.
    of_ended_ns: HashMap<u32, u64>,
    sums: Sums,
}

impl Ran {
    pub(super) fn new(period_ns: u64) -> Ran {
        Ran { period_ns, samples: HashMap::new(), of_ended_ns: HashMap::new(), sums: Sums::default() }
    }

    /// Counts a sample.
    pub(super) fn sampled(&mut self, tid: u32, cpu: u32) {
        *self.samples.entry((tid, cpu)).or_default() += 1;
    }

    /// Takes how long a thread ran on a CPU, when it ends.
    pub(super) fn ended(&mut self, tid: u32, cpu: u32, ns: u64) {
        let samples = self.samples.remove(&(tid, cpu)).unwrap_or(0);
        *self.of_ended_ns.entry(cpu).or_default() += ns;
        self.add(ns, samples);
    }

    /// Returns the sums, given what all threads ran on each CPU: what ended ones did not run is the others'.
    pub(super) fn finish(mut self, all: impl Iterator<Item = (u32, u64)>) -> Sums {
        for (cpu, ns) in all {
            let left = ns.saturating_sub(self.of_ended_ns.get(&cpu).copied().unwrap_or(0));
            let samples = self.samples.iter().filter(|((_, on), _)| *on == cpu).map(|(_, samples)| samples).sum();
            self.add(left, samples);
        }
        self.sums
    }

    fn add(&mut self, ns: u64, samples: u64) {
        let expired = ns / self.period_ns;
        let (user, kernel) = (samples * self.period_ns, expired.saturating_sub(samples) * self.period_ns);
        self.sums.user_ns += user;
        self.sums.kernel_ns += kernel;
        self.sums.short_ns += ns.saturating_sub(user + kernel);
        self.sums.run_ns += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_without_a_sample_were_in_the_kernel() {
        let mut ran = Ran::new(100);
        (0..3).for_each(|_| ran.sampled(7, 0));
        ran.sampled(7, 1);
        // The first process, which is in no record of an ended thread.
        (0..2).for_each(|_| ran.sampled(6, 0));
        ran.ended(7, 0, 550);
        ran.ended(7, 1, 120);
        // It ended before its clock expired.
        ran.ended(8, 1, 40);
        let sums = ran.finish([(0, 950), (1, 160)].into_iter());
        assert_eq!(sums, Sums { run_ns: 1_110, user_ns: 600, kernel_ns: 400, short_ns: 110 });
    }

    #[test]
    fn a_count_that_is_less_than_its_samples_adds_no_time_in_the_kernel() {
        let mut ran = Ran::new(100);
        (0..3).for_each(|_| ran.sampled(7, 0));
        ran.ended(7, 0, 290);
        assert_eq!(ran.finish(std::iter::empty()), Sums { run_ns: 290, user_ns: 300, ..Sums::default() });
    }
}
