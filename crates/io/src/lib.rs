//! The I/O server: datafiles on targets. It knows no names, no layouts and no other server.
//!
//! # The data path
//!
//! A write's payload is received into the connection's own memory, verified, and only then stored, with a checksum for each block:
//! bytes with a wrong checksum never reach a datafile. A read goes into that memory, is verified block by block (`sums/`) and
//! sent. Splicing the socket to the file and verifying afterwards would save one copy, but measured no faster: verification then reads the bytes from the page cache a second time,
//! and a receive that sleeps until half a megabyte has arrived ([`thalweg_wire`]) wakes a few times per flow buffer instead of
//! dozens. It would also need a journal of ranges in flight, so that unverified bytes are not read after a crash.
//!
//! Memory: one flow buffer of at most [`thalweg_wire::limits::CONNECTION_MEMORY_BYTES`] per connection active within the last
//! minute, and [`thalweg_wire::limits::SERVER_MEMORY_BYTES`] in all for larger ones.

#![warn(unreachable_pub)]

mod datafile;
mod epoch;
mod follower;
mod home;
mod look;
mod lots;
mod many;
mod memory;
mod name;
mod open;
mod options;
mod revoked;
mod scrub;
mod scrubbed;
mod service;
mod settler;
mod sizes;
mod sums;
mod target;
mod unsynced;

pub use datafile::Datafile;
pub use look::{StoredDatafile, look};
pub use options::IoServerOptions;
pub use service::IoServer;
pub use sums::{Counts, Settled};
pub use target::{FORMAT, Target, TargetIdentity};
