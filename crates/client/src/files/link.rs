//! One server: its address, how to connect, and its idle connections.

use super::names::Names;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_trace::{SpanFields, SpanKind, Time, TraceHandle, Tracer};
use thalweg_wire::patience::Silence;
use thalweg_wire::protocol::common::ServiceStart;
use thalweg_wire::protocol::io::{IoReply, IoRequest};
use thalweg_wire::protocol::metadata::ServerEntry;
use thalweg_wire::{Connect, Connection, Kind};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: idle connections kept per server.
const IDLE: usize = 16;

/// A server's session in a recording.
#[derive(Clone, Debug)]
pub struct SessionOf {
    /// Trace handle of the recording.
    pub trace: TraceHandle,
    /// Session number at the server.
    pub session: u32,
}

/// One I/O server.
pub struct Link {
    entry: ServerEntry,
    options: Connect,
    idle: Mutex<Vec<Connection>>,
    recording: Mutex<Option<SessionOf>>,
    /// Names of the store whose files the server holds.
    names: Option<Arc<dyn Names>>,
    silence: Silence,
}

/// A connection borrowed from the pool. Returned when dropped, unless broken.
pub struct Lent<'a> {
    link: &'a Link,
    connection: Option<Connection>,
    /// Whether the connection came from the pool, so that the server may have closed it since.
    pub was_idle: bool,
}

impl Link {
    /// Creates the link of a server in the store's map, without connecting.
    pub fn new(entry: ServerEntry, options: Connect) -> Link {
        Link { entry, options, idle: Mutex::default(), recording: Mutex::default(), names: None, silence: Silence::default() }
    }

    /// Sets the names that the server's answers are checked against.
    pub(super) fn watched_by(self, names: Arc<dyn Names>) -> Link {
        Link { names: Some(names), ..self }
    }

    /// Checks that the metadata service is not behind what the server has seen. If the server holds files of a later start of the service,
    /// the service's directory was lost or replaced by an older copy.
    fn check_seen(&self, seen: ServiceStart) -> Result<()> {
        let Some(names) = &self.names else { return Ok(()) };
        let service = names.service(seen);
        if service.is_none_or(|service| !service.is_behind(seen)) {
            return Ok(());
        }
        let problem = format!(
            "has files of start {} of the metadata service, which is older now: its directory was lost, or an older copy was put \
             back. Stop it and put the newest one back, or start it with --accept-older-metadata",
            seen.epoch
        );
        Err(Error::new(ErrorKind::Absent, problem))
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the server's entry in the store's map.
    pub fn entry(&self) -> &ServerEntry {
        &self.entry
    }

    /// Sets the recording that later connections take part in, for threads that trace.
    pub fn set_recording(&self, recording: Option<SessionOf>) {
        *self.recording.lock() = recording;
        self.idle.lock().clear();
    }

    /// Opens a connection for the caller alone, with the given socket buffer size if any.
    ///
    /// # Errors
    /// The connection's, naming the server.
    pub fn connect(&self, tracer: &mut Tracer, socket_buffer_bytes: Option<usize>) -> Result<Connection> {
        self.silence.check()?;
        let connecting = tracer.begin();
        let made = self.make(socket_buffer_bytes);
        tracer.end(connecting, SpanKind::NetConnect, connected(made.as_ref()));
        made
    }

    fn make(&self, socket_buffer_bytes: Option<usize>) -> Result<Connection> {
        let (recording, begun) = (self.recording.lock().clone(), Time::now());
        let mut options = self.options.clone();
        options.socket_buffer_bytes = socket_buffer_bytes.or(options.socket_buffer_bytes);
        options.service_start = self.names.as_ref().and_then(|names| names.service(ServiceStart::default()));
        let named = |e: Error| Error::new(e.kind(), format!("{} ({})", e.message(), self.entry.address)).at_server(&self.entry.name);
        let connected = Connection::connect(&self.entry.address, &options).map_err(named);
        self.silence.asked(&connected);
        let mut connection = connected?;
        if connection.hello().server != self.entry.name {
            let found = format!("{} calls itself {}: is the store's map out of date?", self.entry.address, connection.hello().server);
            return Err(Error::new(ErrorKind::Invalid, found).at_server(&self.entry.name));
        }
        self.check_seen(connection.hello().service_start).map_err(|e| e.at_server(&self.entry.name))?;
        if let Some(recording) = &recording {
            connection.record(&recording.trace, recording.session, Some(begun));
        }
        Ok(connection)
    }

    /// Lends an idle connection, or a new one.
    ///
    /// # Errors
    /// The connection's, naming the server.
    pub fn lend(&self, tracer: &mut Tracer) -> Result<Lent<'_>> {
        self.silence.check()?;
        match self.idle() {
            Some(lent) => Ok(lent),
            None => Ok(Lent { link: self, connection: Some(self.connect(tracer, None)?), was_idle: false }),
        }
    }

    /// Lends an idle connection, if there is one.
    pub(super) fn idle(&self) -> Option<Lent<'_>> {
        // A readable idle connection was closed by the server, or has data that cannot be trusted.
        let idle = loop {
            let Some(mut idle) = self.idle.lock().pop() else { break None };
            if !idle.is_readable() {
                break Some(idle);
            }
        };
        idle.map(|connection| Lent { link: self, connection: Some(connection), was_idle: true })
    }

    /// Returns whether, and for how long, the server has been silent.
    pub(super) fn silence(&self) -> &Silence {
        &self.silence
    }

    /// Returns the connection options and the current recording, for a caller that connects by itself.
    pub(crate) fn connect_options(&self) -> (Connect, Option<SessionOf>) {
        (self.options.clone(), self.recording.lock().clone())
    }

    /// Closes the idle connections, because the server has restarted.
    pub fn forget_idle(&self) {
        self.idle.lock().clear();
    }

    /// Returns the trace handle of the current recording.
    pub(crate) fn trace(&self) -> TraceHandle {
        self.recording.lock().as_ref().map_or_else(TraceHandle::off, |recording| recording.trace.clone())
    }

    /// Makes one call on any connection. If an idle one turns out to be closed, retries once on a new one: every request to an I/O server
    /// is idempotent.
    ///
    /// # Errors
    /// The server's or the connection's, naming the server.
    pub fn call(&self, tracer: &mut Tracer, request: &IoRequest, payload: &[u8]) -> Result<(IoReply, Vec<u8>)> {
        let mut connection = self.lend(tracer)?;
        let done = connection.call_with(tracer, Kind::Io, request, payload);
        match done {
            Err(error) if connection.was_idle && error.kind() == ErrorKind::Reset => {
                drop(connection);
                self.forget_idle();
                self.lend(tracer)?.call_with(tracer, Kind::Io, request, payload)
            }
            done => done,
        }
    }
}

/// Returns the span fields of a connection attempt with this result.
pub(super) fn connected(made: Result<&Connection, &Error>) -> SpanFields {
    let result = Some(made.map_or_else(|error| -i64::from(error.kind().errno()), |_| 0));
    SpanFields { object: made.ok().and_then(Connection::object), result, ..SpanFields::default() }
}

impl Lent<'_> {
    /// Drops the connection instead of returning it to the pool.
    pub(super) fn discard(mut self) {
        if let Some(error) = self.connection.take().as_ref().and_then(Connection::silence) {
            self.link.silence.gave_up(error);
        }
    }
}

impl Deref for Lent<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("there until dropped")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("there until dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let has_answered = connection.take_answered();
        match connection.silence() {
            Some(error) => self.link.silence.gave_up(error),
            None if has_answered => self.link.silence.answered(),
            None => {}
        }
        let mut idle = self.link.idle.lock();
        if !connection.is_broken() && connection.pending() == 0 && idle.len() < IDLE {
            idle.push(connection);
        }
    }
}
