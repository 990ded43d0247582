//! Mount options.

use crate::fuse::mounting::Honours;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::wire::protocol::metadata::LayoutChoice;
use thalweg_client::wire::trust::Credentials;

/// Default lifetime of names and attributes in the kernel's cache, unless the mount is strict.
pub(crate) const LIFETIME: Duration = Duration::from_secs(1);

/// Default number of inodes the kernel should know at most: about 100 MiB of its memory and 30 MiB here.
pub(crate) const INODE_LIMIT: usize = 100_000;

/// Mount options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the metadata service: `HOST:PORT`.
    pub address: String,
    /// Directory of the store to mount; `/` for all of it.
    pub directory: String,
    /// Directory to mount on.
    pub mountpoint: PathBuf,
    /// Strict consistency: a read that starts after a write returned, anywhere, sees it; nothing is cached, here or in the kernel.
    pub strict: bool,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether other users may use it, subject to permissions.
    pub allow_other: bool,
    /// Privileges of the store that this machine honours.
    pub honours: Honours,
    /// Lifetime of names and attributes in the kernel's cache.
    pub lifetime: Duration,
    /// Label of this machine.
    pub node: String,
    /// Credentials presented to the servers.
    pub credentials: Credentials,
    /// Silence after which a server is given up.
    pub timeout: Duration,
    /// Number of inodes the kernel should know at most: beyond it, the kernel is asked to drop those it has had longest and that were
    /// never open.
    pub inode_limit: usize,
    /// Whether to report a file's allocated space as if it had no holes when the metadata service knows its size: no I/O server is asked
    /// then.
    pub estimate_space: bool,
    /// Layout of new files where their directory has no default.
    pub layout: LayoutChoice,
    /// Name of the lot for new files, whatever their directory's default.
    pub lot: Option<String>,
    /// Path of the recording of the mount, and the command it names.
    pub record: Option<(PathBuf, Vec<String>)>,
    /// Log file; `None`: standard error.
    pub log: Option<PathBuf>,
}

impl Options {
    /// Returns options to mount a whole store.
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

    /// Returns the source in `/proc/mounts`: `thal://HOST:PORT/DIR`.
    pub fn source(&self) -> String {
        format!("thal://{}/{}", self.address, self.directory.trim_matches('/'))
    }

    /// Returns how long the kernel may use cached names and attributes.
    pub fn lifetime(&self) -> Duration {
        if self.strict { Duration::ZERO } else { self.lifetime }
    }
}
