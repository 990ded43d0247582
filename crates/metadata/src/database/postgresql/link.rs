//! The session over which changes go, and what becomes of them when it breaks.
//!
//! Changes are numbered. Those that the server has, but perhaps not yet on stable storage, are kept here as well. So when the connection
//! is lost, the number that the database has come to says whether the last change was carried out; and when PostgreSQL crashed and lost
//! some, they are sent again. Only where both end, the service and PostgreSQL, changes that were returned and not synced are lost, the newest first.

use super::schema::{APPEND, Owner, owner};
use super::server::{Server, Trouble};
use crate::database::{DatabaseError, PUT_BACK};
use postgres::{Client, Statement};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to reach it.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Attempts at a change that others come in between of: there are no others but who takes over.
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

/// See the module.
pub(super) struct Link {
    server: Arc<Server>,
    store: u64,
    epoch: i64,
    session: Option<Session>,
    /// What the server has, or is to have, and may lose; in order.
    kept: VecDeque<Change>,
    kept_bytes: u64,
    /// The last change that it cannot lose any more.
    safe: u64,
    /// The last change that is in the tables, as far as is known here.
    applied: u64,
}

struct Session {
    client: Client,
    append: Statement,
}

/// A change could not be made.
#[derive(Debug)]
pub(super) struct NotApplied {
    pub error: DatabaseError,
    /// Whether it is known that nothing was done, and the next one may be tried.
    pub clean: bool,
}

impl Link {
    /// Over a database whose last change is `safe` on stable storage.
    pub(super) fn new(server: Arc<Server>, store: u64, epoch: i64, safe: u64) -> Link {
        Link { server, store, epoch, session: None, kept: VecDeque::new(), kept_bytes: 0, safe, applied: 0 }
    }

    /// Everything up to this change is in the tables, on stable storage.
    pub(super) fn is_applied(&mut self, change: u64) {
        self.applied = self.applied.max(change);
        self.is_safe(change);
    }

    /// Everything up to this change is on stable storage.
    pub(super) fn is_safe(&mut self, change: u64) {
        self.safe = self.safe.max(change);
        while let Some(oldest) = self.kept.pop_front_if(|oldest| oldest.number <= change) {
            self.kept_bytes -= oldest.bytes();
        }
    }

    /// Bytes of changes that are kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Appends a change: one round trip. Waits for a server that is away.
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

    /// Sees to it that the server has all changes: sends those again that it has lost.
    pub(super) fn repair(&mut self) -> Result<(), NotApplied> {
        self.session = None;
        self.persist(|link| link.session().map(drop))
    }

    /// Does `work` until it is done, or refused, or the server was away for too long.
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
                Err(Trouble::Again) => ("other transactions came in between all the time".to_owned(), true),
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

    /// Sends what is kept from `number` on, over a session that has what is before it.
    fn send_from(&mut self, number: u64) -> Result<(), Trouble> {
        if self.session()? {
            return Ok(());
        }
        let (Some(session), epoch) = (self.session.as_mut(), self.epoch) else { return Ok(()) };
        self.kept.iter().filter(|change| change.number >= number).try_for_each(|change| session.send(&self.server, epoch, change))
    }

    /// The session; a new one first finds out how far the database has come, and sends all that is kept and not there. Whether it is new.
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
    /// The last change that the database has; refuses one that is not ours any more, or has lost what it could not lose.
    pub(super) fn check(&self, client: &mut Client) -> Result<u64, Trouble> {
        let Some(Owner { epoch, change, last, .. }) = owner(&self.server, client, self.store)? else {
            let problem = format!("everything of this store is gone from it: {PUT_BACK}");
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

/// Another service is active.
pub(super) fn taken_over(server: &Server) -> DatabaseError {
    server.error("another metadata service has taken over, and this one changes and answers nothing any more: start it again to stand by")
}

/// PostgreSQL was away for too long.
pub(super) fn lost(server: &Server, waited: Duration, said: &str) -> DatabaseError {
    server.error(format!("PostgreSQL was lost and is not back after {} s ({said}): start it again", waited.as_secs()))
}
