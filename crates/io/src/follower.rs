//! An I/O server's own connection to the metadata service, over which it learns of the service's starts and of the metadata's
//! progress.
//!
//! Only the service at the configured address is trusted: starts reported by clients would be recorded permanently, and a lying
//! client could keep the store from ever starting again.
//!
//! One thread keeps asking for the next change to witness. The service answers late: when a client syncs, or after a while. The
//! thread's next request confirms that the change is on stable storage here, so that a sync costs one message each way and no
//! connection of its own. While the service is away the thread retries, and no request waits for it, except one for a datafile of
//! an unknown epoch: then the service is asked immediately, once for all waiting requests.

use super::epoch::Starts;
use super::lots::More;
use super::options::IoServerOptions;
use super::revoked::KnownRevoked;
use super::target::Target;
use std::collections::{BTreeMap, HashMap};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Finally, Mutex};
use thalweg_trace::Tracer;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{ServiceKind, ServiceStart, Witnessed};
use thalweg_wire::protocol::io::{LotId, TargetId};
use thalweg_wire::protocol::lots::{LotOperation, LotReport};
use thalweg_wire::protocol::metadata::{MetadataReply, MetadataRequest, Operation};
use thalweg_wire::{Connect, Connection, Kind, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// How long the service has to report its start.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between attempts to reach the service.
const AGAIN: Duration = Duration::from_millis(200);
/// Minimum interval between questions about an epoch: limits the cost to the service of a client that invents epochs.
const REST: Duration = Duration::from_millis(20);

/// An I/O server's connection to the metadata service.
pub(super) struct Follower {
    server: String,
    address: String,
    options: Connect,
    revoked: KnownRevoked,
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// The service's start at its last answer.
    start: ServiceStart,
    /// A start of the service that has lost witnessed changes, and its error.
    older: Option<(ServiceStart, Error)>,
    /// The thread's connection, for stopping it.
    line: Option<TcpStream>,
    /// Connections with requests about lots, for stopping them.
    asking: HashMap<u64, TcpStream>,
    asked: u64,
    stopping: bool,
    /// Questions begun and answered, and the last failure.
    begun: u64,
    answered: u64,
    failure: Option<Error>,
    rested: Option<Instant>,
}

impl Follower {
    /// Makes the follower of a server; `options.metadata` is the metadata service's address (empty: none).
    pub(super) fn new(options: &IoServerOptions) -> Arc<Follower> {
        let (server, address) = (options.name.clone(), options.metadata.clone());
        let revoked = KnownRevoked::new(&options.serve.gate);
        let options = Connect {
            timeout: PATIENCE,
            client: server.clone(),
            node: options.node.clone(),
            store: Some(options.store),
            credentials: options.credentials.clone(),
            refused: Duration::ZERO,
            ..Connect::default()
        };
        Arc::new(Follower { server, address, options, revoked, state: Mutex::default(), changed: Condvar::new(), thread: Mutex::new(None) })
    }

    /// Starts witnessing for these targets, until [`Follower::stop`].
    ///
    /// # Errors
    /// When no thread can be started, or a list of revoked credentials cannot be read.
    pub(super) fn start(self: &Arc<Follower>, targets: &Arc<BTreeMap<TargetId, Target>>) -> Result<()> {
        self.revoked.load(targets.values())?;
        if self.address.is_empty() {
            return Ok(());
        }
        let (follower, targets) = (Arc::clone(self), Arc::clone(targets));
        let work = move || {
            while !follower.is_stopping() {
                // The error does not matter: the connection is retried.
                let _ = follower.follow(&targets);
                let mut state = follower.state.lock();
                state.line = None;
                if !state.stopping {
                    follower.changed.wait_for(&mut state, AGAIN);
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("{} witness", self.server)).spawn(work);
        *self.thread.lock() = Some(thread.map_err(|e| Error::system("starting a thread", e))?);
        Ok(())
    }

    /// Stops the thread, which never waits longer than [`PATIENCE`].
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        for line in state.line.iter().chain(state.asking.values()) {
            let _ = line.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Refuses clients of a service that has lost changes witnessed here.
    ///
    /// # Errors
    /// The service's error.
    pub(super) fn check(&self, service: ServiceStart) -> Result<()> {
        match &self.state.lock().older {
            Some((start, error)) if *start == service => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Connects to this store's service, and to no other.
    fn connect(&self) -> Result<Connection> {
        let connection = Connection::connect(&self.address, &self.options)?;
        let hello = connection.hello();
        if hello.service != ServiceKind::Metadata || Some(hello.store) != self.options.store {
            return Err(Error::new(ErrorKind::Invalid, format!("{} is not the metadata service of this store", self.address)));
        }
        Ok(connection)
    }

    /// Witnesses the service's changes until the connection ends.
    fn follow(&self, targets: &BTreeMap<TargetId, Target>) -> Result<()> {
        let mut connection = self.connect()?.with_silence(limits::WITNESS_WAIT + PATIENCE)?;
        let start = connection.hello().service_start;
        {
            let mut state = self.state.lock();
            if state.stopping {
                return Ok(());
            }
            state.start = start;
            state.line = connection.stream().try_clone().ok();
        }
        loop {
            let seen = seen(targets);
            let operation = Operation::Witness { server: self.server.clone(), seen, revision: self.revoked.revision() };
            let request = MetadataRequest::of(operation);
            let reply = connection.call(&mut Tracer::off(), Kind::Metadata, &request);
            let older = reply.as_ref().err().filter(|e| e.kind() == ErrorKind::Absent);
            let older = older.map(|e| (start, Error::new(ErrorKind::Absent, e.message())));
            let mut state = self.state.lock();
            state.older = older;
            if state.stopping {
                return Ok(());
            }
            drop(state);
            match reply? {
                MetadataReply::Witness { change, accepted, revoked } => {
                    if let Some(revoked) = revoked {
                        self.revoked.learn(&revoked, targets.values())?;
                    }
                    if accepted {
                        targets.values().try_for_each(|target| target.continue_from(start))?;
                    }
                    // One target of a server suffices, and is the cheapest.
                    if let Some(target) = targets.values().next().filter(|_| change > 0) {
                        target.witness(start, change)?;
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }
}

/// Returns the latest state witnessed by any of a server's targets.
pub(super) fn seen(targets: &BTreeMap<TargetId, Target>) -> Witnessed {
    targets.values().map(Target::seen).max().unwrap_or_default()
}

impl Starts for Follower {
    fn of(&self, epoch: u64) -> Result<ServiceStart> {
        let mut state = self.state.lock();
        // Answers to questions begun before this one do not count.
        let wanted = state.begun + 1;
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            if state.start.epoch >= epoch {
                return Ok(state.start);
            }
            if state.answered >= wanted {
                return Err(state.failure.clone().unwrap_or_else(|| self.not_begun(epoch, state.start)));
            }
            let now = Instant::now();
            if now >= deadline || state.stopping {
                return Err(self.unknown(&Error::new(ErrorKind::TimedOut, "it did not answer in time")));
            }
            let rest = state.rested.map_or(Duration::ZERO, |rested| rested.saturating_duration_since(now));
            if state.begun > state.answered || !rest.is_zero() {
                let most = if rest.is_zero() { deadline - now } else { rest };
                self.changed.wait_for(&mut state, most);
                continue;
            }
            state.begun += 1;
            drop(state);
            let asked = self.connect().map(|connection| connection.hello().service_start);
            state = self.state.lock();
            state.answered = state.begun;
            state.rested = Some(Instant::now() + REST);
            state.failure = asked.as_ref().err().map(|e| self.unknown(e));
            state.start = asked.unwrap_or(state.start);
            self.changed.notify_all();
        }
    }
}

impl More for Follower {
    fn move_here(&self, lot: LotId, target: TargetId, bytes: u64) -> Result<()> {
        self.about_lots(LotOperation::MoveHere { lot, target, bytes }).map(drop)
    }

    fn reclaim(&self, target: TargetId, bytes: u64) -> Result<()> {
        self.about_lots(LotOperation::Reclaim { target, bytes }).map(drop)
    }
}

impl Follower {
    /// Asks the service on a separate connection: before it answers, it calls this server in turn, and the other connection waits
    /// for changes.
    fn about_lots(&self, operation: LotOperation) -> Result<Vec<LotReport>> {
        if self.address.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "there is no metadata service to ask"));
        }
        let mut connection = self.connect()?.with_silence(limits::LOT_PATIENCE)?;
        let line = connection.stream().try_clone().map_err(|e| Error::system("a connection", e))?;
        let number = {
            let mut state = self.state.lock();
            if state.stopping {
                return Err(Error::new(ErrorKind::Reset, "the server is stopping"));
            }
            state.asked += 1;
            let number = state.asked;
            state.asking.insert(number, line);
            number
        };
        let _asked = Finally(|| drop(self.state.lock().asking.remove(&number)));
        let request = MetadataRequest::of(Operation::Lot(operation));
        match connection.call(&mut Tracer::off(), Kind::Metadata, &request)? {
            MetadataReply::Lots(lots) => Ok(lots),
            other => Err(unexpected(&other)),
        }
    }

    fn not_begun(&self, epoch: u64, start: ServiceStart) -> Error {
        let problem = format!(
            "no file has this number: it belongs to start {epoch} of the metadata service, but the service ({}) is in start {}",
            self.address, start.epoch
        );
        Error::new(ErrorKind::Invalid, problem)
    }

    fn unknown(&self, error: &Error) -> Error {
        let problem = format!(
            "the file belongs to a start of the metadata service that is unknown here, and the service ({}) cannot be asked: {}",
            self.address,
            error.message()
        );
        Error::new(ErrorKind::Io, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::trust::{Credential, Gate};

    #[test]
    fn a_service_that_cannot_be_asked_is_an_error_in_bounded_time_for_all_who_ask() {
        // A listener that answers no greeting.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let credential = Credential::new_store(7);
        let gate = Arc::new(Gate::new(&credential).unwrap());
        let mut options = IoServerOptions::new("io0", "here", &credential, &gate);
        options.metadata = silent.local_addr().unwrap().to_string();
        let follower = Follower::new(&options);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let error = follower.of(1).unwrap_err();
                    assert!(error.kind() == ErrorKind::Io && error.message().contains("cannot be asked"), "{error}");
                });
            }
        });
        assert!(begun.elapsed() < PATIENCE * 6);
        follower.stop();
    }
}
