//! The metadata service's own connections to the I/O servers: one for each, made when it is needed.

use super::intents::IoServers;
use crate::error::{Error, Result};
use crate::protocol::io::{DatafileId, IoReply, IoRequest};
use crate::protocol::metadata::ServerEntry;
use crate::wire::{Connect, Connection, Kind, unexpected};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_trace::Tracer;

/// I/O servers over the network.
pub struct Remote {
    options: Connect,
    connections: Mutex<HashMap<String, Arc<Mutex<Option<Connection>>>>>,
}

impl Remote {
    /// Connects with these options.
    pub fn new(options: Connect) -> Remote {
        Remote { options, connections: Mutex::default() }
    }

    fn call(&self, server: &ServerEntry, request: &IoRequest) -> Result<IoReply> {
        let slot = {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(connections.entry(server.address.clone()).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is awaited on an idle connection: what can be read is its end.
        if slot.as_ref().is_some_and(|c| c.is_broken() || c.is_readable()) {
            *slot = None;
        }
        let connection = match &mut *slot {
            Some(connection) => connection,
            empty => {
                let made = Connection::connect(&server.address, &self.options);
                empty.insert(made.map_err(|e| Error::new(e.kind(), e.message()).at_server(&server.name))?)
            }
        };
        connection.call(&mut Tracer::off(), Kind::Io, request).map_err(|e| e.at_server(&server.name))
    }

    fn call_done(&self, server: &ServerEntry, request: &IoRequest) -> Result<()> {
        match self.call(server, request)? {
            IoReply::Done => Ok(()),
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }
}

impl IoServers for Remote {
    fn remove(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<()> {
        self.call_done(server, &IoRequest::Remove { datafiles: datafiles.to_vec() })
    }

    fn truncate(&self, server: &ServerEntry, datafiles: &[(DatafileId, u64)]) -> Result<()> {
        for batch in datafiles.chunks(crate::limits::BATCH) {
            self.call_done(server, &IoRequest::Truncate { datafiles: batch.to_vec() })?;
            let sync = IoRequest::Sync { datafiles: batch.iter().map(|(id, _)| *id).collect() };
            match self.call(server, &sync)? {
                IoReply::Synced { .. } => {}
                other => return Err(unexpected(&other).at_server(&server.name)),
            }
        }
        Ok(())
    }

    fn sizes(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>> {
        let mut sizes = Vec::with_capacity(datafiles.len());
        for batch in datafiles.chunks(crate::limits::BATCH) {
            match self.call(server, &IoRequest::Glimpse { datafiles: batch.to_vec() })? {
                IoReply::Sizes(found) if found.len() == batch.len() => sizes.extend(found.iter().map(|s| s.size_bytes)),
                other => return Err(unexpected(&other).at_server(&server.name)),
            }
        }
        Ok(sizes)
    }
}
