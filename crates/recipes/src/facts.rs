//! What recipes may ask of a run.

/// Facts of a run that an advice may ask for, and fill its words with: where a store is mounted, the same if it is mounted with `--strict`, how
/// many servers it has; an NFS server's address; that bytes went over connections; how many processors there are.
pub(crate) const FACTS: [&str; 6] = ["mount", "strict", "servers", "nfs", "network", "processors"];

/// A fact of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Which: `mount` (a store is mounted there), `strict` (likewise, with `--strict`), `servers` (how many the store has), `nfs` (an NFS server's
    /// address), `network` (bytes went over connections: how many of these), `processors` (how many there are).
    pub name: &'static str,
    /// What of it.
    pub value: String,
}
