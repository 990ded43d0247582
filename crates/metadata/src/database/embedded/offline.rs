//! The database of a service that does not run: read with every page of its file and every record of its log verified, and not changed.

use crate::database::layers::{Base, Held, Layer, Pairs};
use crate::database::log::DATABASE_FILE;
use crate::database::redb_file::{self, Redb, Snapshot, guarded, redb_error};
use crate::database::replay::{refuse_a_log_without_its_database, replay};
use crate::database::{DatabaseError, Moment, Table};
use std::fs::{File, TryLockError};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Size of redb's page cache.
pub(super) const CACHE_BYTES: usize = 64 << 20;

/// A snapshot with the file that it is of.
struct Closed {
    // Fields are dropped in this order.
    snapshot: Snapshot,
    _redb: Redb,
}

impl Base for Closed {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.snapshot.get(table, key)
    }

    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        self.snapshot.range(table, from)
    }
}

/// Reads the database in a directory, and keeps services from opening it; also returns what a start would say of its log. `None`: there is no
/// database.
///
/// # Errors
/// [`DatabaseError::held`] if a service has it open; otherwise it is damaged.
pub fn stopped(directory: &Path) -> Result<Option<(Moment, Option<String>)>, DatabaseError> {
    let path = directory.join(DATABASE_FILE);
    if !directory.exists() {
        return Ok(None);
    }
    refuse_a_log_without_its_database(directory, &path)?;
    if !path.exists() {
        return Ok(None);
    }
    check_unused(&path)?;
    if std::fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
        return Err(DatabaseError::new(&path, "empty, although a database is there from its first moment on: it was cut off"));
    }
    let (redb, identity, applied) = redb_file::open(&path, CACHE_BYTES)?;
    let mut layer = Layer::default();
    let found = replay(directory, identity, applied, false, &mut layer)?;
    let snapshot = guarded(&path, || Snapshot::of(&redb, &path).map_err(|e| redb_error(&path, &e)))?;
    let view = Box::new(Held { layers: vec![Arc::new(layer)], base: Closed { snapshot, _redb: redb } });
    let torn = (found.recovery.dropped_bytes > 0)
        .then(|| format!("the last {} bytes of the log are an incomplete transaction", found.recovery.dropped_bytes));
    Ok(Some((Moment { view, change: found.last }, torn)))
}

/// Refuses a file that a service has open.
pub(super) fn check_unused(path: &Path) -> Result<(), DatabaseError> {
    let file = File::open(path).map_err(|e| DatabaseError::io(path, "cannot open", &e))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let problem = "in use by a running metadata service: stop the store first";
            Err(DatabaseError { held: true, ..DatabaseError::new(path, problem) })
        }
        Err(TryLockError::Error(e)) => Err(DatabaseError::io(path, "cannot lock", &e)),
        Ok(()) => Ok(()),
    }
}
