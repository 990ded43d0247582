//! The I/O server: datafiles on targets, and nothing else. It knows no names, no layouts, and no other server.
//!
//! # The data path
//!
//! A write's payload is received into the connection's own memory, verified, and only then stored: bytes that fail their
//! checksum are never in a datafile. A read is read into that memory, checksummed and sent. Splicing the socket to the
//! file and verifying afterwards saves one copy, and was measured: it is no faster, because verifying then needs the
//! bytes a second time out of the page cache, and a receive that sleeps until half a megabyte is there
//! ([`thalweg_wire`]) wakes up a few times for each flow buffer instead of dozens. It would also need a journal of
//! ranges in flight, to keep unverified bytes from being read after a crash.
//!
//! Memory: one flow buffer of at most [`thalweg_wire::limits::CONNECTION_MEMORY_BYTES`] for each connection that
//! has carried bytes within the last minute, and [`thalweg_wire::limits::SERVER_MEMORY_BYTES`] of larger ones in all.

#![warn(unreachable_pub)]

mod datafile;
mod epoch;
mod follower;
mod home;
mod lots;
mod many;
mod memory;
mod name;
mod open;
mod options;
mod revoked;
mod service;
mod sizes;
mod target;
mod unsynced;

pub use datafile::Datafile;
pub use options::IoServerOptions;
pub use service::IoServer;
pub use target::{Target, TargetIdentity};
