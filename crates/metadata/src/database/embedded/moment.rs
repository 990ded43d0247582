//! The database at one moment: the log so far is handed to the checkpointer, whose layer and base nobody changes any more. So nothing is
//! copied, and writers wait only for a new segment of the log.

use super::Shared;
use crate::database::layers::Held;
use crate::database::{DatabaseError, Moment, Unwatched};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Attempts to take a moment when nothing waits for a checkpoint.
const TRIES: u32 = 4;

impl Shared {
    /// Takes a moment. On a full disk the log cannot be rotated, and its layer is copied.
    pub(super) fn moment(&self) -> Result<Moment, DatabaseError> {
        let mut tried = 0;
        let taken = loop {
            tried += 1;
            let is_stuck = self.wait_for_checkpoint().is_err();
            let taken = self.turn.exclusively(self, || {
                let is_behind = self.read_state().frozen.is_some();
                // Where checkpoints follow each other at once, nobody waits for a moment between two: what is logged is copied.
                if is_behind && !is_stuck && tried < TRIES {
                    return Ok(None);
                }
                match if is_behind { Ok(()) } else { self.rotate() } {
                    Err(error) if !error.full => Err(error),
                    _ => Ok(Some(self.held())),
                }
            })?;
            if let Some(taken) = taken {
                break taken;
            }
        };
        self.sync(&mut Unwatched)?;
        Ok(taken)
    }

    /// Returns what is written to the log. Only called by the thread whose turn it is to write it.
    fn held(&self) -> Moment {
        let state = self.read_state();
        let copied = (!state.logged.is_empty()).then(|| Arc::new(state.logged.clone()));
        let layers = copied.into_iter().chain(state.frozen.as_ref().map(|(layer, _)| Arc::clone(layer))).collect();
        Moment { view: Box::new(Held { layers, base: Arc::clone(&state.base) }), change: self.logged.load(Ordering::Acquire) }
    }
}
