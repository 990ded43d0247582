//! The redb file below the layers of [`super::embedded`]: read as of a commit, and written by commits.
//!
//! redb has a checksum for each page but checks it only on request. It is checked at each start, so that a change of the file by a disk or
//! a person is an error, and never yields another file's attributes. That reads the whole file once: 0.9 s for the 514 MiB of 1,000,000
//! files. Rejected: a checksum in each row, which would be checked at each read, but would not detect a missing row, and would cost each
//! write.

use super::layers::{Base, Layer, Pairs};
use crate::database::{DatabaseError, Table};
use redb::{Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use thalweg_base::private;
use thalweg_base::release::RELEASE;
use thalweg_base::sync::panic_text;

/// Key in [`Table::State`]: the database's identity, u64 LE.
const IDENTITY: &[u8] = b"database.identity";
/// Key in [`Table::State`]: the last log sequence number that the redb file contains, u64 LE.
const APPLIED: &[u8] = b"database.applied";
/// Advice if the file cannot be read.
const ADVICE: &str = "put back a copy of all of the metadata directory's files";

/// Whether a row describes the file itself, and not the store.
pub(crate) fn is_of_file(table: Table, key: &[u8]) -> bool {
    table == Table::State && (key == IDENTITY || key == APPLIED)
}

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
    /// Closing redb writes once more, and may panic too.
    fn drop(&mut self) {
        // All commits are in the file, and the next start verifies it.
        let _ = guarded(&self.path, || {
            drop(self.database.take());
            Ok(())
        });
    }
}

/// A snapshot of the redb file as of one commit.
pub(super) struct Snapshot {
    path: PathBuf,
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl Snapshot {
    /// Takes a snapshot of the last commit.
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

/// A cursor over a table, in redb's own memory.
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

/// Opens or creates the file and verifies it; returns its identity and the last sequence number that it contains.
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
            // redb's own format, which later releases may raise; it says both versions.
            other if other.to_string().contains("file format version") => {
                let what = format!("cannot be opened: {other}: this is {RELEASE}");
                DatabaseError::new(path, format!("{what}; use the release that made it, or, if that is this one, {ADVICE}"))
            }
            other => DatabaseError::new(path, format!("cannot be opened: {other}: {ADVICE}")),
        })?;
        let redb = Redb { path: path.to_owned(), database: Some(redb) };
        let (identity, applied) = identify(&redb).map_err(|e| redb_error(path, &e))?;
        Ok((redb, identity, applied))
    })
}

/// Runs `work`, turning a panic into an error: redb assumes that no other program writes its files, and panics on some damaged ones. Its
/// state in memory must not be used afterwards: a reader drops it, and a writer marks the database broken.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let panic = panic_text(&*panic);
        Err(DatabaseError::new(
            path,
            format!("damaged, or a bug (redb panicked: {panic}): stop the service, and if this happens again, {ADVICE}"),
        ))
    })
}

/// Returns the database's identity and last applied sequence number; creates missing tables, in a new database or one of an earlier
/// release.
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

/// Commits `layer` and its last sequence number, durably.
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

/// Converts an error of redb, naming the file.
pub(super) fn redb_error(path: &Path, error: &redb::Error) -> DatabaseError {
    match error {
        redb::Error::Io(e) => DatabaseError::io(path, "input or output failed", e),
        other => DatabaseError::new(path, other.to_string()),
    }
}
