//! Checkpoints: the log becomes a commit of the redb file when it is long, and when the service stops.

use super::{SEGMENTS_BEHIND, Shared};
use crate::database::DatabaseError;
use crate::database::log::{DATABASE_FILE, Segment};
use crate::database::redb_file::{Snapshot, put_into, redb_error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_base::sync::panic_text;

impl Shared {
    /// Starts a new segment and hands the layer of the old ones to the checkpointer. Only called by the thread whose turn it is to write
    /// the log, while nothing is frozen.
    pub(super) fn rotate(&self) -> Result<(), DatabaseError> {
        let segment = {
            let state = self.read_state();
            if state.logged.is_empty() {
                return Ok(());
            }
            state.segments.last().expect("there is always a segment").clone()
        };
        // Synced, so that only damage can make a segment end before its successor.
        if let Err(e) = segment.sync() {
            self.write_state().broken = Some(e.clone());
            return Err(e);
        }
        let last = self.logged.load(Ordering::Acquire);
        let next = Segment::create(&self.directory, self.identity, last + 1, None)?;
        let mut state = self.write_state();
        state.segments.push(next);
        state.frozen = Some((Arc::new(std::mem::take(&mut state.logged)), last));
        self.work.lock().checkpoint = true;
        self.worked.notify_all();
        Ok(())
    }

    /// Runs the checkpointer's thread.
    pub(super) fn checkpoints(&self) {
        loop {
            let mut work = self.work.lock();
            while !work.checkpoint && !work.stop {
                self.worked.wait(&mut work);
            }
            if work.stop {
                return;
            }
            drop(work);
            let done = catch_unwind(AssertUnwindSafe(|| self.put_frozen())).unwrap_or_else(|panic| {
                let problem = format!("a checkpoint ended in a panic ({}): start the service again", panic_text(&*panic));
                let error = DatabaseError::new(&self.directory.join(DATABASE_FILE), problem);
                self.write_state().broken = Some(error.clone());
                Err(error)
            });
            let mut work = self.work.lock();
            work.checkpoint = false;
            work.failed = done.err();
            self.worked.notify_all();
        }
    }

    fn put_frozen(&self) -> Result<(), DatabaseError> {
        let Some((layer, last)) = self.read_state().frozen.clone() else { return Ok(()) };
        let path = self.directory.join(DATABASE_FILE);
        let bytes = self.read_state().segments.iter().map(|segment| segment.bytes).sum();
        // redb stops working with an open file after an error, so the space is checked first.
        self.reserve.check_room(bytes)?;
        let base = put_into(&self.redb, &layer, last).and_then(|()| Snapshot::of(&self.redb, &path)).map_err(|e| redb_error(&path, &e))?;
        let mut state = self.write_state();
        state.base = Arc::new(base);
        state.frozen = None;
        let live = state.segments.len() - 1;
        let old: Vec<Segment> = state.segments.drain(..live).collect();
        drop(state);
        for segment in old {
            std::fs::remove_file(&segment.path).map_err(|e| DatabaseError::io(&segment.path, "cannot remove", &e))?;
        }
        Ok(())
    }

    /// Waits until no checkpoint is in progress; returns its error if it failed.
    pub(super) fn wait_for_checkpoint(&self) -> Result<(), DatabaseError> {
        let mut work = self.work.lock();
        while work.checkpoint && !work.stop {
            self.worked.wait(&mut work);
        }
        work.failed.clone().map_or(Ok(()), Err)
    }

    /// Bounds the log when checkpoints do not keep up, and retries a failed one.
    pub(super) fn wait_while_far_behind(&self) -> Result<(), DatabaseError> {
        let bytes = {
            let state = self.read_state();
            state.segments.last().map_or(0, |s| s.bytes)
        };
        if bytes < self.options.segment_bytes.saturating_mul(SEGMENTS_BEHIND) {
            return Ok(());
        }
        let mut work = self.work.lock();
        if work.failed.is_some() {
            work.checkpoint = true;
            self.worked.notify_all();
        }
        drop(work);
        self.wait_for_checkpoint()
    }
}
