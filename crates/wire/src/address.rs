//! Addresses of servers: `HOST:PORT`, and behind `#` what is known of the server there.

use crate::error::{Error, ErrorKind, Result};
use crate::transport::Fingerprint;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// What is known of the server at an address, and so how it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Nothing: in clear on loopback, unless the server wants more; otherwise encrypted, with whatever key the server proves to be the store's.
    None,
    /// `#plain`: bytes go in clear, on a network that is trusted.
    Plain,
    /// `#FINGERPRINT`: encrypted, with this key.
    Key(Fingerprint),
}

impl Pin {
    /// Whether a server at this address is spoken to encrypted, to begin with.
    pub(crate) fn encrypts(self, at: IpAddr) -> bool {
        match self {
            Pin::Plain => false,
            Pin::Key(_) => true,
            Pin::None => !at.to_canonical().is_loopback(),
        }
    }

    /// The key that it is to have.
    pub(crate) fn key(self) -> Option<Fingerprint> {
        if let Pin::Key(key) = self { Some(key) } else { None }
    }
}

/// `HOST:PORT` with what is known of the server there.
pub fn pinned(address: &str, pin: Pin) -> String {
    match pin {
        Pin::None => address.to_owned(),
        Pin::Plain => format!("{address}#plain"),
        Pin::Key(fingerprint) => format!("{address}#{fingerprint}"),
    }
}

/// Whether bytes go in clear to this address because somebody has said so.
pub fn is_plain(address: &str) -> bool {
    matches!(split_pin(address), Ok((_, Pin::Plain)))
}

/// An address for people: without what is known of the server.
pub fn without_pin(address: &str) -> &str {
    address.split_once('#').map_or(address, |(place, _)| place)
}

/// `HOST:PORT`, and what is known of the server there.
///
/// # Errors
/// When what follows the port is neither a fingerprint nor `plain`.
pub fn split_pin(address: &str) -> Result<(&str, Pin)> {
    let Some((place, pin)) = address.split_once('#') else { return Ok((address, Pin::None)) };
    if pin == "plain" {
        return Ok((place, Pin::Plain));
    }
    let wrong = || Error::new(ErrorKind::Invalid, format!("`{address}`: expected `plain` or the server's fingerprint behind #"));
    pin.parse().map(|key| (place, Pin::Key(key))).map_err(|_| wrong())
}

/// Whether this is `HOST:PORT`; the host need not be known here.
pub fn check_address(address: &str) -> Result<(), String> {
    let problem = || "expected HOST:PORT, as in 127.0.0.1:7400 or [::1]:7400".to_owned();
    if address.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    let (host, port) = address.rsplit_once(':').ok_or_else(problem)?;
    let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if host.is_empty() || host.len() > 253 || !host.chars().all(known) || port.parse::<u16>().is_err() {
        return Err(problem());
    }
    Ok(())
}

/// `HOST:PORT` as an address to listen on.
///
/// # Errors
/// When the host is not known.
pub fn resolve(address: &str) -> Result<SocketAddr> {
    check_address(address).map_err(|problem| Error::new(ErrorKind::Invalid, format!("address `{address}`: {problem}")))?;
    let mut found = address.to_socket_addrs().map_err(|e| Error::system(format!("address `{address}`"), e))?;
    found.next().ok_or_else(|| Error::new(ErrorKind::NotFound, format!("address `{address}`: the host has no address")))
}
