//! A worker's connection to a store.

use super::protocol::Answer;
use crate::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::wire::Connect;
use thalweg_client::wire::protocol::metadata::{FileId, FilePath, Owner};
use thalweg_client::wire::trust::Credentials;
use thalweg_client::{DataClient, Store};
use thalweg_trace::Tracer;

/// Number of requests timed for the round trip.
const TRIPS: usize = 31;

/// A connected client.
pub(super) struct Client {
    address: String,
    options: Connect,
    /// The metadata client.
    pub(super) names: MetadataClient,
    /// The data client.
    pub(super) data: Arc<DataClient>,
}

impl Client {
    /// Connects to the store whose metadata service is at `address`; `node` is the node's label.
    pub(super) fn connect(address: &str, node: &str, timeout_s: f64, credential: Option<&Path>) -> Result<Client> {
        let credentials = credential.map_or_else(Credentials::default, Credentials::file);
        let options = Connect { timeout: Duration::from_secs_f64(timeout_s), node: node.to_owned(), credentials, ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), address, &options)?;
        let options = Connect { store: Some(names.map().store), ..options };
        Ok(Client { address: address.to_owned(), data: data_of(&names, &options), options, names })
    }

    /// Returns another client of the same store, with its own connections.
    pub(super) fn another(&self) -> Result<Client> {
        let names = MetadataClient::connect(&mut Tracer::off(), &self.address, &self.options)?;
        Ok(Client { address: self.address.clone(), data: data_of(&names, &self.options), options: self.options.clone(), names })
    }

    /// Returns the library with its own data connections, as in a program.
    pub(super) fn library(&self) -> Store {
        Store { names: Arc::new(self.names.clone()), data: data_of(&self.names, &self.options) }
    }

    /// Makes this directory and its parents, as needed.
    pub(super) fn make_directories(&self, path: &str) -> Result<FileId> {
        Ok(self.names.make_directory(&mut Tracer::off(), &FilePath::at(path), owner(0o755), true)?.id)
    }

    /// Measures the median time of a request that costs the service next to nothing.
    pub(super) fn round_trip(&self) -> Result<Answer> {
        let mut took = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let begun = Instant::now();
            self.names.stat(&mut Tracer::off(), &FilePath::of(FileId::ROOT))?;
            took.push(begun.elapsed().as_secs_f64());
        }
        Ok(Answer::Took(thalweg_measure::median(&took).unwrap_or(0.0)))
    }
}

fn data_of(names: &MetadataClient, options: &Connect) -> Arc<DataClient> {
    Arc::new(DataClient::of_store(names.map().as_ref().clone(), options, Arc::new(names.clone())))
}

/// Returns the owner of new files.
pub(super) fn owner(mode: u32) -> Owner {
    Owner { mode, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Returns the bytes of a small file.
pub(super) fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// Returns the name of file `number` in a directory.
pub(super) fn file_name(number: u64) -> String {
    format!("file-{number:08}")
}
