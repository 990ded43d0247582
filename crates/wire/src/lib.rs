//! What the parts of a store say to each other: messages on connections, and the proofs that come before them.
//!
//! **In:** addresses, credentials, requests. **Out:** a connection on which both ends have proved who they are, and what was answered on it.
//! **Never:** what a request does (that is the servers'), and which one to make (that is the client's).
//!
//! | room | what is in it |
//! |---|---|
//! | `transport` | messages on a connection: header, checksums, bounds; both ends, and TLS |
//! | [`protocol`] | what the messages say |
//! | [`locks`] | which locks are held and granted: the same arithmetic at the service and at a client that may only read |
//! | [`trust`] | credentials, and how both ends of a connection prove theirs |
//! | [`address`] | `HOST:PORT`, and what is known of the server there |
//! | [`emulate`] | disks and links of given rates that are not there |
//! | [`limits`] | every bound on what a peer can make us do |
//!
//! The bytes on the wire and on disk are drawn in `PROTOCOL.md` beside this crate.

#![warn(unreachable_pub)]

pub mod address;
pub mod emulate;
mod error;
pub mod limits;
pub mod locks;
pub mod protocol;
mod transport;
pub mod trust;

pub use error::{Error, ErrorKind, Result};
pub use transport::*;
