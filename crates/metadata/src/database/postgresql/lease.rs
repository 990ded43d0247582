//! The lease: a service is active from when it holds the advisory lock and has raised the epoch until another service raises it.
//!
//! PostgreSQL releases the lock with the session, so a standby succeeds a killed service immediately. A machine that fails silently keeps
//! its session; a standby succeeds it when its *beat*, a counter that the active service increments every second, has not changed for
//! [`STALE`]. The active service stops answering [`VALID`] after the last acknowledged beat, so that it never returns data that a successor
//! has changed. Changes need no such clock, since each is checked against the epoch.

use super::link::{PAUSE, lost, taken_over};
use super::options::Options;
use super::schema::{LOCK, check_rights, check_whole, create, holders, owner};
use super::server::{Server, Trouble};
use super::tail::{self, Tail};
use crate::database::DatabaseError;
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};

/// Interval between beats.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// Validity of an acknowledged beat, from when it was sent.
pub(super) const VALID: Duration = Duration::from_secs(6);
/// Time without a new beat after which a service is considered dead.
pub(super) const STALE: Duration = Duration::from_secs(8);

/// The time within which the server ends the session of a client that has ended.
const ENDING: Duration = Duration::from_secs(1);

/// One beat. A durable one puts all earlier commits on stable storage. Returns the last change of the database.
const BEAT_STATEMENT: &str = "WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', $2, true)) \
    UPDATE thalweg.lease SET beat = beat + 1 FROM thalweg.owner, durable WHERE lease.epoch = $1 AND owner.epoch = $1 \
    RETURNING greatest(owner.change, (SELECT max(number) FROM thalweg.log))";

/// The lease of the active service.
pub(super) struct Lease {
    server: Arc<Server>,
    epoch: i64,
    session: Mutex<Option<Session>>,
    state: Mutex<State>,
    renewed: Condvar,
    ended: OnceLock<DatabaseError>,
    notify: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_stopping: AtomicBool,
}

struct Session {
    client: Client,
    /// Whether it holds the lock. A session that replaces a lost one may have to wait until the server notices the loss.
    has_lock: bool,
}

struct State {
    /// When the last acknowledged beat was sent, on a clock that includes suspend.
    sent: Duration,
}

/// Returns the time since boot, including suspend.
pub(super) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl Lease {
    /// Creates a lease taken at `sent`, over the session that holds the lock.
    pub(super) fn new(server: Arc<Server>, epoch: i64, client: Client, sent: Duration) -> Lease {
        Lease {
            server,
            epoch,
            session: Mutex::new(Some(Session { client, has_lock: true })),
            state: Mutex::new(State { sent }),
            renewed: Condvar::new(),
            ended: OnceLock::new(),
            notify: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Checks that this service is active at this moment; waits for a late beat.
    pub(super) fn check(&self) -> Result<(), DatabaseError> {
        let began = Instant::now();
        let mut state = self.state.lock();
        loop {
            if let Some(ended) = self.ended.get() {
                return Err(ended.clone());
            }
            if now().saturating_sub(state.sent) < VALID {
                return Ok(());
            }
            if began.elapsed() >= self.server.patience {
                return Err(lost(&self.server, began.elapsed(), "no answer to its sign of life"));
            }
            self.renewed.wait_for(&mut state, BEAT);
        }
    }

    /// Ends the lease: nothing is answered from now on.
    pub(super) fn end(&self, error: DatabaseError) {
        let _ = self.ended.set(error);
        self.renewed.notify_all();
        if let Some(notify) = self.notify.lock().take() {
            notify();
        }
    }

    /// Calls `notify` when the lease ends, or immediately if it has.
    pub(super) fn on_end(&self, notify: Box<dyn FnOnce() + Send>) {
        let mut waiting = self.notify.lock();
        match self.ended() {
            Some(_) => notify(),
            None => *waiting = Some(notify),
        }
    }

    /// Returns the error that ended the lease.
    pub(super) fn ended(&self) -> Option<&DatabaseError> {
        self.ended.get()
    }

    /// Stops the beats.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.renewed.notify_all();
    }

    /// Waits until the next beat is due; `false` if beats have stopped.
    pub(super) fn wait_for_next(&self) -> bool {
        let mut state = self.state.lock();
        if !self.is_stopping.load(Ordering::Acquire) && self.ended().is_none() {
            self.renewed.wait_for(&mut state, BEAT);
        }
        !self.is_stopping.load(Ordering::Acquire) && self.ended().is_none()
    }

    /// Sends one beat without retries; returns the last change of the database.
    pub(super) fn beat(&self, durable: bool) -> Result<u64, Trouble> {
        let mut held = self.session.lock();
        if held.is_none() {
            let mut client = self.server.connect()?;
            prepare(&self.server, &mut client)?;
            *held = Some(Session { client, has_lock: false });
        }
        let Some(session) = held.as_mut() else { return Err(Trouble::Lost("no session".into())) };
        let sent = now();
        let beaten = session.beat(&self.server, self.epoch, durable);
        let found = beaten.inspect_err(|trouble| {
            if !matches!(trouble, Trouble::Again) {
                *held = None;
            }
        })?;
        let mut state = self.state.lock();
        state.sent = state.sent.max(sent);
        drop(state);
        self.renewed.notify_all();
        Ok(found)
    }

    /// Returns the error of a lease whose epoch has been superseded.
    pub(super) fn taken_over(&self) -> DatabaseError {
        taken_over(&self.server)
    }
}

impl Session {
    fn beat(&mut self, server: &Server, epoch: i64, durable: bool) -> Result<u64, Trouble> {
        if !self.has_lock {
            self.has_lock = try_lock(server, &mut self.client)?;
        }
        let rows = self.client.query(BEAT_STATEMENT, &[&epoch, &if durable { "on" } else { "off" }]).map_err(|e| server.trouble(&e))?;
        let Some(row) = rows.first() else { return Err(Trouble::Fenced) };
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}

/// Lets beats see what is committed, so that beats and changes do not wait for each other.
pub(super) fn prepare(server: &Server, client: &mut Client) -> Result<(), Trouble> {
    client.batch_execute("SET default_transaction_isolation = 'read committed'").map_err(|e| server.trouble(&e))
}

/// Takes the lock of the active service, if it is free.
pub(super) fn try_lock(server: &Server, client: &mut Client) -> Result<bool, Trouble> {
    let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).map_err(|e| server.trouble(&e))?;
    Ok(row.get(0))
}

/// A lease that was just taken.
pub(super) struct Taken {
    /// The session that holds the lock.
    pub session: Client,
    pub epoch: i64,
    /// The last change of the database, on stable storage.
    pub change: u64,
    /// The log after what is in the tables.
    pub tail: Tail,
    /// When the first beat was sent.
    pub sent: Duration,
    /// A different value means that returned changes may have been lost.
    pub incarnation: String,
}

/// Opens a session on a database that can belong to this store; returns whether it already does.
pub(super) fn inspect(server: &Server, options: &Options) -> Result<(Client, bool), DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let mut client = server.connect().map_err(at_start)?;
    prepare(server, &mut client).map_err(at_start)?;
    let is_made = owner(server, &mut client, options.store).map_err(at_start)?.is_some();
    if !is_made && !options.initialise {
        let what = "check that it is the right one; --initialise starts with an empty store, and its earlier files are lost";
        return Err(server.error(format!("it holds no metadata: {what}")));
    }
    if is_made {
        check_whole(server, &mut client).map_err(at_start)?;
    }
    check_rights(server, &mut client, is_made)?;
    Ok((client, is_made))
}

/// Becomes the active service of a store: performs all checks first, and raises the epoch last.
pub(super) fn take(server: &Server, options: &Options) -> Result<Taken, DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let (mut client, is_made) = inspect(server, options)?;
    if !is_made {
        create(server, &mut client, options.store).map_err(at_start)?;
    }
    let removed = || server.error("its schema was removed while the service started");
    let found = owner(server, &mut client, options.store).map_err(at_start)?.ok_or_else(removed)?;
    let (epoch, holder) = (found.epoch, &found.holder);
    let takes_over = options.take_over == Some(epoch);
    let begun = Instant::now();
    let mut is_free = try_lock(server, &mut client).map_err(at_start)?;
    // The session of a service that has just ended may still be closing.
    while !is_free && !takes_over && begun.elapsed() < ENDING {
        std::thread::sleep(PAUSE);
        is_free = try_lock(server, &mut client).map_err(at_start)?;
    }
    if !is_free && !takes_over {
        let problem = format!(
            "in use by another metadata service, {holder}: only one is active at a time; further ones are standbys (`standby` below [metadata] in store.toml)"
        );
        return Err(DatabaseError { held: true, ..server.error(problem) });
    }
    tail::read(server, &mut client, &found).map_err(at_start)?;
    let sent = now();
    let (last, incarnation) = raise(server, &mut client, epoch, &options.holder)?;
    if !is_free {
        expel(server, &mut client)?;
    }
    // Reads what the previous service wrote to the tables and the log until its epoch ended.
    let found = owner(server, &mut client, options.store).map_err(at_start)?.ok_or_else(removed)?;
    let tail = tail::read(server, &mut client, &found).map_err(at_start)?;
    Ok(Taken { session: client, epoch: epoch + 1, change: last, tail, sent, incarnation })
}

/// Raises the epoch after `epoch`. Returns the number of the last change, and the incarnation.
fn raise(server: &Server, client: &mut Client, epoch: i64, holder: &str) -> Result<(u64, String), DatabaseError> {
    loop {
        match client.query_opt(RAISE, &[&epoch, &holder]) {
            Ok(Some(raised)) => return Ok((u64::try_from(raised.get::<_, i64>(0)).unwrap_or(0), raised.get(1))),
            Ok(None) => return Err(DatabaseError { held: true, ..server.at_start(Trouble::Fenced) }),
            // The previous service has just used the number. It has at most one change in flight.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {}
            Err(error) => return Err(server.at_start(server.trouble(&error))),
        }
    }
}

/// Raises the epoch on stable storage, with a change without records. PostgreSQL may have lost returned changes if it was restarted since
/// the last service started.
const RAISE: &str = "WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)), \
    beaten AS (UPDATE thalweg.lease SET epoch = $1 + 1, beat = beat + 1 FROM durable WHERE epoch = $1), \
    owned AS (UPDATE thalweg.owner SET epoch = $1 + 1, holder = $2, started = pg_postmaster_start_time()::text, \
    incarnation = incarnation + CASE WHEN started = pg_postmaster_start_time()::text THEN 0 ELSE 1 END \
    FROM durable WHERE epoch = $1 RETURNING change, format('postgresql %s incarnation %s', store, incarnation) AS incarnation) \
    INSERT INTO thalweg.log (number, epoch, records) \
    SELECT greatest(change, (SELECT max(number) FROM thalweg.log)) + 1, $1 + 1, '' FROM owned \
    RETURNING number, (SELECT incarnation FROM owned)";

/// Ends the sessions of a dead service, and takes its lock.
fn expel(server: &Server, client: &mut Client) -> Result<(), DatabaseError> {
    let begun = Instant::now();
    let end = format!("SELECT pg_terminate_backend(pid) FROM {} AND pid <> pg_backend_pid()", holders());
    while !try_lock(server, client).map_err(|trouble| server.at_start(trouble))? {
        client.query(&end, &[]).map_err(|e| server.at_start(server.trouble(&e)))?;
        if begun.elapsed() > VALID {
            return Err(server.error("the session of the service that was active before cannot be ended: end it in PostgreSQL"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
