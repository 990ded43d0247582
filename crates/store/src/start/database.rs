//! The metadata's database as `store.toml` specifies it: in a directory, or on a PostgreSQL server.

use crate::config::{METADATA_NAME, StoreConfig};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::machine;
use thalweg_metadata::database::Database;
use thalweg_metadata::database::embedded::{self, Embedded};
use thalweg_metadata::database::postgresql::{self, Options, Server};
use thalweg_wire::{Error, ErrorKind, Result};

/// Checks that the database exists or may be created, before anything is created or any server is queried.
pub(super) fn check(config: &StoreConfig, initialise: bool) -> Result<()> {
    let directory = &config.metadata.directory;
    if let Some(address) = &config.metadata.database {
        return Ok(postgresql::check(&Server::of_store(address, &config.path)?, &options(config, initialise))?);
    }
    if !initialise && !Embedded::is_in(directory) {
        let what = "check that its file system is mounted; --initialise starts with an empty store, and its earlier files are lost";
        return Err(Error::new(ErrorKind::Absent, format!("{} holds no metadata: {what}", directory.display())));
    }
    Ok(())
}

/// Opens the database; returns notes for the user, too.
pub(super) fn open(
    config: &StoreConfig,
    (initialise, drop_damaged, take_over): (bool, bool, Option<i64>),
) -> Result<(Arc<dyn Database>, Vec<String>)> {
    if let Some(address) = &config.metadata.database {
        let server = Server::of_store(address, &config.path)?;
        let database = postgresql::open(server, &Options { take_over, ..options(config, initialise) })?;
        return Ok((database, config.password_warning().into_iter().collect()));
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

/// Returns the directory whose disk holds the names; for a database on another machine, that of `store.toml`.
pub(super) fn directory(config: &StoreConfig) -> PathBuf {
    match (&config.metadata.database, config.path.parent()) {
        (Some(_), Some(beside)) if !beside.as_os_str().is_empty() => beside.to_owned(),
        (Some(_), _) => PathBuf::from("."),
        (None, _) => config.metadata.directory.clone(),
    }
}

/// Waits while another metadata service of the store is active, until that service stops or shows no sign of life, or `is_over`. Returns
/// the epoch found at that time, for [`super::StartOptions::take_over`]; `None` if `is_over`.
///
/// # Errors
/// The store's names are not in a PostgreSQL database, or this user may not read there.
pub fn stand_by(config: &StoreConfig, is_over: &dyn Fn() -> bool) -> Result<Option<i64>> {
    let Some(address) = &config.metadata.database else {
        return Err(Error::new(ErrorKind::Invalid, format!("{}: a standby requires a `database`", config.path.display())));
    };
    Ok(postgresql::stand_by(&Server::of_store(address, &config.path)?, config.store, is_over)?)
}
