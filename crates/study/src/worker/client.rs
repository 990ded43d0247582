//! A store that a worker is connected to, as a client of its own.

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

/// How often a request is timed for the round trip.
const TRIPS: usize = 31;

/// A connected client.
pub(super) struct Client {
    address: String,
    options: Connect,
    /// Names.
    pub(super) names: MetadataClient,
    /// Bytes.
    pub(super) data: Arc<DataClient>,
}

impl Client {
    /// Connects to the store whose metadata service is at `HOST:PORT`; the label of the node.
    pub(super) fn connect(address: &str, node: &str, timeout_s: f64, credential: Option<&Path>) -> Result<Client> {
        let credentials = credential.map_or_else(Credentials::default, Credentials::file);
        let options = Connect { timeout: Duration::from_secs_f64(timeout_s), node: node.to_owned(), credentials, ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), address, &options)?;
        let options = Connect { store: Some(names.map().store), ..options };
        Ok(Client { address: address.to_owned(), data: data_of(&names, &options), options, names })
    }

    /// The same store over connections of its own: another client.
    pub(super) fn another(&self) -> Result<Client> {
        let names = MetadataClient::connect(&mut Tracer::off(), &self.address, &self.options)?;
        Ok(Client { address: self.address.clone(), data: data_of(&names, &self.options), options: self.options.clone(), names })
    }

    /// The library over data connections of its own, as a program uses it.
    pub(super) fn library(&self) -> Store {
        Store { names: Arc::new(self.names.clone()), data: data_of(&self.names, &self.options) }
    }

    /// Makes directories down to this one, those that are there being no error.
    pub(super) fn make_directories(&self, path: &str) -> Result<FileId> {
        Ok(self.names.make_directory(&mut Tracer::off(), &FilePath::at(path), owner(0o755), true)?.id)
    }

    /// The median time of a request that costs the service next to nothing.
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

/// Who owns what is made.
pub(super) fn owner(mode: u32) -> Owner {
    Owner { mode, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// The bytes of a small file.
pub(super) fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// A name in a directory.
pub(super) fn file_name(number: u64) -> String {
    format!("file-{number:08}")
}
