//! Databases with a known history, their state after a kill, and small disks.

mod damage;
#[cfg(feature = "postgresql")]
mod damage_in_postgresql;
mod model;
#[cfg(feature = "postgresql")]
pub(crate) mod postgresql;

use crate::database::embedded::{Embedded, Options};
use crate::database::in_memory::InMemory;
use crate::database::{Database, DatabaseError, Table, Transaction, Unwatched, read, write};
use std::path::{Path, PathBuf};

/// Checkpoints after a few transactions.
pub(super) const SMALL: Options = Options { segment_bytes: 600, cache_bytes: 1 << 20, drop_damaged: false };
/// Never checkpoints on its own.
pub(super) const LARGE: Options = Options { segment_bytes: 1 << 30, cache_bytes: 1 << 20, drop_damaged: false };

/// Creates a directory, in memory if possible: these tests open thousands of databases, and each syncs.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn rows(database: &dyn Database, table: Table, prefix: &[u8], after: Option<&[u8]>, most: usize) -> Rows {
    read::<_, DatabaseError>(database, |view| {
        let mut found = Rows::new();
        view.scan(table, prefix, after, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            found.len() < most
        })?;
        Ok(found)
    })
    .unwrap()
}

pub(crate) fn everything(database: &dyn Database) -> Vec<Rows> {
    // Keys of the embedded database itself start with `database.`.
    let own = |row: &(Vec<u8>, Vec<u8>)| row.0.starts_with(b"database.");
    let table = |t: &Table| rows(database, *t, b"", None, usize::MAX).into_iter().filter(|row| !own(row)).collect();
    Table::ALL.iter().map(table).collect()
}

pub(crate) fn commit(database: &dyn Database, work: impl Fn(&mut dyn Transaction)) {
    write::<_, DatabaseError>(database, &mut Unwatched, |t| {
        work(t);
        Ok(())
    })
    .unwrap();
}

/// Runs transaction number `i` of a history: updates a count in one table, adds a name in another, and removes one.
pub(super) fn history(database: &dyn Database, i: u64) {
    commit(database, |t| {
        t.put(Table::State, b"count", i.to_le_bytes().to_vec());
        t.put(Table::Entries, format!("name {i:04}").as_bytes(), vec![b'x'; (i % 50) as usize]);
        if i % 3 == 2 {
            t.delete(Table::Entries, format!("name {:04}", i - 1).as_bytes());
        }
    });
}

/// Returns how many transactions of [`history`] a database has; panics unless it is exactly a prefix.
pub(super) fn prefix_length(database: &dyn Database) -> u64 {
    let count = rows(database, Table::State, b"count", None, 1).pop().map_or(0, |(_, v)| u64::from_le_bytes(v.try_into().unwrap()) + 1);
    let expected = InMemory::default();
    (0..count).for_each(|i| history(&expected, i));
    assert_eq!(everything(database), everything(&expected), "after {count} transactions");
    count
}

pub(super) fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"))
        .collect();
    logs.sort();
    logs
}

/// Copies the files while the database is open, as a kill would leave them.
pub(super) fn copy_of(directory: &Path) -> tempfile::TempDir {
    loop {
        let copy = scratch();
        let copied = std::fs::read_dir(directory).unwrap().try_for_each(|entry| {
            let entry = entry?;
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).map(drop)
        });
        match copied {
            Ok(()) => return copy,
            // Another thread's checkpoint deleted a segment during the copy: a kill cannot leave that state.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns a database of a checkpoint of 10 transactions and a log of 20, and its files after a kill.
pub(super) fn killed_after_thirty() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = scratch();
    let database = Embedded::open(directory.path(), LARGE).unwrap();
    (0..10).for_each(|i| history(&database, i));
    database.checkpoint().unwrap();
    (10..30).for_each(|i| history(&database, i));
    let copy = copy_of(directory.path());
    let log = segments(copy.path()).pop().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    (copy, log, bytes)
}

pub(super) fn open_copy(directory: &Path) -> Embedded {
    Embedded::open(directory, LARGE).unwrap()
}

/// A file system of a few megabytes, unmounted when dropped.
pub(super) struct SmallDisk {
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts it; `None` without permission.
    pub(super) fn mount(bytes: u64) -> Option<SmallDisk> {
        let directory = scratch();
        let path = directory.path().to_owned();
        let size = format!("size={bytes}");
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        matches!(mounted, Ok(output) if output.status.success()).then_some(SmallDisk { path, _directory: directory })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

/// Tables are added at the end; an existing store gets new ones at its next start.
#[test]
fn a_database_that_was_made_without_a_table_gets_it_and_keeps_what_it_had() {
    let (directory, _, _) = killed_after_thirty();
    let file = directory.path().join(crate::database::log::DATABASE_FILE);
    let without = redb::Database::builder().open(file).unwrap();
    let transaction = without.begin_write().unwrap();
    let table = redb::TableDefinition::<&[u8], &[u8]>::new(Table::Lots.name());
    assert!(transaction.delete_table(table).unwrap());
    transaction.commit().unwrap();
    drop(without);
    for _ in 0..2 {
        let database = open_copy(directory.path());
        assert_eq!(prefix_length(&database), 30);
    }
    let database = open_copy(directory.path());
    commit(&database, |t| t.put(Table::Lots, b"key", b"value".to_vec()));
    database.checkpoint().unwrap();
    drop(database);
    assert_eq!(rows(&open_copy(directory.path()), Table::Lots, b"", None, 9), [(b"key".to_vec(), b"value".to_vec())]);
}
