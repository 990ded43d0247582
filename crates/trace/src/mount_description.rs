//! How a mounted store describes itself: the value of the extended attribute [`MountDescription::ATTRIBUTE`], a JSON
//! object.
//!
//! The mount writes it. The recorder, `explain` and `thalweg layout plan` read it here, the library for MPI programs
//! in `mpi/mount_description.c`; recordings store it unchanged. Members are therefore added, never renamed: a reader
//! ignores unknown members and takes missing ones as empty. Only `store` is required. `tests/mount_descriptions.json`
//! tests both readers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A mounted store as described by its mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountDescription {
    /// The store's identifier.
    pub store: String,
    /// `HOST:PORT` of the metadata service.
    #[serde(default)]
    pub metadata: String,
    /// The I/O servers.
    #[serde(default)]
    pub servers: Vec<MountedServer>,
    /// The targets of all servers.
    #[serde(default)]
    pub targets: Vec<MountedTarget>,
    /// The node label of the machine that mounted it.
    #[serde(default)]
    pub node: String,
    /// The mount's process id.
    #[serde(default)]
    pub pid: u32,
    /// Whether nothing is read ahead, written behind or cached.
    #[serde(default)]
    pub strict: bool,
}

/// An I/O server of a mounted store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountedServer {
    /// Its name.
    pub name: String,
    /// Its node label.
    pub node: String,
    /// `HOST:PORT`.
    pub address: String,
}

/// A target of a mounted store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedTarget {
    /// Its number.
    pub target: u32,
    /// The name of its server.
    #[serde(default)]
    pub server: Option<String>,
    /// Its directory on that server.
    #[serde(default)]
    pub directory: String,
}

impl MountDescription {
    /// Name of the extended attribute, present on everything in the mount.
    pub const ATTRIBUTE: &str = "user.thalweg.store";

    /// Maximum size in bytes: Linux's limit for attributes.
    pub const MOST_BYTES: usize = 64 << 10;

    /// Parses a mount's description.
    ///
    /// # Errors
    /// The text is not a description.
    pub fn read(text: &[u8]) -> Result<MountDescription, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Returns the targets on each node, in order.
    pub fn targets_of_nodes(&self) -> BTreeMap<&str, Vec<u32>> {
        let mut targets: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for target in &self.targets {
            let server = self.servers.iter().find(|server| target.server.as_ref() == Some(&server.name));
            if let Some(server) = server.filter(|server| !server.node.is_empty()) {
                targets.entry(&server.node).or_default().push(target.target);
            }
        }
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        said: String,
        /// Absent if it must be rejected.
        means: Option<MountDescription>,
        #[serde(default)]
        targets_of_nodes: BTreeMap<String, Vec<u32>>,
    }

    #[test]
    fn descriptions_are_read_as_the_shared_cases_say() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/mount_descriptions.json")).expect("cases");
        for case in cases {
            let read = MountDescription::read(case.said.as_bytes()).ok();
            assert_eq!(read, case.means, "{}", case.name);
            let Some(read) = read else { continue };
            let expected = case.targets_of_nodes.iter().map(|(node, targets)| (node.as_str(), targets.clone())).collect();
            assert_eq!(read.targets_of_nodes(), expected, "{}", case.name);
            let written = serde_json::to_vec(&read).expect("written");
            assert_eq!(MountDescription::read(&written).expect("read again"), read, "{}", case.name);
        }
    }

    /// Mounts of other versions, recordings and the library for MPI programs rely on these names.
    #[test]
    fn a_description_is_written_with_the_names_that_others_read() {
        let server = MountedServer { name: "io0".into(), node: "n".into(), address: "h:2".into() };
        let target = |server: Option<&str>| MountedTarget { target: 3, server: server.map(str::to_owned), directory: "/d".into() };
        let description = MountDescription {
            store: "1f".into(),
            metadata: "h:1".into(),
            servers: vec![server],
            targets: vec![target(Some("io0")), target(None)],
            node: "n".into(),
            pid: 7,
            strict: true,
        };
        let expected = serde_json::json!({
            "store": "1f", "metadata": "h:1", "servers": [{"name": "io0", "node": "n", "address": "h:2"}],
            "targets": [{"target": 3, "server": "io0", "directory": "/d"}, {"target": 3, "server": null, "directory": "/d"}],
            "node": "n", "pid": 7, "strict": true,
        });
        assert_eq!(serde_json::to_value(&description).expect("written"), expected);
    }
}
