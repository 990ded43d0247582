//! A connection on which nothing waits: requests are put in, answers come out, and somebody else knows when to look.
//!
//! [`super::Connection`] blocks, which is right for a thread that has one thing to do. Who asks many servers at once has many
//! connections and one thread, that sleeps until any of them has something ([`wait`]). Requests may be put in from the start: they
//! go out with the proof of the credential, before the greeting is answered, once the server has proven its own. As on every connection, answers come in the order of the requests.

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

/// Received at once at first: who has a pipe to each of a thousand servers has most of them for small answers.
const RECEIVED_FIRST_BYTES: usize = 8 << 10;
/// The same at most, unless one message is larger: twice as much whenever all of it was filled.
const RECEIVED_BYTES: usize = 256 << 10;

/// A connection on which nothing waits.
pub struct Pipe {
    channel: Channel,
    name: String,
    address: String,
    timeout: Duration,
    hello: Option<HelloReply>,
    counter: u64,
    pending: VecDeque<Pending>,
    /// How far both ends have proven their credentials.
    proving: Proving,
    /// Where it comes again if the server wants to be spoken to encrypted, which is not known of one on this machine.
    or_encrypted: Option<SocketAddr>,
    /// Encoded, and held back until the server has proven itself.
    held: Vec<u8>,
    /// Encoded and not sent: what follows `sent`.
    output: Vec<u8>,
    sent: usize,
    /// Received and not understood: `input[begin..end]`.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// Room for what is received at once.
    at_once: usize,
    scratch: Vec<u8>,
    /// When something was last sent or received, or began to be awaited.
    progress: Instant,
    recording: Option<Recorded>,
    /// When it was begun to be made.
    begun: Time,
}

/// How far both ends have proven their credentials.
enum Proving {
    /// The server's proof is awaited.
    Server(Box<Client>),
    /// Its verdict on ours is.
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

/// An answer's body, and what it was recorded as.
pub struct Arrived<'a> {
    /// What the request was put in with.
    pub token: u64,
    /// The body, to be read with [`body`]; or the server's refusal.
    pub body: Result<&'a [u8]>,
}

/// A body from its bytes.
pub fn body<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    decode(bytes)
}

impl Pipe {
    /// Begins to connect to the server that errors call `name`, and to say hello.
    ///
    /// # Errors
    /// When the address is none, or the system refuses at once.
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

    /// From now on, requests belong to this session of the server's; TCP's counters do once the server has said whether its link is emulated.
    pub fn record(&mut self, mode: &TraceHandle, session: u32) {
        let name = match (self.channel.local_addr(), self.address.as_str()) {
            (Ok(local), address) => format!("{local} > {address}"),
            (Err(_), address) => format!("> {address}"),
        };
        self.recording = Recorded::new(mode, session, (&name, &self.name), None, None);
    }

    /// Whether the server has said hello: the connection has worked.
    pub fn has_worked(&self) -> bool {
        self.hello.is_some()
    }

    /// Requests without an answer.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Puts a request in; its answer comes with `token`, which is not 0. Nothing is sent before [`Pipe::flush`].
    ///
    /// # Errors
    /// When it is too large to be sent.
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
            // Nothing was awaited. What is added to what is awaited gives a silent server no more time.
            self.progress = Instant::now();
        }
        let output = if is_held { &mut self.held } else { &mut self.output };
        output.extend_from_slice(&self.scratch);
        if tracer.is_on() {
            if let Some(counted) = Recorded::counted(self.recording.as_ref()) {
                counted.sending(tracer);
            }
            // What is recorded as sent is sent, as far as the system takes it: later, nobody would know whose bytes they were.
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

    /// Sends what the system takes.
    ///
    /// # Errors
    /// The connection's; it is of no more use.
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
            // Also while it is being connected.
            System::WouldBlock => Ok(()),
            // Its last words may be there to be received, and say why.
            System::BrokenPipe if !self.pending.is_empty() => Ok(()),
            _ => Err(error),
        }
    }

    /// Takes what has arrived, each answer to `each`. `waiting`: the span of the wait for it, which the first answer ends.
    ///
    /// # Errors
    /// The connection's; it is of no more use, and what was asked on it and not answered will not be.
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
                        counted.came();
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

    /// Room for what can arrive: the rest of a message, or many small ones.
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

    /// Length of the message at the beginning of what was received, as it claims; within limits, which [`Header::decode`] checks.
    fn message_bytes(&self) -> Option<usize> {
        let header: &[u8; HEADER_BYTES] = self.input[self.begin..self.end].first_chunk()?;
        Header::decode(header).ok().map(|header| HEADER_BYTES + header.body_bytes as usize)
    }

    /// Goes on with the proofs; whether they are done.
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
                return Err(self.named(Error::new(ErrorKind::Protocol, "a reply that nobody has asked for")));
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

    /// How the server called itself, once it has.
    pub fn server(&self) -> Option<&str> {
        self.hello.as_ref().map(|hello| hello.server.as_str())
    }

    fn named(&self, error: Error) -> Error {
        error.at_server(&self.name)
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        self.named(socket::failure(what, error, self.timeout))
    }

    /// When the server has been silent for too long; `None`: nothing is awaited.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then(|| self.progress + self.timeout)
    }

    /// What is to be said of a server that has been.
    pub fn silent(&self) -> Error {
        self.failed("its reply was awaited", std::io::ErrorKind::TimedOut.into())
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let sending = if self.channel.wants_to_send(self.sent < self.output.len()) { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN | sending)
    }
}

/// Begins to connect; encrypted, if it is to be, with the key that is expected if there is one.
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

/// Waits until one of these has something, or the time has come, or `waker` is written to.
pub fn wait<'a>(pipes: impl Iterator<Item = &'a Pipe>, waker: &'a OwnedFd, until: Option<Instant>) {
    let mut fds: Vec<PollFd<'a>> = pipes.map(Pipe::poll_fd).collect();
    let waker: BorrowedFd<'a> = waker.as_fd();
    fds.push(PollFd::from_borrowed_fd(waker, PollFlags::IN));
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A little more than what is left: to find, once awake, that the time has come.
    let timeout = left.map(|left| left + Duration::from_millis(1));
    let timeout = timeout.map(|left| rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
    // What ends the wait without a reason is found to have none.
    let _ = rustix::event::poll(&mut fds, timeout.as_ref());
}
