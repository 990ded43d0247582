//! Restoring: a backup becomes the metadata of its store, and the database that was there is kept.

use super::file::{Backup, Header};
use super::since::{Since, Targets};
use crate::config::{METADATA_NAME, StoreConfig};
use std::path::Path;
use thalweg_base::machine;
use thalweg_metadata::backup::{Restored, Restoring};
use thalweg_metadata::database::postgresql::{self, Server};
use thalweg_metadata::database::{DatabaseError, Moment, Rebuild, embedded};
use thalweg_wire::trust::{Credential, Credentials};
use thalweg_wire::{Connect, Error, ErrorKind, Result};

/// A backup that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The backup.
    pub header: Header,
    /// The database.
    pub restored: Restored,
    /// What was made since.
    pub since: Since,
    /// Why the database that was there could not be read, if so.
    pub unreadable: Option<String>,
}

/// The database of a store, at rest.
pub(super) enum AtRest {
    Directory,
    Postgresql(Box<Server>),
}

impl AtRest {
    pub(super) fn of(config: &StoreConfig) -> Result<AtRest> {
        match &config.metadata.database {
            Some(address) => Ok(AtRest::Postgresql(Box::new(Server::of_store(address, &config.path)?))),
            None => Ok(AtRest::Directory),
        }
    }

    /// Reads it; also returns what a start would say of its log.
    pub(super) fn read(&self, config: &StoreConfig) -> Result<Option<(Moment, Option<String>)>, DatabaseError> {
        match self {
            AtRest::Directory => embedded::stopped(&config.metadata.directory),
            AtRest::Postgresql(server) => Ok(postgresql::stopped(server, config.store)?.map(|moment| (moment, None))),
        }
    }

    fn rebuild(&self, config: &StoreConfig) -> Result<Box<dyn Rebuild>, DatabaseError> {
        match self {
            AtRest::Directory => embedded::rebuild(&config.metadata.directory),
            AtRest::Postgresql(server) => postgresql::rebuild(server, config.store),
        }
    }
}

/// Makes the metadata of a stopped store anew from a backup.
///
/// # Errors
/// The backup is damaged or of another store, the store is running, or the database cannot be made. The database that was there is unchanged
/// then, unless the error says otherwise.
pub fn restore(config: &StoreConfig, path: &Path) -> Result<Restore> {
    // All of it is verified before anything else is looked at.
    Backup::verify(path).map_err(|error| Error::new(error.kind(), format!("{}; nothing was changed", error.message())))?;
    let mut backup = Backup::open(path)?;
    if backup.store != config.store {
        let problem = format!(
            "{} is a backup of store {:016x}, and this is {:016x}: give a backup of this store",
            path.display(),
            backup.store,
            config.store
        );
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    let at_rest = AtRest::of(config)?;
    let (present, unreadable) = match at_rest.read(config) {
        Ok(present) => (present, None),
        Err(error) if error.held => return Err(error.into()),
        Err(error) => (None, Some(error.to_string())),
    };
    let targets = Targets::look(config, &peers(config))?;
    let mut restoring = Restoring::begin(at_rest.rebuild(config)?, backup.of);
    let taken_s = backup.header.taken_s;
    while let Some(part) = backup.part()? {
        restoring.part(&part, &|id| targets.was_written(id, taken_s))?;
    }
    let (compared, unreadable) = match present.as_ref().map(|(present, _)| restoring.compare(&*present.view)) {
        None => (None, unreadable),
        Some(Ok(compared)) => (Some(compared), unreadable),
        Some(Err(error)) if error.kind() == ErrorKind::Invalid => return Err(error),
        Some(Err(error)) => (None, Some(error.message().to_owned())),
    };
    drop(present);
    let seen = targets.seen.clone();
    let since = targets.since(&restoring, compared);
    let restored = restoring.finish(&seen)?;
    Ok(Restore { header: backup.header, restored, since, unreadable })
}

/// Returns how to connect to the store's I/O servers.
fn peers(config: &StoreConfig) -> Connect {
    let credentials = Credential::read(&config.credential).map_or_else(|_| Credentials::default(), Credentials::given);
    Connect { client: METADATA_NAME.into(), node: machine::node(), store: Some(config.store), credentials, ..Connect::default() }
}
