//! The addresses of stores, servers and paths in stores.
//!
//! `thal://HOST:PORT` names a store by its metadata service, and `thal://HOST:PORT/path` a path in it. Several services, one of them
//! active, are separated by commas. The port may be followed by `#` and the fingerprint of the server's key, or by `#plain` (see
//! [`thalweg_wire::address::Pin`]). The pin precedes the path, since file names may contain `#`.

use super::StoreConfig;
use std::path::{Path, PathBuf};
use thalweg_wire::address::{check_address, split_pin};
use thalweg_wire::protocol::names::split;
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Error, ErrorKind, Result};

/// The environment variable that names the store if no other is given.
pub const STORE_VARIABLE: &str = "THALWEG_STORE";

/// How to find a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// The address of its metadata service: `HOST:PORT`.
    Service(String),
    /// The path of its `store.toml`.
    File(PathBuf),
}

impl StoreAddress {
    /// Parses `thal://HOST:PORT` or the path of a `store.toml`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<StoreAddress> {
        let path = StorePath::parse(text)?;
        match path {
            Some(StorePath { store: Some(address), path }) if path == b"/" => Ok(address),
            Some(_) => Err(Error::new(ErrorKind::Invalid, format!("`{text}` has a path: expected a store, thal://HOST:PORT"))),
            None if text.is_empty() => Err(Error::new(ErrorKind::Invalid, "no store: expected thal://HOST:PORT or a store.toml")),
            None => Ok(StoreAddress::File(PathBuf::from(text))),
        }
    }

    /// Returns the store that `THALWEG_STORE` names, if set.
    ///
    /// # Errors
    /// The variable is not a store's address.
    pub fn from_environment() -> Result<Option<StoreAddress>> {
        match std::env::var(STORE_VARIABLE) {
            Ok(text) if !text.is_empty() => {
                let address = StoreAddress::parse(&text);
                address.map(Some).map_err(|e| Error::new(e.kind(), format!("{STORE_VARIABLE}: {}", e.message())))
            }
            _ => Ok(None),
        }
    }

    /// Returns the address of the metadata service: `HOST:PORT`.
    ///
    /// # Errors
    /// The `store.toml` cannot be read.
    pub fn service(&self) -> Result<String> {
        match self {
            StoreAddress::Service(address) => Ok(address.clone()),
            StoreAddress::File(path) => Ok(StoreConfig::read(path)?.service()),
        }
    }
}

impl StoreAddress {
    /// Returns where to find the credential: the `given` file if any; otherwise as set in the environment or the `store.toml`, or among the
    /// user's credentials.
    ///
    /// # Errors
    /// The `store.toml` cannot be read.
    pub fn credentials(&self, given: Option<&Path>) -> Result<Credentials> {
        match (given, self) {
            (Some(file), _) => Ok(Credentials::file(file)),
            (None, StoreAddress::Service(_)) => Ok(Credentials::default()),
            (None, StoreAddress::File(path)) => Ok(Credentials::default().near(&StoreConfig::read(path)?.credential)),
        }
    }
}

impl std::fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreAddress::Service(address) => write!(f, "thal://{address}"),
            StoreAddress::File(path) => path.display().fmt(f),
        }
    }
}

/// A path in a store, as a command-line argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePath {
    /// The store; `None`: that of the environment or of a flag.
    pub store: Option<StoreAddress>,
    /// The path from the root.
    pub path: Vec<u8>,
}

impl StorePath {
    /// Parses `thal://HOST:PORT/PATH`, or `thal:///PATH` for the store of the environment; `None` for any other text.
    ///
    /// # Errors
    /// The host, port or path is invalid.
    pub fn parse(text: &str) -> Result<Option<StorePath>> {
        let Some(rest) = text.strip_prefix("thal:") else { return Ok(None) };
        let bad = |problem: &str| Error::new(ErrorKind::Invalid, format!("`{text}`: {problem}"));
        let rest = rest.strip_prefix("//").ok_or_else(|| bad("expected thal://HOST:PORT/PATH"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let store = match host {
            "" => None,
            host => {
                let (place, _) = split_pin(host)?;
                place.split(',').try_for_each(check_address).map_err(|problem| bad(&problem))?;
                Some(StoreAddress::Service(host.to_owned()))
            }
        };
        split(path.as_bytes()).map_err(|e| bad(e.message()))?;
        let path = if path.is_empty() { b"/".to_vec() } else { path.as_bytes().to_vec() };
        Ok(Some(StorePath { store, path }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_places() {
        let parsed = StorePath::parse("thal://h:1/a/b").unwrap().unwrap();
        assert_eq!((parsed.store, parsed.path.as_slice()), (Some(StoreAddress::Service("h:1".into())), &b"/a/b"[..]));
        assert_eq!(StorePath::parse("thal:///a").unwrap().unwrap().store, None);
        assert_eq!(StorePath::parse("/a/b").unwrap(), None);
        assert_eq!(StoreAddress::parse("thal://h:1").unwrap(), StoreAddress::Service("h:1".into()));
        assert_eq!(StoreAddress::parse("x/store.toml").unwrap(), StoreAddress::File("x/store.toml".into()));
        for wrong in ["thal://h/a", "thal:/a", "thal://h:99999/", "thal://h:1/a/../b", "thal://:1/a"] {
            assert!(StorePath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
