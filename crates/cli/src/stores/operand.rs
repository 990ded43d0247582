//! Operands of the verbs: paths in a store, local paths, pipes.
//!
//! `thal://HOST:PORT/path` is a path in the store whose metadata service is at that address. `thal:///path` and `thal:/path` are
//! paths in the store that `--store` or `THALWEG_STORE` names (an address, or a `store.toml`). Verbs that work on stores only also
//! take a plain `/path`.

use crate::{failure::Failure, names};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_wire::Error;
use thalweg_wire::trust::{CREDENTIAL_VARIABLE, Credentials};

/// The flags of every verb that talks to a store.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreFlags {
    /// The store of paths without an address: thal://HOST:PORT, or its store.toml
    #[arg(long, env = "THALWEG_STORE", value_name = "STORE")]
    store: Option<String>,
    /// Timeout for a server that does not answer, like 30, 2.5s or 500ms
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true, value_parser = numbers::parse_duration)]
    pub timeout: Duration,
    /// The file with your credential for the store (default: the one made for you when you started the store)
    #[arg(long, env = CREDENTIAL_VARIABLE, value_name = "FILE")]
    credential: Option<PathBuf>,
    /// The label of this machine, for --place local (default: the host name)
    #[arg(long, env = thalweg_base::machine::NODE_VARIABLE, value_name = "LABEL")]
    node: Option<String>,
}

/// A path in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePath {
    /// The store.
    pub store: StoreAddress,
    /// The absolute path.
    pub path: String,
}

impl std::fmt::Display for StorePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)
    }
}

/// A path in a store, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BytePath {
    /// The store.
    pub store: StoreAddress,
    /// The absolute path.
    pub path: Vec<u8>,
    /// The operand as given: the prefix of printed paths below it.
    pub given: Vec<u8>,
}

/// An end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// `-`: standard input or output.
    Pipe,
    /// A path on this machine.
    Local(PathBuf),
    /// A path in a store.
    Store(StorePath),
}

impl StoreFlags {
    /// Returns the flags of a line that is being typed: those of the environment, and a short timeout, since a person waits.
    pub(crate) fn typed() -> StoreFlags {
        let store = std::env::var("THALWEG_STORE").ok();
        let credential = std::env::var_os(CREDENTIAL_VARIABLE).map(PathBuf::from);
        StoreFlags { store, timeout: Duration::from_secs(1), credential, node: None }
    }

    /// Parses a path in a store; a plain path is in the store that the flag or the environment names.
    pub(crate) fn path(&self, text: &str) -> Result<StorePath, Failure> {
        let long = match text.strip_prefix("thal:") {
            Some(rest) if rest.starts_with("//") => text.to_owned(),
            Some(rest) => format!("thal://{}", absolute(rest)),
            None => format!("thal://{}", absolute(text)),
        };
        let parsed = thalweg_store::config::StorePath::parse(&long).map_err(Failure::usage)?;
        let Some(parsed) = parsed else { return Err(Failure::usage(format!("{text}: expected thal://HOST:PORT/path"))) };
        let path = String::from_utf8(parsed.path).map_err(|_| Failure::usage(format!("{text}: the path is not UTF-8")))?;
        let store = match (parsed.store, self.store.as_deref().filter(|s| !s.is_empty())) {
            (Some(store), _) => store,
            (None, Some(store)) => StoreAddress::parse(store).map_err(|e| Failure::usage(format!("--store or THALWEG_STORE: {e}")))?,
            (None, None) => {
                let problem = format!("{text}: no store given: write thal://HOST:PORT{path}, or set --store or THALWEG_STORE");
                return Err(Failure::usage(problem));
            }
        };
        Ok(StorePath { store, path })
    }

    /// Parses a path in a store that may be any bytes; otherwise like [`StoreFlags::path`].
    pub(crate) fn byte_path(&self, given: &OsStr) -> Result<BytePath, Failure> {
        let bytes = given.as_bytes();
        if let Some(text) = given.to_str() {
            let StorePath { store, path } = self.path(text)?;
            return Ok(BytePath { store, path: path.into_bytes(), given: bytes.to_vec() });
        }
        // The address is text in any case; the service validates the path.
        let address = match bytes.strip_prefix(b"thal://") {
            Some(rest) => b"thal://".len() + rest.iter().position(|b| *b == b'/').unwrap_or(rest.len()),
            None if bytes.starts_with(b"thal:") => b"thal:".len(),
            None => 0,
        };
        let (address, rest) = bytes.split_at(address);
        let address =
            std::str::from_utf8(address).map_err(|_| Failure::usage(format!("{}: expected thal://HOST:PORT/path", names::text(bytes))))?;
        let path = if rest.starts_with(b"/") { rest.to_vec() } else { [b"/", rest].concat() };
        Ok(BytePath { store: self.path(&format!("{address}/"))?.store, path, given: bytes.to_vec() })
    }

    /// Returns the credential file for a store, given or beside its `store.toml`, for other processes of ours.
    pub(crate) fn credential_file(&self, store: &StoreAddress) -> Result<Option<PathBuf>, Failure> {
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
        match (self.credential.as_ref().filter(|path| !path.as_os_str().is_empty()), store) {
            (Some(given), _) => absolute(given).map(Some),
            (None, StoreAddress::Service(_)) => Ok(None),
            (None, StoreAddress::File(file)) => {
                let beside = StoreConfig::read(file).map_err(Failure::failed)?.credential;
                Ok(Some(beside).filter(|path| path.exists()))
            }
        }
    }

    /// Returns the source of the credential for a store.
    pub(crate) fn credentials(&self, store: &StoreAddress) -> Result<Credentials, Error> {
        let given = self.credential.as_deref().filter(|path| !path.as_os_str().is_empty());
        store.credentials(given)
    }

    /// Returns flags that name the store of `text` for another process in another directory.
    pub(crate) fn absolute(&self, text: &str) -> Result<Vec<OsString>, Failure> {
        let full = |path: &Path| std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
        let mut flags: Vec<OsString> = vec!["--store".into()];
        flags.push(match self.path(text)?.store {
            StoreAddress::Service(address) => format!("thal://{address}").into(),
            StoreAddress::File(path) => full(&path)?.into(),
        });
        if let Some(credential) = self.credential.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            flags.extend(["--credential".into(), full(credential)?.into()]);
        }
        flags.extend(["--timeout".into(), format!("{}s", self.timeout.as_secs_f64()).into()]);
        Ok(flags)
    }

    /// Returns this machine's node label.
    pub(crate) fn node(&self) -> String {
        self.node.clone().filter(|n| !n.is_empty()).unwrap_or_else(thalweg_base::machine::node)
    }

    /// Parses an end of a copy: without `thal:` it is local.
    pub(crate) fn operand(&self, text: &str) -> Result<Operand, Failure> {
        match text {
            "-" => Ok(Operand::Pipe),
            "" => Err(Failure::usage("empty path: expected a file, thal://HOST:PORT/path, or -")),
            _ if text.starts_with("thal:") => Ok(Operand::Store(self.path(text)?)),
            _ => Ok(Operand::Local(PathBuf::from(text))),
        }
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(store: Option<&str>) -> StoreFlags {
        StoreFlags { store: store.map(str::to_owned), timeout: Duration::from_secs(1), node: None, credential: None }
    }

    #[test]
    fn store_paths_are_distinguished_from_local_ones() {
        let at = |store: &str, path: &str| StorePath { store: StoreAddress::Service(store.into()), path: path.into() };
        let none = flags(None);
        assert_eq!(none.operand("thal://h:1/a/b").unwrap(), Operand::Store(at("h:1", "/a/b")));
        assert_eq!(none.operand("thal://[::1]:7000").unwrap(), Operand::Store(at("[::1]:7000", "/")));
        assert_eq!(none.operand("/a").unwrap(), Operand::Local("/a".into()));
        assert_eq!(none.operand("-").unwrap(), Operand::Pipe);
        for bad in ["thal:/a", "thal:///a", "thal://h/a", "thal://:1/a", "thal://h:x/a", ""] {
            assert!(matches!(none.operand(bad), Err(Failure::Usage(_))), "{bad} was accepted");
        }
        let some = flags(Some("thal://h:1/"));
        assert_eq!(some.operand("thal:/a").unwrap(), Operand::Store(at("h:1", "/a")));
        assert_eq!(some.operand("thal:///a").unwrap(), Operand::Store(at("h:1", "/a")));
        assert_eq!(some.path("a").unwrap(), at("h:1", "/a"));
        let odd = OsStr::from_bytes(b"thal://h:1/a\xff");
        let known = none.byte_path(odd).unwrap();
        assert_eq!(
            (known.store, known.path, known.given),
            (StoreAddress::Service("h:1".into()), b"/a\xff".to_vec(), odd.as_bytes().to_vec())
        );
        assert_eq!(some.byte_path(OsStr::from_bytes(b"\xff")).unwrap().path, b"/\xff");
        assert_eq!(some.byte_path(OsStr::from_bytes(b"thal:/\xff")).unwrap().path, b"/\xff");
        assert!(none.byte_path(OsStr::from_bytes(b"thal://h\xff:1/a")).is_err());
        let file = StorePath { store: StoreAddress::File("dir/store.toml".into()), path: "/a".into() };
        assert_eq!(flags(Some("dir/store.toml")).path("/a").unwrap(), file);
    }
}
