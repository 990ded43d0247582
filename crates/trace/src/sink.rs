//! Where recorders put events.

use crate::Event;
use std::sync::{Mutex, PoisonError};

/// Takes batches of events from any thread. A batch is one tracer's, in order of completion; batches
/// of different tracers come in any order. Must not block for long: it is called from the data path.
pub trait Sink: Send + Sync {
    /// Takes a batch; leaves `batch` empty with its capacity kept.
    fn take(&self, batch: &mut Vec<Event>);
}

/// Drops everything: recording is off.
#[derive(Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    fn take(&self, batch: &mut Vec<Event>) {
        batch.clear();
    }
}

/// Keeps everything in memory, up to a bound; past it events are counted, not kept.
#[derive(Debug)]
pub struct Memory {
    inner: Mutex<(Vec<Event>, u64)>,
    limit: usize,
}

impl Memory {
    /// Keeps at most `limit` events.
    pub fn new(limit: usize) -> Memory {
        Memory { inner: Mutex::new((Vec::new(), 0)), limit }
    }

    /// Takes out what is there: the events and how many were lost since the last call.
    pub fn drain(&self) -> (Vec<Event>, u64) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut inner.0), std::mem::take(&mut inner.1))
    }
}

impl Sink for Memory {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.limit.saturating_sub(inner.0.len()).min(batch.len());
        inner.1 += (batch.len() - room) as u64;
        inner.0.extend(batch.drain(..room));
        batch.clear();
    }
}
