//! The database as one ordered map in memory, with nothing on disk: what tests compare with.

use super::layers::{Empty, Layer, Stack, Working};
use crate::metadata::database::{Database, DatabaseError, Transaction, Verdict, View, Watch};
use std::sync::{PoisonError, RwLock};

/// A database that forgets everything when it is dropped.
#[derive(Debug, Default)]
pub struct InMemory {
    state: RwLock<Layer>,
}

impl Database for InMemory {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        work(&Stack { layers: vec![&state], base: &Empty })
    }

    fn write(
        &self,
        _: &mut dyn Watch,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut working = Working::over(Stack { layers: vec![&state], base: &Empty });
        let verdict = work(&mut working)?;
        let mut own = working.own;
        if verdict == Verdict::Commit {
            own.settle_onto(&mut state);
        }
        Ok(())
    }

    fn sync(&self, _: &mut dyn Watch) -> Result<(), DatabaseError> {
        Ok(())
    }
}
