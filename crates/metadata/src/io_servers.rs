//! The metadata service's requests to I/O servers, and its connections to them: one per server, made on demand.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::{CommonReply, CommonRequest};
use thalweg_wire::protocol::io::{DatafileId, IoReply, IoRequest, LotId, TargetId, TargetSpace};
use thalweg_wire::protocol::lots::{Level, LotShare, LotUse, ShareRequest};
use thalweg_wire::protocol::metadata::ServerEntry;
use thalweg_wire::{Connect, Connection, Kind, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// Timeout for a server to report its machine start.
const PROMPT: Duration = Duration::from_millis(50);
/// Timeout for a server to put all writes on stable storage.
const SYNC_SILENCE: Duration = Duration::from_secs(120);
/// Back-off after a failed connection to a server.
const REST: Duration = Duration::from_millis(500);

/// The metadata service's requests to I/O servers. All are idempotent; the implementation is thread-safe.
pub trait IoServers: Send + Sync + 'static {
    /// Removes datafiles of one server; missing ones count as removed.
    ///
    /// # Errors
    /// The server is unreachable or its disk fails; then any of the datafiles may or may not be removed.
    fn remove(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<()>;

    /// Sets the sizes of datafiles of one server, durably.
    ///
    /// # Errors
    /// As for [`IoServers::remove`].
    fn truncate(&self, server: &ServerEntry, datafiles: &[(DatafileId, u64)]) -> Result<()>;

    /// Returns the sizes of datafiles of one server, in bytes; 0 for one that does not exist.
    ///
    /// # Errors
    /// As for [`IoServers::remove`].
    fn sizes(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>>;

    /// Puts all earlier writes to a server on stable storage.
    ///
    /// # Errors
    /// The server is unreachable or its disk fails.
    fn sync_all(&self, server: &ServerEntry) -> Result<()>;

    /// Sets a target's share of a lot, at the service's time `now_ns`; returns the target's use of the lot.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is no room for it, and the share is unchanged. If the server is unreachable, the share is unknown.
    fn keep_share(&self, server: &ServerEntry, target: TargetId, share: &LotShare, least: Option<Level>, now_ns: i64) -> Result<LotUse>;

    /// Removes a target's share of a lot, if any.
    ///
    /// # Errors
    /// The server is unreachable or its disk fails.
    fn release_share(&self, server: &ServerEntry, target: TargetId, lot: LotId) -> Result<()>;

    /// Returns the lots' use of a server's targets.
    ///
    /// # Errors
    /// The server is unreachable.
    fn list_shares(&self, server: &ServerEntry) -> Result<Vec<LotUse>>;

    /// Returns the space on a server's targets.
    ///
    /// # Errors
    /// The server is unreachable.
    fn space(&self, server: &ServerEntry) -> Result<Vec<TargetSpace>>;

    /// Returns the machine start of each of these servers, queried in parallel after the call; `None` for one that does not answer in about
    /// 50 ms.
    fn boots(&self, servers: &[ServerEntry]) -> Vec<Option<String>>;
}

/// I/O servers reached over the network.
pub struct Remote {
    options: Connect,
    connections: Mutex<HashMap<String, Arc<Mutex<Option<Connection>>>>>,
    asked: Arc<BootConnections>,
}

/// Connections for machine starts, by address.
#[derive(Default)]
struct BootConnections {
    lines: Mutex<HashMap<String, Line>>,
    changed: Condvar,
}

/// The connection to a server. It is used by one thread at a time, and made by a separate thread that callers wait for only until their
/// deadline.
enum Line {
    Ready(Box<Connection>),
    Used,
    Connecting,
    /// Connecting failed; no further attempt until then.
    Resting(Instant),
}

impl Remote {
    /// Creates the connections' pool; `options` are used for each.
    pub fn new(options: Connect) -> Remote {
        Remote { options, connections: Mutex::default(), asked: Arc::default() }
    }

    fn call(&self, server: &ServerEntry, request: &IoRequest) -> Result<IoReply> {
        let slot = {
            let mut connections = self.connections.lock();
            Arc::clone(connections.entry(server.address.clone()).or_default())
        };
        let mut slot = slot.lock();
        // No answer is pending on an idle connection, so anything readable is its end.
        if slot.as_mut().is_some_and(|c| c.is_broken() || c.is_readable()) {
            *slot = None;
        }
        let connection = match &mut *slot {
            Some(connection) => connection,
            empty => {
                let made = Connection::connect(&server.address, &self.options);
                empty.insert(made.map_err(|e| Error::new(e.kind(), e.message()).at_server(&server.name))?)
            }
        };
        connection.call(&mut Tracer::off(), Kind::Io, request).map_err(|e| e.at_server(&server.name))
    }

    fn call_done(&self, server: &ServerEntry, request: &IoRequest) -> Result<()> {
        match self.call(server, request)? {
            IoReply::Done => Ok(()),
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }
}

impl BootConnections {
    /// Takes a connection that is usable before `deadline`; otherwise a thread is making it.
    fn take(self: &Arc<Self>, address: &str, options: &Connect, deadline: Instant) -> Option<Box<Connection>> {
        let mut lines = self.lines.lock();
        loop {
            match lines.get(address) {
                Some(Line::Ready(_)) => {
                    let Some(Line::Ready(mut connection)) = lines.insert(address.to_owned(), Line::Used) else { unreachable!("just seen") };
                    if !connection.is_broken() && !connection.is_readable() {
                        return Some(connection);
                    }
                    // No answer is pending, so anything readable is its end.
                    lines.remove(address);
                }
                Some(Line::Resting(until)) if *until > Instant::now() => return None,
                None | Some(Line::Resting(_)) => {
                    lines.insert(address.to_owned(), Line::Connecting);
                    let (asked, place, options) = (Arc::clone(self), address.to_owned(), options.clone());
                    let connect = move || {
                        let made = Connection::connect(&place, &options);
                        let line = made.map_or_else(|_| Line::Resting(Instant::now() + REST), |made| Line::Ready(Box::new(made)));
                        asked.put(&place, line);
                    };
                    if std::thread::Builder::new().name("metadata boots".into()).spawn(connect).is_err() {
                        lines.remove(address);
                        return None;
                    }
                }
                Some(Line::Connecting | Line::Used) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.changed.wait_for(&mut lines, left);
                }
            }
        }
    }

    fn put(&self, address: &str, line: Line) {
        self.lines.lock().insert(address.to_owned(), line);
        self.changed.notify_all();
    }
}

impl IoServers for Remote {
    fn boots(&self, servers: &[ServerEntry]) -> Vec<Option<String>> {
        let deadline = Instant::now() + PROMPT;
        // Uses a short timeout, since a caller is waiting. Other connections tolerate long silence.
        let options = Connect { timeout: PROMPT, ..self.options.clone() };
        let tracer = &mut Tracer::off();
        let mut lines: Vec<Option<Box<Connection>>> = Vec::with_capacity(servers.len());
        for server in servers {
            let mut line = self.asked.take(&server.address, &options, deadline);
            if let Some(connection) = &mut line
                && connection.post(tracer, None, Kind::Common, &CommonRequest::Clock, &[], 0).is_err()
            {
                self.asked.put(&server.address, Line::Resting(Instant::now()));
                line = None;
            }
            lines.push(line);
        }
        let mut boots = Vec::with_capacity(servers.len());
        for (server, line) in servers.iter().zip(lines) {
            let Some(mut connection) = line else {
                boots.push(None);
                continue;
            };
            // All are queried before any is awaited: of several silent servers only the first is waited for.
            let answers = Instant::now() < deadline || connection.is_readable();
            let reply = if answers { connection.complete::<CommonReply>(tracer).ok() } else { None };
            if let Some(reply) = reply {
                // A connection does not outlive either machine, so the server still has the machine start that it reported when connecting.
                connection.completed(tracer, reply, None);
                boots.push(Some(connection.hello().boot_id.clone()));
                self.asked.put(&server.address, Line::Ready(connection));
            } else {
                boots.push(None);
                self.asked.put(&server.address, Line::Resting(Instant::now() + REST));
            }
        }
        boots
    }

    fn remove(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<()> {
        self.call_done(server, &IoRequest::Remove { datafiles: datafiles.to_vec() })
    }

    fn truncate(&self, server: &ServerEntry, datafiles: &[(DatafileId, u64)]) -> Result<()> {
        for batch in datafiles.chunks(thalweg_wire::limits::BATCH) {
            self.call_done(server, &IoRequest::Truncate { datafiles: batch.to_vec() })?;
            let sync = IoRequest::Sync { datafiles: batch.iter().map(|(id, _)| *id).collect() };
            match self.call(server, &sync)? {
                IoReply::Synced { .. } => {}
                other => return Err(unexpected(&other).at_server(&server.name)),
            }
        }
        Ok(())
    }

    fn keep_share(&self, server: &ServerEntry, target: TargetId, share: &LotShare, least: Option<Level>, now_ns: i64) -> Result<LotUse> {
        let request = IoRequest::Share(ShareRequest::Keep { target, share: share.clone(), least, now_ns });
        match self.call(server, &request)? {
            IoReply::Lots(kept) => {
                let ours = kept.into_iter().find(|kept| kept.target == target && kept.share.lot == share.lot);
                ours.ok_or_else(|| Error::new(ErrorKind::Protocol, "the answer is about another share").at_server(&server.name))
            }
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }

    fn release_share(&self, server: &ServerEntry, target: TargetId, lot: LotId) -> Result<()> {
        self.call_done(server, &IoRequest::Share(ShareRequest::Release { target, lot }))
    }

    fn list_shares(&self, server: &ServerEntry) -> Result<Vec<LotUse>> {
        match self.call(server, &IoRequest::Share(ShareRequest::List))? {
            IoReply::Lots(uses) => Ok(uses),
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }

    fn space(&self, server: &ServerEntry) -> Result<Vec<TargetSpace>> {
        match self.call(server, &IoRequest::Statfs)? {
            IoReply::Space(spaces) => Ok(spaces),
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }

    fn sync_all(&self, server: &ServerEntry) -> Result<()> {
        // On a separate connection with a long timeout: it takes as long as the disk does, and no caller waits.
        let options = Connect { timeout: SYNC_SILENCE, ..self.options.clone() };
        let mut connection = Connection::connect(&server.address, &options)?;
        match connection.call(&mut Tracer::off(), Kind::Io, &IoRequest::SyncAll).map_err(|e| e.at_server(&server.name))? {
            IoReply::Synced { .. } => Ok(()),
            other => Err(unexpected(&other).at_server(&server.name)),
        }
    }

    fn sizes(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>> {
        let mut sizes = Vec::with_capacity(datafiles.len());
        for batch in datafiles.chunks(thalweg_wire::limits::BATCH) {
            match self.call(server, &IoRequest::Glimpse { datafiles: batch.to_vec() })? {
                IoReply::Sizes(found) if found.len() == batch.len() => sizes.extend(found.iter().map(|s| s.size_bytes)),
                other => return Err(unexpected(&other).at_server(&server.name)),
            }
        }
        Ok(sizes)
    }
}
