//! A store's servers and targets.

use super::numbers::TargetId;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use serde::{Deserialize, Serialize};

/// An I/O server of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEntry {
    /// Name, for example `io0`.
    pub name: String,
    /// Label of its machine.
    pub node: String,
    /// `HOST:PORT`.
    pub address: String,
}

/// A target of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetEntry {
    /// Number, permanent.
    pub target: TargetId,
    /// Index of its server in [`StoreMap::servers`].
    pub server: u32,
    /// Directory on that server.
    pub directory: String,
}

/// All servers and targets of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreMap {
    /// Identity of the store.
    pub store: u64,
    /// The I/O servers.
    pub servers: Vec<ServerEntry>,
    /// Targets, by number.
    pub targets: Vec<TargetEntry>,
}

impl StoreMap {
    /// Returns a target and its server.
    pub fn target(&self, target: TargetId) -> Option<(&TargetEntry, &ServerEntry)> {
        let entry = &self.targets[self.targets.binary_search_by_key(&target, |t| t.target).ok()?];
        Some((entry, self.servers.get(entry.server as usize)?))
    }

    /// Checks that a map is valid: targets in order, each at a listed server, and names that can be shown and compared.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`].
    pub fn check(&self) -> Result<()> {
        let refused = |problem: String| Err(Error::new(ErrorKind::Protocol, format!("invalid store map: {problem}")));
        for server in &self.servers {
            for (what, text) in [("name", &server.name), ("node", &server.node), ("address", &server.address)] {
                if text.len() > limits::NAME_BYTES || text.chars().any(char::is_control) {
                    return refused(format!("a server's {what} is `{}`", text.escape_debug().take(64).collect::<String>()));
                }
            }
        }
        for (at, target) in self.targets.iter().enumerate() {
            if at > 0 && self.targets[at - 1].target >= target.target {
                return refused(format!("target {} is not in order", target.target));
            }
            if target.server as usize >= self.servers.len() {
                return refused(format!("target {} is at server number {} of {}", target.target, target.server, self.servers.len()));
            }
        }
        Ok(())
    }
}
