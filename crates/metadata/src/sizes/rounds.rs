//! When bytes that nobody synced are on stable storage all the same, and which files may have lost theirs.
//!
//! A copy that is not asked to sync gives its file a name at once, and that name can become durable before the bytes: with the next
//! client's sync, or when the kernel writes the log back. After a power loss such a file would look whole and have holes. So a file
//! whose bytes were not synced is of a *round*, and every half minute in which there was such a file, a round ends: the next one
//! begins, and every I/O server puts what was written before on stable storage. All files of the rounds before are durable then, at the
//! servers that have answered, and no row has to be written again for it.
//!
//! A server whose machine was restarted has lost what it had of rounds that had not ended there. That is remembered for good, with the count of
//! machine starts since when it is so ([`super::boots`]): files of those rounds are *doubtful*, and reading them is an error, until
//! their bytes are written again or the file is truncated to the size that it is to have.

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
/// How long a round lasts at least: as long as the kernel leaves written pages in memory before it writes them back by itself.
const ROUND: Duration = Duration::from_secs(30);

/// What is known of rounds, and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The round that files are of now.
    now: u64,
    /// The last round that has ended at each server, by name.
    ended: BTreeMap<String, u64>,
    /// Restarts of each server's machine: the count since when, and the last round that had ended there before.
    restarts: BTreeMap<String, Vec<(u32, u64)>>,
}

impl Known {
    /// Whether no server's machine was ever restarted.
    pub(crate) fn is_without_restart(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Whether bytes of this file on this server may have been lost.
    pub(crate) fn may_have_lost(&self, server: &str, of: &Settlement) -> bool {
        let Some(round) = of.unsynced else { return false };
        let restarts = self.restarts.get(server).map_or(&[][..], Vec::as_slice);
        restarts.iter().any(|(since, ended)| of.boots < *since && round > *ended)
    }

    /// Whether the file's bytes on this server are on stable storage.
    pub(crate) fn has_stored(&self, server: &str, of: &Settlement) -> bool {
        of.unsynced.is_none_or(|round| self.ended.get(server).is_some_and(|ended| *ended >= round))
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Rounds {
    known: Mutex<Arc<Known>>,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Default)]
struct Orders {
    /// There are files of the current round, since then.
    since: Option<Instant>,
    stop: bool,
}

impl Rounds {
    /// What was kept.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub(crate) fn read(&self, view: &dyn View) -> Result<()> {
        let value = view.get(Table::State, ROUNDS)?;
        let known: Known = value.map(|value| decode(Table::State, ROUNDS, &value)).transpose()?.unwrap_or_default();
        // Nobody knows whether files of the last round were left to be synced.
        let known = if known.now == 0 {
            // Rounds are counted from 1: the last one that has ended where none has is 0.
            Known { now: 1, ..known }
        } else {
            self.wanted();
            known
        };
        *self.known.lock() = Arc::new(known);
        Ok(())
    }

    /// The round that files are of that are settled now.
    pub(crate) fn now(&self) -> u64 {
        self.known.lock().now
    }

    /// There is a file of this round.
    pub(crate) fn wanted(&self) {
        let mut orders = self.orders.lock();
        if orders.since.is_none() {
            orders.since = Some(Instant::now());
            self.ordered.notify_all();
        }
    }

    /// A server's machine was found to have been restarted: since this count. What is to be kept of it.
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

    /// What is known now.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock())
    }

    /// The next round begins; the one that ends.
    pub(crate) fn turn(&self) -> u64 {
        let mut known = self.known.lock();
        let round = known.now;
        Arc::make_mut(&mut known).now += 1;
        round
    }

    /// These servers have everything of the rounds up to this one on stable storage.
    pub(crate) fn ended<'s>(&self, round: u64, servers: impl Iterator<Item = &'s str>) {
        let mut known = self.known.lock();
        Arc::make_mut(&mut known).ended.extend(servers.map(|server| (server.to_owned(), round)));
    }

    /// Keeps what is known.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn keep(&self, database: &dyn Database) -> Result<()> {
        write(database, &mut Unwatched, |t| {
            t.put(Table::State, ROUNDS, encode(&**self.known.lock()));
            Ok(())
        })
    }

    /// Whether there is a file of this round, as far as nobody has asked before.
    pub(crate) fn take_wanted(&self) -> bool {
        self.orders.lock().since.take().is_some()
    }

    /// Ends the thread that ends rounds.
    pub(crate) fn stop(&self) {
        self.orders.lock().stop = true;
        self.ordered.notify_all();
    }

    /// Waits until a round is to end; whether there is one (and not: this stops).
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
