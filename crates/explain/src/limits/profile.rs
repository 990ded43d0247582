//! Thresholds for profiles of whole machines.

/// Fewer samples of busy processors have no shares: at 100, a share of 50 % means 40 to 60 %. Instead: nothing; a longer profile.
pub(crate) const FEWEST_SAMPLES: u64 = 100;
/// Fewer clock ticks, summed over processors, have no shares: at 100 (one second of one processor), one tick is a hundredth. Instead:
/// nothing; a longer profile.
pub(crate) const FEWEST_TICKS: f64 = 100.0;
/// Least ratio of sampled time to busy time that counts as agreement: timers can be late, and runs short. Instead: nothing.
pub(crate) const LEAST_AGREEMENT: f64 = 0.85;
/// Largest ratio: a processor that is late with a sample gives it more weight. Instead: nothing.
pub(crate) const MOST_AGREEMENT: f64 = 1.15;
/// Standard deviations that hold 95 of 100 values of a normal distribution. Instead: nothing: arithmetic.
pub(crate) const NORMAL_95: f64 = 1.96;
/// A bin's length is a multiple of this, the interval of the idle counters. Instead: the times of the switches.
pub(crate) const BIN_NS: i64 = 100_000_000;
/// Bound: bins over time.
pub(crate) const MAX_BINS: usize = 200;
/// Bound: functions listed.
pub(crate) const MOST_FUNCTIONS: usize = 50;
/// Bound: programs listed.
pub(crate) const MOST_PROGRAMS: usize = 50;
/// Bound: modules without symbols listed.
pub(crate) const MOST_MODULES: usize = 20;
/// Tick of /proc on the recorded machine where the recording does not give it: USER_HZ is 100 everywhere. Instead: the attribute.
pub(crate) const UNSTATED_TICK_NS: i64 = 10_000_000;
