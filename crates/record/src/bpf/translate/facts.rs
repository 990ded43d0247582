//! The translator's needs from the system besides records.

/// A file system, by its files' device number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// `ext4`, `nfs4`, ...; empty if unknown.
    pub kind: String,
    /// The disk under it, as in /sys/block; empty for none, or several.
    pub disk: String,
    /// The kernel's number of that disk; 0 for none.
    pub disk_number: u32,
    /// Where its top is mounted; empty if unknown.
    pub mounted_on: String,
}

/// The innermost address of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    /// Its process, and the name of the running program: after an exec, addresses have another meaning.
    pub pid: u32,
    pub command: &'a str,
    pub address: u64,
    pub in_user: bool,
    pub weight_ns: u64,
}

/// The translator's queries to the system. Implementations may cache answers.
pub(crate) trait Facts {
    /// Returns a disk's name by the kernel's number (major << 20 | minor).
    fn disk_name(&mut self, number: u32) -> Option<String>;
    /// Returns the file system of this device number, as seen by `pid`.
    fn file_system(&mut self, device: u32) -> FileSystem;
    /// Whether a process listens on this TCP port in this network namespace.
    fn is_listened_on(&mut self, namespace: u32, port: u16) -> bool;
    /// Whether a process listens on this TCP port in the network namespace of any watched process.
    fn is_listened_on_anywhere(&mut self, port: u16) -> bool;
    /// Returns the kernel function at this address; empty if unknown.
    fn function(&mut self, address: u64) -> &str;
    /// Returns the control group whose quota throttles this process.
    fn quota_group(&mut self, pid: u32) -> Option<String>;
    /// Returns the file that a process has mapped at this address.
    fn mapped_file(&mut self, _pid: u32, _address: u64) -> Option<String> {
        None
    }
    /// Returns a file's size, by the device of its file system, its inode and its path; `None` if the path now leads
    /// to another file, or the query might hang.
    fn file_size(&mut self, _device: u32, _inode: u64, _path: &str) -> Option<u64> {
        None
    }
    /// Returns the name of a System V semaphore set or message queue (`semaphore set`, `message queue`), by its file
    /// in /proc/sysvipc and its identifier.
    fn system_v(&mut self, what: &str, file: &str, identifier: u32) -> String {
        let _ = file;
        format!("System V {what} ?/{identifier}")
    }
    /// Returns the row of `stacks` for a sample's innermost address.
    fn leaf(&mut self, _leaf: &Leaf<'_>) -> Option<u32> {
        None
    }
    /// Notes that a process is watched from now on, so that its namespaces can be queried.
    fn watching(&mut self, pid: u32);
}
