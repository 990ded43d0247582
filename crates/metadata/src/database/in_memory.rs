//! The in-memory database for tests: the reference for the others. It can be killed, can lose power, and counts rows.

use super::layers::{Base, Held, Layer, Pairs, Stack, Working};
use crate::database::{Database, DatabaseError, Moment, Ordered, Table, Transaction, Verdict, View, Watch};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_base::sync::RwLock;

/// A database whose contents are lost when its last start is dropped.
#[derive(Debug, Default)]
pub struct InMemory {
    disk: Arc<RwLock<Disk>>,
    is_dead: AtomicBool,
    most_rows: AtomicUsize,
}

#[derive(Debug, Default)]
struct Disk {
    now: Layer,
    /// The state before each transaction since the last sync, if power loss is simulated.
    unsynced: Option<Vec<Layer>>,
}

impl InMemory {
    /// Creates a database that supports [`InMemory::lose_power`].
    pub fn on_a_machine() -> InMemory {
        let database = InMemory::default();
        database.disk.write().unsynced = Some(Vec::new());
        database
    }

    /// Simulates a kill: this start reads and writes nothing more.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// Starts again over the same disk.
    pub fn start_again(&self) -> InMemory {
        InMemory { disk: Arc::clone(&self.disk), ..InMemory::default() }
    }

    /// Simulates a power loss that takes the newest unsynced transactions: the last one and up to `before_last` before it.
    pub fn lose_power(&self, before_last: usize) {
        let mut disk = self.disk.write();
        let unsynced = disk.unsynced.replace(Vec::new()).expect("a database on a machine");
        if let Some(state) = unsynced.into_iter().rev().nth(before_last) {
            disk.now = state;
        }
    }

    /// Simulates a power loss that takes everything unsynced.
    pub fn lose_all_unsynced(&self) {
        let mut disk = self.disk.write();
        let unsynced = disk.unsynced.replace(Vec::new()).expect("a database on a machine");
        if let Some(state) = unsynced.into_iter().next() {
            disk.now = state;
        }
    }

    /// Returns the most rows that a single scan has read while holding the lock.
    pub fn most_rows(&self) -> usize {
        self.most_rows.load(Ordering::Relaxed)
    }

    fn is_alive(&self) -> Result<(), DatabaseError> {
        if self.is_dead.load(Ordering::SeqCst) { Err(DatabaseError::new(Path::new("memory"), "killed")) } else { Ok(()) }
    }
}

/// The empty base.
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

    fn moment(&self) -> Result<Moment, DatabaseError> {
        self.is_alive()?;
        let layers = vec![Arc::new(self.disk.read().now.clone())];
        Ok(Moment { view: Box::new(Held { layers, base: Empty }), change: 0 })
    }

    fn sync(&self, _: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.is_alive()?;
        if let Some(unsynced) = &mut self.disk.write().unsynced {
            unsynced.clear();
        }
        Ok(())
    }
}
