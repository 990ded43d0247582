//! Thresholds for connections of which only TCP is known.

// gather.rs

/// Bound: fine bins of the time axis.
pub(crate) const FINE_BINS: usize = 4096;

// evidence.rs

/// A mark within this time after a pause is what ended it: a mark and the packet that ended the pause have separate time stamps. Instead:
/// nothing: it is the capture's resolution.
pub(crate) const AT_END_NS: i64 = 1_000_000;
/// The window limits once this part of it is in flight, since bytes in flight are sampled between packets. Instead: TCP's own count of time
/// limited by the window.
pub(crate) const AT_WINDOW: f64 = 0.8;
/// A sender with bytes in flight that sends again within this many round trips was waiting for acknowledgements, which take one round trip
/// and may be delayed. Instead: the congestion window.
pub(crate) const ROUND_TRIPS: i64 = 2;

// sentence.rs

/// Parts of the time below this are not named. Instead: nothing: wording only.
pub(crate) const NAMED_PART: f64 = 0.05;
/// Bound: protocols named in a sentence.
pub(crate) const NAMED_PROTOCOLS: usize = 3;
