//! The redb file below the layers of [`super::embedded`]: read as of a commit, and written by one.
//!
//! redb has a checksum for each page and looks at it only when it is asked to. It is asked at each start: what a disk or a person did to
//! the file while it lay there is an error then, and never another file's attributes. That reads the whole file, once: 0.9 s for the
//! 514 MiB of 1,000,000 files. A checksum in each row would show it at each read, but not that a row is missing, and cost each write.

use super::layers::{Base, Layer, Pairs};
use crate::database::{DatabaseError, Table};
use redb::{Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use thalweg_base::private;
use thalweg_base::sync::panic_text;

/// Key in [`Table::State`]: the database's identity, u64 LE.
const IDENTITY: &[u8] = b"database.identity";
/// Key in [`Table::State`]: the last log sequence number that the redb file contains, u64 LE.
const APPLIED: &[u8] = b"database.applied";
/// What to do when it cannot be read.
const ADVICE: &str = "put back a copy of all of the metadata directory's files";

/// The open file.
pub(super) struct Redb {
    path: PathBuf,
    database: Option<redb::Database>,
}

impl std::ops::Deref for Redb {
    type Target = redb::Database;

    fn deref(&self) -> &redb::Database {
        self.database.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Redb {
    /// redb writes once more when it is closed, and panics then as well.
    fn drop(&mut self) {
        // Whatever was committed is in the file, and the next start looks whether the file is whole.
        let _ = guarded(&self.path, || {
            drop(self.database.take());
            Ok(())
        });
    }
}

/// The redb file as of one commit.
pub(super) struct Snapshot {
    path: PathBuf,
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl Snapshot {
    /// As of the last commit.
    pub(super) fn of(redb: &redb::Database, path: &Path) -> Result<Snapshot, redb::Error> {
        let transaction = redb.begin_read()?;
        let tables = Table::ALL.iter().map(|t| transaction.open_table(definition(*t))).collect::<Result<_, _>>()?;
        Ok(Snapshot { path: path.to_owned(), tables })
    }
}

impl Base for Snapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let found = self.tables[table as usize].get(key).map_err(|e| redb_error(&self.path, &e.into()))?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    fn range(&self, table: Table, from: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        let rest = self.tables[table as usize].range::<&[u8]>((from, Bound::Unbounded)).map_err(|e| redb_error(&self.path, &e.into()))?;
        Ok(Box::new(Rows { path: &self.path, rest, here: None }))
    }
}

/// Pairs of a table, in redb's own memory.
struct Rows<'a> {
    path: &'a Path,
    rest: redb::Range<'a, &'static [u8], &'static [u8]>,
    here: Option<(Guard<'a>, Guard<'a>)>,
}

type Guard<'a> = redb::AccessGuard<'a, &'static [u8]>;

impl Pairs for Rows<'_> {
    fn next(&mut self) -> Result<Option<()>, DatabaseError> {
        self.here = self.rest.next().transpose().map_err(|e| redb_error(self.path, &e.into()))?;
        Ok(self.here.as_ref().map(|_| ()))
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.here.as_ref().map(|(key, value)| (key.value(), value.value()))
    }
}

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// Opens the file or makes a new one, verified: with its identity and the last sequence number that it contains.
pub(crate) fn open(path: &Path, cache_bytes: usize) -> Result<(Redb, u64, u64), DatabaseError> {
    guarded(path, || {
        let mut builder = redb::Database::builder();
        let opened = private::files().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|e| DatabaseError::io(path, "cannot open", &e))?;
        builder.set_cache_size(cache_bytes).set_check_integrity_on_open(true);
        let made = redb::backends::FileBackend::new(file).and_then(|file| builder.create_with_backend(file));
        let redb = made.map_err(|e| match e {
            redb::DatabaseError::DatabaseAlreadyOpen => {
                DatabaseError::new(path, "in use by another process: one metadata service at a time")
            }
            redb::DatabaseError::Storage(redb::StorageError::Io(e)) if e.raw_os_error().is_some() => {
                DatabaseError::io(path, "cannot open", &e)
            }
            other => DatabaseError::new(path, format!("cannot be opened: {other}: {ADVICE}")),
        })?;
        let redb = Redb { path: path.to_owned(), database: Some(redb) };
        let (identity, applied) = identify(&redb).map_err(|e| redb_error(path, &e))?;
        Ok((redb, identity, applied))
    })
}

/// Runs `work`; a panic in it is an error. redb is written for files that nobody else writes, and panics at some that were damaged. What
/// it had in memory must not be used afterwards: the next that opens it gives it up, and a writer calls the database broken.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let panic = panic_text(&*panic);
        Err(DatabaseError::new(
            path,
            format!("damaged, or a bug (redb panicked: {panic}): stop the service, and if it says so again, {ADVICE}"),
        ))
    })
}

/// The database's identity and last applied sequence number; makes the tables of a new one, and those that it was made without.
fn identify(redb: &redb::Database) -> Result<(u64, u64), redb::Error> {
    let mut transaction = redb.begin_write()?;
    transaction.set_quick_repair(true);
    let number =
        |value: Option<redb::AccessGuard<'_, &'static [u8]>>| value.and_then(|v| v.value().try_into().ok()).map(u64::from_le_bytes);
    let found = {
        let state = transaction.open_table(definition(Table::State))?;
        (number(state.get(IDENTITY)?), number(state.get(APPLIED)?))
    };
    let there: Vec<String> = transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
    let is_whole = Table::ALL.iter().all(|table| there.iter().any(|name| name == table.name()));
    if let (Some(identity), Some(applied), true) = (found.0, found.1, is_whole) {
        transaction.abort()?;
        return Ok((identity, applied));
    }
    for table in Table::ALL {
        transaction.open_table(definition(table))?;
    }
    if let (Some(identity), Some(applied)) = found {
        transaction.commit()?;
        return Ok((identity, applied));
    }
    let identity = thalweg_wire::protocol::common::random_u64() | 1;
    {
        let mut state = transaction.open_table(definition(Table::State))?;
        state.insert(IDENTITY, identity.to_le_bytes().as_slice())?;
        state.insert(APPLIED, 0_u64.to_le_bytes().as_slice())?;
    }
    transaction.commit()?;
    Ok((identity, 0))
}

/// One durable commit of `layer`, and of the sequence number it reaches.
pub(super) fn put_into(redb: &redb::Database, layer: &Layer, last: u64) -> Result<(), redb::Error> {
    let mut transaction = redb.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    for table in Table::ALL {
        let mut rows = transaction.open_table(definition(table))?;
        for (key, change) in layer.table(table) {
            match change {
                Some(value) => rows.insert(key.as_slice(), value.as_slice())?,
                None => rows.remove(key.as_slice())?,
            };
        }
        if table == Table::State {
            rows.insert(APPLIED, last.to_le_bytes().as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The database's error for one of redb's, at its file.
pub(super) fn redb_error(path: &Path, error: &redb::Error) -> DatabaseError {
    match error {
        redb::Error::Io(e) => DatabaseError::io(path, "input or output failed", e),
        other => DatabaseError::new(path, other.to_string()),
    }
}
