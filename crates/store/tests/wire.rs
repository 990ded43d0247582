//! The wire's promises, on real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use thalweg_store::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_store::wire::{Connect, Connection, Exchange, Kind, Running, ServeOptions, Service, Session, VERSION, serve};
use thalweg_store::{Error, ErrorKind, Result};
use thalweg_trace::{Event, HostId, IdSpace, Memory, Mode, Role, SpanKind, Tracer};

struct Echo(BootVerifier);

impl Service for Echo {
    fn hello(&self, _: &Hello, _: SocketAddr) -> Result<HelloReply> {
        Ok(HelloReply {
            version: 1,
            server: "echo".into(),
            service: ServiceKind::Io,
            node: "here".into(),
            boot_id: "b".into(),
            verifier: self.0,
            store: 7,
            service_start: Default::default(),
        })
    }
    fn kind(&self) -> Kind {
        Kind::Io
    }
    fn session(self: Arc<Self>, _: &Hello, _: SocketAddr) -> Box<dyn Session> {
        Box::new(EchoSession)
    }
}

struct EchoSession;

impl Session for EchoSession {
    fn serve(&mut self, exchange: &mut Exchange<'_>) -> Result<()> {
        let word: String = exchange.body()?;
        if word == "fail" {
            return Err(Error::new(ErrorKind::NoSpace, "no room").on_file("/x"));
        }
        let payload = exchange.receive_whole()?;
        exchange.reply_with(&word, &payload)
    }
}

fn start(connections: usize) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions { connections, ..ServeOptions::new("echo", "here") };
    serve(listener, Arc::new(Echo(BootVerifier::random())), options).unwrap()
}

fn connect(server: &Running) -> Connection {
    Connection::connect(&server.address().to_string(), &Connect::default()).unwrap()
}

fn echo(connection: &mut Connection, word: &str, payload: &[u8]) -> Result<(String, Vec<u8>)> {
    connection.call_with(&mut Tracer::off(), Kind::Io, &word, payload)
}

#[test]
fn a_call_comes_back_with_body_and_payload_and_errors_leave_the_connection_alive() {
    let server = start(4);
    let mut connection = connect(&server);
    assert_eq!(connection.hello().server, "echo");
    let payload: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    assert_eq!(echo(&mut connection, "a", &payload).unwrap(), ("a".into(), payload));
    let error = echo(&mut connection, "fail", b"not received by the service").unwrap_err();
    assert_eq!((error.kind(), error.server(), error.file()), (ErrorKind::NoSpace, Some("echo"), Some("/x")));
    assert_eq!(echo(&mut connection, "b", &[]).unwrap().0, "b");
}

#[test]
fn a_request_that_is_not_known_is_refused_and_the_connection_lives() {
    let server = start(4);
    let mut connection = connect(&server);
    let error = connection.call_with::<_, String>(&mut Tracer::off(), Kind::Io, &[9_u8; 3], &[1; 1000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(echo(&mut connection, "a", &[]).unwrap().0, "a");
}

#[test]
fn garbage_is_answered_with_what_was_expected_and_the_server_lives() {
    let server = start(4);
    let mut garbage = TcpStream::connect(server.address()).unwrap();
    garbage.write_all(&[b'G'; 5000]).unwrap();
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("TLWG") && text.contains("47, 47, 47, 47"), "{text}");
    assert_eq!(echo(&mut connect(&server), "a", &[]).unwrap().0, "a");
}

#[test]
fn a_message_that_claims_2_to_the_63_bytes_is_refused_and_the_server_lives() {
    let server = start(4);
    for at in [24..32, 32..36] {
        let mut bytes = [0_u8; 64];
        bytes[0..4].copy_from_slice(b"TLWG");
        bytes[4] = VERSION as u8;
        bytes[6] = 2;
        bytes[at.end - 1] = 0x80;
        let mut peer = TcpStream::connect(server.address()).unwrap();
        peer.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("claims 9223372036854775808") || text.contains("claims 2147483648"), "{text}");
    }
    assert_eq!(echo(&mut connect(&server), "a", &[]).unwrap().0, "a");
}

#[test]
fn another_version_is_refused_and_both_are_named() {
    let server = start(4);
    let mut bytes = [0_u8; 64];
    bytes[0..4].copy_from_slice(b"TLWG");
    bytes[4] = 9;
    bytes[6] = 1;
    let mut peer = TcpStream::connect(server.address()).unwrap();
    peer.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("version 9") && text.contains(&format!("this program {VERSION}")), "{text}");
}

#[test]
fn a_server_that_speaks_garbage_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[b'S'; 100]).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let error = Connection::connect(&address, &Connect::default()).err().unwrap();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Protocol, Some(&*address)));
    peer.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up_after_the_timeout_and_a_refusing_one_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = Connect { timeout: Duration::from_millis(100), ..Connect::default() };
    let error = Connection::connect(&address, &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    drop(listener);
    let error = Connection::connect(&address, &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[test]
fn connections_past_the_bound_are_told_so() {
    let server = start(1);
    let _first = connect(&server);
    let error = Connection::connect(&server.address().to_string(), &Connect::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TooMany, "{error}");
}

#[test]
fn a_server_beyond_loopback_must_be_asked_for() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let error = serve(listener, Arc::new(Echo(BootVerifier::random())), ServeOptions::new("echo", "here")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Access);
}

#[test]
fn both_ends_of_a_recorded_call_are_joined_by_its_request_number() {
    let server = start(4);
    let mut connection = connect(&server);
    let sink = Arc::new(Memory::new(1000));
    let mode = Mode::on(sink.clone(), HostId(0), Role::Client, IdSpace(1));
    let (session, host) = connection.record_start(HostId(0), IdSpace(2)).unwrap();
    assert_eq!(host.node, "here");
    connection.record(&mode, session);
    let mut tracer = mode.thread("main");
    for _ in 0..3 {
        let _: (String, Vec<u8>) = connection.call_with(&mut tracer, Kind::Io, &"x", &[1, 2, 3]).unwrap();
    }
    tracer.flush();
    let mut theirs = Vec::new();
    assert_eq!(connection.record_fetch(session, &mut |page| theirs.extend(page)).unwrap(), 0);
    let (ours, _) = sink.drain();
    let requests = |events: &[Event], kind| -> Vec<u64> {
        let spans = events.iter().filter_map(|e| if let Event::Span(s) = e { Some(s) } else { None });
        spans.filter(|s| s.kind == kind).map(|s| s.request.expect("a request").number()).collect()
    };
    assert_eq!(requests(&ours, SpanKind::RpcCall).len(), 3);
    assert_eq!(requests(&ours, SpanKind::RpcCall), requests(&theirs, SpanKind::RpcServe));
    assert_eq!(requests(&ours, SpanKind::NetReceive), requests(&theirs, SpanKind::NetSend));
    let names = |events: &[Event]| -> Vec<String> {
        events.iter().filter_map(|e| if let Event::Object(o) = e { Some(o.name.clone()) } else { None }).collect()
    };
    assert_eq!(names(&ours), names(&theirs));
}

#[test]
fn stopping_finishes_and_closes() {
    let mut server = start(4);
    let mut connection = connect(&server);
    server.stop();
    let error = echo(&mut connection, "a", &[]).unwrap_err();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Reset, Some("echo")));
    assert!(connection.is_broken());
}
