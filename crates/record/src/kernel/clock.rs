//! The clock of the kernel's records, which is not quite the trace's: a time namespace moves only the latter.

use std::sync::OnceLock;
use thalweg_trace::Time;

/// How far the clock of this process' time namespace is ahead of the one that the kernel stamps events with.
fn ahead_ns() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(thalweg_base::machine::ahead_ns)
}

/// An instant, from the kernel's clock.
pub(crate) fn time(ns: u64) -> Time {
    Time::from_monotonic_ns(i64::try_from(ns).unwrap_or(i64::MAX)).plus_ns(ahead_ns())
}

/// Now, on the kernel's clock.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(Time::now().plus_ns(-ahead_ns()).ns()).unwrap_or(0)
}
