//! A metadata service's disk that forgets, when power is lost, what was not synced: for models of stores whose parts lose power.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_store::metadata::database::{Database, DatabaseError, Table, Transaction, Verdict, View, Watch};

/// A lock that outlives a panic of a test's thread.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows by table and key.
pub type Rows = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// What is on the service's disk, and every state since it was last synced.
#[derive(Default)]
pub struct Disk {
    /// What is there now.
    pub now: Rows,
    /// What was there before each change since the last sync.
    pub since_sync: Vec<Rows>,
}

/// A start's way to the disk; a killed one's leads nowhere.
pub struct Saved {
    /// The disk.
    pub disk: Arc<Mutex<Disk>>,
    /// Whether it was killed.
    pub dead: Arc<Mutex<bool>>,
}

struct Working {
    rows: Rows,
    saved: Rows,
}

fn scan_rows(rows: &Rows, table: Table, prefix: &[u8], after: Option<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
    for ((of, key), value) in rows.range((table as u8, prefix.to_vec())..) {
        if *of != table as u8 || !key.starts_with(prefix) {
            return;
        }
        if after.is_none_or(|after| key.as_slice() > after) && !each(key, value) {
            return;
        }
    }
}

impl View for Working {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        Ok(self.rows.get(&(table as u8, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError> {
        scan_rows(&self.rows, table, prefix, after, each);
        Ok(())
    }
}

impl Transaction for Working {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.rows.insert((table as u8, key.to_vec()), value);
    }
    fn delete(&mut self, table: Table, key: &[u8]) {
        self.rows.remove(&(table as u8, key.to_vec()));
    }
    fn save(&mut self) {
        self.saved = self.rows.clone();
    }
    fn undo(&mut self) {
        self.rows = self.saved.clone();
    }
}

impl Saved {
    fn alive(&self) -> Result<(), DatabaseError> {
        if *locked(&self.dead) { Err(DatabaseError::new(std::path::Path::new("disk"), "killed")) } else { Ok(()) }
    }
}

impl Database for Saved {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        self.alive()?;
        let rows = locked(&self.disk).now.clone();
        work(&Working { rows, saved: Rows::new() })
    }

    fn write(
        &self,
        _: &mut dyn Watch,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        self.alive()?;
        let mut disk = locked(&self.disk);
        let mut working = Working { rows: disk.now.clone(), saved: Rows::new() };
        if work(&mut working)? == Verdict::Commit {
            let before = std::mem::replace(&mut disk.now, working.rows);
            disk.since_sync.push(before);
        }
        Ok(())
    }

    fn sync(&self, _: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.alive()?;
        locked(&self.disk).since_sync.clear();
        Ok(())
    }
}
