//! Server addresses: `HOST:PORT`, optionally followed by `#` and how to reach the server (`plain` or a key's fingerprint).

use crate::error::{Error, ErrorKind, Result};
use crate::transport::Fingerprint;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// How the server at an address is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// No pin: on loopback, in clear unless the server insists on TLS; elsewhere encrypted, with any key that the server proves to be the
    /// store's.
    None,
    /// `#plain`: in clear, over a trusted network.
    Plain,
    /// `#FINGERPRINT`: encrypted, with this server key.
    Key(Fingerprint),
}

impl Pin {
    /// Whether the first attempt to connect is encrypted.
    pub(crate) fn encrypts(self, at: IpAddr) -> bool {
        match self {
            Pin::Plain => false,
            Pin::Key(_) => true,
            Pin::None => !at.to_canonical().is_loopback(),
        }
    }

    /// Returns the server key to expect, if pinned.
    pub(crate) fn key(self) -> Option<Fingerprint> {
        if let Pin::Key(key) = self { Some(key) } else { None }
    }
}

/// Appends the pin to `HOST:PORT`.
pub fn pinned(address: &str, pin: Pin) -> String {
    match pin {
        Pin::None => address.to_owned(),
        Pin::Plain => format!("{address}#plain"),
        Pin::Key(fingerprint) => format!("{address}#{fingerprint}"),
    }
}

/// Whether the address is explicitly marked `#plain`.
pub fn is_plain(address: &str) -> bool {
    matches!(split_pin(address), Ok((_, Pin::Plain)))
}

/// Strips the pin, for display.
pub fn without_pin(address: &str) -> &str {
    address.split_once('#').map_or(address, |(place, _)| place)
}

/// Splits an address into `HOST:PORT` and the pin after it.
///
/// # Errors
/// When the text behind `#` is neither a fingerprint nor `plain`.
pub fn split_pin(address: &str) -> Result<(&str, Pin)> {
    let Some((place, pin)) = address.split_once('#') else { return Ok((address, Pin::None)) };
    if pin == "plain" {
        return Ok((place, Pin::Plain));
    }
    let wrong = || Error::new(ErrorKind::Invalid, format!("`{address}`: expected `plain` or the server's fingerprint behind #"));
    pin.parse().map(|key| (place, Pin::Key(key))).map_err(|_| wrong())
}

/// Checks that the text is `HOST:PORT`; the host is not resolved.
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

/// Resolves `HOST:PORT` to a socket address to listen on.
///
/// # Errors
/// When the host cannot be resolved.
pub fn resolve(address: &str) -> Result<SocketAddr> {
    check_address(address).map_err(|problem| Error::new(ErrorKind::Invalid, format!("address `{address}`: {problem}")))?;
    let mut found = address.to_socket_addrs().map_err(|e| Error::system(format!("address `{address}`"), e))?;
    found.next().ok_or_else(|| Error::new(ErrorKind::NotFound, format!("address `{address}`: the host has no address")))
}
