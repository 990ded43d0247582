//! Taking a backup from a running service.

use super::file::{Header, Writer, refuse_existing};
use std::path::Path;
use std::time::Instant;
use thalweg_metadata::backup::{Order, each_row};
use thalweg_metadata::database::Table;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::{ServiceKind, Witnessed};
use thalweg_wire::protocol::metadata::{MetadataReply, MetadataRequest, Operation};
use thalweg_wire::{Connect, Connection, Error, ErrorKind, Kind, Result};

/// A backup that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its description.
    pub header: Header,
    /// Names.
    pub names: u64,
    /// Rows.
    pub rows: u64,
    /// The file's length.
    pub size_bytes: u64,
}

/// The parts of a backup, read over one connection.
pub(super) struct Parts {
    connection: Connection,
    next: Option<u64>,
    /// The store.
    pub store: u64,
}

impl Parts {
    /// Connects to the service at this address.
    pub(super) fn of(address: &str, options: &Connect) -> Result<Parts> {
        let connection = Connection::connect(address, options)?;
        if connection.hello().service != ServiceKind::Metadata {
            let problem = format!("{} at {address} is an I/O server: give the metadata service's address", connection.hello().server);
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        let store = connection.hello().store;
        Ok(Parts { connection, next: Some(0), store })
    }

    /// Reads the next part, and the moment that it is of; `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<(Witnessed, Vec<u8>)>> {
        let Some(part) = self.next else { return Ok(None) };
        let request = MetadataRequest::of(Operation::Backup { part });
        let (reply, rows) = self.connection.call_with(&mut Tracer::off(), Kind::Metadata, &request, &[])?;
        match reply {
            MetadataReply::Backup { of, more } => {
                self.next = more.then_some(part + 1);
                Ok(Some((of, rows)))
            }
            other => Err(thalweg_wire::unexpected(&other)),
        }
    }
}

/// Writes a backup of the store whose metadata service is at this address into a new file. `progress` is told the bytes of rows read.
///
/// # Errors
/// [`ErrorKind::Access`] without the store's own credential, those of [`Writer`], or the connection's.
pub fn take(address: &str, options: &Connect, path: &Path, taken_s: u64, progress: &dyn Fn(u64)) -> Result<Taken> {
    refuse_existing(path)?;
    let mut parts = Parts::of(address, options)?;
    let (mut begun, mut names) = (None, 0);
    loop {
        let since = Instant::now();
        let Some((of, rows)) = parts.next()? else { break };
        let (header, writer) = match &mut begun {
            Some(begun) => begun,
            none => {
                let header = Header::of(parts.store, of, taken_s);
                let writer = Writer::create(path, &header)?;
                none.insert((header, writer))
            }
        };
        if *header != Header::of(parts.store, of, taken_s) {
            return Err(Error::new(ErrorKind::Protocol, "the parts of the backup are not of one moment"));
        }
        writer.part(&rows)?;
        // (Verified above.)
        each_row(&rows, &mut Order::default(), |table, _, _| {
            names += u64::from(table == Table::Entries);
            Ok(())
        })?;
        progress(rows.len() as u64);
        if parts.next.is_some() {
            // It rests as long as it works, so that clients keep most of the processors.
            std::thread::sleep(since.elapsed());
        }
    }
    let (header, writer) = begun.ok_or_else(|| Error::new(ErrorKind::Protocol, "the service sent no backup"))?;
    let (rows, size_bytes) = writer.finish()?;
    Ok(Taken { header, names, rows, size_bytes })
}
