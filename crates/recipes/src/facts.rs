//! What recipes may ask of a run.

/// Facts of a run that an advice may ask for, and fill its words with: where a store is mounted, the same if it is mounted with `--strict`, how
/// many servers it has; an NFS server's address; that bytes went over connections; how many processors there are; how many bytes the command read
/// of files, and how many MiB of that are each processor's part; the disk that files were read from through the page cache; the modules that its
/// script imports; the programs that moved its bytes, and those that served it; how many bytes a connection had in flight, where that is what limits; how many
/// threads of the command beside its first moved bytes of files or asked name servers; how many questions servers asked further ones; how many bytes were sent over
/// connections, and how many written to files, in per cent of those that were read of files; that truncating an existing file was waited for.
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
    /// Which: `mount` (a store is mounted there), `strict` (likewise, with `--strict`), `servers` (how many the store has), `nfs` (an NFS server's
    /// address), `network` (bytes went over connections: how many of these), `processors` (how many there are), `read_bytes` (what the command read of
    /// files), `part_mib` (the part of that for each processor, rounded up),
    /// `disk` (that files were read from through the page cache), `modules` (the modules that a script imports, with a space between two),
    /// `programs` and `peers` (the programs that moved its bytes at its end, and where it was served, likewise), `in_flight` (how many bytes a connection had in
    /// flight at the most, where that is what limits), `workers` (how many threads of the command beside the first of a process moved bytes of files or asked name servers),
    /// `asks_on` (how many questions servers asked further ones), `sent_of_read` and `written_of_read` (bytes that were sent over connections, and written to files, in
    /// per cent of those that were read of files), `truncates` (that truncating an existing file was waited for: its path, as far as that is known).
    pub name: &'static str,
    /// What of it.
    pub value: String,
}
