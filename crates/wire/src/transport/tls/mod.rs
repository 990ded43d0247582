//! TLS 1.3 inside of a [`super::Channel`].
//!
//! No certificates, dates or names: a server has one Ed25519 key (RFC 7250 raw public keys), and a client knows its [`Fingerprint`] or
//! proves with the store's credential, bound to the session ([`super::Channel::binding`]), that nobody is in between.
//!
//! rustls shakes hands, keeps tickets and derives keys, as it does for kernels that encrypt by themselves; the records of an open
//! connection are ours ([`records`], [`session`]): each byte is copied once on its way out, into the buffer in which it is encrypted and
//! from which one call sends many records, and once on its way in, out of the buffer in which it was decrypted. rustls's own connections
//! copy once or twice more, take memory for each record, and receive one record at most with each call. `examples/tls.rs` measures.
//!
//! Nobody waits for a `close_notify`, and none is sent: every message says how long it is, so an end within one is an error here as on a
//! plain connection, and an end between two is what a peer that went away looks like.

mod config;
mod exporter;
mod handshake;
mod key;
mod records;
mod session;
#[cfg(test)]
mod tests;

pub use config::{ClientTls, ServerTls};
pub use key::{Fingerprint, ServerKey};

pub(super) use handshake::Handshake;
pub(super) use session::Session;

use crate::error::{Error, ErrorKind};

/// The peer broke the rules, or somebody in between did: as an error of a call on the connection, out of which
/// [`super::socket::failure`] takes it again.
fn broken(error: Error) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, error)
}

fn protocol(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, problem)
}
