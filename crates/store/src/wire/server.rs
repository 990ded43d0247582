//! The server's end: accepts connections, one thread each, and hands their requests to a [`Service`] one by one.
//!
//! A thread per connection and requests in their order: a client that wants two things at once opens two connections,
//! and pipelines on each. The number of connections is bounded; the next client is told so when it says hello. Those that have not
//! said hello are few, short-lived and cheap, and take no client's place ([`super::newcomers`]).

use super::descriptors::{self, Counted, Shares};
use super::exchange::{Exchange, decode};
use super::failure::Failure;
use super::header::{HEADER_BYTES, Header, Kind, VERSION, VERSION_MIN, version_error};
use super::newcomers::{Client, Clients, Newcomers};
use super::sessions::{Budget, RecordingSession, Sessions};
use super::socket;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::common::{CommonReply, CommonRequest, Hello, HelloReply};
use crate::sync::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_trace::{About, Begun, Host, ObjectId, ObjectKind, RequestId, SpanKind, Time, Tracer};

/// What a server does with requests.
pub trait Service: Send + Sync + 'static {
    /// How it introduces itself; an error refuses the client. Versions are negotiated before.
    ///
    /// # Errors
    /// When this client must not be served (another store's, no credential).
    fn hello(&self, hello: &Hello, peer: SocketAddr) -> Result<HelloReply>;

    /// Which kind of message it takes, besides the common ones.
    fn kind(&self) -> Kind;

    /// The server stops: whatever requests wait for here does not come, and they are answered.
    fn stopping(&self) {}

    /// Whether a request that panicked may leave something half-changed that others see: then nothing more is answered.
    fn stops_after_a_panic(&self) -> bool {
        true
    }

    /// A connection has said hello: what keeps its state.
    fn session(self: Arc<Self>, hello: &Hello, peer: SocketAddr) -> Box<dyn Session>;
}

/// One connection's state on a server. Lives on the connection's thread.
pub trait Session {
    /// Works on one request and replies to it. An error returned before a reply was sent is sent as the reply; the
    /// connection lives on unless [`Error::breaks_connection`].
    ///
    /// # Errors
    /// Whatever the client is to be told.
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()>;
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Connections of clients at a time, as far as there are descriptors for them.
    pub connections: usize,
    /// Memory for recordings.
    pub recordings: Arc<Budget>,
    /// May listen on other addresses than loopback.
    pub beyond_loopback: bool,
    /// The track's name for a peer is `{name} connection {peer}`.
    pub name: String,
    /// The label of this machine.
    pub node: String,
}

impl ServeOptions {
    /// On loopback, with the default bounds.
    pub fn new(name: impl Into<String>, node: impl Into<String>) -> ServeOptions {
        let (connections, recordings) = (limits::CONNECTIONS, Budget::of_process());
        ServeOptions { connections, recordings, beyond_loopback: false, name: name.into(), node: node.into() }
    }
}

/// A server that runs. Stops gracefully when dropped: requests being worked on are finished.
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: TcpListener,
    acceptor: Option<JoinHandle<()>>,
}

/// All connections, by number: a handle to shut each down, and its thread.
type Open = HashMap<u64, (Arc<TcpStream>, Option<JoinHandle<()>>)>;

struct Shared {
    service: Arc<dyn Service>,
    options: ServeOptions,
    stopping: AtomicBool,
    sessions: Sessions,
    next: AtomicU64,
    open: Mutex<Open>,
    failure: Failure,
    newcomers: Newcomers,
    clients: Clients,
    _counted: Counted,
}

/// Serves `service` on `listener` until the returned handle is stopped or dropped.
///
/// # Errors
/// When the listener is not on loopback and may not be, or no thread can be started.
pub fn serve(listener: TcpListener, service: Arc<dyn Service>, options: ServeOptions) -> Result<Running> {
    let address = listener.local_addr().map_err(|e| Error::system("listening address", e))?;
    if !address.ip().is_loopback() && !options.beyond_loopback {
        return Err(Error::new(
            ErrorKind::Access,
            format!("{address} is not a loopback address: the store listens beyond loopback only when it is told to"),
        ));
    }
    descriptors::raise();
    // Again, now with room for many who come at a time.
    rustix::net::listen(&listener, limits::BACKLOG).map_err(|e| Error::system("listening", e))?;
    let name = options.name.clone();
    let shared = Arc::new(Shared {
        service,
        sessions: Sessions::new(Arc::clone(&options.recordings)),
        options,
        stopping: AtomicBool::new(false),
        next: AtomicU64::new(1),
        open: Mutex::default(),
        failure: Failure::default(),
        newcomers: Newcomers::default(),
        clients: Clients::default(),
        _counted: Counted::server(),
    });
    let ours = listener.try_clone().map_err(|e| Error::system("listener", e))?;
    let acceptor = spawn(&format!("{name} accept"), {
        let shared = Arc::clone(&shared);
        move || accept(&listener, &shared)
    })?;
    Ok(Running { address, shared, listener: ours, acceptor: Some(acceptor) })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections of clients being served now.
    pub fn connections(&self) -> usize {
        self.shared.clients.all()
    }

    /// Why nothing is answered any more, if a request panicked and the service may be half-changed. It is still to be stopped.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure.reason().cloned()
    }

    /// Calls `tell` when there is a [`Running::failure`]: on a connection's thread, or at once.
    pub fn on_failure(&self, tell: impl FnOnce() + Send + 'static) {
        self.shared.failure.tell(Box::new(tell));
    }

    /// Finishes what is being worked on, closes all connections, and waits for the threads.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.service.stopping();
        // On Linux this ends an accept that is waiting. An error means that it has ended already.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
        let _ = acceptor.join();
        let threads: Vec<_> = self
            .shared
            .open()
            .values_mut()
            .filter_map(|(stream, thread)| {
                let _ = stream.shutdown(Shutdown::Read);
                thread.take()
            })
            .collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// A request panicked: what its client is told.
    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let stops = self.service.stops_after_a_panic();
        let error = self.failure.panicked(&self.options.name, panic, stops);
        if stops {
            // Whoever waits here for another's request is answered.
            let _ = catch_unwind(AssertUnwindSafe(|| self.service.stopping()));
        }
        error
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|e| Error::system("starting a thread", e))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let stopping = || shared.stopping.load(Ordering::SeqCst);
    while !stopping() {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(_) if stopping() => return,
            // It has gone again while it waited for us.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                // Descriptors or memory are used up, as far as may be known. Trying at once would spin.
                shared.newcomers.make_room();
                continue;
            }
        };
        let (stream, number) = (Arc::new(stream), shared.next.fetch_add(1, Ordering::Relaxed));
        let most = limits::NEWCOMERS.min(Shares::now().newcomers);
        if shared.newcomers.enter(number, &stream, peer.ip(), most, stopping) && begin(number, stream, peer, shared).is_err() {
            // No thread can be started. Whoever comes next may have more luck.
            shared.newcomers.leave(number);
        }
    }
}

fn begin(number: u64, stream: Arc<TcpStream>, peer: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    // In the table before the thread runs, so that the thread can take itself out of it.
    shared.open().insert(number, (Arc::clone(&stream), None));
    let thread = spawn(&format!("{} serve", shared.options.name), {
        let shared = Arc::clone(shared);
        move || {
            let serving = || {
                if let Ok(mut served) = Served::new(number, &stream, peer, &shared) {
                    served.run();
                }
            };
            // Such as in what a session leaves to do when its client goes.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(serving)) {
                shared.panicked(&*panic);
            }
            let _ = stream.shutdown(Shutdown::Both);
            shared.open().remove(&number);
            // Who waits for a place, or a descriptor, finds it: nobody else holds this one.
            drop(stream);
            shared.newcomers.leave(number);
        }
    });
    match thread {
        Ok(thread) => {
            if let Some(entry) = shared.open().get_mut(&number) {
                entry.1 = Some(thread);
            }
            Ok(())
        }
        Err(error) => {
            shared.open().remove(&number);
            Err(error)
        }
    }
}

/// One connection, on its thread.
struct Served<'a> {
    number: u64,
    stream: &'a TcpStream,
    peer: SocketAddr,
    /// By when it has to have said hello.
    hello_by: Instant,
    client: Option<Client>,
    name: String,
    shared: &'a Shared,
    session: Option<Box<dyn Session>>,
    recording: Option<Recording>,
    /// Sessions that end with this connection.
    started: Vec<u32>,
    body: Vec<u8>,
    scratch: Vec<u8>,
}

/// The recording session of the connection's last recorded request.
struct Recording {
    number: u32,
    session: Arc<RecordingSession>,
    tracer: Tracer,
    object: Option<ObjectId>,
}

/// What became of the connection.
enum Next {
    Continue,
    Close,
}

impl<'a> Served<'a> {
    fn new(number: u64, stream: &'a TcpStream, peer: SocketAddr, shared: &'a Shared) -> Result<Served<'a>> {
        stream.set_nodelay(true).map_err(|e| Error::system("TCP_NODELAY", e))?;
        socket::set_silence(stream, limits::SERVER_SILENCE)?;
        socket::keep_alive(stream)?;
        let local = stream.local_addr().map_err(|e| Error::system("connection", e))?;
        let name = format!("{peer} > {local}");
        Ok(Served {
            number,
            stream,
            peer,
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

    fn run(&mut self) {
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

    /// Receives and answers one message. An error means that the connection is of no more use, and that the client has
    /// been told if that was possible.
    fn one(&mut self, waiting: Option<Begun>) -> Result<Next> {
        let mut bytes = [0_u8; HEADER_BYTES];
        let is_new = self.session.is_none();
        let is_there = match is_new {
            true => socket::receive_by(self.stream, &mut bytes, self.hello_by).map_err(no_hello)?,
            false => self.wait_for_header(&mut bytes)?,
        };
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
                true => socket::receive_by(self.stream, &mut self.body, self.hello_by).map(drop).map_err(no_hello)?,
                false => socket::receive_exact(self.stream, &mut self.body)
                    .map_err(|e| socket::failure("a request was received", e, limits::SERVER_SILENCE))?,
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
                let header = super::exchange::request_header(Kind::Common, 0, 0, 0, 0);
                self.answer(header, None, |_, exchange, _| exchange.refuse(&error.clone()))?;
                self.linger();
                return Err(error);
            }
        };
        self.answer(header, waiting, |parts, exchange, header| parts.dispatch(exchange, header))?;
        Ok(Next::Continue)
    }

    /// Waits as long as it takes for the first byte of a header; `false`: the client has closed the connection.
    fn wait_for_header(&self, bytes: &mut [u8; HEADER_BYTES]) -> Result<bool> {
        let mut have = 0;
        while have < bytes.len() {
            match rustix::net::recv(self.stream, &mut bytes[have..], rustix::net::RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(false),
                Ok((_, n)) => have += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if have == 0 && !self.shared.stopping.load(Ordering::SeqCst) => {}
                Err(e) => return Err(socket::failure("a request was received", e.into(), limits::SERVER_SILENCE)),
            }
        }
        Ok(true)
    }

    /// After garbage: what the peer still sends is thrown away for a moment, since closing a socket with unread bytes
    /// resets it, and the peer would never read why.
    fn linger(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = socket::set_silence(self.stream, Duration::from_millis(200));
        let mut sink = [0_u8; 4096];
        for _ in 0..256 {
            match rustix::net::recv(self.stream, &mut sink, rustix::net::RecvFlags::empty()) {
                Ok((_, n)) if n > 0 => {}
                _ => return,
            }
        }
    }

    /// Chooses the recording of a request, runs `work` on it, and leaves the connection ready for the next one.
    fn answer(
        &mut self,
        header: Header,
        waiting: Option<Begun>,
        work: impl FnOnce(&mut Parts<'_>, &mut Exchange<'_>, Header) -> Result<()>,
    ) -> Result<()> {
        let continued = self.recording.as_ref().is_some_and(|r| r.number == header.session);
        if !continued {
            self.choose_recording(header.session);
        }
        let mut off = Tracer::off();
        let (tracer, object, session) = match &mut self.recording {
            Some(r) => (&mut r.tracer, r.object, Some(Arc::clone(&r.session))),
            None => (&mut off, None, None),
        };
        let working = session.as_ref().map(RecordingSession::working);
        let request = RequestId::new(header.request);
        if let (true, Some(waiting)) = (continued, waiting) {
            let size_bytes = Some((HEADER_BYTES + self.body.len()) as u64);
            tracer.end(waiting, SpanKind::NetReceive, About { object, request, size_bytes, ..About::default() });
        }
        let serving = tracer.begin();
        let mut exchange = Exchange {
            stream: self.stream,
            header,
            body: &self.body,
            payload_left: header.payload_bytes,
            replied: false,
            scratch: &mut self.scratch,
            tracer,
            mode: session.as_ref().map(|s| &s.mode),
            object,
            span: serving.id(),
        };
        let mut parts = Parts {
            session: &mut self.session,
            shared: self.shared,
            number: self.number,
            peer: self.peer,
            client: &mut self.client,
            started: &mut self.started,
        };
        // What unwinding leaves of the connection's state is not used again: it is closed.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut parts, &mut exchange, header)));
        let panicked = worked.as_ref().err().map(|panic| self.shared.panicked(&**panic));
        let worked = worked.unwrap_or_else(|_| Err(panicked.clone().expect("it is here only then")));
        let done = finish(worked, &mut exchange, &self.shared.options.name);
        let size_bytes = (header.payload_bytes > 0).then_some(header.payload_bytes);
        tracer.end(serving, SpanKind::RpcServe, About { object, request, size_bytes, ..About::default() });
        tracer.flush();
        drop(working);
        let Some(panicked) = panicked else { return done };
        self.linger();
        Err(panicked)
    }

    fn choose_recording(&mut self, number: u32) {
        let session = (number != 0).then(|| self.shared.sessions.get(number)).flatten();
        self.recording = session.map(|session| {
            let tracer = session.mode.thread(&format!("{} connection {}", self.shared.options.name, self.peer));
            let object = session.mode.object(ObjectKind::Connection, &self.name, &[]);
            Recording { number, session, tracer, object }
        });
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        for number in &self.started {
            self.shared.sessions.stop(*number);
        }
        if let Some(client) = &self.client {
            self.shared.clients.leave(client);
        }
    }
}

fn no_hello(error: std::io::Error) -> Error {
    socket::failure("a hello was awaited", error, limits::HELLO)
}

/// Sees to it that a reply was sent and the payload is out of the way.
fn finish(done: Result<()>, exchange: &mut Exchange<'_>, server: &str) -> Result<()> {
    let breaks = match done {
        Ok(()) if exchange.replied => None,
        Ok(()) => {
            exchange.refuse(&Error::new(ErrorKind::Io, "the request was not answered: a bug").at_server(server))?;
            None
        }
        Err(error) if exchange.replied => Some(error),
        Err(error) => {
            let error = error.at_server(server);
            exchange.refuse(&error)?;
            error.breaks_connection().then_some(error)
        }
    };
    if let Some(error) = breaks {
        return Err(error);
    }
    let mut sink = [0_u8; 16 << 10];
    while exchange.payload_left() > 0 {
        let many = exchange.payload_left().min(sink.len() as u64) as usize;
        exchange.receive(&mut sink[..many])?;
    }
    Ok(())
}

/// What the work on a request may change of its connection.
struct Parts<'a> {
    session: &'a mut Option<Box<dyn Session>>,
    shared: &'a Shared,
    number: u64,
    peer: SocketAddr,
    client: &'a mut Option<Client>,
    started: &'a mut Vec<u32>,
}

impl Parts<'_> {
    fn dispatch(&mut self, exchange: &mut Exchange<'_>, header: Header) -> Result<()> {
        self.shared.failure.check()?;
        if header.kind == Kind::Common {
            return self.common(exchange);
        }
        let Some(session) = self.session else {
            return Err(Error::new(ErrorKind::Protocol, "the first message of a connection must be a hello"));
        };
        if header.kind != self.shared.service.kind() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("a request for the {:?} service: this one is {:?}", header.kind, self.shared.service.kind()),
            ));
        }
        session.serve(exchange)
    }

    /// From now on it is a client's connection.
    fn admit(&mut self, hello: &Hello) -> Result<()> {
        if self.client.is_some() {
            return Ok(());
        }
        let client = (self.peer.ip(), hello.client.clone());
        let most = self.shared.options.connections.min(Shares::now().connections);
        self.shared.clients.enter(&client, most)?;
        *self.client = Some(client);
        match self.shared.newcomers.leave(self.number) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Reset, "closed while it said hello: too many connections here have not said it")),
        }
    }

    fn common(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let request: CommonRequest = decode(exchange.body)?;
        if self.session.is_none() && !matches!(request, CommonRequest::Hello(_)) {
            return Err(Error::new(ErrorKind::Protocol, "the first message of a connection must be a hello"));
        }
        match request {
            CommonRequest::Hello(hello) => {
                let (min, max) = (hello.version_min, hello.version_max);
                if min > VERSION || max < VERSION_MIN {
                    return Err(version_error(min, max));
                }
                let mut reply = self.shared.service.hello(&hello, self.peer)?;
                reply.version = max.min(VERSION);
                self.admit(&hello)?;
                *self.session = Some(Arc::clone(&self.shared.service).session(&hello, self.peer));
                exchange.reply(&CommonReply::Hello(reply))
            }
            CommonRequest::RecordStart { host, space } => {
                let session = self.shared.sessions.start(host, space)?;
                self.started.push(session);
                let host = Host::here(host, &self.shared.options.node);
                exchange.reply(&CommonReply::RecordStarted { session, host })
            }
            CommonRequest::RecordFetch { session } => {
                let Some(found) = self.shared.sessions.get(session) else {
                    return Err(Error::new(ErrorKind::NotFound, format!("recording session {session} has ended")));
                };
                let (events, more, lost) = found.fetch();
                let payload =
                    postcard::to_allocvec(&events).map_err(|e| Error::new(ErrorKind::Io, format!("events cannot be serialised: {e}")))?;
                exchange.reply_with(&CommonReply::RecordPage { more, lost }, &payload)
            }
            CommonRequest::Clock => exchange.reply(&CommonReply::Clock(Time::now())),
            CommonRequest::RecordStop { session } => {
                self.shared.sessions.stop(session);
                exchange.reply(&CommonReply::Done)
            }
        }
    }
}
