//! Checkpoints: the log becomes rows of the tables when it is long, and when the service stops.
//!
//! While a layer is being written to the tables, reads see it on top of the tables, before and after its commit. It is dropped once the
//! cache of the tables contains its changes.

use super::link::{PAUSE, taken_over};
use super::schema::{apply_statement, trim};
use super::server::Trouble;
use super::{Postgresql, Shared, State};
use crate::database::layers::Layer;
use crate::database::{DatabaseError, Table};
use postgres::types::ToSql;
use postgres::{Client, Statement};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bound: segments of log beyond which writers wait for the tables.
const SEGMENTS_BEHIND: u64 = 8;

/// The keys and values of a table.
type Columns<'a> = (Vec<&'a [u8]>, Vec<Option<&'a [u8]>>);

/// The session on which layers are written to the tables.
struct Session {
    client: Client,
    apply: Statement,
}

impl Postgresql {
    /// Writes everything into the tables.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn checkpoint(&self) -> Result<(), DatabaseError> {
        let shared = &self.shared;
        let target = shared.rows.committed.load(Ordering::Acquire);
        loop {
            let mut state = shared.state.write();
            if state.logged.is_empty() && state.frozen.is_none() {
                return Ok(());
            }
            shared.freeze(&mut state);
            let is_all = state.frozen.as_ref().is_some_and(|(_, last)| *last >= target);
            drop(state);
            shared.wait_for_checkpoint()?;
            if is_all {
                return Ok(());
            }
        }
    }
}

impl Shared {
    /// Freezes the logged layer for the checkpointer if it is long enough.
    pub(super) fn freeze_if_long(&self, state: &mut State) {
        if state.logged_bytes >= self.segment_bytes {
            self.freeze(state);
        }
    }

    /// Freezes it, unless a frozen layer exists.
    fn freeze(&self, state: &mut State) {
        if state.frozen.is_none() {
            let last = self.rows.committed.load(Ordering::Acquire);
            state.frozen = Some((Arc::new(std::mem::take(&mut state.logged)), last));
            state.logged_bytes = 0;
        }
        let mut work = self.work.lock();
        work.checkpoint = true;
        self.worked.notify_all();
    }

    /// Runs the checkpointer's thread.
    pub(super) fn checkpoints(&self) {
        let mut session = None;
        loop {
            let mut work = self.work.lock();
            while !work.checkpoint && !work.stop {
                self.worked.wait(&mut work);
            }
            if work.stop {
                self.worked.notify_all();
                return;
            }
            drop(work);
            let done = self.put_frozen(&mut session);
            if let Some(error) = done.as_ref().err().filter(|error| !error.full) {
                self.lease.end(error.clone());
            }
            let mut work = self.work.lock();
            // The next caller that waits for it retries a checkpoint that failed for want of space.
            work.checkpoint = false;
            work.failed = done.err();
            self.worked.notify_all();
        }
    }

    /// Waits until no checkpoint is in progress; returns its error if it failed.
    fn wait_for_checkpoint(&self) -> Result<(), DatabaseError> {
        let mut work = self.work.lock();
        while work.checkpoint && !work.stop {
            self.worked.wait(&mut work);
        }
        let stopped = || self.server.error("the service stops");
        match (&work.failed, work.checkpoint) {
            (Some(failed), _) => Err(failed.clone()),
            (None, true) => Err(self.lease.ended().cloned().unwrap_or_else(stopped)),
            (None, false) => Ok(()),
        }
    }

    /// Bounds the log when the tables do not keep up, and retries a failed checkpoint.
    pub(super) fn wait_while_far_behind(&self) -> Result<(), DatabaseError> {
        if self.state.read().logged_bytes < self.segment_bytes.saturating_mul(SEGMENTS_BEHIND) {
            return Ok(());
        }
        self.freeze(&mut self.state.write());
        self.wait_for_checkpoint()
    }

    /// Writes the frozen layer into the tables, durably, however long the server is unreachable.
    fn put_frozen(&self, session: &mut Option<Session>) -> Result<(), DatabaseError> {
        let Some((layer, last)) = self.state.read().frozen.clone() else { return Ok(()) };
        loop {
            match self.put(session, &layer, last) {
                Ok(()) => break,
                Err(Trouble::Refused(error)) => return Err(error),
                Err(Trouble::Fenced) => return Err(taken_over(&self.server)),
                Err(Trouble::Again) => {}
                // A caller that needs the server has its own timeout.
                Err(Trouble::Lost(_) | Trouble::ReadOnly) => {
                    *session = None;
                    if self.work.lock().stop || self.lease.ended().is_some() {
                        return Err(self
                            .lease
                            .ended()
                            .cloned()
                            .unwrap_or_else(|| self.server.error("the connection was lost while the service stopped")));
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
        self.rows.tables_changed(&layer);
        self.state.write().frozen = None;
        self.link.lock().is_applied(last);
        self.syncs.reaches(last);
        // Untrimmed changes are skipped at a start, and trimmed the next time.
        let trimmed = session.as_mut().map(|session| trim(&mut session.client, last));
        if trimmed.is_some_and(|trimmed| trimmed.is_err()) {
            *session = None;
        }
        Ok(())
    }

    fn put(&self, session: &mut Option<Session>, layer: &Layer, last: u64) -> Result<(), Trouble> {
        let trouble = |error: postgres::Error| self.server.trouble(&error);
        let session = match session {
            Some(session) => session,
            None => {
                let mut client = self.rows.session()?;
                client.batch_execute("SET synchronous_commit = on").map_err(trouble)?;
                let apply = client.prepare(&apply_statement()).map_err(trouble)?;
                session.insert(Session { client, apply })
            }
        };
        let columns = |table: &Table| layer.table(*table).iter().map(|(key, value)| (key.as_slice(), value.as_deref())).unzip();
        let tables: Vec<Columns<'_>> = Table::ALL.iter().map(columns).collect();
        let (epoch, number) = (self.rows.epoch, i64::try_from(last).unwrap_or(i64::MAX));
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&epoch, &number];
        for (keys, values) in &tables {
            parameters.push(keys);
            parameters.push(values);
        }
        session.client.execute(&session.apply, &parameters).map_err(trouble)?;
        Ok(())
    }
}
