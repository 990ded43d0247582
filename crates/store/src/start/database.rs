//! The metadata's database, as `store.toml` says: in a directory, or on a PostgreSQL server.

use crate::config::{METADATA_NAME, StoreConfig};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::machine;
use thalweg_metadata::database::Database;
use thalweg_metadata::database::embedded::{self, Embedded};
use thalweg_metadata::database::postgresql::{self, Options, Server};
use thalweg_wire::{Error, ErrorKind, Result};

/// Whether there can be one, before anything is made or anybody else is asked about it.
pub(super) fn look(config: &StoreConfig, initialise: bool) -> Result<()> {
    let directory = &config.metadata.directory;
    if let Some(address) = &config.metadata.database {
        return Ok(postgresql::look(&Server::of_store(address, &config.path)?, &options(config, initialise))?);
    }
    if !initialise && !Embedded::is_in(directory) {
        let what = "is its file system mounted? --initialise begins with an empty store: the files that there were are lost";
        return Err(Error::new(ErrorKind::Absent, format!("{} holds no metadata: {what}", directory.display())));
    }
    Ok(())
}

/// Opens it: with what the person who starts it should know.
pub(super) fn open(
    config: &StoreConfig,
    (initialise, drop_damaged, take_over): (bool, bool, Option<i64>),
) -> Result<(Arc<dyn Database>, Vec<String>)> {
    if let Some(address) = &config.metadata.database {
        let server = Server::of_store(address, &config.path)?;
        let database = postgresql::open(server, &Options { take_over, ..options(config, initialise) })?;
        return Ok((database, config.says_password().into_iter().collect()));
    }
    let options = embedded::Options { drop_damaged, ..embedded::Options::default() };
    let closed = Embedded::close_to_others(&config.metadata.directory);
    let database = Embedded::open(&config.metadata.directory, options)?;
    let notes = closed.into_iter().chain(database.recovery().note()).chain(database.full_disk()).collect();
    Ok((Arc::new(database), notes))
}

fn options(config: &StoreConfig, initialise: bool) -> Options {
    Options {
        store: config.store,
        initialise,
        take_over: None,
        cache_bytes: postgresql::CACHE_BYTES,
        segment_bytes: postgresql::SEGMENT_BYTES,
        holder: format!("{METADATA_NAME} on {}, process {}", machine::host_name(), std::process::id()),
    }
}

/// A directory on the disk of which names take room; on another machine, that of `store.toml`.
pub(super) fn directory(config: &StoreConfig) -> PathBuf {
    match (&config.metadata.database, config.path.parent()) {
        (Some(_), Some(beside)) if !beside.as_os_str().is_empty() => beside.to_owned(),
        (Some(_), _) => PathBuf::from("."),
        (None, _) => config.metadata.directory.clone(),
    }
}

/// Waits while another metadata service of the store is active, until it is gone or gives no sign of life, or `is_over`. The epoch that it is
/// in then, for [`super::StartOptions::take_over`]; `None`: it is over.
///
/// # Errors
/// When the store's names are not in a PostgreSQL database, or it says that this user may not read there.
pub fn stand_by(config: &StoreConfig, is_over: &dyn Fn() -> bool) -> Result<Option<i64>> {
    let Some(address) = &config.metadata.database else {
        return Err(Error::new(ErrorKind::Invalid, format!("{}: nobody stands by without a `database`", config.path.display())));
    };
    Ok(postgresql::stand_by(&Server::of_store(address, &config.path)?, config.store, is_over)?)
}
