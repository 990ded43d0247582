//! The messages between a job and its parts: one JSON document per line.
//!
//! ```text
//! job                         part
//! Begin  where to listen  >
//!                         <   Listens  ports, machine, directories
//! Serve  the store        >
//!                         <   Serves   the store's address
//! Mount, Unmount          >
//!                         <   Mounted, Unmounted
//! Stop   remove or keep   >
//!                         <   Stopped
//! ```
//!
//! A part that cannot execute a message sends `Failed` and ends, having cleaned up. A closed pipe means `Stop` with the value that `Serve`
//! gave.

use crate::error::{LaunchError, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;

/// Bound: maximum bytes of a message; the description of 4096 servers fits.
const WORD_BYTES: u64 = 8 << 20;

/// A message to a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToPart {
    /// Listen.
    Begin(Begin),
    /// Start the servers.
    Serve(Serve),
    /// Mount the store on this directory.
    Mount { address: String, directory: PathBuf },
    /// Unmount, after writing everything out.
    Unmount,
    /// Stop the servers, and remove their data or not.
    Stop { removes: bool },
}

/// How a part is to listen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// The version of the job's command; that of its parts must be equal.
    pub version: String,
    pub address: IpAddr,
    /// The number of servers.
    pub listeners: usize,
    /// The directories for targets; if empty, the host's temporary directory.
    pub targets: Vec<PathBuf>,
}

/// The store, and a part's share of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Serve {
    /// The part's servers, in the order of its listeners.
    pub names: Vec<String>,
    /// A directory of this part only, for the store's description and credential.
    pub home: PathBuf,
    /// The text of `store.toml`.
    pub store: String,
    /// The contents of `store.credential`.
    pub credential: String,
    /// The store already exists.
    pub again: bool,
    /// Publish the credential to the user's clients on this machine.
    pub publishes: bool,
    /// Remove the data if the pipe closes without `Stop`.
    pub removes: bool,
}

/// A message from a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToJob {
    /// The part listens.
    Listens(Listens),
    /// Its servers serve.
    Serves { address: String },
    /// The store is mounted.
    Mounted,
    /// The store is unmounted, and everything is written.
    Unmounted,
    /// Its servers have stopped.
    Stopped,
    /// It failed, and ends.
    Failed { reason: String },
}

/// What a part found on its host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listens {
    pub ports: Vec<u16>,
    /// Equal for all parts in the same mount namespace.
    pub machine: String,
    /// The node label of the machine, as its clients use it.
    pub node: String,
    /// The directories for targets, absolute.
    pub targets: Vec<PathBuf>,
}

/// Writes a message.
pub(crate) fn write_message(to: &mut impl Write, word: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Checks that the job's command has the version of this one.
///
/// # Errors
/// It has another.
pub(crate) fn of_this_release(version: &str) -> Result<()> {
    let here = env!("CARGO_PKG_VERSION");
    if version == here {
        return Ok(());
    }
    let there = version.escape_debug();
    Err(LaunchError::failed(format!(
        "`thalweg` is version {here} there, but {there} where the job runs: install the same version on all hosts"
    )))
}

/// Reads the next message; `None` at the end of input.
///
/// # Errors
/// The line is not a valid message; quotes its beginning.
pub(crate) fn read_message<W: for<'a> Deserialize<'a>>(from: &mut impl BufRead) -> Result<Option<W>> {
    let mut line = Vec::new();
    let ended = from.take(WORD_BYTES).read_until(b'\n', &mut line).is_err() || line.is_empty();
    if ended {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(|_| {
        // Another release's first message may have other fields; its version is in the same place.
        let other = serde_json::from_slice::<serde_json::Value>(&line).ok();
        if let Some(error) = other.and_then(|message| of_this_release(message["Begin"]["version"].as_str()?).err()) {
            return error;
        }
        let begun = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
        LaunchError::failed(format!(
            "unexpected output `{begun}`: expected messages of `thalweg launch` only (does a login script print something?)"
        ))
    })
}
