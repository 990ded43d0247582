//! How an I/O server is to run.

use std::sync::Arc;
use thalweg_wire::ServeOptions;
use thalweg_wire::trust::{Credential, Credentials, Gate};

/// How to run an I/O server.
#[derive(Clone, Debug)]
pub struct IoServerOptions {
    /// Its name in the store.
    pub name: String,
    /// The label of the machine it is on.
    pub node: String,
    /// The store.
    pub store: u64,
    /// Where the store's metadata service is; empty: there is none.
    pub metadata: String,
    /// How it serves.
    pub serve: ServeOptions,
    /// What it proves to the metadata service.
    pub credentials: Credentials,
}

impl IoServerOptions {
    /// With the default bounds, on loopback.
    pub fn new(name: impl Into<String>, node: impl Into<String>, credential: &Credential, gate: &Arc<Gate>) -> IoServerOptions {
        let (name, node, store) = (name.into(), node.into(), credential.store);
        let serve = ServeOptions::new(name.clone(), node.clone(), Arc::clone(gate));
        IoServerOptions { serve, name, node, store, metadata: String::new(), credentials: Credentials::given(credential.clone()) }
    }
}
