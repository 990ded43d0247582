//! What the translator must know of the system besides its records.

/// A file system, by the device number its files carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// `ext4`, `nfs4`, ...; empty: not known.
    pub kind: String,
    /// The disk under it, as in /sys/block; empty: none, or several.
    pub disk: String,
    /// The kernel's number of that disk; 0: none.
    pub disk_number: u32,
    /// Where its top is mounted; empty: not known.
    pub mounted_on: String,
}

/// Where a sample found a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    /// Its process, and the name of what that runs: addresses are another's when it begins another program.
    pub pid: u32,
    pub command: &'a str,
    pub address: u64,
    pub in_user: bool,
    pub weight_ns: u64,
}

/// What the translator asks of the system. Answers may be remembered by who answers.
pub(crate) trait Facts {
    /// A disk's name by the kernel's number (major << 20 | minor).
    fn disk_name(&mut self, number: u32) -> Option<String>;
    /// The file system whose files carry this device number, seen by `pid`.
    fn file_system(&mut self, device: u32) -> FileSystem;
    /// Whether somebody listens on this TCP port in this network namespace.
    fn is_listened_on(&mut self, namespace: u32, port: u16) -> bool;
    /// Whether somebody listens on this TCP port in any network namespace of a process that is watched.
    fn is_listened_on_anywhere(&mut self, port: u16) -> bool;
    /// The name of the kernel's function at this address; empty: not known.
    fn function(&mut self, address: u64) -> &str;
    /// The control group whose quota stops this process.
    fn quota_group(&mut self, pid: u32) -> Option<String>;
    /// The file that a process has mapped at this address.
    fn mapped_file(&mut self, _pid: u32, _address: u64) -> Option<String> {
        None
    }
    /// How many bytes a file has, by the device of its file system, its inode and its path; `None` where that is another file by now, or where asking might
    /// not be answered.
    fn file_size(&mut self, _device: u32, _inode: u64, _path: &str) -> Option<u64> {
        None
    }
    /// The name of a System V semaphore set or message queue (`semaphore set`, `message queue`), by its file in /proc/sysvipc and its identifier.
    fn system_v(&mut self, what: &str, file: &str, identifier: u32) -> String {
        let _ = file;
        format!("System V {what} ?/{identifier}")
    }
    /// The row of `stacks` for where a sample found a thread.
    fn leaf(&mut self, _leaf: &Leaf<'_>) -> Option<u32> {
        None
    }
    /// A process is watched from now on (its namespaces can be asked about).
    fn watching(&mut self, pid: u32);
}
