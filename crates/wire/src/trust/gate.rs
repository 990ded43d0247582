//! A server's admission check: the store's secret, revoked and expired credentials, and a count of refusals.

use super::credential::Credential;
use super::identity::{CredentialId, Identity};
use super::secret::Secret;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_base::sync::Mutex;

/// Minimum time between two log lines about refused connections.
const LINES_APART: Duration = Duration::from_secs(10);

/// Why a peer with a valid secret is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Revoked,
    Expired,
}

/// The admission check shared by all servers of one store in a process.
pub struct Gate {
    store: u64,
    root: Secret,
    revoked: Mutex<BTreeSet<CredentialId>>,
    /// Incremented at each revocation.
    changes: AtomicU64,
    refused: AtomicU64,
    line: Mutex<Line>,
    notified: Mutex<Vec<OnRevoked>>,
}

type OnRevoked = Box<dyn Fn(&[CredentialId]) + Send + Sync>;

type Notify = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Line {
    notify: Option<Notify>,
    last: Option<Instant>,
    unreported: u64,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({:016x})", self.store)
    }
}

impl Gate {
    /// Makes the gate of the store that owns this credential.
    ///
    /// # Errors
    /// When the credential is not the store's own.
    pub fn new(credential: &Credential) -> Result<Gate> {
        let root = credential.root().cloned().ok_or_else(|| {
            let problem = format!("a server needs the store's own credential, and this one is `{}`'s", credential.identity.owner);
            Error::new(ErrorKind::Access, problem)
        })?;
        let (revoked, line, notified) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Gate { store: credential.store, root, revoked, changes: AtomicU64::new(0), refused: AtomicU64::new(0), line, notified })
    }

    /// Returns a gate that admits no client, for a store without credentials.
    pub fn of_nobody() -> Gate {
        Gate::new(&Credential::new_store(7)).expect("a store's own")
    }

    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    pub(crate) fn root(&self) -> &Secret {
        &self.root
    }

    /// Refuses these credentials from now on, on open connections too.
    pub fn revoke(&self, ids: &[CredentialId]) {
        {
            let mut revoked = self.revoked.lock();
            let before = revoked.len();
            revoked.extend(ids);
            if revoked.len() == before {
                return;
            }
        }
        self.changes.fetch_add(1, Ordering::Release);
        self.notified.lock().iter().for_each(|notify| notify(ids));
    }

    /// Calls `notify` with every later revocation.
    pub(crate) fn on_revoked(&self, notify: impl Fn(&[CredentialId]) + Send + Sync + 'static) {
        self.notified.lock().push(Box::new(notify));
    }

    /// Returns a number that grows with each [`Gate::revoke`]: while it is unchanged, earlier checks still hold.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Checks whether this identity may connect now.
    pub(crate) fn check(&self, identity: &Identity) -> std::result::Result<(), Refused> {
        if identity.until_s.is_some_and(|until| until <= now_s()) {
            return Err(Refused::Expired);
        }
        if self.revoked.lock().contains(&identity.id) {
            return Err(Refused::Revoked);
        }
        Ok(())
    }

    /// Like `check`, but returns an error meant for a client that is already connected.
    pub fn still(&self, identity: &Identity) -> Result<()> {
        let problem = match self.check(identity) {
            Ok(()) => return Ok(()),
            Err(Refused::Revoked) => "was revoked",
            Err(Refused::Expired) => "has expired",
        };
        Err(Error::new(
            ErrorKind::Access,
            format!("the credential of `{}` {problem}: ask the store's administrator for another", identity.owner),
        ))
    }

    /// Calls `notify` with a log line about refused connections, rate-limited.
    pub fn on_refused(&self, notify: impl Fn(&str) + Send + Sync + 'static) {
        self.line.lock().notify = Some(Arc::new(notify));
    }

    /// Returns the number of connections refused since this server started.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refused connection, and reports at most once in ten seconds.
    pub(crate) fn count_refused(&self, server: &str, from: std::net::IpAddr, why: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let (notify, many) = {
            let mut line = self.line.lock();
            line.unreported += 1;
            if line.last.is_some_and(|last| last.elapsed() < LINES_APART) {
                return;
            }
            line.last = Some(Instant::now());
            (line.notify.clone(), std::mem::take(&mut line.unreported))
        };
        if let Some(notify) = notify {
            let others = if many > 1 { format!(" ({many} since the last such line)") } else { String::new() };
            notify(&format!("server {server}: refused a connection from {from}: {why}{others}"));
        }
    }
}

/// Returns seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Rights;

    #[test]
    fn strangers_are_counted_and_reported_in_one_line_for_many() {
        let gate = Gate::new(&Credential::new_store(7)).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&lines);
        gate.on_refused(move |line| theirs.lock().push(line.to_owned()));
        (0..1000).for_each(|_| gate.count_refused("io0", [127, 0, 0, 1].into(), "no credential"));
        assert_eq!(gate.refused(), 1000);
        assert_eq!(*lines.lock(), ["server io0: refused a connection from 127.0.0.1: no credential"]);
    }

    #[test]
    fn only_the_stores_own_credential_makes_a_gate() {
        let store = Credential::new_store(7);
        assert!(Gate::new(&store.derive("ana", Rights::Write, None).unwrap()).is_err());
        assert!(Gate::new(&store.read_only().unwrap()).is_err());
    }
}
