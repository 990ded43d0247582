//! Profiles of whole machines.

/// With fewer samples of busy processors there are no shares. At 100, one that is said to be 50 % is between 40 % and 60 %. Instead: nothing;
/// a longer profile.
pub(crate) const FEWEST_SAMPLES: u64 = 100;
/// With fewer ticks of the kernel's clock on all processors together (a second of one) counters of ticks have no shares. At 100, one tick is a
/// hundredth. Instead: nothing; a longer profile.
pub(crate) const FEWEST_TICKS: f64 = 100.0;
/// Samples may stand for this much less of the time that processors were busy. Timers that are late, and short runs. Instead: nothing.
pub(crate) const LEAST_AGREEMENT: f64 = 0.85;
/// Or for this much more. A processor that is late with a sample takes it for a longer time. Instead: nothing.
pub(crate) const MOST_AGREEMENT: f64 = 1.15;
/// So many standard deviations hold 95 of 100 of a normal distribution. Instead: nothing, it is arithmetic.
pub(crate) const NORMAL_95: f64 = 1.96;
/// A bin is a multiple of this. The counters of idle time have a value for each. Instead: the times of the switches.
pub(crate) const BIN_NS: i64 = 100_000_000;
/// Bound: bins over time.
pub(crate) const MAX_BINS: usize = 200;
/// Bound: functions that are listed.
pub(crate) const MOST_FUNCTIONS: usize = 50;
/// Bound: programs that are listed.
pub(crate) const MOST_PROGRAMS: usize = 50;
/// Bound: modules without names that are listed.
pub(crate) const MOST_MODULES: usize = 20;
/// The tick of /proc on the machine that was recorded, where the recording does not say: USER_HZ is 100 everywhere. Instead: the attribute.
pub(crate) const UNSTATED_TICK_NS: i64 = 10_000_000;
