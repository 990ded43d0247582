//! Connections of which only TCP is known.

// gather.rs

/// Bound: fine bins of the time axis.
pub(crate) const FINE_BINS: usize = 4096;

// evidence.rs

/// A mark so shortly after a pause is what ended it. A mark and the packet that ended a pause are stamped apart. Instead: nothing; it is the
/// capture's grain.
pub(crate) const AT_END_NS: i64 = 1_000_000;
/// The window is what limits from this part of it in flight on. What is in flight is sampled between packets. Instead: TCP's own count of time
/// limited by the window.
pub(crate) const AT_WINDOW: f64 = 0.8;
/// A sender with bytes in flight that sends again within this many round trips was waiting for acknowledgements, which take one round trip and may be delayed.
/// Instead: the congestion window.
pub(crate) const ROUND_TRIPS: i64 = 2;

// sentence.rs

/// A part of the time below this is not named. Instead: nothing; it is wording.
pub(crate) const NAMED_PART: f64 = 0.05;
/// Bound: protocols that a sentence names.
pub(crate) const NAMED_PROTOCOLS: usize = 3;
