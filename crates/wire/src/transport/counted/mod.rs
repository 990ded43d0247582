//! TCP's own counters of recorded connections: what crossed the wire, and when, which a socket that takes megabytes at the speed of
//! memory does not show.
//!
//! The thread that uses a connection reads them where something begins or ends: before it hands bytes to the socket, and when bytes that it
//! waited for are there. So both ends of a pause are known to the microsecond. What happens while it is blocked, or busy elsewhere, one
//! thread reads for all connections of the process ([`sampler`]), each millisecond while anything moves. (Rejected: that thread alone: a
//! pause would be known to a millisecond at either end; the connections' threads alone: a burst that arrives while its receiver writes to a disk
//! would be one point. Time stamps of segments, `SO_TIMESTAMPING`: exact, but they come through the error queue, a call for each send.)
//!
//! Nothing of this is there while nothing is recorded: no thread, no call.

mod sampled;
mod sampler;
mod series;

pub(super) use sampler::Counted;
pub use sampler::flush;
