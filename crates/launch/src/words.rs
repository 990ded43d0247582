//! What a job and its parts say to each other: one document of JSON on a line.
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
//! A part that cannot do what it is asked says `Failed` and ends, having cleaned up. A pipe that is closed is `Stop` with what `Serve` said.

use crate::error::{LaunchError, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;

/// A word is at most this long: the description of 4096 servers fits.
const WORD_BYTES: u64 = 8 << 20;

/// To a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToPart {
    /// Listens.
    Begin(Begin),
    /// Starts the servers.
    Serve(Serve),
    /// Mounts the store on this directory.
    Mount { address: String, directory: PathBuf },
    /// Takes the mount away, everything written.
    Unmount,
    /// Stops the servers, and removes what they have stored, or not.
    Stop { removes: bool },
}

/// Where a part listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Which version of the command the job runs: its parts must be the same.
    pub version: String,
    pub address: IpAddr,
    /// How many servers.
    pub listeners: usize,
    /// The directories for targets; none: the host's own for temporary files.
    pub targets: Vec<PathBuf>,
}

/// The store, and a part's place in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Serve {
    /// The servers that are this part's, in the order of its listeners.
    pub names: Vec<String>,
    /// A directory of this part alone, with its description of the store and the store's credential.
    pub home: PathBuf,
    /// The text of `store.toml`.
    pub store: String,
    /// The text of `store.credential`.
    pub credential: String,
    /// The store is there already.
    pub again: bool,
    /// The user's clients on this machine are to find the credential.
    pub publishes: bool,
    /// What was stored goes with a job that ends without a word.
    pub removes: bool,
}

/// From a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToJob {
    /// It listens.
    Listens(Listens),
    /// Its servers serve.
    Serves { address: String },
    /// It is mounted.
    Mounted,
    /// It is unmounted, and everything is written.
    Unmounted,
    /// Its servers have stopped.
    Stopped,
    /// It cannot, and ends.
    Failed { reason: String },
}

/// What a part finds on its host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listens {
    pub ports: Vec<u16>,
    /// The same for all parts that see the same mounts.
    pub machine: String,
    /// The label of the machine, as its clients have it.
    pub node: String,
    /// The directories for targets, absolute.
    pub targets: Vec<PathBuf>,
}

/// Says a word.
pub(crate) fn say(to: &mut impl Write, word: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// The next word; `None`: no more come.
///
/// # Errors
/// What came is no word, with its beginning.
pub(crate) fn heard<W: for<'a> Deserialize<'a>>(from: &mut impl BufRead) -> Result<Option<W>> {
    let mut line = Vec::new();
    let ended = from.take(WORD_BYTES).read_until(b'\n', &mut line).is_err() || line.is_empty();
    if ended {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(|_| {
        let begun = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
        LaunchError::failed(format!(
            "it said `{begun}`: expected to hear from `thalweg launch` alone (does a login script print something?)"
        ))
    })
}
