//! How to connect to a server.

use super::header::{VERSION, VERSION_MIN};
use crate::limits;
use crate::protocol::common::{Hello, ServiceStart};
use crate::trust::{Credentials, Rights};
use std::time::Duration;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Silence after which the server is given up.
    pub timeout: Duration,
    /// Who we are, for the server's messages and traces.
    pub client: String,
    /// The label of our machine.
    pub node: String,
    /// The store we mean, if we know.
    pub store: Option<u64>,
    /// Size of the socket's buffers, if not the system's choice.
    pub socket_buffer_bytes: Option<usize>,
    /// The start of the store's metadata service, if we know.
    pub service_start: Option<ServiceStart>,
    /// How long a refused connection is tried again: the server may be starting.
    pub refused: Duration,
    /// What is proven to the server.
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
    /// Whether what is proven is a credential for reading, as far as it is known for which store. (Where it is not, servers say so.)
    pub fn only_reads(&self) -> crate::error::Result<bool> {
        let store = match self.store {
            Some(store) => Some(store),
            None => self.credentials.store()?,
        };
        let credential = store.map(|store| self.credentials.for_store(store)).transpose()?;
        Ok(credential.is_some_and(|credential| credential.identity.rights == Rights::Read))
    }

    /// What is said first on a connection.
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
