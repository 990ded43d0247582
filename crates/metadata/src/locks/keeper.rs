//! The lock service: live clients, waiting requests, and recovery after a restart.
//!
//! A client lives as long as a connection ([`Life`]). A client that says hello under the same name before its first connection is known to
//! have ended keeps its locks. The set of live clients is on stable storage in the database before any of them gets a lock. After a
//! restart, only these clients get locks until each has claimed its own or the grace period ends.
//!
//! A client's number is not secret: clients see it in the holder of a conflicting lock. So a client belongs to its credential, across
//! restarts too; with another credential its locks and grants are not accessible.

use crate::database::{Database, DatabaseError, Table as Rows, Unwatched, Watch, read, write};
use crate::recovery::Recovery;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_wire::locks::table::{Outcome, SERVICE, Table, Ticket};
use thalweg_wire::protocol::locks::{HeldLock, LockKind, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::trust::CredentialId;
use thalweg_wire::{Error, ErrorKind, Result};

/// Key in [`Rows::State`], followed by a client's number as u64 LE: the client may have locks. The value is the identifier of its
/// credential; empty in rows of an earlier release, which did not store it.
const CLIENT: &[u8] = b"locks.client.";
/// Timeout of a truncation that waits for appends.
const TURN_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum time that a request for grants is held open.
const GRANTS_PATIENCE: Duration = Duration::from_secs(10);

/// The lock service.
pub(crate) struct Locks {
    database: Arc<dyn Database>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    table: Table,
    lives: HashMap<u64, LiveClient>,
    /// Clients of an earlier start that have not claimed their locks yet.
    awaited: HashMap<u64, Option<CredentialId>>,
    grace_ends: Instant,
    next: u64,
    stopping: bool,
}

/// A live client.
struct LiveClient {
    /// Its credential.
    of: CredentialId,
    /// The number of its life, which a new connection replaces.
    life: u64,
    /// Tickets granted but not yet reported to the client.
    granted: Vec<u64>,
}

/// A client's life; dropping it frees the client's locks.
pub(crate) struct Life {
    locks: Arc<Locks>,
    client: u64,
    life: u64,
}

/// An append turn of the service itself; dropping it ends the turn.
pub(crate) struct Turn<'a> {
    locks: &'a Locks,
    range: LockRange,
}

impl Locks {
    /// Starts without locks; holders of an earlier start can claim theirs until `recovery` ends.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn start(database: Arc<dyn Database>, recovery: &Recovery) -> Result<Arc<Locks>> {
        let awaited = read::<_, DatabaseError>(&*database, |view| {
            let mut clients = HashMap::new();
            view.scan(Rows::State, CLIENT, None, &mut |key, of| {
                let number = key.strip_prefix(CLIENT).and_then(|k| k.try_into().ok()).map(u64::from_le_bytes);
                clients.extend(number.map(|number| (number, of.try_into().ok().map(CredentialId))));
                key.starts_with(CLIENT)
            })?;
            Ok(clients)
        })?;
        let lives = HashMap::from([(SERVICE, LiveClient { of: CredentialId::default(), life: 0, granted: Vec::new() })]);
        let state = State { table: Table::default(), lives, awaited, grace_ends: recovery.ends_after(1), next: 1, stopping: false };
        Ok(Arc::new(Locks { database, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Stops waiting requests.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Returns the numbers of locked ranges and of waiting requests.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.state.lock().table.counts()
    }

    /// Starts a client's life.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] for a client of another credential; an error of the database.
    pub(crate) fn hello(self: &Arc<Self>, client: u64, of: CredentialId, watch: &mut dyn Watch) -> Result<Life> {
        if client == SERVICE {
            return Err(Error::new(ErrorKind::Invalid, format!("{SERVICE} is not a valid client number")));
        }
        let life = {
            let mut state = self.state.lock();
            let known = state.lives.get(&client).map(|live| live.of).or_else(|| state.awaited.get(&client).copied().flatten());
            if known.is_some_and(|known| known != of) {
                return Err(another());
            }
            state.next += 1;
            let life = state.next;
            state.lives.entry(client).or_insert_with(|| LiveClient { of, life, granted: Vec::new() }).life = life;
            Life { locks: Arc::clone(self), client, life }
        };
        self.changed.notify_all();
        // Only once it is alive here, so that an older life that ends now keeps the row.
        write::<_, DatabaseError>(&*self.database, watch, |t| {
            t.put(Rows::State, &key_of(client), of.0.to_vec());
            Ok(())
        })?;
        self.database.sync(watch)?;
        Ok(life)
    }

    /// Waits up to `wait` for grants since the client's last call; returns the granted tickets.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a client that is not alive; [`ErrorKind::Access`] for one of another credential.
    pub(crate) fn grants(&self, client: u64, of: CredentialId, wait: Duration) -> Result<Vec<u64>> {
        let until = Instant::now() + wait.min(GRANTS_PATIENCE);
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            state = self.after_time(state, client, now);
            let stopping = state.stopping;
            let Some(live) = state.lives.get_mut(&client) else {
                return Err(Error::new(ErrorKind::NotFound, "this client is unknown: it must say hello first"));
            };
            if live.of != of {
                return Err(another());
            }
            if !live.granted.is_empty() || stopping || now >= until {
                return Ok(std::mem::take(&mut live.granted));
            }
            let wake = state.table.next_end(client, now).map_or(until, |ends| ends.min(until));
            state = self.wait(state, wake.saturating_duration_since(now));
        }
    }

    /// Returns the holder of a lock that conflicts with this client's request, also for a client without locks (`None`).
    pub(crate) fn test(&self, client: Option<u64>, request: &LockRequest) -> Option<HeldLock> {
        self.after_grace(self.state.lock()).table.test(client.unwrap_or(SERVICE), request)
    }

    /// Takes an append turn for the service: no client appends until it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] at the timeout.
    pub(crate) fn turn(&self, file: FileId) -> Result<Turn<'_>> {
        let mut state = self.after_grace(self.state.lock());
        state.next += 1;
        let (owner, until) = (state.next, Instant::now() + TURN_PATIENCE);
        let range = LockRange::whole(file, LockSpace::Append, owner);
        let request = LockRequest { range, kind: LockKind::Exclusive, pid: std::process::id() };
        let mut granted = Vec::new();
        let mut outcome = state.table.lock(SERVICE, &request, Some(owner), Instant::now(), &mut granted)?;
        while outcome == Outcome::Queued {
            let now = Instant::now();
            let mine = &mut state.lives.get_mut(&SERVICE).expect("the service is alive").granted;
            if let Some(at) = mine.iter().position(|number| *number == owner) {
                mine.swap_remove(at);
                outcome = Outcome::Granted;
            } else if now >= until || state.stopping {
                state.table.cancel(Ticket { client: SERVICE, number: owner }, now, &mut granted);
                self.notify(&mut state, granted);
                return Err(Error::new(ErrorKind::Busy, "a client keeps appending to it: try again"));
            } else {
                let wake = state.table.next_end(SERVICE, now).map_or(until, |ends| ends.min(until));
                state = self.wait(state, wake - now);
                state = self.after_time(state, SERVICE, Instant::now());
            }
        }
        Ok(Turn { locks: self, range })
    }

    /// Waits until the holders of locks before the restart have claimed them, or the grace period has ended.
    fn after_grace<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.awaited.is_empty() && !state.stopping {
            let now = Instant::now();
            if now >= state.grace_ends {
                let late: Vec<u64> = state.awaited.drain().map(|(client, _)| client).collect();
                drop(state);
                // Later clients have lost their locks, and say hello again.
                self.forget_rows(&late);
                self.changed.notify_all();
                return self.state.lock();
            }
            let left = state.grace_ends - now;
            state = self.wait(state, left);
        }
        state
    }

    fn after_time<'a>(&'a self, mut state: MutexGuard<'a, State>, client: u64, now: Instant) -> MutexGuard<'a, State> {
        let mut granted = Vec::new();
        state.table.time_passed(client, now, &mut granted);
        self.notify(&mut state, granted);
        state
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_for(&mut state, time);
        state
    }

    /// Queues grants for their clients.
    fn notify(&self, state: &mut State, granted: Vec<Ticket>) {
        if granted.is_empty() {
            return;
        }
        for ticket in granted {
            if let Some(live) = state.lives.get_mut(&ticket.client) {
                live.granted.push(ticket.number);
            }
        }
        self.changed.notify_all();
    }

    /// Deletes clients' rows, so that they are not awaited after the next restart. If that fails, the next grace period may be unnecessary.
    fn forget_rows(&self, clients: &[u64]) {
        let _ = write::<_, DatabaseError>(&*self.database, &mut Unwatched, |t| {
            clients.iter().for_each(|client| t.delete(Rows::State, &key_of(*client)));
            Ok(())
        });
    }
}

impl Life {
    /// Requests a lock; with a ticket, the request waits if necessary.
    ///
    /// # Errors
    /// Those of [`Table::lock`].
    pub(crate) fn lock(&self, request: &LockRequest, ticket: Option<u64>) -> Result<Outcome> {
        let mut state = self.locks.after_grace(self.locks.state.lock());
        let mut granted = Vec::new();
        let outcome = if ticket.is_some() && state.table.has(self.client, request) {
            // Repeated after a lost answer.
            Ok(Outcome::Granted)
        } else {
            state.table.lock(self.client, request, ticket, Instant::now(), &mut granted)
        };
        self.locks.notify(&mut state, granted);
        outcome
    }

    /// Grants the locks held before; returns the ranges that could not be granted.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`].
    pub(crate) fn claim(&self, claims: &[LockRequest], last: bool) -> Result<Vec<LockRange>> {
        let mut state = self.locks.state.lock();
        let in_grace = state.awaited.contains_key(&self.client) && Instant::now() < state.grace_ends;
        let mut refused = Vec::new();
        for request in claims {
            let given = state.table.has(self.client, request) || (in_grace && state.table.claim(self.client, request, Instant::now())?);
            if !given {
                refused.push(request.range);
            }
        }
        if last {
            state.awaited.remove(&self.client);
            drop(state);
            self.locks.changed.notify_all();
        }
        Ok(refused)
    }

    /// Cancels a waiting request. Returns whether it was granted before, in which case the lock is held.
    pub(crate) fn cancel(&self, number: u64, request: &LockRequest) -> bool {
        let mut state = self.locks.state.lock();
        let mut granted = Vec::new();
        let waited = state.table.cancel(Ticket { client: self.client, number }, Instant::now(), &mut granted);
        self.locks.notify(&mut state, granted);
        if let Some(live) = state.lives.get_mut(&self.client) {
            live.granted.retain(|other| *other != number);
        }
        !waited && state.table.has(self.client, request)
    }

    /// Frees the locked parts of a range.
    ///
    /// # Errors
    /// Those of [`Table::unlock`].
    pub(crate) fn unlock(&self, range: &LockRange) -> Result<()> {
        let mut state = self.locks.state.lock();
        let mut granted = Vec::new();
        let done = state.table.unlock(self.client, range, Instant::now(), &mut granted);
        self.locks.notify(&mut state, granted);
        done
    }

    /// Frees all locks of an owner on a file.
    ///
    /// # Errors
    /// Those of [`Table::unlock`].
    pub(crate) fn unlock_all(&self, file: FileId, owner: u64) -> Result<()> {
        self.unlock(&LockRange::whole(file, LockSpace::Flock, owner))?;
        self.unlock(&LockRange::whole(file, LockSpace::Record, owner))
    }

    /// Returns the holder of a conflicting lock.
    pub(crate) fn test(&self, request: &LockRequest) -> Option<HeldLock> {
        self.locks.test(Some(self.client), request)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let locks = &self.locks;
        let mut state = locks.state.lock();
        // A newer life keeps this one's locks.
        if state.lives.get(&self.client).is_none_or(|live| live.life != self.life) {
            return;
        }
        state.lives.remove(&self.client);
        // The service stops before its clients: they reclaim their locks, which are reserved for them meanwhile.
        if state.stopping && !state.table.is_idle(self.client) {
            return;
        }
        let mut granted = Vec::new();
        state.table.forget(self.client, Instant::now(), &mut granted);
        locks.notify(&mut state, granted);
        // Under the same lock, so that a newer life's row is not deleted.
        locks.forget_rows(&[self.client]);
        drop(state);
        locks.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        let mut granted = Vec::new();
        // Cannot fail: unlocking a whole range never splits one.
        let _ = state.table.unlock(SERVICE, &self.range, Instant::now(), &mut granted);
        self.locks.notify(&mut state, granted);
    }
}

fn another() -> Error {
    Error::new(ErrorKind::Access, "this client number belongs to another credential: choose another number")
}

fn key_of(client: u64) -> Vec<u8> {
    [CLIENT, &client.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::in_memory::InMemory;

    const ANA: CredentialId = CredentialId([1; 16]);
    const BOB: CredentialId = CredentialId([2; 16]);

    fn exclusive() -> LockRequest {
        LockRequest { range: LockRange::whole(FileId(7), LockSpace::Flock, 1), kind: LockKind::Exclusive, pid: 1 }
    }

    #[test]
    fn another_credential_neither_goes_on_as_a_client_nor_hears_what_it_is_granted_after_a_restart_either() {
        let database: Arc<dyn Database> = Arc::new(InMemory::default());
        let locks = Locks::start(Arc::clone(&database), &Recovery::begin(Duration::ZERO)).unwrap();
        let life = locks.hello(5, ANA, &mut Unwatched).unwrap();
        life.lock(&exclusive(), None).unwrap();
        assert_eq!(locks.hello(5, BOB, &mut Unwatched).err().unwrap().kind(), ErrorKind::Access);
        assert_eq!(locks.grants(5, BOB, Duration::ZERO).unwrap_err().kind(), ErrorKind::Access);
        assert!(locks.hello(6, BOB, &mut Unwatched).unwrap().test(&exclusive()).is_some(), "the lock is held");
        locks.stop();
        drop(life);
        let again = Locks::start(database, &Recovery::begin(Duration::from_secs(60))).unwrap();
        assert_eq!(again.hello(5, BOB, &mut Unwatched).err().unwrap().kind(), ErrorKind::Access);
        let life = again.hello(5, ANA, &mut Unwatched).unwrap();
        assert_eq!(life.claim(&[exclusive()], true).unwrap(), []);
    }

    #[test]
    fn clients_of_an_earlier_release_come_back_to_what_they_had() {
        let database: Arc<dyn Database> = Arc::new(InMemory::default());
        write::<_, DatabaseError>(&*database, &mut Unwatched, |t| {
            t.put(Rows::State, &key_of(5), Vec::new());
            Ok(())
        })
        .unwrap();
        let locks = Locks::start(database, &Recovery::begin(Duration::from_secs(60))).unwrap();
        let life = locks.hello(5, ANA, &mut Unwatched).unwrap();
        assert_eq!(life.claim(&[exclusive()], true).unwrap(), []);
    }
}
