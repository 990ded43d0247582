//! The clock of the kernel's records, which differs from the trace's: only the trace's is shifted by a time
//! namespace.

use std::sync::OnceLock;
use thalweg_trace::Time;

/// Returns how far the clock of this process's time namespace is ahead of the kernel's event clock.
fn ahead_ns() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(thalweg_base::machine::ahead_ns)
}

/// Converts an instant from the kernel's clock.
pub(crate) fn time(ns: u64) -> Time {
    Time::from_monotonic_ns(i64::try_from(ns).unwrap_or(i64::MAX)).plus_ns(ahead_ns())
}

/// Returns the current time on the kernel's clock.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(Time::now().plus_ns(-ahead_ns()).ns()).unwrap_or(0)
}
