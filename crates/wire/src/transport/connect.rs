//! Options for connecting to a server.

use super::header::{VERSION, VERSION_MIN};
use crate::limits;
use crate::protocol::common::{Hello, ServiceStart};
use crate::trust::{Credentials, Rights};
use std::time::Duration;

/// Options for connecting to a server.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Silence after which the connection times out.
    pub timeout: Duration,
    /// Name of this client in the server's messages and traces.
    pub client: String,
    /// Label of this machine.
    pub node: String,
    /// The intended store, if known.
    pub store: Option<u64>,
    /// Size of the socket buffers; `None`: the system's choice.
    pub socket_buffer_bytes: Option<usize>,
    /// The start of the store's metadata service, if known.
    pub service_start: Option<ServiceStart>,
    /// How long a refused connection is retried: the server may be starting.
    pub refused: Duration,
    /// The credentials to prove.
    pub credentials: Credentials,
}

impl Default for Connect {
    fn default() -> Connect {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Connect {
            timeout: limits::CLIENT_SILENCE,
            client: format!("{program} {}", std::process::id()),
            node: String::new(),
            store: None,
            socket_buffer_bytes: None,
            service_start: None,
            refused: limits::REFUSED,
            credentials: Credentials::default(),
        }
    }
}

impl Connect {
    /// Whether the credential is read-only, if the store is known. (Otherwise servers refuse writes.)
    pub fn only_reads(&self) -> crate::error::Result<bool> {
        let store = match self.store {
            Some(store) => Some(store),
            None => self.credentials.store()?,
        };
        let credential = store.map(|store| self.credentials.for_store(store)).transpose()?;
        Ok(credential.is_some_and(|credential| credential.identity.rights == Rights::Read))
    }

    /// Returns the connection's greeting.
    pub(super) fn hello(&self) -> Hello {
        Hello {
            version_min: VERSION_MIN,
            version_max: VERSION,
            client: self.client.clone(),
            node: self.node.clone(),
            store: self.store,
            service_start: self.service_start,
        }
    }
}
