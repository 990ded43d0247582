//! The interface of a service, and the state shared by a server's connections.

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

/// The service behind a server.
pub trait Service: Send + Sync + 'static {
    /// Returns the server's greeting; an error refuses the client. The version has been negotiated.
    ///
    /// # Errors
    /// When this client must not be served (another store, no credential).
    fn hello(&self, hello: &Hello, who: &Arc<Identity>) -> Result<HelloReply>;

    /// Returns the kind of messages it accepts, besides the common ones.
    fn kind(&self) -> Kind;

    /// Called when the server stops: requests that wait for other requests must be answered now.
    fn stopping(&self) {}

    /// Whether a panic may leave shared state half-changed, so that no further request is answered.
    fn stops_after_a_panic(&self) -> bool {
        true
    }

    /// Makes the state of a connection that has greeted.
    fn session(self: Arc<Self>, hello: &Hello, who: &Arc<Identity>) -> Box<dyn Session>;
}

/// One connection's state on a server. Lives on the connection's thread.
pub trait Session {
    /// Executes one request and replies to it. An error returned before a reply was sent becomes the reply; the connection stays
    /// open unless [`Error::breaks_connection`].
    ///
    /// # Errors
    /// The error for the client.
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()>;

    /// Called after [`ServeOptions::silence`]: frees memory needed only by the next request.
    fn rest(&mut self) {}
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Maximum client connections, descriptors permitting.
    pub connections: usize,
    /// Time of silence after which an idle connection frees its memory and timer, and a partly received request times out.
    pub silence: Duration,
    /// Memory budget for recordings.
    pub recordings: Arc<Budget>,
    /// Whether it may listen on addresses other than loopback.
    pub beyond_loopback: bool,
    /// The server's name; a peer's track is called `{name} connection {peer}`.
    pub name: String,
    /// Label of this machine.
    pub node: String,
    /// Admission check of clients.
    pub gate: Arc<Gate>,
    /// The server's TLS configuration; `None`: in clear.
    pub tls: Option<ServerTls>,
    /// The devices the store emulates.
    pub emulated: Option<Emulation>,
}

impl ServeOptions {
    /// Makes options for loopback with the default limits.
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

/// A connection in the server's table.
pub(super) struct Open {
    /// For shutting it down.
    pub stream: Arc<TcpStream>,
    pub thread: Option<JoinHandle<()>>,
    /// Its credential, once proven.
    pub of: Option<CredentialId>,
}

/// State shared by the connections of a server.
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
    /// The emulated link.
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

    /// Ends the connections with these credentials, after their current requests.
    pub(super) fn end_of(&self, ids: &[CredentialId]) {
        let open = self.open();
        let theirs = open.values().filter(|open| open.of.is_some_and(|of| ids.contains(&of)));
        // An error means that the peer has already closed it.
        theirs.for_each(|open| _ = open.stream.shutdown(Shutdown::Read));
    }

    /// Handles a panic in a request; returns the error for its client.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let stops = self.service.stops_after_a_panic();
        let error = self.failure.panicked(&self.options.name, panic, stops);
        if stops {
            // Requests that wait for another request are answered.
            let _ = catch_unwind(AssertUnwindSafe(|| self.service.stopping()));
        }
        error
    }
}
