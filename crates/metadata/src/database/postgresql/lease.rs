//! Who is active: one service, from when it has the advisory lock and has raised the epoch until another one raises it.
//!
//! The lock goes with the session that holds it, so that a service that was killed is followed at once. A machine that is gone without a word
//! keeps its session; it is followed when its *beat*, a number that the active service makes grow every second, has not changed for
//! [`STALE`]. So the active service answers nothing after [`VALID`] without a beat that it knows has arrived: nobody reads what
//! another service has changed meanwhile. Changes need no such clock, since the epoch is held against each.

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

/// Between two beats.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// A beat that is known to have arrived is good for this long, from when it was sent.
pub(super) const VALID: Duration = Duration::from_secs(6);
/// Without a new beat for this long, a service is taken for gone.
pub(super) const STALE: Duration = Duration::from_secs(8);

/// The server ends a session within this time when its client has ended.
const ENDING: Duration = Duration::from_secs(1);

/// One beat: durable if asked for, which puts all that was committed before it on stable storage. Answers how far the database has come.
const BEAT_STATEMENT: &str = "WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', $2, true)) \
    UPDATE thalweg.lease SET beat = beat + 1 FROM thalweg.owner, durable WHERE lease.epoch = $1 AND owner.epoch = $1 \
    RETURNING greatest(owner.change, (SELECT max(number) FROM thalweg.log))";

/// The active service's part.
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
    /// Whether it has the lock. One that was made after another was lost may have to wait until the server notices that loss.
    has_lock: bool,
}

struct State {
    /// When the last beat that has arrived was sent, by a clock that goes on while the machine sleeps.
    sent: Duration,
}

/// Time since the machine was started, sleep included.
pub(super) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl Lease {
    /// One that was taken at `sent`, over the session that has the lock.
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

    /// Whether this service is active at this moment; waits for a beat that is late.
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

    /// It is over: from now on nothing is answered.
    pub(super) fn end(&self, error: DatabaseError) {
        let _ = self.ended.set(error);
        self.renewed.notify_all();
        if let Some(notify) = self.notify.lock().take() {
            notify();
        }
    }

    /// Calls `notify` when it is over: at once, if it is already.
    pub(super) fn on_end(&self, notify: Box<dyn FnOnce() + Send>) {
        let mut waiting = self.notify.lock();
        match self.ended() {
            Some(_) => notify(),
            None => *waiting = Some(notify),
        }
    }

    /// Why it is over.
    pub(super) fn ended(&self) -> Option<&DatabaseError> {
        self.ended.get()
    }

    /// No further beats.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.renewed.notify_all();
    }

    /// Waits for the time of the next beat; `false`: there is none.
    pub(super) fn wait_for_next(&self) -> bool {
        let mut state = self.state.lock();
        if !self.is_stopping.load(Ordering::Acquire) && self.ended().is_none() {
            self.renewed.wait_for(&mut state, BEAT);
        }
        !self.is_stopping.load(Ordering::Acquire) && self.ended().is_none()
    }

    /// One beat, once; the last change that the database has.
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

    /// The error that it ended with, when the epoch is not ours any more.
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

/// Beats do not wait for changes, nor the other way round: each sees what is committed.
pub(super) fn prepare(server: &Server, client: &mut Client) -> Result<(), Trouble> {
    client.batch_execute("SET default_transaction_isolation = 'read committed'").map_err(|e| server.trouble(&e))
}

/// Takes the lock of the active service, if it is free.
pub(super) fn try_lock(server: &Server, client: &mut Client) -> Result<bool, Trouble> {
    let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).map_err(|e| server.trouble(&e))?;
    Ok(row.get(0))
}

/// A lease that has just been taken.
pub(super) struct Taken {
    /// The session that has the lock.
    pub session: Client,
    pub epoch: i64,
    /// The last change that the database has, on stable storage.
    pub change: u64,
    /// What is not in the tables yet.
    pub tail: Tail,
    /// When the first beat was sent.
    pub sent: Duration,
    /// Another one says that returned changes may have been lost.
    pub incarnation: String,
}

/// A session on a database that can be this store's, and whether it is already.
pub(super) fn look(server: &Server, options: &Options) -> Result<(Client, bool), DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let mut client = server.connect().map_err(at_start)?;
    prepare(server, &mut client).map_err(at_start)?;
    let is_made = owner(server, &mut client, options.store).map_err(at_start)?.is_some();
    if !is_made && !options.initialise {
        let what = "is it the right one? --initialise begins with an empty store: the files that there were are lost";
        return Err(server.error(format!("it holds no metadata: {what}")));
    }
    if is_made {
        check_whole(server, &mut client).map_err(at_start)?;
    }
    check_rights(server, &mut client, is_made)?;
    Ok((client, is_made))
}

/// Becomes the active service of a store: looks at all that could be wrong first, and raises the epoch last.
pub(super) fn take(server: &Server, options: &Options) -> Result<Taken, DatabaseError> {
    let at_start = |trouble| server.at_start(trouble);
    let (mut client, is_made) = look(server, options)?;
    if !is_made {
        create(server, &mut client, options.store).map_err(at_start)?;
    }
    let removed = || server.error("its schema was removed while the service started");
    let found = owner(server, &mut client, options.store).map_err(at_start)?.ok_or_else(removed)?;
    let (epoch, holder) = (found.epoch, &found.holder);
    let takes_over = options.take_over == Some(epoch);
    let begun = Instant::now();
    let mut is_free = try_lock(server, &mut client).map_err(at_start)?;
    // The session of a service that has just ended may still be ending.
    while !is_free && !takes_over && begun.elapsed() < ENDING {
        std::thread::sleep(PAUSE);
        is_free = try_lock(server, &mut client).map_err(at_start)?;
    }
    if !is_free && !takes_over {
        let problem = format!(
            "in use by another metadata service, {holder}: one is active at a time, others stand by (`standby` below [metadata] in store.toml)"
        );
        return Err(DatabaseError { held: true, ..server.error(problem) });
    }
    tail::read(server, &mut client, &found).map_err(at_start)?;
    let sent = now();
    let (last, incarnation) = raise(server, &mut client, epoch, &options.holder)?;
    if !is_free {
        expel(server, &mut client)?;
    }
    // What the one before has put into the tables, and appended, until its epoch was over.
    let found = owner(server, &mut client, options.store).map_err(at_start)?.ok_or_else(removed)?;
    let tail = tail::read(server, &mut client, &found).map_err(at_start)?;
    Ok(Taken { session: client, epoch: epoch + 1, change: last, tail, sent, incarnation })
}

/// Raises the epoch after `epoch`. The number of the last change, and which incarnation it is.
fn raise(server: &Server, client: &mut Client, epoch: i64, holder: &str) -> Result<(u64, String), DatabaseError> {
    loop {
        match client.query_opt(RAISE, &[&epoch, &holder]) {
            Ok(Some(raised)) => return Ok((u64::try_from(raised.get::<_, i64>(0)).unwrap_or(0), raised.get(1))),
            Ok(None) => return Err(DatabaseError { held: true, ..server.at_start(Trouble::Fenced) }),
            // The service before has just used the number. It has one change in flight.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {}
            Err(error) => return Err(server.at_start(server.trouble(&error))),
        }
    }
}

/// Raises the epoch, on stable storage, with a change without records. PostgreSQL may have lost returned changes if it was started again since
/// the last service began.
const RAISE: &str = "WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true)), \
    beaten AS (UPDATE thalweg.lease SET epoch = $1 + 1, beat = beat + 1 FROM durable WHERE epoch = $1), \
    owned AS (UPDATE thalweg.owner SET epoch = $1 + 1, holder = $2, started = pg_postmaster_start_time()::text, \
    incarnation = incarnation + CASE WHEN started = pg_postmaster_start_time()::text THEN 0 ELSE 1 END \
    FROM durable WHERE epoch = $1 RETURNING change, format('postgresql %s incarnation %s', store, incarnation) AS incarnation) \
    INSERT INTO thalweg.log (number, epoch, records) \
    SELECT greatest(change, (SELECT max(number) FROM thalweg.log)) + 1, $1 + 1, '' FROM owned \
    RETURNING number, (SELECT incarnation FROM owned)";

/// Ends the sessions of a service that is gone, and takes its lock.
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
