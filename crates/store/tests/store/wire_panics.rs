//! A request that makes the service panic: its client gets an error, its resources are released, and a service that may be half-changed
//! stops.

use crate::loopback;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_wire::trust::Identity;
use thalweg_wire::{Connect, Connection, Exchange, Kind, Running, ServeOptions, Service, Session, serve};
use thalweg_wire::{Error, ErrorKind, Result};

/// Answers with the word that it is sent, or panics.
struct Clumsy {
    stops: bool,
    sessions: Arc<AtomicUsize>,
}

impl Service for Clumsy {
    fn hello(&self, hello: &Hello, _: &Arc<Identity>) -> Result<HelloReply> {
        assert_ne!(hello.client, "panics", "in a hello");
        Ok(HelloReply {
            version: 1,
            server: "clumsy".into(),
            service: ServiceKind::Io,
            node: "here".into(),
            boot_id: "b".into(),
            verifier: BootVerifier::random(),
            store: 7,
            service_start: Default::default(),
            change: 0,
            emulated: None,
        })
    }
    fn kind(&self) -> Kind {
        Kind::Io
    }
    fn stops_after_a_panic(&self) -> bool {
        self.stops
    }
    fn session(self: Arc<Self>, _: &Hello, _: &Arc<Identity>) -> Box<dyn Session> {
        self.sessions.fetch_add(1, Ordering::SeqCst);
        Box::new(ClumsySession { service: self, drops_badly: false })
    }
}

struct ClumsySession {
    service: Arc<Clumsy>,
    drops_badly: bool,
}

impl Session for ClumsySession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let word: String = exchange.body()?;
        match &*word {
            "at once" => panic!("the words of the panic"),
            "amid the payload" => {
                exchange.receive(&mut [0; 10]).unwrap();
                panic!("the words of the panic");
            }
            "after the reply" => {
                exchange.reply(&word).unwrap();
                panic!("the words of the panic");
            }
            "when dropped" => {
                self.drops_badly = true;
                panic!("the words of the panic");
            }
            "later" => {
                self.drops_badly = true;
                exchange.reply(&word)
            }
            _ => exchange.reply(&word),
        }
    }
}

impl Drop for ClumsySession {
    fn drop(&mut self) {
        self.service.sessions.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.drops_badly, "in a drop");
    }
}

fn start(connections: usize, stops: bool) -> (Running, Arc<AtomicUsize>) {
    let sessions = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions { connections, ..loopback::serving("clumsy") };
    (serve(listener, Arc::new(Clumsy { stops, sessions: Arc::clone(&sessions) }), options).unwrap(), sessions)
}

fn connect(server: &Running) -> Result<Connection> {
    Connection::connect(&server.address().to_string(), &loopback::connect())
}

fn call(connection: &mut Connection, word: &str, payload: &[u8]) -> Result<String> {
    connection.call_with(&mut Tracer::off(), Kind::Io, &word, payload).map(|(word, _)| word)
}

fn eventually(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} never was");
        std::thread::yield_now();
    }
}

fn is_reported(error: &Error) {
    assert_eq!((error.kind(), error.server()), (ErrorKind::Io, Some("clumsy")), "{error}");
    assert!(error.message().contains("the words of the panic") && error.message().contains("a bug"), "{error}");
}

#[test]
fn a_request_that_panics_is_answered_and_what_it_held_goes_back() {
    // A single slot: a leak shows immediately.
    let (server, sessions) = start(1, false);
    let free = || eventually("a free slot", || server.connections() == 0 && sessions.load(Ordering::SeqCst) == 0);
    for word in ["at once", "amid the payload", "when dropped", "after the reply"] {
        for payload in [10, 1_000_000] {
            let mut connection = connect(&server).unwrap();
            let begun = Instant::now();
            match call(&mut connection, word, &vec![1; payload]) {
                Ok(answer) => assert_eq!((word, &*answer), ("after the reply", word)),
                Err(error) => is_reported(&error),
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "answered, not given up");
            // A connection whose state is in doubt sends nothing further.
            call(&mut connection, "well", &[]).unwrap_err();
            free();
        }
    }
    let options = Connect { client: "panics".into(), ..loopback::connect() };
    let error = Connection::connect(&server.address().to_string(), &options).err().unwrap();
    assert!(error.message().contains("in a hello"), "{error}");
    free();
    assert_eq!(call(&mut connect(&server).unwrap(), "well", &[]).unwrap(), "well");
    assert!(server.failure().is_none());
}

#[test]
fn a_panic_when_a_client_has_gone_is_no_less_a_panic() {
    for stops in [false, true] {
        let (server, sessions) = start(1, stops);
        let mut connection = connect(&server).unwrap();
        assert_eq!(call(&mut connection, "later", &[]).unwrap(), "later");
        drop(connection);
        eventually("a free slot", || server.connections() == 0 && sessions.load(Ordering::SeqCst) == 0);
        // The client's slot is free shortly before the panic is counted.
        eventually("the verdict", || server.failure().is_some() == stops);
        assert_eq!(connect(&server).is_err(), stops);
    }
}

#[test]
fn a_service_that_may_be_half_changed_answers_nothing_more_and_says_why() {
    let (mut server, sessions) = start(4, true);
    let notified = Arc::new(AtomicUsize::new(0));
    let notify = || {
        let notified = Arc::clone(&notified);
        move || _ = notified.fetch_add(1, Ordering::SeqCst)
    };
    server.on_failure(notify());
    let mut other = connect(&server).unwrap();
    assert_eq!(call(&mut other, "well", &[]).unwrap(), "well");
    is_reported(&call(&mut connect(&server).unwrap(), "at once", &[1; 100_000]).unwrap_err());
    assert_eq!(notified.load(Ordering::SeqCst), 1, "its owner is notified before its client is");
    is_reported(&server.failure().unwrap());
    assert!(server.failure().unwrap().message().contains("start it again"));
    is_reported(&call(&mut other, "well", &[]).unwrap_err());
    is_reported(&connect(&server).err().unwrap());
    server.on_failure(notify());
    assert_eq!(notified.load(Ordering::SeqCst), 2, "notified at once when it is late");
    server.stop();
    assert_eq!((server.connections(), sessions.load(Ordering::SeqCst)), (0, 0));
}
