//! Promises of the wire protocol, on real sockets.

use crate::bounded::{accepted, heard, joined};
use crate::loopback;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{Event, HostId, IdSpace, Memory, Role, SpanKind, TraceHandle, Tracer};
use thalweg_wire::protocol::common::{BootVerifier, Hello, HelloReply, ServiceKind};
use thalweg_wire::trust::Identity;
use thalweg_wire::{Connect, Connection, Exchange, Kind, Running, ServeOptions, Service, Session, VERSION, serve};
use thalweg_wire::{Error, ErrorKind, Result};

struct Echo(BootVerifier);

impl Service for Echo {
    fn hello(&self, _: &Hello, _: &Arc<Identity>) -> Result<HelloReply> {
        Ok(HelloReply {
            version: 1,
            server: "echo".into(),
            service: ServiceKind::Io,
            node: "here".into(),
            boot_id: "b".into(),
            verifier: self.0,
            store: 7,
            service_start: Default::default(),
            change: 0,
            emulated: None,
        })
    }
    fn kind(&self) -> Kind {
        Kind::Io
    }
    fn session(self: Arc<Self>, _: &Hello, _: &Arc<Identity>) -> Box<dyn Session> {
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
    let options = ServeOptions { connections, ..loopback::serving("echo") };
    serve(listener, Arc::new(Echo(BootVerifier::random())), options).unwrap()
}

fn connect(server: &Running) -> Connection {
    Connection::connect(&server.address().to_string(), &loopback::connect()).unwrap()
}

/// Returns an authenticated connection on which nothing was sent.
fn proven(server: &Running) -> TcpStream {
    let channel = thalweg_wire::proven(&server.address().to_string(), &loopback::connect()).unwrap();
    let stream = channel.try_clone().unwrap();
    // Closes its other descriptor, which does not end the connection.
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
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
    let answer = heard(&mut garbage);
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("THALWEG") && text.contains("47, 47, 47, 47"), "{text}");
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
        let mut peer = proven(&server);
        peer.write_all(&bytes).unwrap();
        let answer = heard(&mut peer);
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
    let other = VERSION + 1;
    bytes[4..6].copy_from_slice(&other.to_le_bytes());
    bytes[6] = 1;
    let mut peer = proven(&server);
    peer.write_all(&bytes).unwrap();
    let answer = heard(&mut peer);
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.contains(&format!("a newer release, which speaks version {other}"))
            && text.contains(&format!("which speaks version {VERSION}: ")),
        "{text}"
    );
}

#[test]
fn a_server_that_speaks_garbage_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let peer = std::thread::spawn(move || {
        let mut stream = accepted(&listener);
        stream.write_all(&[b'S'; 100]).unwrap();
        heard(&mut stream);
    });
    let error = Connection::connect(&address, &loopback::connect()).err().unwrap();
    assert_eq!((error.kind(), error.server()), (ErrorKind::Protocol, Some(&*address)));
    joined(peer);
}

#[test]
fn a_silent_server_is_given_up_after_the_timeout_and_a_refusing_one_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let options = Connect { timeout: Duration::from_millis(100), ..loopback::connect() };
    let error = Connection::connect(&address, &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    drop(listener);
    let error = Connection::connect(&address, &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[test]
fn connections_past_the_bound_are_refused() {
    let server = start(1);
    let _first = connect(&server);
    let error = Connection::connect(&server.address().to_string(), &loopback::connect()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TooMany, "{error}");
}

#[test]
fn a_server_beyond_loopback_must_be_asked_for() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let error = serve(listener, Arc::new(Echo(BootVerifier::random())), loopback::serving("echo")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Access);
}

#[test]
fn both_ends_of_a_recorded_call_are_joined_by_its_request_number() {
    let server = start(4);
    let mut connection = connect(&server);
    let sink = Arc::new(Memory::new(1000));
    let trace = TraceHandle::on(sink.clone(), HostId(0), Role::Client, IdSpace(1));
    let (session, host) = connection.record_start(HostId(0), IdSpace(2)).unwrap();
    assert_eq!(host.node, "here");
    connection.record(&trace, session, None);
    let mut tracer = trace.thread("main");
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

/// Opens connections that send this much, and nothing more.
fn strangers(server: &Running, many: usize, say: &[u8]) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // The first may be closed before the last are opened.
        let _ = stream.write_all(say);
        stream
    };
    (0..many).map(one).collect()
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn connections_that_do_not_say_hello_take_no_clients_place_and_the_oldest_make_room() {
    let server = start(4);
    let mut before = connect(&server);
    for say in [&b""[..], &b"TLWG"[..], &[0; 32]] {
        let idle = strangers(&server, 600, say);
        assert_eq!(echo(&mut connect(&server), "a", &[]).unwrap().0, "a");
        let closed = idle.iter().filter(|stream| is_closed(stream)).count();
        assert!(closed >= 600 - thalweg_wire::limits::NEWCOMERS, "{closed} are closed");
    }
    assert_eq!(echo(&mut before, "b", &[]).unwrap().0, "b");
}

#[test]
fn who_takes_long_to_say_hello_is_closed_however_often_a_byte_comes() {
    let server = start(4);
    let mut slow = strangers(&server, 1, b"THALWEG\x01").remove(0);
    let begun = std::time::Instant::now();
    while slow.write_all(b"W").is_ok() && !is_closed(&slow) {
        slow.set_nonblocking(false).unwrap();
        assert!(begun.elapsed() < 3 * thalweg_wire::limits::HELLO, "still open");
        // Sends a byte at long intervals, which is the subject of the test.
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(begun.elapsed() > thalweg_wire::limits::HELLO / 2, "{:?}", begun.elapsed());
}

#[test]
fn a_first_message_that_is_no_hello_or_larger_than_one_is_refused() {
    let server = start(4);
    for (payload, body) in [(1_u64, 0_u32), (0, thalweg_wire::limits::HELLO_BYTES + 1)] {
        let header = thalweg_wire::Header {
            kind: Kind::Common,
            reply: false,
            status: 0,
            request: 1,
            body_bytes: body,
            payload_bytes: payload,
            payload_crc: 0,
            session: 0,
        };
        let mut bytes = vec![0; thalweg_wire::HEADER_BYTES];
        header.encode_into(&mut bytes);
        let mut peer = proven(&server);
        peer.write_all(&bytes).unwrap();
        let answer = heard(&mut peer);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("must be a hello"), "{text}");
    }
}

#[test]
fn a_job_that_connects_all_at_once_from_one_address_gets_every_connection() {
    let server = start(1024);
    let at_once = std::sync::Barrier::new(64);
    std::thread::scope(|scope| {
        for rank in 0..64 {
            let (server, at_once) = (&server, &at_once);
            scope.spawn(move || {
                let options = Connect { client: format!("rank {rank}"), ..loopback::connect() };
                at_once.wait();
                let all: Vec<_> = (0..15).map(|_| Connection::connect(&server.address().to_string(), &options)).collect();
                for connection in all {
                    assert_eq!(echo(&mut connection.unwrap(), "a", &[]).unwrap().0, "a");
                }
            });
        }
    });
}

/// Returns the number of this process's threads with this name, and their voluntary context switches.
fn sleeps(name: &str) -> (usize, u64) {
    let mut all = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread of another test may have ended since.
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == name {
            let status = read("status");
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            all = (all.0 + 1, all.1 + count.map_or(0, |count| count.trim().parse::<u64>().unwrap()));
        }
    }
    all
}

#[test]
fn connections_that_are_idle_wake_nobody_and_work_when_they_are_used_again() {
    const MANY: usize = 256;
    let silence = Duration::from_millis(100);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions { connections: 2 * MANY, silence, ..loopback::serving("rests") };
    let server = serve(listener, Arc::new(Echo(BootVerifier::random())), options).unwrap();
    let mut all: Vec<_> = (0..MANY).map(|_| connect(&server)).collect();
    for _ in 0..2 {
        all.iter_mut().for_each(|connection| assert_eq!(echo(connection, "a", &[7; 5000]).unwrap().0, "a"));
        let begun = std::time::Instant::now();
        loop {
            let before = sleeps("rests serve");
            // Within this time each thread would wake several times.
            std::thread::sleep(silence * 5);
            let after = sleeps("rests serve");
            assert_eq!(after.0, MANY, "a thread for each connection");
            if before == after {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{} wake-ups in {:?}", after.1 - before.1, silence * 5);
        }
    }
}

#[test]
fn a_server_stops_while_its_connections_rest() {
    let silence = Duration::from_millis(50);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions { silence, ..loopback::serving("ends") };
    let mut server = serve(listener, Arc::new(Echo(BootVerifier::random())), options).unwrap();
    let mut connection = connect(&server);
    echo(&mut connection, "a", &[]).unwrap();
    let deep = || {
        let before = sleeps("ends serve");
        std::thread::sleep(silence * 3);
        before == sleeps("ends serve")
    };
    while !deep() {}
    server.stop();
    assert!(echo(&mut connection, "a", &[]).is_err());
}

#[test]
fn one_client_cannot_take_every_connection() {
    let server = start(8);
    let _some: Vec<_> = (0..6).map(|_| connect(&server)).collect();
    let error = Connection::connect(&server.address().to_string(), &loopback::connect()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TooMany, "{error}");
    let other = Connect { client: "another".into(), ..loopback::connect() };
    Connection::connect(&server.address().to_string(), &other).unwrap();
}

#[test]
fn recordings_of_all_sessions_share_one_budget_and_what_does_not_fit_is_counted() {
    const BUDGET_BYTES: u64 = 4 << 20;
    let budget = Arc::new(thalweg_wire::Budget::new(BUDGET_BYTES));
    let options = ServeOptions { connections: 64, recordings: Arc::clone(&budget), ..loopback::serving("echo") };
    let servers: Vec<Running> = (0..2)
        .map(|_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            serve(listener, Arc::new(Echo(BootVerifier::random())), options.clone()).unwrap()
        })
        .collect();
    let mut all = Vec::new();
    let mut fullest = 0;
    for number in 0..2 * thalweg_wire::limits::SESSIONS_OF_CREDENTIAL {
        let mut connection = connect(&servers[number % 2]);
        let space = |n| IdSpace(2 * number as u16 + n);
        let (session, _) = connection.record_start(HostId(0), space(2)).unwrap();
        let sink = Arc::new(Memory::new(10));
        let trace = TraceHandle::on(sink.clone(), HostId(0), Role::Client, space(1));
        connection.record(&trace, session, None);
        let mut tracer = trace.thread("main");
        // The first ones exhaust the space; the others must still get some.
        for _ in 0..if number < 4 { 6000 } else { 300 } {
            let _: (String, Vec<u8>) = connection.call_with(&mut tracer, Kind::Io, &"x", &[]).unwrap();
        }
        fullest = fullest.max(budget.used_bytes());
        all.push((connection, session));
    }
    assert!(fullest > BUDGET_BYTES / 2 && fullest <= BUDGET_BYTES, "{fullest}");
    for (number, (connection, session)) in all.iter_mut().enumerate() {
        let mut events = Vec::new();
        let lost = connection.record_fetch(*session, &mut |page| events.extend(page)).unwrap();
        let lost_in = |e: &Event| if let Event::Mark(mark) = e { mark.value.unwrap_or(0) } else { 0 };
        let lost = lost + events.iter().map(lost_in).sum::<i64>() as u64;
        assert!(events.len() > 100, "session {number} has {} events", events.len());
        assert!(number >= 4 || lost > 0, "session {number} has {} events and lost none", events.len());
    }
    assert_eq!(budget.used_bytes(), 0, "what was fetched is given back");
}
