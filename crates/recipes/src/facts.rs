//! Facts of a run that recipes may refer to.

/// Names of facts that an advice may require and insert into its words; [`Fact::name`] describes them.
pub(crate) const FACTS: [&str; 18] = [
    "mount",
    "strict",
    "servers",
    "nfs",
    "network",
    "processors",
    "read_bytes",
    "part_mib",
    "disk",
    "modules",
    "programs",
    "peers",
    "in_flight",
    "workers",
    "asks_on",
    "truncates",
    "sent_of_read",
    "written_of_read",
];

/// A fact of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name: `mount` (mount point of a store), `strict` (likewise, mounted with `--strict`), `servers` (number of the store's servers),
    /// `nfs` (address of an NFS server), `network` (number of connections that carried bytes), `processors` (number of processors),
    /// `read_bytes` (bytes that the command read from files), `part_mib` (each processor's part of them in MiB, rounded up), `disk` (disk
    /// that files were read from through the page cache), `modules` (modules that a script imports, separated by spaces), `programs` and
    /// `peers` (programs that moved its bytes at its end, and that served it, likewise), `in_flight` (maximum bytes in flight on a
    /// connection, if that is the limit), `workers` (threads of the command, other than the first of each process, that moved bytes of
    /// files or queried name servers), `asks_on` (requests that servers sent to further servers), `sent_of_read` and `written_of_read`
    /// (bytes sent over connections, and written to files, in percent of the bytes read from files), `truncates` (path of an existing file
    /// whose truncation was waited for, if known).
    pub name: &'static str,
    /// Its value.
    pub value: String,
}
