//! TLS 1.3 inside a [`super::Channel`].
//!
//! No certificates, dates or names: a server has one Ed25519 key (RFC 7250 raw public keys); a client knows its [`Fingerprint`],
//! or relies on proofs with the store's credential, bound to the session ([`super::Channel::binding`]), to exclude an
//! interceptor.
//!
//! rustls performs the handshake, keeps tickets and derives keys, as it does for kernel TLS; the records of an open connection
//! are handled here ([`records`], [`session`]): each outgoing byte is copied once, into the buffer in which it is encrypted and
//! from which one call sends many records; each incoming byte is copied once, out of the buffer in which it was decrypted.
//! rustls's own connections copy once or twice more, allocate for each record, and receive at most one record per call.
//! `examples/tls.rs` measures.
//!
//! A `close_notify` is neither awaited nor sent: every message gives its length, so an end within a message is an error, as on a
//! plain connection, and an end between two messages means that the peer went away.

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

/// Wraps a protocol violation (by the peer or an interceptor) as an I/O error, from which [`super::socket::failure`] recovers it.
fn broken(error: Error) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, error)
}

fn protocol(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, problem)
}
