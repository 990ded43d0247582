//! The store: a striped, user-space, job-scoped file system, and the client that moves data in and out of it.
//!
//! **In:** directories (targets), names, bytes. **Out:** the same bytes, wherever their layout put them, and, where a
//! client asks for it, a trace of both ends of every request. **Never:** what a trace means (that is `explain`'s), and
//! what to print (that is the command's).
//!
//! | room | what is in it |
//! |---|---|
//! | [`wire`] | messages on a connection: header, checksums, bounds; both ends |
//! | [`protocol`] | what the messages say |
//! | `io` | the I/O server |
//! | [`client`] | connections, files, flows |
//! | [`metadata`] | the metadata service, and calls on names |
//! | [`config`] | `store.toml`, and addresses |
//! | [`start`] | a whole store in one process, or one server of it |
//! | [`copy`] | copying files in, out and between stores |
//! | `durable` | files that are there whole or not at all |
//! | `private` | modes of what servers make |
//! | [`emulate`] | disks and links of given rates that are not there |
//! | `sparse` | holes of local files, and blocks of zeros |
//! | `sync` | locks, and what panics leave to do |
//! | [`trust`] | credentials, and how both ends of a connection prove theirs |
//! | [`limits`] | every bound on what a peer can make us do |
//!
//! The bytes on the wire and on disk are drawn in `PROTOCOL.md` beside this crate.

#![warn(unreachable_pub)]

pub mod client;
pub mod config;
mod controller;
pub mod copy;
mod durable;
pub mod emulate;
mod error;
mod io;
pub mod limits;
pub mod metadata;
pub mod private;
pub mod protocol;
mod random;
#[cfg(test)]
mod scale;
mod sparse;
pub mod start;
mod sync;
pub mod trust;
mod utc;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
