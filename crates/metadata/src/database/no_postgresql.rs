//! Replaces [`super::postgresql`] in a build without PostgreSQL: rejects every address of such a database, so that a store is never opened
//! with the wrong one.

use super::{Database, DatabaseError, Moment, Rebuild};
use std::path::Path;
use std::sync::Arc;

#[path = "postgresql/options.rs"]
mod options;

pub use self::options::{CACHE_BYTES, Options, SEGMENT_BYTES};

/// A server that cannot exist in this build.
#[derive(Debug)]
pub enum Server {}

impl Server {
    /// Rejects the address.
    ///
    /// # Errors
    /// Always, as [`Server::parse`].
    pub fn of_store(address: &str, _store_toml: &Path) -> thalweg_wire::Result<Server> {
        Ok(Server::parse(address)?)
    }

    /// Rejects the address.
    ///
    /// # Errors
    /// Always: one sentence with the remedy. It does not show the address, which may contain a password.
    pub fn parse(_address: &str) -> Result<Server, DatabaseError> {
        let problem = "this thalweg was built without PostgreSQL: build it with its default features (tools/build --release)";
        Err(DatabaseError::new(Path::new("on a PostgreSQL server"), problem))
    }
}

/// Unreachable: no [`Server`] exists.
///
/// # Errors
/// None.
pub fn check(server: &Server, _options: &Options) -> Result<(), DatabaseError> {
    match *server {}
}

/// Unreachable: no [`Server`] exists.
///
/// # Errors
/// None.
pub fn open(server: Server, _options: &Options) -> Result<Arc<dyn Database>, DatabaseError> {
    match server {}
}

/// Unreachable: no [`Server`] exists.
///
/// # Errors
/// None.
pub fn stand_by(server: &Server, _store: u64, _is_over: &dyn Fn() -> bool) -> Result<Option<i64>, DatabaseError> {
    match *server {}
}

/// Unreachable: no [`Server`] exists.
///
/// # Errors
/// None.
pub fn stopped(server: &Server, _store: u64) -> Result<Option<Moment>, DatabaseError> {
    match *server {}
}

/// Unreachable: no [`Server`] exists.
///
/// # Errors
/// None.
pub fn rebuild(server: &Server, _store: u64) -> Result<Box<dyn Rebuild>, DatabaseError> {
    match *server {}
}

/// Passwords in database addresses, which this build rejects.
pub mod password {
    use std::path::{Path, PathBuf};

    /// Returns the path of the password file beside a `store.toml`.
    pub fn file_beside(store_toml: &Path) -> PathBuf {
        store_toml.with_file_name("database.password")
    }

    /// Returns false: no address is accepted, so none has a password.
    pub fn is_in(_address: &str) -> bool {
        false
    }

    /// Returns `None`: no address is accepted, so none has a password.
    pub fn split(_address: &str) -> Option<(String, String)> {
        None
    }
}
