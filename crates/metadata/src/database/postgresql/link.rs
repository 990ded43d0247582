//! The session for changes, and its recovery when it breaks.
//!
//! Changes are numbered. Those that the server may not have on stable storage yet are kept here as well. When the connection is lost, the
//! database's last number shows whether the last change was executed; when PostgreSQL crashed and lost some, they are sent again. Returned
//! but unsynced changes are lost, the newest first, only if the service and PostgreSQL both end.

use super::schema::{APPEND, Owner, owner};
use super::server::{Server, Trouble};
use crate::database::{DatabaseError, PUT_BACK};
use postgres::{Client, Statement};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two attempts to connect.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Attempts at a change that conflicts with other transactions; only a service that takes over can conflict.
const ATTEMPTS: u32 = 100;

/// One row of the log: the records of a group of transactions.
#[derive(Debug)]
pub(super) struct Change {
    pub number: u64,
    pub records: Vec<u8>,
}

impl Change {
    fn bytes(&self) -> u64 {
        self.records.len() as u64
    }
}

/// The session for changes, and the changes that PostgreSQL may lose.
pub(super) struct Link {
    server: Arc<Server>,
    store: u64,
    epoch: i64,
    session: Option<Session>,
    /// Changes that the server has or is to get, and may lose; in order.
    kept: VecDeque<Change>,
    kept_bytes: u64,
    /// The last change on stable storage.
    safe: u64,
    /// The last change known to be in the tables.
    applied: u64,
}

struct Session {
    client: Client,
    append: Statement,
}

/// A change that failed.
#[derive(Debug)]
pub(super) struct NotApplied {
    pub error: DatabaseError,
    /// Whether the change is known not to have been executed, so that the next may be tried.
    pub clean: bool,
}

impl Link {
    /// Creates a link to a database whose last change on stable storage is `safe`.
    pub(super) fn new(server: Arc<Server>, store: u64, epoch: i64, safe: u64) -> Link {
        Link { server, store, epoch, session: None, kept: VecDeque::new(), kept_bytes: 0, safe, applied: 0 }
    }

    /// Records that everything up to this change is in the tables, on stable storage.
    pub(super) fn is_applied(&mut self, change: u64) {
        self.applied = self.applied.max(change);
        self.is_safe(change);
    }

    /// Records that everything up to this change is on stable storage.
    pub(super) fn is_safe(&mut self, change: u64) {
        self.safe = self.safe.max(change);
        while let Some(oldest) = self.kept.pop_front_if(|oldest| oldest.number <= change) {
            self.kept_bytes -= oldest.bytes();
        }
    }

    /// Returns the bytes of kept changes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Appends a change in one round trip. Waits for an unreachable server.
    pub(super) fn append(&mut self, change: Change) -> Result<(), NotApplied> {
        let number = change.number;
        self.kept_bytes += change.bytes();
        self.kept.push_back(change);
        let applied = self.persist(|link| link.send_from(number));
        if applied.as_ref().is_err_and(|failed| failed.clean)
            && let Some(newest) = self.kept.pop_back()
        {
            self.kept_bytes -= newest.bytes();
        }
        applied
    }

    /// Makes the server have all changes: sends those again that it has lost.
    pub(super) fn repair(&mut self) -> Result<(), NotApplied> {
        self.session = None;
        self.persist(|link| link.session().map(drop))
    }

    /// Repeats `work` until it succeeds or is refused, or the server's patience is exceeded.
    fn persist(&mut self, work: impl Fn(&mut Link) -> Result<(), Trouble>) -> Result<(), NotApplied> {
        let (began, mut attempts) = (Instant::now(), 0);
        loop {
            let (said, clean) = match work(self) {
                Ok(()) => return Ok(()),
                Err(Trouble::Refused(error)) => return Err(NotApplied { clean: error.full, error }),
                Err(Trouble::Fenced) => return Err(NotApplied { error: taken_over(&self.server), clean: false }),
                Err(Trouble::Again) if attempts < ATTEMPTS => {
                    attempts += 1;
                    continue;
                }
                Err(Trouble::Again) => ("it kept conflicting with other transactions".to_owned(), true),
                Err(Trouble::ReadOnly) => ("it has become read-only".to_owned(), false),
                Err(Trouble::Lost(said)) => (said, false),
            };
            self.session = None;
            if began.elapsed() >= self.server.patience || clean {
                return Err(NotApplied { error: lost(&self.server, began.elapsed(), &said), clean });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends the kept changes from `number` on, over a session whose database has all earlier ones.
    fn send_from(&mut self, number: u64) -> Result<(), Trouble> {
        if self.session()? {
            return Ok(());
        }
        let (Some(session), epoch) = (self.session.as_mut(), self.epoch) else { return Ok(()) };
        self.kept.iter().filter(|change| change.number >= number).try_for_each(|change| session.send(&self.server, epoch, change))
    }

    /// Opens the session if needed; a new one first reads the database's last change, and sends all later ones. Returns whether it is new.
    fn session(&mut self) -> Result<bool, Trouble> {
        if self.session.is_some() {
            return Ok(false);
        }
        let mut client = self.server.connect()?;
        let has = self.check(&mut client)?;
        let append = client.prepare(APPEND).map_err(|e| self.server.trouble(&e))?;
        let mut session = Session { client, append };
        for change in self.kept.iter().filter(|change| change.number > has) {
            session.send(&self.server, self.epoch, change)?;
        }
        self.session = Some(session);
        Ok(true)
    }
}

impl Link {
    /// Returns the store.
    pub(super) fn store(&self) -> u64 {
        self.store
    }

    /// Returns the last change of the database; refuses one that is no longer ours, or that has lost what was on stable storage.
    pub(super) fn check(&self, client: &mut Client) -> Result<u64, Trouble> {
        let Some(Owner { epoch, change, last, .. }) = owner(&self.server, client, self.store)? else {
            let problem = format!("it no longer contains this store: {PUT_BACK}");
            return Err(Trouble::Refused(self.server.error(problem)));
        };
        if epoch != self.epoch {
            return Err(Trouble::Fenced);
        }
        let number = |of: i64| u64::try_from(of).unwrap_or(0);
        for (was, is) in [(self.safe, number(last)), (self.applied, number(change))] {
            if is < was {
                let problem = format!(
                    "it has gone back from change {was} to change {is}, as a standby does that is promoted before it has everything: start the \
                     metadata service again, it says what is missing"
                );
                return Err(Trouble::Refused(self.server.error(problem)));
            }
        }
        Ok(number(last))
    }
}

impl Session {
    fn send(&mut self, server: &Server, epoch: i64, change: &Change) -> Result<(), Trouble> {
        let number = i64::try_from(change.number).unwrap_or(i64::MAX);
        server.asks();
        self.client.execute(&self.append, &[&number, &epoch, &change.records]).map_err(|e| server.trouble(&e))?;
        Ok(())
    }
}

/// Returns the error of a service that has been superseded.
pub(super) fn taken_over(server: &Server) -> DatabaseError {
    server.error("another metadata service has taken over, and this one no longer answers: start it again as a standby")
}

/// Returns the error for a PostgreSQL that was unreachable for too long.
pub(super) fn lost(server: &Server, waited: Duration, said: &str) -> DatabaseError {
    server.error(format!("PostgreSQL was lost and is not back after {} s ({said}): start it again", waited.as_secs()))
}
