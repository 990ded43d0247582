//! TCP's own counters of recorded connections: which bytes crossed the wire, and when. A socket that accepts megabytes at memory
//! speed does not show that.
//!
//! The thread that uses a connection reads the counters at the ends of pauses: before it hands bytes to the socket, and when
//! awaited bytes have arrived. Both ends of a pause are thus known to the microsecond. While that thread is blocked or busy
//! elsewhere, one thread reads for all connections of the process ([`sampler`]), every millisecond while anything moves.
//! (Rejected: only that thread, because pauses would be known to a millisecond; only the connections' threads, because a burst
//! that arrives while its receiver writes to a disk would be a single point; segment time stamps with `SO_TIMESTAMPING`, exact
//! but read from the error queue with a call per send.)
//!
//! Without a recording there is neither thread nor call.

mod sampled;
mod sampler;
mod series;

pub(super) use sampler::Counted;
pub use sampler::flush;
