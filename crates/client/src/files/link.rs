//! One server: where it is, how to connect, and the connections to it that are not in use.

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

/// Idle connections kept for each server.
const IDLE: usize = 16;

/// A recording that a server takes part in.
#[derive(Clone, Debug)]
pub struct SessionOf {
    /// Our end of it.
    pub mode: TraceHandle,
    /// Its number at the server.
    pub session: u32,
}

/// One I/O server.
pub struct Link {
    entry: ServerEntry,
    options: Connect,
    idle: Mutex<Vec<Connection>>,
    recording: Mutex<Option<SessionOf>>,
    /// Whose files are on it.
    names: Option<Arc<dyn Names>>,
    silence: Silence,
}

/// A connection out of the pool. Goes back when dropped, unless it is broken.
pub struct Lent<'a> {
    link: &'a Link,
    connection: Option<Connection>,
    /// It was idle before: the server may have gone since.
    pub was_idle: bool,
}

impl Link {
    /// A server as the store's map has it; nothing is connected yet.
    pub fn new(entry: ServerEntry, options: Connect) -> Link {
        Link { entry, options, idle: Mutex::default(), recording: Mutex::default(), names: None, silence: Silence::default() }
    }

    /// The same, of a store with these names.
    pub(super) fn watched_by(self, names: Arc<dyn Names>) -> Link {
        Link { names: Some(names), ..self }
    }

    /// A server that has files of a later start than the metadata service's has not forgotten what that has: its directory was lost, or is
    /// an older copy.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// As the store's map has it.
    pub fn entry(&self) -> &ServerEntry {
        &self.entry
    }

    /// Requests on connections made from now on, by threads that trace, are part of this recording.
    pub fn set_recording(&self, recording: Option<SessionOf>) {
        *self.recording.lock() = recording;
        self.idle.lock().clear();
    }

    /// A connection of the caller's own, with sockets' buffers of this size if one is given.
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
            connection.record(&recording.mode, recording.session, Some(begun));
        }
        Ok(connection)
    }

    /// An idle connection, or a new one.
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

    /// An idle connection, if there is one.
    pub(super) fn idle(&self) -> Option<Lent<'_>> {
        // Nothing is due on an idle connection: what can be received is its end, or nothing that could be trusted.
        let idle = loop {
            let Some(mut idle) = self.idle.lock().pop() else { break None };
            if !idle.is_readable() {
                break Some(idle);
            }
        };
        idle.map(|connection| Lent { link: self, connection: Some(connection), was_idle: true })
    }

    /// Whether the server answers.
    pub(super) fn silence(&self) -> &Silence {
        &self.silence
    }

    /// How to connect to it, and the recording that connections made from now on are part of: for who connects by himself.
    pub(crate) fn dialing(&self) -> (Connect, Option<SessionOf>) {
        (self.options.clone(), self.recording.lock().clone())
    }

    /// Idle connections are closed: the server has gone, and may be back.
    pub fn forget_idle(&self) {
        self.idle.lock().clear();
    }

    /// The recording that connections made from now on are part of.
    pub(crate) fn mode(&self) -> TraceHandle {
        self.recording.lock().as_ref().map_or_else(TraceHandle::off, |recording| recording.mode.clone())
    }

    /// One call, on whatever connection. If an idle one turns out to be dead, once more on a new one: every request to an
    /// I/O server may be made twice.
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

/// What is recorded of connecting that has ended so.
pub(super) fn connected(made: Result<&Connection, &Error>) -> SpanFields {
    let result = Some(made.map_or_else(|error| -i64::from(error.kind().errno()), |_| 0));
    SpanFields { object: made.ok().and_then(Connection::object), result, ..SpanFields::default() }
}

impl Lent<'_> {
    /// It is of no more use to anybody.
    pub(super) fn condemn(mut self) {
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
