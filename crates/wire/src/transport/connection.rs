//! The client's end of a connection: one call at a time, or several posted and completed in order.

use super::channel::Channel;
use super::connect::Connect;
use super::exchange::{decode, encode, request_header};
use super::header::{HEADER_BYTES, Header, Kind, VERSION, VERSION_MIN, version_error};
use super::recorded::Recorded;
use super::socket;
use super::{patience, proving};
use crate::address::{pinned, split_pin, without_pin};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::common::{CommonReply, CommonRequest, HelloReply, ServiceStart};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use thalweg_bulk::crc32c;
use thalweg_trace::{Event, Host, HostId, IdSpace, ObjectId, OpenSpan, RequestId, SpanFields, SpanId, SpanKind, Time, TraceHandle, Tracer};

/// A connection to a server that has answered the greeting.
pub struct Connection {
    channel: Channel,
    hello: HelloReply,
    address: String,
    timeout: Duration,
    counter: u64,
    pending: VecDeque<Pending>,
    scratch: Vec<u8>,
    recording: Option<Recorded>,
    broken: bool,
    /// When something last arrived, or waiting began.
    progress: Instant,
    /// Why the server was given up as silent.
    silence: Option<Error>,
    /// Whether a reply arrived since [`Connection::take_answered`].
    has_answered: bool,
}

/// A request posted and not completed.
struct Pending {
    request: u64,
    kind: Kind,
    calling: OpenSpan,
    parent: Option<SpanId>,
}

/// A reply without its payload, which is still to be received.
pub struct Reply<R> {
    /// The body.
    pub body: R,
    /// The header.
    pub header: Header,
    /// The request's number in the recording, if recorded.
    pub request: Option<RequestId>,
    calling: OpenSpan,
    parent: Option<SpanId>,
}

impl<R> Reply<R> {
    /// Returns the call's span, for use as a parent.
    pub fn span(&self) -> Option<SpanId> {
        self.calling.id()
    }
}

/// Errors of connecting that mean a service is not the active one.
const IS_AWAY: [ErrorKind; 4] = [ErrorKind::Refused, ErrorKind::Reset, ErrorKind::TimedOut, ErrorKind::Io];

impl Connection {
    /// Connects and exchanges greetings. With several addresses, connects to the active service.
    ///
    /// # Errors
    /// Refused, silent, another store or version, or not a server of the store; each names the address.
    pub fn connect(address: &str, options: &Connect) -> Result<Connection> {
        let Some((first, others)) = split_pin(address).ok().and_then(|(places, pin)| Some((places.split_once(',')?, pin))) else {
            return Connection::open_again(address, options).map_err(|e| e.at_server(without_pin(address)));
        };
        let places: Vec<String> = std::iter::once(first.0).chain(first.1.split(',')).map(|place| pinned(place, others)).collect();
        Connection::to_active(&places, options).map_err(|e| e.at_server(without_pin(address)))
    }

    /// Connects to the active one of several services; while there is none, waits for one to take over.
    fn to_active(places: &[String], options: &Connect) -> Result<Connection> {
        let (begun, patience) = (Instant::now(), patience::left(options.timeout));
        let attempt = Connect { timeout: limits::ONE_OF_SEVERAL.min(options.timeout), refused: Duration::ZERO, ..options.clone() };
        loop {
            let mut last = Error::new(ErrorKind::Refused, "no metadata service is active");
            for place in places {
                match Connection::open(place, &attempt) {
                    Ok(connection) => return connection.with_silence(options.timeout),
                    Err(error) if IS_AWAY.contains(&error.kind()) => last = error,
                    Err(error) => return Err(error),
                }
            }
            if begun.elapsed() >= patience {
                return Err(last);
            }
            std::thread::sleep(limits::BETWEEN_SEVERAL);
        }
    }

    /// Retries a reset connection: a server with too many new connections closes those that are slow to greet. Nothing was
    /// requested yet, so a retry is safe.
    fn open_again(address: &str, options: &Connect) -> Result<Connection> {
        let (most, mut pause) = limits::HELLO_AGAIN;
        for _ in 0..most {
            match Connection::open(address, options) {
                Err(error) if error.kind() == ErrorKind::Reset => std::thread::sleep(pause),
                opened => return opened,
            }
            pause *= 2;
        }
        Connection::open(address, options)
    }

    fn open(address: &str, options: &Connect) -> Result<Connection> {
        let timeout = patience::left(options.timeout);
        let (channel, proven) = proving::open(address, options, timeout)?;
        let placeholder = HelloReply {
            version: VERSION,
            server: without_pin(address).to_owned(),
            service: crate::protocol::common::ServiceKind::Io,
            node: String::new(),
            boot_id: String::new(),
            verifier: crate::protocol::common::BootVerifier(0),
            store: 0,
            service_start: ServiceStart::default(),
            change: 0,
            emulated: None,
        };
        let mut connection = Connection {
            channel,
            hello: placeholder,
            address: address.to_owned(),
            timeout,
            counter: 0,
            pending: VecDeque::new(),
            scratch: Vec::new(),
            recording: None,
            broken: false,
            progress: Instant::now(),
            silence: None,
            has_answered: false,
        };
        let off = &mut Tracer::off();
        connection.post(off, None, Kind::Common, &CommonRequest::Hello(options.hello()), &[], 0)?;
        proven.judged(&mut connection.channel, timeout)?;
        let reply = connection.complete(off)?;
        match connection.completed(off, reply, None) {
            CommonReply::Hello(reply) if (VERSION_MIN..=VERSION).contains(&reply.version) => connection.hello = reply,
            CommonReply::Hello(reply) => return Err(version_error(reply.version, reply.version)),
            other => return Err(unexpected(&other)),
        }
        if timeout == options.timeout { Ok(connection) } else { connection.with_silence(options.timeout) }
    }

    /// Returns the connection with another time-out for silence.
    ///
    /// # Errors
    /// The socket's.
    pub fn with_silence(mut self, silence: Duration) -> Result<Connection> {
        self.timeout = silence;
        self.channel.set_silence(silence)?;
        Ok(self)
    }

    /// Returns the server's greeting.
    pub fn hello(&self) -> &HelloReply {
        &self.hello
    }

    /// Returns the server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the socket, for threads that may end the connection.
    pub fn stream(&self) -> &TcpStream {
        self.channel.socket()
    }

    /// Whether an error has made the connection unusable.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the timeout that made the connection give up the server, if any.
    pub fn silence(&self) -> Option<&Error> {
        self.silence.as_ref()
    }

    /// Whether a reply has arrived since the last call of this.
    pub fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.has_answered)
    }

    /// Returns the number of requests posted and not completed.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a reply can be received without blocking.
    pub fn is_readable(&mut self) -> bool {
        self.channel.is_readable()
    }

    /// Waits for the reply to the oldest request, or until `wake` is readable; `false`: woken before a reply. (If the server is
    /// silent for too long, [`Connection::complete_since`] reports it.)
    pub fn is_readable_before(&mut self, wake: BorrowedFd<'_>) -> bool {
        self.channel.is_readable_before(wake, self.timeout.saturating_sub(self.progress.elapsed()))
    }

    /// Returns the connection's object in the recording, if recorded.
    pub fn object(&self) -> Option<ObjectId> {
        self.recording.as_ref().and_then(|r| r.object)
    }

    /// Records requests under this session of the server from now on. `begun`: when connecting began, if the connection was made
    /// for the recording.
    pub fn record(&mut self, trace: &TraceHandle, session: u32, begun: Option<Time>) {
        let ends = (self.channel.local_addr(), self.channel.peer_addr());
        let name = match ends {
            (Ok(local), Ok(peer)) => format!("{local} > {peer}"),
            _ => format!("> {}", self.address),
        };
        let emulated = self.hello.emulated.as_ref();
        self.recording = Recorded::new(trace, session, (&name, &self.hello.server), Some((self.channel.socket(), begun)), emulated);
    }

    /// Returns the recording and the server's session to which requests belong.
    pub fn recording(&self) -> Option<(TraceHandle, u32)> {
        self.recording.as_ref().map(|recorded| (recorded.trace.clone(), recorded.session))
    }

    /// Maps a socket error to an error with the server's name; marks the connection unusable.
    pub fn failed(&mut self, what: &str, error: std::io::Error) -> Error {
        self.broken = true;
        let error = socket::failure(what, error, self.timeout).at_server(&self.hello.server);
        if error.kind() == ErrorKind::TimedOut {
            patience::met(&error);
            self.silence = Some(error.clone());
        }
        error
    }

    /// Calls without payload in either direction.
    ///
    /// # Errors
    /// The server's error, or the connection's.
    pub fn call<Q: Serialize, R: DeserializeOwned>(&mut self, tracer: &mut Tracer, kind: Kind, request: &Q) -> Result<R> {
        let (body, _) = self.call_with(tracer, kind, request, &[])?;
        Ok(body)
    }

    /// Calls with a payload; returns the reply and its payload.
    ///
    /// # Errors
    /// The server's error, or the connection's.
    pub fn call_with<Q: Serialize, R: DeserializeOwned>(
        &mut self,
        tracer: &mut Tracer,
        kind: Kind,
        request: &Q,
        payload: &[u8],
    ) -> Result<(R, Vec<u8>)> {
        debug_assert!(self.pending.is_empty(), "calls and posts are not mixed");
        let crc = if payload.is_empty() { 0 } else { crc32c(payload) };
        self.post(tracer, None, kind, request, &[IoSlice::new(payload)], crc)?;
        let reply = self.complete(tracer)?;
        let mut payload = vec![0; reply.header.payload_bytes as usize];
        self.receive_payload(&reply.header, &mut payload)?;
        if reply.header.payload_crc != crc32c(&payload) && !payload.is_empty() {
            return Err(Error::new(ErrorKind::Corrupt, "a reply's payload does not match its checksum: damaged in transit")
                .at_server(&self.hello.server));
        }
        let body = self.completed(tracer, reply, (!payload.is_empty()).then_some(payload.len() as u64));
        Ok((body, payload))
    }

    /// Notes progress: awaited bytes arrived.
    fn arrived(&mut self) {
        self.progress = Instant::now();
        if let Some(counted) = Recorded::counted(self.recording.as_ref()) {
            counted.arrived();
        }
    }

    /// Receives a reply's payload; `buffer` must have the length in the header.
    ///
    /// # Errors
    /// The connection's.
    pub fn receive_payload(&mut self, header: &Header, buffer: &mut [u8]) -> Result<()> {
        debug_assert_eq!(buffer.len() as u64, header.payload_bytes);
        let received = self.channel.receive_payload(buffer, self.timeout);
        self.arrived();
        received.map_err(|e| self.failed("its reply was received", e))
    }

    /// Receives a reply's payload into several pieces, in order; their total length must be that in the header.
    ///
    /// # Errors
    /// The connection's.
    pub fn receive_pieces(&mut self, header: &Header, pieces: &mut [IoSliceMut<'_>]) -> Result<()> {
        debug_assert_eq!(pieces.iter().map(|p| p.len() as u64).sum::<u64>(), header.payload_bytes);
        let received = self.channel.receive_pieces(pieces, self.timeout);
        self.arrived();
        received.map_err(|e| self.failed("its reply was received", e))
    }

    /// Sends a request; the pieces are its payload, and `payload_crc` their checksum. `parent`: the span of which the call is a
    /// part.
    ///
    /// # Errors
    /// The connection's.
    pub fn post<Q: Serialize>(
        &mut self,
        tracer: &mut Tracer,
        parent: Option<SpanId>,
        kind: Kind,
        request: &Q,
        pieces: &[IoSlice<'_>],
        payload_crc: u32,
    ) -> Result<Option<RequestId>> {
        let (number, session) = Recorded::number(self.recording.as_ref(), tracer, &mut self.counter);
        let calling = tracer.begin();
        let sending = tracer.begin();
        let payload_bytes: u64 = pieces.iter().map(|p| p.len() as u64).sum();
        encode(request_header(kind, number, session, payload_bytes, payload_crc), request, &mut self.scratch)?;
        let size_bytes = Some(self.scratch.len() as u64 + payload_bytes);
        let mut all = Vec::with_capacity(pieces.len() + 1);
        all.push(IoSlice::new(&self.scratch));
        all.extend_from_slice(pieces);
        if let Some(counted) = Recorded::counted(self.recording.as_ref()) {
            counted.sending(tracer);
        }
        let sent = self.channel.send_pieces(&mut all);
        if let Err(error) = sent {
            return Err(self.why_sending_failed(error));
        }
        if self.pending.is_empty() {
            self.progress = Instant::now();
        }
        let request = if session == 0 { None } else { RequestId::new(number) };
        let about = SpanFields { object: self.object(), parent: calling.id(), request, size_bytes, ..SpanFields::default() };
        tracer.end(sending, SpanKind::NetSend, about);
        self.pending.push_back(Pending { request: number, kind, calling, parent });
        Ok(request)
    }

    /// Looks for the server's final error: a server that refuses and closes makes sending fail.
    fn why_sending_failed(&mut self, error: std::io::Error) -> Error {
        let failure = self.failed("a request was sent", error);
        if failure.kind() != ErrorKind::Reset {
            return failure;
        }
        let mut bytes = [0_u8; HEADER_BYTES];
        let words = (|| -> Result<Error> {
            self.channel.set_silence(Duration::from_millis(200))?;
            let lost = |e| Error::system("last words", e);
            self.channel.receive_exact(&mut bytes).map_err(lost)?;
            let header = Header::decode(&bytes)?;
            let mut body = vec![0; header.body_bytes as usize];
            self.channel.receive_exact(&mut body).map_err(lost)?;
            Header::verify(&bytes, &body)?;
            if header.status == 0 {
                return Err(Error::new(ErrorKind::Io, "no error"));
            }
            Ok(Error::from_wire(header.status, decode(&body)?))
        })();
        words.map_or(failure, |error| error.at_server(&self.hello.server))
    }

    /// Waits for a reply. A caller of several servers has waited for all of them while waiting for the first, so that time
    /// counts. At least a fiftieth of the timeout remains: the reply may have arrived while this thread was asleep.
    fn wait_for_reply(&mut self) -> std::io::Result<()> {
        let (waited, patience) = (self.progress.elapsed(), patience::left(self.timeout));
        if waited < self.timeout / 50 && patience == self.timeout {
            // The socket's own timeout applies.
            return Ok(());
        }
        self.channel.wait_readable(patience.saturating_sub(waited).max(self.timeout / 50))
    }

    /// Receives the head of the reply to the oldest request.
    ///
    /// # Errors
    /// The server's error (the connection stays usable unless [`Connection::is_broken`]), or the connection's.
    pub fn complete<R: DeserializeOwned>(&mut self, tracer: &mut Tracer) -> Result<Reply<R>> {
        let receiving = tracer.begin();
        self.complete_since(tracer, receiving)
    }

    /// [`Connection::complete`], for a thread that began to wait at `receiving`.
    ///
    /// # Errors
    /// See [`Connection::complete`].
    pub fn complete_since<R: DeserializeOwned>(&mut self, tracer: &mut Tracer, receiving: OpenSpan) -> Result<Reply<R>> {
        let Some(pending) = self.pending.pop_front() else {
            return Err(Error::new(ErrorKind::Io, "no request is pending: a bug").at_server(&self.hello.server));
        };
        let mut bytes = [0_u8; HEADER_BYTES];
        let arrived = self.wait_for_reply().and_then(|()| self.channel.receive_exact(&mut bytes));
        arrived.map_err(|e| self.failed("its reply was awaited", e))?;
        self.arrived();
        let received = Header::decode(&bytes).and_then(|header| {
            self.scratch.resize(header.body_bytes as usize, 0);
            self.channel.receive_exact(&mut self.scratch).map_err(|e| socket::failure("its reply was received", e, self.timeout))?;
            Header::verify(&bytes, &self.scratch)?;
            let expected = (pending.kind, pending.request, true);
            let last_words = header.status != 0 && header.request == 0;
            if !last_words && (header.kind, header.request, header.reply) != expected {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    format!(
                        "a reply to {:?} request {}: expected one to {:?} request {}",
                        header.kind, header.request, expected.0, expected.1
                    ),
                ));
            }
            Ok(header)
        });
        let header = received.map_err(|error| {
            self.broken = true;
            error.at_server(&self.hello.server)
        })?;
        self.has_answered = true;
        let request = self.recording.as_ref().filter(|_| tracer.is_on()).and_then(|_| RequestId::new(header.request));
        let size_bytes = Some((HEADER_BYTES + self.scratch.len()) as u64);
        let about = SpanFields { object: self.object(), parent: pending.calling.id(), request, size_bytes, ..SpanFields::default() };
        tracer.end(receiving, SpanKind::NetReceive, about);
        if header.status != 0 {
            let error = Error::from_wire(header.status, decode(&self.scratch)?).at_server(&self.hello.server);
            self.broken |= error.breaks_connection();
            let result = Some(-i64::from(error.kind().errno()));
            tracer.observed(
                pending.calling,
                SpanKind::RpcCall,
                SpanFields { object: self.object(), parent: pending.parent, request, result, ..SpanFields::default() },
            );
            return Err(error);
        }
        let body = decode(&self.scratch).map_err(|error| {
            self.broken = true;
            error.at_server(&self.hello.server)
        })?;
        Ok(Reply { body, header, request, calling: pending.calling, parent: pending.parent })
    }

    /// Ends the span of a call whose reply and payload were received; `size_bytes`: payload moved.
    pub fn completed<R>(&self, tracer: &mut Tracer, reply: Reply<R>, size_bytes: Option<u64>) -> R {
        let about = SpanFields {
            object: self.object(),
            request: reply.request,
            parent: reply.parent,
            size_bytes,
            result: Some(0),
            ..SpanFields::default()
        };
        tracer.observed(reply.calling, SpanKind::RpcCall, about);
        reply.body
    }

    /// Starts a recording session at the server; returns its number and the server's host.
    ///
    /// # Errors
    /// The server's error, or the connection's.
    pub fn record_start(&mut self, host: HostId, space: IdSpace) -> Result<(u32, Host)> {
        match self.call(&mut Tracer::off(), Kind::Common, &CommonRequest::RecordStart { host, space })? {
            CommonReply::RecordStarted { session, host } => Ok((session, host)),
            other => Err(unexpected(&other).at_server(&self.hello.server)),
        }
    }

    /// Reads the server's clock, at some moment during this call.
    ///
    /// # Errors
    /// The server's error, or the connection's.
    pub fn clock(&mut self) -> Result<Time> {
        match self.call(&mut Tracer::off(), Kind::Common, &CommonRequest::Clock)? {
            CommonReply::Clock(time) => Ok(time),
            other => Err(unexpected(&other).at_server(&self.hello.server)),
        }
    }

    /// Fetches all events of a session, passing each page to `take`; returns how many events the server lost.
    ///
    /// # Errors
    /// The server's error, or the connection's.
    pub fn record_fetch(&mut self, session: u32, take: &mut dyn FnMut(Vec<Event>)) -> Result<u64> {
        let (mut lost_in_all, mut taken) = (0, 0);
        loop {
            let request = CommonRequest::RecordFetch { session };
            let (reply, payload) = self.call_with(&mut Tracer::off(), Kind::Common, &request, &[])?;
            let CommonReply::RecordPage { more, lost } = reply else {
                return Err(unexpected(&reply).at_server(&self.hello.server));
            };
            lost_in_all = u64::saturating_add(lost_in_all, lost);
            let events: Vec<Event> = decode(&payload).map_err(|e| e.at_server(&self.hello.server))?;
            // Empty pages count too, which bounds a peer that sends pages forever.
            taken += events.len() + 1;
            if taken > 4 * limits::SESSION_EVENTS {
                let problem = format!("more than {} recorded events without an end", 4 * limits::SESSION_EVENTS);
                return Err(Error::new(ErrorKind::Protocol, problem).at_server(&self.hello.server));
            }
            take(events);
            if !more {
                let _: CommonReply = self.call(&mut Tracer::off(), Kind::Common, &CommonRequest::RecordStop { session })?;
                return Ok(lost_in_all);
            }
        }
    }
}

/// Makes the error for a reply of the wrong kind.
pub fn unexpected(reply: &dyn std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Protocol, format!("the reply does not match the request: {reply:?}"))
}
