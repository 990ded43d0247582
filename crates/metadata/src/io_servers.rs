//! What the metadata service asks of the I/O servers, and its own connections to them: one for each, made when it is needed.

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

/// How long a server has to say which start of its machine this is.
const PROMPT: Duration = Duration::from_millis(50);
/// How long a server has to put all that was written on stable storage.
const SYNC_SILENCE: Duration = Duration::from_secs(120);
/// How long a server that could not be connected to is left alone.
const REST: Duration = Duration::from_millis(500);

/// What the metadata service asks of I/O servers. Idempotent; may be asked by several threads.
pub trait IoServers: Send + Sync + 'static {
    /// Removes datafiles of one server; what is not there is removed already.
    ///
    /// # Errors
    /// When the server is away or its disk fails: nothing is known of any of them then.
    fn remove(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<()>;

    /// Sets the sizes of datafiles of one server, and makes that durable.
    ///
    /// # Errors
    /// As for [`IoServers::remove`].
    fn truncate(&self, server: &ServerEntry, datafiles: &[(DatafileId, u64)]) -> Result<()>;

    /// Sizes of datafiles of one server, in bytes; 0 for one that does not exist.
    ///
    /// # Errors
    /// As for [`IoServers::remove`].
    fn sizes(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>>;

    /// Puts everything that was written to one server before on stable storage.
    ///
    /// # Errors
    /// When the server is away or its disk fails.
    fn sync_all(&self, server: &ServerEntry) -> Result<()>;

    /// Has a target keep a share of a lot, in place of the one it has, when the service's clock says `now_ns`; what it has of it then.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] where there is no room for it: it has what it had. When the server is away: nothing is known of it.
    fn keep_share(&self, server: &ServerEntry, target: TargetId, share: &LotShare, least: Option<Level>, now_ns: i64) -> Result<LotUse>;

    /// Has a target forget its share of a lot, if it has one.
    ///
    /// # Errors
    /// When the server is away or its disk fails.
    fn release_share(&self, server: &ServerEntry, target: TargetId, lot: LotId) -> Result<()>;

    /// What the targets of a server have of lots.
    ///
    /// # Errors
    /// When the server is away.
    fn list_shares(&self, server: &ServerEntry) -> Result<Vec<LotUse>>;

    /// Space on the targets of a server.
    ///
    /// # Errors
    /// When the server is away.
    fn space(&self, server: &ServerEntry) -> Result<Vec<TargetSpace>>;

    /// The machine start of each of these servers, asked of all at a time after this was called; `None` where one does not answer at
    /// once (in about 50 ms).
    fn boots(&self, servers: &[ServerEntry]) -> Vec<Option<String>>;
}

/// I/O servers over the network.
pub struct Remote {
    options: Connect,
    connections: Mutex<HashMap<String, Arc<Mutex<Option<Connection>>>>>,
    asked: Arc<Asked>,
}

/// Connections on which servers are asked for their machines' starts, by address.
#[derive(Default)]
struct Asked {
    lines: Mutex<HashMap<String, Line>>,
    changed: Condvar,
}

/// The connection to a server is used by one at a time, and is made by a thread that nobody waits for any longer than they want.
enum Line {
    Ready(Box<Connection>),
    Used,
    Connecting,
    /// It could not be connected to; it is left alone until then.
    Resting(Instant),
}

impl Remote {
    /// Connects with these options.
    pub fn new(options: Connect) -> Remote {
        Remote { options, connections: Mutex::default(), asked: Arc::default() }
    }

    fn call(&self, server: &ServerEntry, request: &IoRequest) -> Result<IoReply> {
        let slot = {
            let mut connections = self.connections.lock();
            Arc::clone(connections.entry(server.address.clone()).or_default())
        };
        let mut slot = slot.lock();
        // Nothing is awaited on an idle connection: what can be read is its end.
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

impl Asked {
    /// The connection, if there is one that works before `deadline`; otherwise somebody is making it.
    fn take(self: &Arc<Self>, address: &str, options: &Connect, deadline: Instant) -> Option<Box<Connection>> {
        let mut lines = self.lines.lock();
        loop {
            match lines.get(address) {
                Some(Line::Ready(_)) => {
                    let Some(Line::Ready(mut connection)) = lines.insert(address.to_owned(), Line::Used) else { unreachable!("just seen") };
                    if !connection.is_broken() && !connection.is_readable() {
                        return Some(connection);
                    }
                    // Nothing is awaited on it: what can be read is its end.
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
        // A server is silent for long before its connection is given up, when nobody waits; here somebody does.
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
            // Its silence is bounded too; but of many that are silent, only the first is waited for.
            let answers = Instant::now() < deadline || connection.is_readable();
            let reply = if answers { connection.complete::<CommonReply>(tracer).ok() } else { None };
            if let Some(reply) = reply {
                // A connection does not outlive either machine: the server that answers on it has started as it said at the beginning.
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
                ours.ok_or_else(|| Error::new(ErrorKind::Protocol, "an answer about another share").at_server(&server.name))
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
        // On a connection of its own, and with patience: it takes as long as the disk does, and nobody waits for it.
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
