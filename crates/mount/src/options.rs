//! How to mount.

use crate::fuse::mounting::Honours;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::wire::protocol::metadata::LayoutChoice;
use thalweg_client::wire::trust::Credentials;

/// How long the kernel relies on names and attributes it has seen, unless the mount is strict.
pub(crate) const LIFETIME: Duration = Duration::from_secs(1);

/// Files and directories that the kernel should know at a time: about 100 MiB of its memory and 30 MiB here.
pub(crate) const INODE_LIMIT: usize = 100_000;

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// The metadata service's address: `HOST:PORT`.
    pub address: String,
    /// The directory of the store that is mounted: `/` for all of it.
    pub directory: String,
    /// Where.
    pub mountpoint: PathBuf,
    /// A read that starts after a write returned, anywhere, sees it: nothing is kept, here or in the kernel.
    pub strict: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Other users may use it, as far as modes let them.
    pub allow_other: bool,
    /// What of the store's privileges this machine honours.
    pub honours: Honours,
    /// How long the kernel relies on names and attributes it has seen.
    pub lifetime: Duration,
    /// The label of this machine.
    pub node: String,
    /// What is proven to the servers.
    pub credentials: Credentials,
    /// Silence after which a server is given up.
    pub timeout: Duration,
    /// Files and directories that the kernel should know at a time: beyond it, it is asked to forget those it has known for longest and
    /// nobody has opened.
    pub inode_limit: usize,
    /// Space that a file takes is given as if it had no holes where the metadata service knows its size: then no I/O server is asked.
    pub estimate_space: bool,
    /// What is asked of new files' layouts where their directory says nothing.
    pub layout: LayoutChoice,
    /// The name of the lot that new files are in, whatever their directory says.
    pub lot: Option<String>,
    /// Where the mount's recording of itself goes, and the command it names.
    pub record: Option<(PathBuf, Vec<String>)>,
    /// Where notes go; otherwise to standard error.
    pub log: Option<PathBuf>,
}

impl Options {
    /// A mount of all of a store.
    pub fn new(address: impl Into<String>, mountpoint: impl Into<PathBuf>) -> Options {
        Options {
            address: address.into(),
            directory: "/".into(),
            mountpoint: mountpoint.into(),
            strict: false,
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            honours: Honours::default(),
            lifetime: LIFETIME,
            node: thalweg_base::machine::node(),
            credentials: Credentials::default(),
            timeout: thalweg_client::wire::limits::CLIENT_SILENCE,
            inode_limit: INODE_LIMIT,
            estimate_space: false,
            layout: LayoutChoice::default(),
            lot: None,
            record: None,
            log: None,
        }
    }

    /// What `/proc/mounts` shows: `thal://HOST:PORT/DIR`.
    pub fn source(&self) -> String {
        format!("thal://{}/{}", self.address, self.directory.trim_matches('/'))
    }

    /// How long the kernel may rely on what it has seen.
    pub fn lifetime(&self) -> Duration {
        if self.strict { Duration::ZERO } else { self.lifetime }
    }
}
