//! A non-blocking connection: requests are queued, replies are collected, and the caller polls.
//!
//! [`super::Connection`] blocks, which suits a thread with one task. A caller of many servers holds many connections in one
//! thread, which sleeps until any of them is ready ([`wait`]). Requests may be queued from the start: they are sent with the
//! client's proof, once the server has proven itself, before the greeting is answered. Replies arrive in the order of the
//! requests, as on every connection.

use super::channel::Channel;
use super::connect::Connect;
use super::connection::unexpected;
use super::exchange::{decode, encode, request_header};
use super::header::{HEADER_BYTES, Header, Kind, VERSION, VERSION_MIN, version_error};
use super::proving::client_tls;
use super::recorded::Recorded;
use super::socket;
use super::tls::Fingerprint;
use crate::address::{Pin, split_pin};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::common::{CommonReply, CommonRequest, HelloReply};
use crate::trust::proof::{ANSWER_BYTES, Client, Next, VERDICT_BYTES};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::ErrorKind as System;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use thalweg_bulk::resize;
use thalweg_trace::{ObjectId, OpenSpan, RequestId, SpanFields, SpanId, SpanKind, Time, TraceHandle, Tracer};

/// Initial receive buffer: a caller with a pipe to each of a thousand servers mostly expects small replies.
const RECEIVED_FIRST_BYTES: usize = 8 << 10;
/// Maximum receive buffer, unless one message is larger; the buffer doubles whenever it was filled.
const RECEIVED_BYTES: usize = 256 << 10;

/// A non-blocking connection.
pub struct Pipe {
    channel: Channel,
    name: String,
    address: String,
    timeout: Duration,
    hello: Option<HelloReply>,
    counter: u64,
    pending: VecDeque<Pending>,
    /// Progress of the mutual proof.
    proving: Proving,
    /// Where to reconnect with TLS if the server requires it (unknown for servers on loopback).
    or_encrypted: Option<SocketAddr>,
    /// Encoded requests held until the server has proven itself.
    held: Vec<u8>,
    /// Encoded bytes; those from `sent` on are not sent yet.
    output: Vec<u8>,
    sent: usize,
    /// Received bytes; `input[begin..end]` are not parsed yet.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// Size of the next receive.
    at_once: usize,
    scratch: Vec<u8>,
    /// Last send or receive, or the start of waiting.
    progress: Instant,
    recording: Option<Recorded>,
    /// When connecting began.
    begun: Time,
}

/// Progress of the mutual proof.
enum Proving {
    /// Waiting for the server's proof.
    Server(Box<Client>),
    /// Waiting for its verdict on the client's proof.
    Client(Box<Client>),
    Done,
}

struct Pending {
    token: u64,
    number: u64,
    kind: Kind,
    calling: OpenSpan,
    parent: Option<SpanId>,
}

/// A reply's body with its request's token.
pub struct Arrived<'a> {
    /// The token the request was queued with.
    pub token: u64,
    /// The body, for [`body`]; or the server's error.
    pub body: Result<&'a [u8]>,
}

/// Decodes a body.
pub fn body<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    decode(bytes)
}

impl Pipe {
    /// Starts connecting to the server, called `name` in errors, and queues the greeting.
    ///
    /// # Errors
    /// When the address is invalid, or the system refuses immediately.
    pub fn start(name: &str, address: &str, options: &Connect, timeout: Duration) -> Result<Pipe> {
        let (place, pin) = split_pin(address)?;
        let begun = Time::now();
        let failed = |e: std::io::Error| Error::system(format!("connecting to {place}"), e).at_server(name);
        let resolved = place.to_socket_addrs().map_err(failed)?.next();
        let to = resolved.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{place}: no such host")))?;
        let encrypts = pin.encrypts(to.ip());
        let channel = connecting(to, encrypts.then_some(pin.key())).map_err(|e| e.at_server(name))?;
        let proving = Client::new(&options.credentials, options.store).map_err(|e| e.at_server(name))?;
        let mut pipe = Pipe {
            channel,
            output: proving.first().to_vec(),
            proving: Proving::Server(Box::new(proving)),
            or_encrypted: (!encrypts && pin == Pin::None).then_some(to),
            held: Vec::new(),
            name: name.to_owned(),
            address: place.to_owned(),
            timeout,
            hello: None,
            counter: 0,
            pending: VecDeque::new(),
            sent: 0,
            input: Vec::new(),
            begin: 0,
            end: 0,
            at_once: RECEIVED_FIRST_BYTES,
            scratch: Vec::new(),
            progress: Instant::now(),
            recording: None,
            begun,
        };
        pipe.put(&mut Tracer::off(), None, Kind::Common, &CommonRequest::Hello(options.hello()), 0)?;
        Ok(pipe)
    }

    /// Records requests under this session from now on; TCP counters start when the greeting says whether the link is emulated.
    pub fn record(&mut self, trace: &TraceHandle, session: u32) {
        let name = match (self.channel.local_addr(), self.address.as_str()) {
            (Ok(local), address) => format!("{local} > {address}"),
            (Err(_), address) => format!("> {address}"),
        };
        self.recording = Recorded::new(trace, session, (&name, &self.name), None, None);
    }

    /// Whether the server's greeting has arrived.
    pub fn has_worked(&self) -> bool {
        self.hello.is_some()
    }

    /// Returns the number of unanswered requests.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Queues a request; its reply carries `token`, which must not be 0. Nothing is sent before [`Pipe::flush`].
    ///
    /// # Errors
    /// When the request is too large.
    pub fn put<Q: Serialize>(&mut self, tracer: &mut Tracer, parent: Option<SpanId>, kind: Kind, request: &Q, token: u64) -> Result<()> {
        let (number, session) = Recorded::number(self.recording.as_ref(), tracer, &mut self.counter);
        let calling = tracer.begin();
        let sending = tracer.begin();
        encode(request_header(kind, number, session, 0, 0), request, &mut self.scratch)?;
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
        }
        let is_held = matches!(self.proving, Proving::Server(_));
        if self.pending.is_empty() {
            // Nothing was outstanding. Requests added to outstanding ones give a silent server no more time.
            self.progress = Instant::now();
        }
        let output = if is_held { &mut self.held } else { &mut self.output };
        output.extend_from_slice(&self.scratch);
        if tracer.is_on() {
            if let Some(counted) = Recorded::counted(self.recording.as_ref()) {
                counted.sending(tracer);
            }
            // A recorded request is sent right away, as far as possible: later, its bytes could not be distinguished.
            let _ = self.send();
        }
        let about = SpanFields {
            object: self.object(),
            parent: calling.id(),
            request: if session == 0 { None } else { RequestId::new(number) },
            size_bytes: Some(self.scratch.len() as u64),
            ..SpanFields::default()
        };
        tracer.end(sending, SpanKind::NetSend, about);
        self.pending.push_back(Pending { token, number, kind, calling, parent });
        Ok(())
    }

    fn object(&self) -> Option<ObjectId> {
        self.recording.as_ref().and_then(|recorded| recorded.object)
    }

    /// Sends as much as the system accepts.
    ///
    /// # Errors
    /// An I/O error; the connection is unusable afterwards.
    pub fn flush(&mut self) -> Result<()> {
        self.send().map_err(|e| self.failed("a request was sent", e))
    }

    fn send(&mut self) -> std::io::Result<()> {
        while self.sent < self.output.len() {
            match self.channel.try_send(&self.output[self.sent..]) {
                Ok(many) => {
                    self.sent += many;
                    self.progress = Instant::now();
                }
                Err(e) => return self.unless_fatal(e),
            }
        }
        self.channel.try_flush().or_else(|e| self.unless_fatal(e))
    }

    fn unless_fatal(&self, error: std::io::Error) -> std::io::Result<()> {
        match error.kind() {
            // Also while connecting.
            System::WouldBlock => Ok(()),
            // The server's final error may be waiting to be received.
            System::BrokenPipe if !self.pending.is_empty() => Ok(()),
            _ => Err(error),
        }
    }

    /// Receives what has arrived and passes each reply to `each`. `waiting`: the span of the wait, ended by the first reply.
    ///
    /// # Errors
    /// An I/O error; the connection is unusable afterwards, and outstanding requests stay unanswered.
    pub fn receive(&mut self, tracer: &mut Tracer, waiting: &mut Option<OpenSpan>, each: &mut dyn FnMut(Arrived<'_>)) -> Result<()> {
        loop {
            self.make_room();
            match self.channel.try_receive(&mut self.input[self.end..]) {
                Ok(0) => return Err(self.failed("its reply was awaited", std::io::ErrorKind::UnexpectedEof.into())),
                Ok(many) => {
                    let was_full = self.end + many == self.input.len();
                    self.end += many;
                    self.progress = Instant::now();
                    if let Some(counted) = Recorded::counted(self.recording.as_ref()) {
                        counted.arrived();
                    }
                    self.understand(tracer, waiting, each)?;
                    if !was_full {
                        return Ok(());
                    }
                    self.at_once = (2 * self.at_once).min(RECEIVED_BYTES);
                }
                Err(e) if e.kind() == System::WouldBlock => return Ok(()),
                Err(e) => return Err(self.failed("its reply was awaited", e)),
            }
        }
    }

    /// Makes room for the rest of a message, or for many small ones.
    fn make_room(&mut self) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
        let wanted = self.message_bytes().map_or(self.at_once, |bytes| bytes.max(self.at_once));
        if self.input.len() - self.begin < wanted {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.input.len() < wanted {
                resize(&mut self.input, wanted);
            }
        }
    }

    /// Returns the length claimed by the first message in the buffer; [`Header::decode`] checks its limits.
    fn message_bytes(&self) -> Option<usize> {
        let header: &[u8; HEADER_BYTES] = self.input[self.begin..self.end].first_chunk()?;
        Header::decode(header).ok().map(|header| HEADER_BYTES + header.body_bytes as usize)
    }

    /// Advances the mutual proof; returns whether it is finished.
    fn prove(&mut self) -> Result<bool> {
        loop {
            let here = &self.input[self.begin..self.end];
            let (next, taken) = match (&mut self.proving, here.first_chunk(), here.first_chunk()) {
                (Proving::Done, ..) => return Ok(true),
                (Proving::Server(client), Some(answer), _) => {
                    let next = match (client.answered(answer, &self.channel.binding()), self.or_encrypted.take()) {
                        (Err(error), Some(to)) if error.kind() == ErrorKind::Encrypted => {
                            self.output = client.first().to_vec();
                            (self.sent, self.begin, self.end) = (0, 0, 0);
                            self.channel = connecting(to, Some(None)).map_err(|e| e.at_server(&self.name))?;
                            self.flush()?;
                            continue;
                        }
                        (next, _) => next.map_err(|e| e.at_server(&self.name))?,
                    };
                    let bytes = if let Next::Prove(proof) = &next { proof.to_vec() } else { client.first().to_vec() };
                    self.output.extend_from_slice(&bytes);
                    (matches!(next, Next::Prove(_)), ANSWER_BYTES)
                }
                (Proving::Client(client), _, Some(verdict)) => {
                    client.judged(verdict).map_err(|e| e.at_server(&self.name))?;
                    (true, VERDICT_BYTES)
                }
                _ => return Ok(false),
            };
            self.begin += taken;
            self.proving = match (std::mem::replace(&mut self.proving, Proving::Done), next) {
                (Proving::Server(client), true) => {
                    self.output.append(&mut self.held);
                    Proving::Client(client)
                }
                (asking @ Proving::Server(_), false) => asking,
                _ => Proving::Done,
            };
            self.flush()?;
        }
    }

    fn understand(&mut self, tracer: &mut Tracer, waiting: &mut Option<OpenSpan>, each: &mut dyn FnMut(Arrived<'_>)) -> Result<()> {
        if !self.prove()? {
            return Ok(());
        }
        loop {
            let here = &self.input[self.begin..self.end];
            let Some(bytes) = here.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
            let header = Header::decode(bytes).map_err(|e| self.named(e))?;
            let length = HEADER_BYTES + header.body_bytes as usize;
            if here.len() < length {
                return Ok(());
            }
            let body = &here[HEADER_BYTES..length];
            Header::verify(bytes, body).map_err(|e| self.named(e))?;
            let receiving = waiting.take().unwrap_or_else(|| tracer.begin());
            let refusal = if header.status == 0 { None } else { Some(self.named(Error::from_wire(header.status, decode(body)?))) };
            if let Some(last_words) = refusal.as_ref().filter(|_| header.request == 0) {
                return Err(last_words.clone());
            }
            let Some(pending) = self.pending.pop_front() else {
                return Err(self.named(Error::new(ErrorKind::Protocol, "a reply without a request")));
            };
            if (header.kind, header.request, header.reply, header.payload_bytes) != (pending.kind, pending.number, true, 0) {
                let text = format!("a reply to {:?} request {}: expected one to {}", header.kind, header.request, pending.number);
                return Err(self.named(Error::new(ErrorKind::Protocol, text)));
            }
            let request = self.recording.as_ref().filter(|_| tracer.is_on()).and_then(|_| RequestId::new(header.request));
            let about = SpanFields { object: self.object(), request, ..SpanFields::default() };
            let size_bytes = Some(length as u64);
            tracer.end(receiving, SpanKind::NetReceive, SpanFields { parent: pending.calling.id(), size_bytes, ..about });
            let result = Some(refusal.as_ref().map_or(0, |e| -i64::from(e.kind().errno())));
            tracer.observed(pending.calling, SpanKind::RpcCall, SpanFields { parent: pending.parent, result, ..about });
            if pending.token == 0 {
                match refusal {
                    Some(refusal) => return Err(refusal),
                    None => {
                        let hello = self.greeted(decode(body)?)?;
                        if let Some(recorded) = &mut self.recording {
                            recorded.count(self.channel.socket(), Some(self.begun), hello.emulated.as_ref());
                        }
                        self.hello = Some(hello);
                    }
                }
            } else if let Some(refusal) = refusal.as_ref().filter(|e| e.breaks_connection()) {
                return Err(refusal.clone());
            } else {
                each(Arrived { token: pending.token, body: refusal.map_or(Ok(body), Err) });
            }
            self.begin += length;
        }
    }

    fn greeted(&self, reply: CommonReply) -> Result<HelloReply> {
        match reply {
            CommonReply::Hello(hello) if !(VERSION_MIN..=VERSION).contains(&hello.version) => {
                Err(version_error(hello.version, hello.version))
            }
            CommonReply::Hello(hello) => Ok(hello),
            other => Err(self.named(unexpected(&other))),
        }
    }

    /// Returns the server's own name, once its greeting has arrived.
    pub fn server(&self) -> Option<&str> {
        self.hello.as_ref().map(|hello| hello.server.as_str())
    }

    fn named(&self, error: Error) -> Error {
        error.at_server(&self.name)
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        self.named(socket::failure(what, error, self.timeout))
    }

    /// Returns when the server will have been silent for too long; `None`: nothing is outstanding.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then(|| self.progress + self.timeout)
    }

    /// Makes the error for a server that was silent for too long.
    pub fn silent(&self) -> Error {
        self.failed("its reply was awaited", std::io::ErrorKind::TimedOut.into())
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let sending = if self.channel.wants_to_send(self.sent < self.output.len()) { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN | sending)
    }
}

/// Starts connecting, with TLS and the expected server key if given.
fn connecting(to: SocketAddr, encrypted: Option<Option<Fingerprint>>) -> Result<Channel> {
    let failed = |e: std::io::Error| Error::system(format!("connecting to {to}"), e);
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM.nonblocking(), None).map_err(failed)?;
    socket.set_tcp_nodelay(true).map_err(failed)?;
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) => return Err(failed(e)),
    }
    let stream = TcpStream::from(socket);
    match encrypted {
        Some(expected) => Channel::client_start(stream, client_tls()?, expected, to),
        None => Ok(Channel::plain(stream)),
    }
}

/// Waits until a pipe is ready, the deadline passes, or `waker` becomes readable.
pub fn wait<'a>(pipes: impl Iterator<Item = &'a Pipe>, waker: &'a OwnedFd, until: Option<Instant>) {
    let mut fds: Vec<PollFd<'a>> = pipes.map(Pipe::poll_fd).collect();
    let waker: BorrowedFd<'a> = waker.as_fd();
    fds.push(PollFd::from_borrowed_fd(waker, PollFlags::IN));
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // Rounded up, so that the deadline has passed on waking.
    let timeout = left.map(|left| left + Duration::from_millis(1));
    let timeout = timeout.map(|left| rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
    // A spurious wake-up is harmless.
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
}
