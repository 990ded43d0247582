//! Rounds: when bytes that no client synced are on stable storage nevertheless, and which files may have lost theirs.
//!
//! A copy without a sync names its file immediately, and that name can become durable before the bytes: with another client's sync, or when
//! the kernel writes the log back. After a power loss such a file would look complete but have holes. So a file with unsynced bytes belongs
//! to a *round*. Every half minute in which there was such a file, a round ends: the next one starts, and every I/O server puts all earlier
//! writes on stable storage. All files of earlier rounds are durable then at the servers that have answered, without rewriting any row.
//!
//! A server whose machine was restarted has lost its part of rounds that had not ended there. This is stored permanently, with the count of
//! machine starts since when it applies ([`super::boots`]): files of those rounds are *doubtful*, and reading them is an error, until their
//! bytes are written again or the file is truncated to its intended size.

use crate::database::{Database, Table, Unwatched, View, write};
use crate::inode::{Settlement, decode, encode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::Result;

/// Key in [`Table::State`].
const ROUNDS: &[u8] = b"sizes.rounds";
/// Minimum length of a round: as long as the kernel keeps written pages in memory before it writes them back.
const ROUND: Duration = Duration::from_secs(30);

/// The stored state of rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoundState {
    /// The current round.
    now: u64,
    /// The last round that has ended at each server, by name.
    ended: BTreeMap<String, u64>,
    /// Restarts of each server's machine: the count since when, and the last round that had ended there before.
    restarts: BTreeMap<String, Vec<(u32, u64)>>,
}

impl RoundState {
    /// Returns whether no server's machine was ever restarted.
    pub(crate) fn is_without_restart(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns whether bytes of this file on this server may have been lost.
    pub(crate) fn may_have_lost(&self, server: &str, of: &Settlement) -> bool {
        let Some(round) = of.unsynced else { return false };
        let restarts = self.restarts.get(server).map_or(&[][..], Vec::as_slice);
        restarts.iter().any(|(since, ended)| of.boots < *since && round > *ended)
    }

    /// Returns whether the file's bytes on this server are on stable storage.
    pub(crate) fn has_stored(&self, server: &str, of: &Settlement) -> bool {
        of.unsynced.is_none_or(|round| self.ended.get(server).is_some_and(|ended| *ended >= round))
    }
}

/// The state of rounds, and the wait for the end of one.
#[derive(Default)]
pub(crate) struct Rounds {
    known: Mutex<Arc<RoundState>>,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Default)]
struct Orders {
    /// Since when there are files of the current round.
    since: Option<Instant>,
    stop: bool,
}

impl Rounds {
    /// Reads the stored state.
    ///
    /// # Errors
    /// The row cannot be decoded.
    pub(crate) fn read(&self, view: &dyn View) -> Result<()> {
        let value = view.get(Table::State, ROUNDS)?;
        let known: RoundState = value.map(|value| decode(Table::State, ROUNDS, &value)).transpose()?.unwrap_or_default();
        // There may be unsynced files of the last round.
        let known = if known.now == 0 {
            // Rounds are counted from 1; 0 means that none has ended.
            RoundState { now: 1, ..known }
        } else {
            self.wanted();
            known
        };
        *self.known.lock() = Arc::new(known);
        Ok(())
    }

    /// Returns the round of files that are settled now.
    pub(crate) fn now(&self) -> u64 {
        self.known.lock().now
    }

    /// Records that there is a file of this round.
    pub(crate) fn wanted(&self) {
        let mut orders = self.orders.lock();
        if orders.since.is_none() {
            orders.since = Some(Instant::now());
            self.ordered.notify_all();
        }
    }

    /// Records that servers' machines were restarted since a count; returns the row to store.
    pub(crate) fn restarted(&self, servers: &[(String, u32)]) -> (Vec<u8>, Vec<u8>) {
        let mut known = self.known.lock();
        let changed = Arc::make_mut(&mut known);
        for (server, since) in servers {
            let ended = changed.ended.get(server).copied().unwrap_or(0);
            let restarts = changed.restarts.entry(server.clone()).or_default();
            if restarts.last().is_none_or(|(last, _)| *last < *since) {
                restarts.push((*since, ended));
            }
        }
        (ROUNDS.to_vec(), encode(&**known))
    }

    /// Returns the current state.
    pub(crate) fn known(&self) -> Arc<RoundState> {
        Arc::clone(&self.known.lock())
    }

    /// Starts the next round; returns the one that ends.
    pub(crate) fn turn(&self) -> u64 {
        let mut known = self.known.lock();
        let round = known.now;
        Arc::make_mut(&mut known).now += 1;
        round
    }

    /// Records that these servers have everything up to this round on stable storage.
    pub(crate) fn ended<'s>(&self, round: u64, servers: impl Iterator<Item = &'s str>) {
        let mut known = self.known.lock();
        Arc::make_mut(&mut known).ended.extend(servers.map(|server| (server.to_owned(), round)));
    }

    /// Stores the state.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn keep(&self, database: &dyn Database) -> Result<()> {
        write(database, &mut Unwatched, |t| {
            t.put(Table::State, ROUNDS, encode(&**self.known.lock()));
            Ok(())
        })
    }

    /// Returns whether there is a file of this round, and resets that.
    pub(crate) fn take_wanted(&self) -> bool {
        self.orders.lock().since.take().is_some()
    }

    /// Stops the thread that ends rounds.
    pub(crate) fn stop(&self) {
        self.orders.lock().stop = true;
        self.ordered.notify_all();
    }

    /// Waits until a round is to end; returns false when stopped.
    pub(crate) fn is_due(&self) -> bool {
        let mut orders = self.orders.lock();
        loop {
            if orders.stop {
                return false;
            }
            let Some(since) = orders.since else {
                self.ordered.wait(&mut orders);
                continue;
            };
            let left = ROUND.saturating_sub(since.elapsed());
            if left.is_zero() {
                orders.since = None;
                return true;
            }
            self.ordered.wait_for(&mut orders, left);
        }
    }
}
