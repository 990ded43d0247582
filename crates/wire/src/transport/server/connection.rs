//! One connection on its thread: receives requests, and records the work on them if the client asked for that.

use super::newcomers::Client;
use super::requests::{Parts, finish};
use super::service::{Session, Shared};
use super::sessions::RecordingSession;
use crate::emulate::Line;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::transport::channel::Channel;
use crate::transport::counted::Counted;
use crate::transport::exchange::{Exchange, request_header};
use crate::transport::header::{HEADER_BYTES, Header, Kind};
use crate::transport::proving::{self, Authentication};
use crate::transport::socket;
use crate::trust::Identity;
use std::io::ErrorKind as System;
use std::net::{Shutdown, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_trace::{ObjectId, ObjectKind, OpenSpan, RequestId, SpanFields, SpanKind, Time, Tracer};

/// One connection, on its thread.
pub(super) struct Served<'a> {
    number: u64,
    begun: Time,
    channel: Channel,
    /// Its share of the emulated link.
    line: Option<Line>,
    peer: SocketAddr,
    /// The client's proven identity.
    who: Option<Arc<Identity>>,
    /// The gate's change counter at the last check of the identity.
    checked: u64,
    /// Deadline for the greeting.
    hello_by: Instant,
    client: Option<Client>,
    name: String,
    shared: &'a Shared,
    session: Option<Box<dyn Session>>,
    recording: Option<Recording>,
    /// Recording sessions that end with this connection.
    started: Vec<u32>,
    body: Vec<u8>,
    scratch: Vec<u8>,
}

/// The recording of the connection's last recorded request.
struct Recording {
    number: u32,
    session: Arc<RecordingSession>,
    tracer: Tracer,
    object: Option<ObjectId>,
    counted: Option<Counted>,
}

/// What to do with the connection.
enum Next {
    Continue,
    Close,
}

impl<'a> Served<'a> {
    pub(super) fn new(number: u64, channel: Channel, peer: SocketAddr, shared: &'a Shared) -> Result<Served<'a>> {
        channel.socket().set_nodelay(true).map_err(|e| Error::system("TCP_NODELAY", e))?;
        channel.set_silence(shared.options.silence)?;
        socket::keep_alive(channel.socket())?;
        let local = channel.local_addr().map_err(|e| Error::system("connection", e))?;
        let name = format!("{peer} > {local}");
        let line = shared.link.as_ref().map(|link| Line::new(link, channel.socket(), name.clone()));
        Ok(Served {
            number,
            begun: Time::now(),
            channel,
            line,
            peer,
            who: None,
            checked: 0,
            hello_by: Instant::now() + limits::HELLO,
            client: None,
            name,
            shared,
            session: None,
            recording: None,
            started: Vec::new(),
            body: Vec::new(),
            scratch: Vec::new(),
        })
    }

    pub(super) fn run(&mut self) {
        if !self.authenticate().unwrap_or(false) {
            return;
        }
        loop {
            let waiting = self.recording.as_mut().map(|r| r.tracer.begin());
            match self.one(waiting) {
                Ok(Next::Continue) => {}
                Ok(Next::Close) | Err(_) => return,
            }
            if self.shared.stopping.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Authenticates the new connection; returns whether it succeeded.
    fn authenticate(&mut self) -> Result<bool> {
        let gate = &self.shared.options.gate;
        self.checked = gate.changes();
        let outcome = proving::authenticate(&mut self.channel, gate, self.shared.options.tls.as_ref(), self.hello_by);
        if outcome.is_err() && self.shared.stopping.load(Ordering::SeqCst) {
            return Ok(false);
        }
        // An error here is a failed handshake, half a proof, or silence.
        let why = match outcome.unwrap_or(Authentication::Refused("it ended before it proved a credential")) {
            Authentication::Client(identity) => {
                if let Some(open) = self.shared.open().get_mut(&self.number) {
                    open.of = Some(identity.id);
                }
                self.who = Some(Arc::new(identity));
                self.shared.newcomers.proven(self.number);
                return Ok(true);
            }
            Authentication::Gone => return Ok(false),
            Authentication::Refused(why) => why,
            Authentication::Stranger(error) => {
                self.last_words(&error)?;
                "it proves no credential"
            }
        };
        gate.count_refused(&self.shared.options.name, self.peer.ip(), why);
        self.linger();
        Ok(false)
    }

    /// Refuses a client whose credential was revoked or has expired.
    fn check_credential(&mut self) -> Result<()> {
        let (gate, Some(who)) = (&self.shared.options.gate, &self.who) else { return Ok(()) };
        let changes = gate.changes();
        if changes != self.checked || who.until_s.is_some() {
            gate.still(who).map_err(|e| e.at_server(&self.shared.options.name))?;
            self.checked = changes;
        }
        Ok(())
    }

    /// Sends a final error to the peer.
    fn last_words(&mut self, error: &Error) -> Result<()> {
        let header = request_header(Kind::Common, 0, 0, 0, 0);
        self.answer(header, None, |_, exchange, _| exchange.refuse(error))
    }

    /// Receives and answers one message. On an error the connection is unusable, and the client was notified if possible.
    fn one(&mut self, waiting: Option<OpenSpan>) -> Result<Next> {
        let mut bytes = [0_u8; HEADER_BYTES];
        let is_new = self.session.is_none();
        let was_waiting = self.line.is_some() && self.channel.is_readable();
        let is_there = match is_new {
            true => self.channel.receive_by(&mut bytes, self.hello_by).map_err(no_hello)?,
            false => self.wait_for_header(&mut bytes)?,
        };
        if let Some(counted) = self.recording.as_ref().and_then(|r| r.counted.as_ref()) {
            counted.arrived();
        }
        if let Err(error) = self.check_credential() {
            self.last_words(&error)?;
            self.linger();
            return Err(error);
        }
        if !is_there {
            return Ok(Next::Close);
        }
        let received = Header::decode(&bytes).and_then(|header| {
            if is_new && (header.body_bytes > limits::HELLO_BYTES || header.payload_bytes > 0) {
                let problem = format!("the first message of a connection must be a hello, of at most {} bytes", limits::HELLO_BYTES);
                return Err(Error::new(ErrorKind::Protocol, problem));
            }
            self.body.resize(header.body_bytes as usize, 0);
            match is_new {
                true => self.channel.receive_by(&mut self.body, self.hello_by).map(drop).map_err(no_hello)?,
                false => self
                    .channel
                    .receive_exact(&mut self.body)
                    .map_err(|e| socket::failure("a request was received", e, self.shared.options.silence))?,
            }
            Header::verify(&bytes, &self.body)?;
            if header.reply {
                return Err(Error::new(ErrorKind::Protocol, "a reply where a request was expected"));
            }
            Ok(header)
        });
        let header = match received {
            Ok(header) => header,
            Err(error) => {
                self.last_words(&error)?;
                self.linger();
                return Err(error);
            }
        };
        if let Some(line) = &mut self.line {
            line.head_arrived((HEADER_BYTES + self.body.len()) as u64, header.payload_bytes, was_waiting);
        }
        self.answer(header, waiting, |parts, exchange, header| parts.dispatch(exchange, header))?;
        Ok(Next::Continue)
    }

    /// Waits without limit for the first byte of a header; `false`: the client has closed the connection.
    fn wait_for_header(&mut self, bytes: &mut [u8; HEADER_BYTES]) -> Result<bool> {
        let mut have = 0;
        while have < bytes.len() {
            match self.channel.receive_some(&mut bytes[have..]) {
                Ok(0) => return Ok(false),
                Ok(n) => have += n,
                Err(e) if e.kind() == System::WouldBlock && have == 0 && !self.shared.stopping.load(Ordering::SeqCst) => self.rest(),
                Err(e) => return Err(socket::failure("a request was received", e, self.shared.options.silence)),
            }
        }
        Ok(true)
    }

    /// Frees the buffers of a silent client, and sleeps without a timer until something arrives. TCP keep-alive detects a dead
    /// machine, and a stopping server shuts down the socket: both make it readable.
    fn rest(&mut self) {
        (self.body, self.scratch) = (Vec::new(), Vec::new());
        self.session.iter_mut().for_each(|session| session.rest());
        socket::wait_until_readable(self.channel.socket());
    }

    /// Discards what the peer still sends for a moment after a fatal error: closing a socket with unread bytes resets it, and the
    /// peer would never read the error.
    fn linger(&mut self) {
        self.line.iter_mut().for_each(Line::flush);
        let _ = self.channel.shutdown(Shutdown::Write);
        let _ = self.channel.set_silence(Duration::from_millis(200));
        let mut sink = [0_u8; 4096];
        for _ in 0..256 {
            match self.channel.receive_some(&mut sink) {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        }
    }

    /// Selects the recording of a request, runs `work` on it, and readies the connection for the next one.
    fn answer(
        &mut self,
        header: Header,
        waiting: Option<OpenSpan>,
        work: impl FnOnce(&mut Parts<'_>, &mut Exchange<'_>, Header) -> Result<()>,
    ) -> Result<()> {
        let continued = self.recording.as_ref().is_some_and(|r| r.number == header.session);
        if !continued {
            self.choose_recording(header.session);
        }
        let mut off = Tracer::off();
        let (tracer, object, session, counted) = match &mut self.recording {
            Some(r) => (&mut r.tracer, r.object, Some(Arc::clone(&r.session)), r.counted.as_ref()),
            None => (&mut off, None, None, None),
        };
        let working = session.as_ref().map(RecordingSession::working);
        let request = RequestId::new(header.request);
        if let (true, Some(waiting)) = (continued, waiting) {
            let size_bytes = Some((HEADER_BYTES + self.body.len()) as u64);
            tracer.end(waiting, SpanKind::NetReceive, SpanFields { object, request, size_bytes, ..SpanFields::default() });
        }
        let serving = tracer.begin();
        if let Some(line) = &mut self.line {
            line.record_arriving(session.as_ref().and_then(|s| Some((&s.trace, object?))));
        }
        let mut exchange = Exchange {
            channel: &mut self.channel,
            line: self.line.as_mut(),
            header,
            body: &self.body,
            payload_left: header.payload_bytes,
            replied: false,
            scratch: &mut self.scratch,
            tracer,
            trace: session.as_ref().map(|s| &s.trace),
            counted,
            object,
            span: serving.id(),
        };
        let mut parts = Parts {
            session: &mut self.session,
            shared: self.shared,
            number: self.number,
            peer: self.peer,
            who: self.who.as_ref(),
            client: &mut self.client,
            started: &mut self.started,
        };
        // State left by a panic is not used again: the connection is closed.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut parts, &mut exchange, header)));
        let panicked = worked.as_ref().err().map(|panic| self.shared.panicked(&**panic));
        let worked = worked.unwrap_or_else(|_| Err(panicked.clone().expect("it is here only then")));
        let done = finish(worked, &mut exchange, &self.shared.options.name);
        let size_bytes = (header.payload_bytes > 0).then_some(header.payload_bytes);
        tracer.end(serving, SpanKind::RpcServe, SpanFields { object, request, size_bytes, ..SpanFields::default() });
        tracer.flush();
        drop(working);
        let Some(panicked) = panicked else { return done };
        self.linger();
        Err(panicked)
    }

    fn choose_recording(&mut self, number: u32) {
        let who = self.who.as_ref().filter(|_| number != 0);
        let session = who.and_then(|who| self.shared.sessions.get(who.id, number));
        self.recording = session.map(|session| {
            let tracer = session.trace.thread(&format!("{} connection {}", self.shared.options.name, self.peer));
            let mut attributes = vec![("end", "server".to_owned())];
            attributes.extend(self.line.as_ref().map(|line| ("emulated", line.text().to_owned())));
            let object = session.trace.object(ObjectKind::Connection, &self.name, &attributes);
            // TCP's counters of the real link would mislead: the emulated link has its own.
            let counted = match &self.line {
                Some(line) => {
                    object.iter().for_each(|object| line.record_round_trip((&session.trace, *object)));
                    None
                }
                None => {
                    Counted::new(&session.trace, object, self.channel.socket(), Some(self.begun).filter(|begun| *begun >= session.begun))
                }
            };
            Recording { number, session, tracer, object, counted }
        });
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        for (who, number) in self.who.iter().flat_map(|who| self.started.iter().map(move |number| (who, number))) {
            self.shared.sessions.stop(who.id, *number);
        }
        if let Some(client) = &self.client {
            self.shared.clients.leave(client);
        }
    }
}

fn no_hello(error: std::io::Error) -> Error {
    socket::failure("a hello was awaited", error, limits::HELLO)
}
