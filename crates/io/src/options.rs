//! Options of an I/O server.

use std::sync::Arc;
use thalweg_wire::ServeOptions;
use thalweg_wire::trust::{Credential, Credentials, Gate};

/// Options of an I/O server.
#[derive(Clone, Debug)]
pub struct IoServerOptions {
    /// Its name in the store.
    pub name: String,
    /// Label of its machine.
    pub node: String,
    /// The store.
    pub store: u64,
    /// Address of the store's metadata service; empty: none.
    pub metadata: String,
    /// Options of serving.
    pub serve: ServeOptions,
    /// The credentials it proves to the metadata service.
    pub credentials: Credentials,
}

impl IoServerOptions {
    /// Makes options for loopback with the default limits.
    pub fn new(name: impl Into<String>, node: impl Into<String>, credential: &Credential, gate: &Arc<Gate>) -> IoServerOptions {
        let (name, node, store) = (name.into(), node.into(), credential.store);
        let serve = ServeOptions::new(name.clone(), node.clone(), Arc::clone(gate));
        IoServerOptions { serve, name, node, store, metadata: String::new(), credentials: Credentials::given(credential.clone()) }
    }
}
