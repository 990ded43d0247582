//! What a server does with requests, and what its connections share.

use super::burst::Burst;
use super::failure::Failure;
use super::newcomers::{Clients, Newcomers};
use super::sessions::{Budget, Sessions};
use crate::emulate::{Emulation, Link};
use crate::error::{Error, Result};
use crate::limits;
use crate::protocol::common::{Hello, HelloReply};
use crate::transport::descriptors::Counted;
use crate::transport::exchange::Exchange;
use crate::transport::header::Kind;
use crate::transport::tls::ServerTls;
use crate::trust::{CredentialId, Gate, Identity};
use std::any::Any;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_base::sync::{Mutex, MutexGuard};

/// What a server does with requests.
pub trait Service: Send + Sync + 'static {
    /// How it introduces itself; an error refuses the client. Versions are negotiated before.
    ///
    /// # Errors
    /// When this client must not be served (another store's, no credential).
    fn hello(&self, hello: &Hello, who: &Arc<Identity>) -> Result<HelloReply>;

    /// Which kind of message it takes, besides the common ones.
    fn kind(&self) -> Kind;

    /// The server stops: whatever requests wait for here does not come, and they are answered.
    fn stopping(&self) {}

    /// Whether a request that panicked may leave something half-changed that others see: then nothing more is answered.
    fn stops_after_a_panic(&self) -> bool {
        true
    }

    /// A connection has said hello: what keeps its state.
    fn session(self: Arc<Self>, hello: &Hello, who: &Arc<Identity>) -> Box<dyn Session>;
}

/// One connection's state on a server. Lives on the connection's thread.
pub trait Session {
    /// Works on one request and replies to it. An error returned before a reply was sent is sent as the reply; the
    /// connection lives on unless [`Error::breaks_connection`].
    ///
    /// # Errors
    /// Whatever the client is to be notified of.
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()>;

    /// The client has been silent for [`ServeOptions::silence`]: gives back the memory that only the next request needs.
    fn rest(&mut self) {}
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Connections of clients at a time, as far as there are descriptors for them.
    pub connections: usize,
    /// Silence after which a connection rests (no memory of its own, no timer), and after which half a request is given up.
    pub silence: Duration,
    /// Memory for recordings.
    pub recordings: Arc<Budget>,
    /// May listen on other addresses than loopback.
    pub beyond_loopback: bool,
    /// The track's name for a peer is `{name} connection {peer}`.
    pub name: String,
    /// The label of this machine.
    pub node: String,
    /// Who may come in.
    pub gate: Arc<Gate>,
    /// Its part in encrypting; `None`: bytes go in clear.
    pub tls: Option<ServerTls>,
    /// The devices that the store pretends to have.
    pub emulated: Option<Emulation>,
}

impl ServeOptions {
    /// On loopback, with the default bounds.
    pub fn new(name: impl Into<String>, node: impl Into<String>, gate: Arc<Gate>) -> ServeOptions {
        let (connections, recordings) = (limits::CONNECTIONS, Budget::of_process());
        ServeOptions {
            connections,
            silence: limits::SERVER_SILENCE,
            recordings,
            beyond_loopback: false,
            name: name.into(),
            node: node.into(),
            gate,
            tls: None,
            emulated: None,
        }
    }
}

/// A connection, as others see it.
pub(super) struct Open {
    /// A handle to shut it down.
    pub stream: Arc<TcpStream>,
    pub thread: Option<JoinHandle<()>>,
    /// Whose it is, once that is proven.
    pub of: Option<CredentialId>,
}

/// What the connections of a server share.
pub(super) struct Shared {
    pub service: Arc<dyn Service>,
    pub options: ServeOptions,
    pub stopping: AtomicBool,
    pub sessions: Sessions,
    pub next: AtomicU64,
    /// All connections, by number.
    open: Mutex<HashMap<u64, Open>>,
    pub failure: Failure,
    pub newcomers: Newcomers,
    pub clients: Clients,
    pub burst: Burst,
    /// The link that it pretends to have.
    pub link: Option<Arc<Link>>,
    _counted: Counted,
}

impl Shared {
    pub(super) fn new(service: Arc<dyn Service>, options: ServeOptions) -> Shared {
        Shared {
            service,
            sessions: Sessions::new(Arc::clone(&options.recordings)),
            link: options.emulated.as_ref().and_then(Link::new).map(Arc::new),
            options,
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(1),
            open: Mutex::default(),
            failure: Failure::default(),
            newcomers: Newcomers::default(),
            clients: Clients::default(),
            burst: Burst::default(),
            _counted: Counted::server(),
        }
    }

    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock()
    }

    /// Ends the connections of these credentials, once what is being worked on is answered.
    pub(super) fn end_of(&self, ids: &[CredentialId]) {
        let open = self.open();
        let theirs = open.values().filter(|open| open.of.is_some_and(|of| ids.contains(&of)));
        // An error means that the peer has closed it already.
        theirs.for_each(|open| _ = open.stream.shutdown(Shutdown::Read));
    }

    /// A request panicked: what its client is answered.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let stops = self.service.stops_after_a_panic();
        let error = self.failure.panicked(&self.options.name, panic, stops);
        if stops {
            // Those that wait here for another's request are answered.
            let _ = catch_unwind(AssertUnwindSafe(|| self.service.stopping()));
        }
        error
    }
}
