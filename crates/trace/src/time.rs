//! Time as a newtype, so that a number on another clock or in another unit does not compile.

use serde::{Deserialize, Serialize};

/// An instant on one host's `CLOCK_MONOTONIC`, in nanoseconds since that host's boot.
///
/// Instants of different hosts are comparable only after [`crate::Source`] has put them on the reference host's axis
/// with the `clocks` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(i64);

impl Time {
    /// Creates an instant read from `CLOCK_MONOTONIC` (BPF's `ktime_get_ns`).
    pub const fn from_monotonic_ns(ns: i64) -> Time {
        Time(ns)
    }

    /// Returns the current instant on this host's `CLOCK_MONOTONIC`.
    pub fn now() -> Time {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Time(t.tv_sec * 1_000_000_000 + t.tv_nsec)
    }

    /// Returns the nanoseconds since the host's boot.
    pub const fn ns(self) -> i64 {
        self.0
    }

    /// Returns this instant moved by `ns` (negative: earlier), saturating at the ends of the axis.
    #[must_use]
    pub const fn plus_ns(self, ns: i64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Returns the nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}
