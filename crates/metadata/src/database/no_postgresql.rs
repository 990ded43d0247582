//! Stands for [`super::postgresql`] in a build without PostgreSQL: refuses each address of a database there, so that no store is taken for one that it is not.

use super::{Database, DatabaseError};
use std::path::Path;
use std::sync::Arc;

#[path = "postgresql/options.rs"]
mod options;

pub use self::options::{CACHE_BYTES, Options, SEGMENT_BYTES};

/// There is none.
#[derive(Debug)]
pub enum Server {}

impl Server {
    /// Refuses the address.
    ///
    /// # Errors
    /// Always, as [`Server::parse`].
    pub fn of_store(address: &str, _store_toml: &Path) -> thalweg_wire::Result<Server> {
        Ok(Server::parse(address)?)
    }

    /// Refuses the address.
    ///
    /// # Errors
    /// Always: one sentence that names what to do, and not the address, which may have a password in it.
    pub fn parse(_address: &str) -> Result<Server, DatabaseError> {
        let problem = "this thalweg was built without PostgreSQL: build it with its default features (tools/build --release)";
        Err(DatabaseError::new(Path::new("on a PostgreSQL server"), problem))
    }
}

/// There is none.
///
/// # Errors
/// None.
pub fn look(server: &Server, _options: &Options) -> Result<(), DatabaseError> {
    match *server {}
}

/// There is none.
///
/// # Errors
/// None.
pub fn open(server: Server, _options: &Options) -> Result<Arc<dyn Database>, DatabaseError> {
    match server {}
}

/// There is none.
///
/// # Errors
/// None.
pub fn stand_by(server: &Server, _store: u64, _is_over: &dyn Fn() -> bool) -> Result<Option<i64>, DatabaseError> {
    match *server {}
}

/// The password in an address of a database, of which there is none.
pub mod password {
    use std::path::{Path, PathBuf};

    /// Where the password would be, beside a `store.toml`.
    pub fn file_beside(store_toml: &Path) -> PathBuf {
        store_toml.with_file_name("database.password")
    }

    /// No address is taken, so none has a password.
    pub fn is_in(_address: &str) -> bool {
        false
    }

    /// No address is taken, so none has a password.
    pub fn split(_address: &str) -> Option<(String, String)> {
        None
    }
}
