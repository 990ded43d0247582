//! The store's wire protocol: messages on connections, and the authentication that comes before them.
//!
//! **In:** addresses, credentials, requests. **Out:** a mutually authenticated connection, and the replies on it. **Never:**
//! carrying out a request (the servers do), choosing which request to send (the client does).
//!
//!
//! | module | contents |
//! |---|---|
//! | `transport` | messages on a connection: header, checksums, limits; both ends, and TLS |
//! | [`protocol`] | the requests and replies |
//! | [`locks`] | the lock table, used by the metadata service and by read-only clients |
//! | [`trust`] | credentials, and mutual authentication with them |
//! | [`address`] | `HOST:PORT`, and how to reach the server there |
//! | [`emulate`] | emulated disks and links of given rates |
//! | [`limits`] | every limit on what a peer can make this process do |
//!
//! `PROTOCOL.md` beside this crate draws the bytes on the wire and on disk.

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
