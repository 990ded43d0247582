//! The database in memory, for tests: what the others are compared with. It can be killed and can lose power, and it counts rows.

use super::layers::{Base, Layer, Pairs, Stack, Working};
use crate::database::{Database, DatabaseError, Ordered, Table, Transaction, Verdict, View, Watch};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_base::sync::RwLock;

/// A database that forgets everything when the last start of it is dropped.
#[derive(Debug, Default)]
pub struct InMemory {
    disk: Arc<RwLock<Disk>>,
    is_dead: AtomicBool,
    most_rows: AtomicUsize,
}

#[derive(Debug, Default)]
struct Disk {
    now: Layer,
    /// What there was before each transaction since the last sync, if power may be lost.
    unsynced: Option<Vec<Layer>>,
}

impl InMemory {
    /// One that [`InMemory::lose_power`] may be asked of.
    pub fn on_a_machine() -> InMemory {
        let database = InMemory::default();
        database.disk.write().unsynced = Some(Vec::new());
        database
    }

    /// As a signal that cannot be caught: nothing more is read or written through this start.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// The next start, over the same disk.
    pub fn start_again(&self) -> InMemory {
        InMemory { disk: Arc::clone(&self.disk), ..InMemory::default() }
    }

    /// Power loss takes what was not synced, newest first: the last transaction and so many before it, if there are as many.
    pub fn lose_power(&self, before_last: usize) {
        let mut disk = self.disk.write();
        let unsynced = disk.unsynced.replace(Vec::new()).expect("a database on a machine");
        if let Some(state) = unsynced.into_iter().rev().nth(before_last) {
            disk.now = state;
        }
    }

    /// Power loss takes all that was not synced.
    pub fn lose_all_unsynced(&self) {
        let mut disk = self.disk.write();
        let unsynced = disk.unsynced.replace(Vec::new()).expect("a database on a machine");
        if let Some(state) = unsynced.into_iter().next() {
            disk.now = state;
        }
    }

    /// The most rows that one scan has seen in one go, while nobody could change anything.
    pub fn most_rows(&self) -> usize {
        self.most_rows.load(Ordering::Relaxed)
    }

    fn is_alive(&self) -> Result<(), DatabaseError> {
        if self.is_dead.load(Ordering::SeqCst) { Err(DatabaseError::new(Path::new("memory"), "killed")) } else { Ok(()) }
    }
}

/// Nothing lies below.
struct Empty;

impl Base for Empty {
    fn get(&self, _: Table, _: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        Ok(None)
    }
    fn range(&self, _: Table, _: Bound<&[u8]>) -> Result<Box<dyn Pairs + '_>, DatabaseError> {
        Ok(Box::new(Empty))
    }
}

impl Pairs for Empty {
    fn next(&mut self) -> Result<Option<()>, DatabaseError> {
        Ok(None)
    }
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        None
    }
}

/// Counts the rows of each scan.
struct Counting<'a>(Stack<'a>, &'a AtomicUsize);

impl View for Counting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), DatabaseError> {
        let mut rows = 0;
        self.0.scan(table, prefix, after, &mut |key, value| {
            rows += 1;
            each(key, value)
        })?;
        self.1.fetch_max(rows, Ordering::Relaxed);
        Ok(())
    }
}

impl Database for InMemory {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        self.is_alive()?;
        let disk = self.disk.read();
        work(&Counting(Stack { layers: vec![&disk.now], base: &Empty }, &self.most_rows))
    }

    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError> {
        self.is_alive()?;
        let mut disk = self.disk.write();
        let mut working = Working::over(Stack { layers: vec![&disk.now], base: &Empty });
        let verdict = work(&mut working)?;
        let mut own = working.own;
        if verdict == Verdict::Commit {
            let Disk { now, unsynced } = &mut *disk;
            if let Some(unsynced) = unsynced {
                unsynced.push(now.clone());
            }
            own.settle_onto(now);
        }
        Ok(Ordered::default())
    }

    fn settle(&self, _: &Ordered, _: &mut dyn Watch) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn sync(&self, _: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.is_alive()?;
        if let Some(unsynced) = &mut self.disk.write().unsynced {
            unsynced.clear();
        }
        Ok(())
    }
}
