//! The redb file below the layers of [`super::embedded`]: read as of a commit, and written by one.

use super::database::{DatabaseError, Table};
use super::layers::{Base, Layer, Pairs};
use redb::{Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Key in [`Table::State`]: the database's identity, u64 LE.
const IDENTITY: &[u8] = b"database.identity";
/// Key in [`Table::State`]: the last log sequence number that the redb file contains, u64 LE.
const APPLIED: &[u8] = b"database.applied";
/// The redb file as of one commit.
pub(super) struct Snapshot {
    path: PathBuf,
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl Snapshot {
    /// As of the last commit.
    pub fn of(redb: &redb::Database, path: &Path) -> Result<Snapshot, redb::Error> {
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

/// The database's identity and last applied sequence number; makes the tables of a new one.
pub(super) fn identify(redb: &redb::Database) -> Result<(u64, u64), redb::Error> {
    let mut transaction = redb.begin_write()?;
    transaction.set_quick_repair(true);
    let number =
        |value: Option<redb::AccessGuard<'_, &'static [u8]>>| value.and_then(|v| v.value().try_into().ok()).map(u64::from_le_bytes);
    let found = {
        let state = transaction.open_table(definition(Table::State))?;
        (number(state.get(IDENTITY)?), number(state.get(APPLIED)?))
    };
    if let (Some(identity), Some(applied)) = found {
        transaction.abort()?;
        return Ok((identity, applied));
    }
    let identity = crate::protocol::common::random_u64() | 1;
    for table in Table::ALL {
        transaction.open_table(definition(table))?;
    }
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
