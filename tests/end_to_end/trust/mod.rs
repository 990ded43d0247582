//! Access control: only its credentials open a store, its secret is only in their files, and beyond loopback everything is encrypted.

mod campaign;
mod clear;
mod closed;
mod ending;
mod flood;
mod packets;
mod read_only;
mod secrets;
mod strangers;

use std::path::{Path, PathBuf};
use thalweg_wire::trust::{Credential, Credentials, Rights};
use thalweg_wire::{Connect, Connection};

/// Bytes to search for, and their name.
struct Needle {
    what: &'static str,
    bytes: Vec<u8>,
}

impl Needle {
    fn new(what: &'static str, bytes: impl Into<Vec<u8>>) -> Needle {
        Needle { what, bytes: bytes.into() }
    }

    /// Returns the secret of a credential file, as text and as bytes.
    fn secrets(credential: &Path) -> [Needle; 2] {
        let text = std::fs::read_to_string(credential).expect("a credential can be read");
        let hex = text.lines().find_map(|line| line.strip_prefix("secret = \"")).expect("its secret").trim_end_matches('"');
        let raw: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")).collect();
        assert_eq!(raw.len(), 32, "all of it");
        [Needle::new("a secret in hexadecimal digits", hex), Needle::new("a secret", raw)]
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        // SAFETY: memmem reads both ranges, which live as long as this call, and keeps nothing.
        let found = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), self.bytes.as_ptr().cast(), self.bytes.len()) };
        !found.is_null()
    }
}

/// Returns which needles are in the bytes.
fn found(needles: &[Needle], bytes: &[u8]) -> Vec<&'static str> {
    needles.iter().filter(|needle| needle.is_in(bytes)).map(|needle| needle.what).collect()
}

/// Lists all files below a directory, without links.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => all.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
    all
}

/// Derives another credential from the store's own in this file.
fn derived(own: &Path, owner: &str, until_s: Option<u64>, to: PathBuf) -> PathBuf {
    derived_with(own, (owner, Rights::Write), until_s, to)
}

/// Derives a credential with these rights.
fn derived_with(own: &Path, (owner, rights): (&str, Rights), until_s: Option<u64>, to: PathBuf) -> PathBuf {
    let credential = Credential::read(own).expect("the store's own").derive(owner, rights, until_s);
    credential.and_then(|credential| credential.write(&to)).expect("a credential can be made");
    to
}

/// Returns the listening address of the `number`th server in this `store.toml`, the metadata service first.
fn address(description: &Path, number: usize) -> String {
    let description = std::fs::read_to_string(description).expect("a store's description");
    let mut all = description.lines().filter_map(|line| line.strip_prefix("address = "));
    all.nth(number).expect("so many servers").trim_matches('"').to_owned()
}

/// Connects to that server with the credential in this file.
fn connection(description: &Path, number: usize, credential: &Path) -> thalweg_wire::Result<Connection> {
    let options = Connect { credentials: Credentials::file(credential), ..Connect::default() };
    Connection::connect(&address(description, number), &options)
}
