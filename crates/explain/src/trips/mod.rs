//! Round trips: how many questions were asked, how many of them one after the other, and what one of them, and the time for
//! one entry of a walk, is made of.
//!
//! A walk of a directory is slow for one reason: it asks for little, waits for the answer, and asks for the next. So what is
//! told of it is not bytes. Questions are what the client says it asked (`rpc.call`); where it says nothing, what it
//! sent, and how often the critical path left the client for the far end and came back; for a file system on a disk, the disk's
//! requests. Entries are those that requests of the application delivered, or (in a capture) files that were looked up.

mod gather;
mod overlap;
mod sentence;
mod told;

pub use gather::Asking;
pub use overlap::Overlap;
pub use told::{round_trips, round_trips_of_calls};
