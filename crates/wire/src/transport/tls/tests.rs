//! Tests of TLS channels: between two of ours, and between one of ours and rustls's own connections.

use super::config::tickets_of;
use super::exporter::ExporterSecret;
use super::{ClientTls, Fingerprint, ServerKey, ServerTls};
use crate::error::{ErrorKind, Result};
use crate::transport::channel::Channel;
use crate::transport::socket;
use proptest::prelude::*;
use std::io::{ErrorKind as System, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

const PATIENCE: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

fn server_of(seed: u8) -> ServerTls {
    ServerTls::new(&ServerKey::from_seed(&[seed; 32]).unwrap()).unwrap()
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    for stream in [&one, &other] {
        stream.set_nodelay(true).unwrap();
        socket::set_silence(stream, PATIENCE).unwrap();
    }
    (one, other)
}

/// Returns the results of a handshake at both ends, client's and server's.
fn shake(
    (one, other): (TcpStream, TcpStream),
    client: &ClientTls,
    expected: Option<Fingerprint>,
    server: &ServerTls,
) -> (Result<Channel>, Result<Channel>) {
    std::thread::scope(|scope| {
        let served = scope.spawn(|| Channel::server(other, server, soon()));
        (Channel::client(one, client, expected, soon()), served.join().unwrap())
    })
}

fn channels() -> (Channel, Channel) {
    let server = server_of(7);
    let (one, other) = shake(sockets(), &ClientTls::new().unwrap(), Some(server.fingerprint()), &server);
    (one.unwrap(), other.unwrap())
}

/// How the interceptor alters the client's bytes once set, after this many more bytes.
#[derive(Clone, Default)]
struct Meddler(Arc<Mutex<Option<(usize, Meddling)>>>);

#[derive(Clone, Copy)]
enum Meddling {
    /// Flips a bit of the next byte.
    Change,
    /// Ends the connection.
    Cut,
}

impl Meddler {
    fn after(&self, bytes: usize, meddling: Meddling) {
        *self.0.lock() = Some((bytes, meddling));
    }

    /// Returns how many of these bytes are passed on.
    fn meddle(&self, bytes: &mut [u8]) -> usize {
        let mut set = self.0.lock();
        match &mut *set {
            Some((left, _)) if *left >= bytes.len() => *left -= bytes.len(),
            Some((left, Meddling::Change)) => {
                bytes[*left] ^= 0x10;
                *set = None;
            }
            Some((left, Meddling::Cut)) => return *left,
            None => {}
        }
        bytes.len()
    }
}

/// A connection through an interceptor that passes on at most `most` bytes at a time.
fn between(meddler: &Meddler, most: usize) -> (TcpStream, TcpStream) {
    let ((one, mut inside), (mut outside, other)) = (sockets(), sockets());
    let (mut back_from, mut back_to) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
    let meddler = meddler.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; most];
        while let Ok(many @ 1..) = back_from.read(&mut bytes) {
            if back_to.write_all(&bytes[..many]).is_err() {
                return;
            }
        }
        let _ = back_to.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; most];
        while let Ok(many @ 1..) = inside.read(&mut bytes) {
            let goes_on = meddler.meddle(&mut bytes[..many]);
            if outside.write_all(&bytes[..goes_on]).is_err() || goes_on < many {
                break;
            }
        }
        let _ = outside.shutdown(Shutdown::Write);
    });
    (one, other)
}

fn content(many: usize, seed: u8) -> Vec<u8> {
    (0..many).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

fn send(channel: &mut Channel, bytes: &[u8], piece: usize) {
    let mut pieces: Vec<IoSlice<'_>> = bytes.chunks(piece.max(1)).map(IoSlice::new).collect();
    pieces.push(IoSlice::new(&[]));
    channel.send_pieces(&mut pieces).unwrap();
}

/// Receives this many bytes with one of the receiving calls.
fn receive(channel: &mut Channel, many: usize, way: usize) -> Vec<u8> {
    let mut bytes = vec![0; many];
    match way % 5 {
        0 => channel.receive_exact(&mut bytes).unwrap(),
        1 => channel.receive_payload(&mut bytes, PATIENCE).unwrap(),
        2 => {
            let mut pieces: Vec<IoSliceMut<'_>> = bytes.chunks_mut(10_000).map(IoSliceMut::new).collect();
            pieces.insert(0, IoSliceMut::new(&mut []));
            channel.receive_pieces(&mut pieces, PATIENCE).unwrap();
        }
        3 => assert!(channel.receive_by(&mut bytes, soon()).unwrap() || many == 0),
        _ => {
            let mut have = 0;
            while have < many {
                channel.wait_readable(PATIENCE).unwrap();
                have += channel.receive_some(&mut bytes[have..]).unwrap();
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn what_is_sent_arrives_in_both_directions_whatever_its_size_and_pieces(
        messages in prop::collection::vec((prop_oneof![0..300_usize, 16_000..17_000_usize, 0..700_000_usize], 1..200_000_usize, 0..5_usize), 1..12),
    ) {
        let (mut one, mut other) = channels();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (many, piece, way) in &messages {
                    let came = receive(&mut other, *many, *way);
                    assert!(came == content(*many, 1));
                    send(&mut other, &content(*many, 2), *piece);
                }
            });
            for (many, piece, way) in &messages {
                send(&mut one, &content(*many, 1), *piece);
                assert!(receive(&mut one, *many, way + 1) == content(*many, 2));
            }
        });
    }
}

#[test]
fn many_sent_behind_each_other_are_received_one_by_one() {
    let (mut one, mut other) = channels();
    let sizes: Vec<usize> = (0..60).map(|i| i * i * 97 % 300_000).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| sizes.iter().for_each(|many| send(&mut one, &content(*many, 3), 50_000)));
        for (way, many) in sizes.iter().enumerate() {
            assert!(receive(&mut other, *many, way) == content(*many, 3));
        }
    });
}

#[test]
fn many_connections_at_once_share_tickets_and_keys() {
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    std::thread::scope(|scope| {
        for number in 0..32_u8 {
            let (server, client) = (&server, &client);
            scope.spawn(move || {
                for _ in 0..3 {
                    let (one, other) = shake(sockets(), client, Some(server.fingerprint()), server);
                    let (mut one, mut other) = (one.unwrap(), other.unwrap());
                    send(&mut one, &content(50_000, number), 7000);
                    assert!(receive(&mut other, 50_000, 1) == content(50_000, number));
                    send(&mut other, &[number], 1);
                    assert_eq!(receive(&mut one, 1, 0), [number]);
                }
            });
        }
    });
}

#[test]
fn another_key_than_the_expected_is_refused_with_both_fingerprints() {
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    let expected = server_of(8).fingerprint();
    let error = shake(sockets(), &client, Some(expected), &server).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Access);
    assert!(error.message().contains(&expected.to_string()) && error.message().contains(&server.fingerprint().to_string()), "{error}");
    let any = shake(sockets(), &client, None, &server);
    assert_eq!(any.0.unwrap().fingerprint(), Some(server.fingerprint()));
    assert_eq!(any.1.unwrap().fingerprint(), Some(server.fingerprint()));
}

/// Returns a session and the tickets that come with it.
fn visit(listener: &TcpListener, client: &ClientTls, expected: Option<Fingerprint>, server: &ServerTls) -> Result<(Channel, Channel)> {
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (one, other) = shake((one, listener.accept().unwrap().0), client, expected, server);
    let (mut one, mut other) = (one?, other?);
    send(&mut other, &[1], 1);
    receive(&mut one, 1, 0);
    Ok((one, other))
}

#[test]
fn a_session_is_resumed_with_the_same_key_only_and_has_a_binding_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    for expected in [None, Some(server.fingerprint())] {
        let (first, at_server) = visit(&listener, &client, expected, &server).unwrap();
        assert!(!first.is_resumed() && first.binding().is_some());
        assert_eq!(first.binding(), at_server.binding());
        let (second, at_server) = visit(&listener, &client, expected, &server).unwrap();
        assert!(second.is_resumed() && at_server.is_resumed());
        assert_eq!((second.binding(), second.fingerprint()), (at_server.binding(), Some(server.fingerprint())));
        assert_ne!(first.binding(), second.binding());
    }
    // Its tickets are useless for another server, and the pin holds; a restarted server is recognised by its key.
    let other = server_of(8);
    assert_eq!(visit(&listener, &client, Some(server.fingerprint()), &other).unwrap_err().kind(), ErrorKind::Access);
    let (any, _) = visit(&listener, &client, None, &other).unwrap();
    assert!(!any.is_resumed() && any.fingerprint() == Some(other.fingerprint()));
    let (again, _) = visit(&listener, &client, Some(server.fingerprint()), &server_of(7)).unwrap();
    assert!(!again.is_resumed());
}

#[test]
fn an_end_within_a_message_is_an_error_and_between_messages_is_the_end() {
    for way in 0..3 {
        let (mut one, mut other) = channels();
        send(&mut one, &content(200_000, 4), 200_000);
        one.shutdown(Shutdown::Write).unwrap();
        let mut bytes = vec![0; 200_001];
        let error = match way {
            0 => other.receive_exact(&mut bytes).unwrap_err(),
            1 => other.receive_payload(&mut bytes, PATIENCE).unwrap_err(),
            _ => other.receive_by(&mut bytes, soon()).unwrap_err(),
        };
        assert_eq!(error.kind(), System::UnexpectedEof);
    }
    let (mut one, mut other) = channels();
    send(&mut one, &[1, 2], 1);
    drop(one);
    assert_eq!(receive(&mut other, 2, 3), [1, 2]);
    assert!(other.is_readable() && !other.receive_by(&mut [0], soon()).unwrap());
    assert_eq!(other.receive_some(&mut [0]).unwrap(), 0);
}

#[test]
fn an_end_within_a_record_is_an_error_wherever_it_is() {
    for place in [1, 4, 5, 100, 16_000, 20_000] {
        let meddler = Meddler::default();
        let (one, other) = shake(between(&meddler, 64 << 10), &ClientTls::new().unwrap(), None, &server_of(7));
        let (mut one, mut other) = (one.unwrap(), other.unwrap());
        meddler.after(place, Meddling::Cut);
        send(&mut one, &content(40_000, 6), 40_000);
        let mut some = vec![0; 50_000];
        let error = loop {
            match other.receive_some(&mut some) {
                Ok(0) => panic!("cut at {place}, and it looks like an end"),
                Ok(_) => {}
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), System::UnexpectedEof);
    }
}

#[test]
fn a_byte_that_is_changed_on_its_way_is_an_error_and_never_data() {
    let message = content(60_000, 5);
    for place in [0, 1, 3, 4, 5, 6, 1000, 16_388, 16_405, 16_406, 20_000, 50_000] {
        let meddler = Meddler::default();
        let (one, other) = shake(between(&meddler, 64 << 10), &ClientTls::new().unwrap(), None, &server_of(7));
        let (mut one, mut other) = (one.unwrap(), other.unwrap());
        meddler.after(place, Meddling::Change);
        send(&mut one, &message, 60_000);
        one.shutdown(Shutdown::Write).unwrap();
        let (mut came, mut some) = (Vec::new(), vec![0; 7000]);
        let error = loop {
            match other.receive_some(&mut some) {
                Ok(0) => panic!("byte {place} was changed, and nobody noticed"),
                Ok(many) => came.extend_from_slice(&some[..many]),
                Err(e) => break e,
            }
        };
        assert!(came.len() < message.len() && message.starts_with(&came), "{place}");
        // A length changed to more than what arrives is an end within a record.
        if error.kind() != System::UnexpectedEof {
            assert_eq!(socket::failure("a test", error, PATIENCE).kind(), ErrorKind::Protocol);
            assert!(other.receive_some(&mut some).is_err() && other.try_receive(&mut some).is_err(), "it stays so");
        }
    }
}

#[test]
fn what_is_no_tls_is_refused_at_once_at_both_ends() {
    let kinds = [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], ErrorKind::Protocol),
        (&[0][..], ErrorKind::Protocol),
        (&[22, 3, 3, 0xff, 0xff][..], ErrorKind::Protocol),
        (&[22, 3, 1, 0, 4, 9, 0, 0, 0][..], ErrorKind::Protocol),
        (&b"TLWG and so on"[..], ErrorKind::Access),
        (&b"THALWEG\x01"[..], ErrorKind::Access),
    ];
    for (words, kind) in kinds {
        let (mut one, other) = sockets();
        one.write_all(words).unwrap();
        let error = Channel::server(other, &server_of(7), soon()).unwrap_err();
        assert_eq!(error.kind(), kind, "{words:?}: {error}");
        let (one, mut other) = sockets();
        other.write_all(words).unwrap();
        let error = Channel::client(one, &ClientTls::new().unwrap(), None, soon()).unwrap_err();
        assert_eq!(error.kind(), kind, "{words:?}: {error}");
    }
}

#[test]
fn a_server_sees_whether_a_client_speaks_tls_and_takes_nothing() {
    let (mut one, other) = sockets();
    let at_server = Channel::plain(other);
    assert_eq!(at_server.peek_is_tls(Instant::now() + Duration::from_millis(20)).unwrap_err().kind(), System::TimedOut);
    one.write_all(b"THALWEG\x01").unwrap();
    assert!(!at_server.peek_is_tls(soon()).unwrap() && !at_server.is_tls());
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    let (one, other) = sockets();
    std::thread::scope(|scope| {
        scope.spawn(|| Channel::client(one, &client, None, soon()).unwrap());
        let peeking = Channel::plain(other);
        assert!(peeking.peek_is_tls(soon()).unwrap());
        assert!(Channel::server(Arc::clone(peeking.socket()), &server, soon()).unwrap().is_tls());
    });
    let (one, other) = sockets();
    drop(one);
    assert_eq!(Channel::plain(other).peek_is_tls(soon()).unwrap_err().kind(), System::UnexpectedEof);
}

#[test]
fn a_slow_peer_is_waited_for_and_a_silent_one_until_the_deadline() {
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    let (one, other) = shake(between(&Meddler::default(), 1), &client, Some(server.fingerprint()), &server);
    let (mut one, mut other) = (one.unwrap(), other.unwrap());
    send(&mut one, &content(3000, 1), 100);
    assert!(receive(&mut other, 3000, 4) == content(3000, 1));
    for words in [&b""[..], &[22][..], &[22, 3, 1, 2, 0, 1, 0, 1][..]] {
        let (mut one, other) = sockets();
        one.write_all(words).unwrap();
        let error = Channel::server(other, &server, Instant::now() + Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{words:?}");
    }
    let (one, _other) = sockets();
    let error = Channel::client(one, &client, None, Instant::now() + Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn tickets_are_not_taken_for_data_and_data_behind_other_data_is_seen() {
    let (mut one, mut other) = channels();
    // The server's tickets arrive first.
    socket::wait_readable(one.socket(), PATIENCE).unwrap();
    assert!(!one.is_readable());
    assert_eq!(one.wait_readable(Duration::from_millis(20)).unwrap_err().kind(), System::TimedOut);
    assert_eq!(one.try_receive(&mut [0; 4]).unwrap_err().kind(), System::WouldBlock);
    send(&mut other, &[1, 2, 3], 1);
    send(&mut other, &[4], 1);
    one.wait_readable(PATIENCE).unwrap();
    assert_eq!(receive(&mut one, 1, 0), [1]);
    assert!(one.is_readable());
    one.wait_readable(PATIENCE).unwrap();
    assert_eq!(receive(&mut one, 3, 0), [2, 3, 4]);
    assert!(!one.is_readable());
}

/// Sends and receives everything without blocking, except to poll the socket.
fn echo_without_waiting(mut channel: Channel, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut sent, mut came, mut buffer) = (0, Vec::new(), vec![0; 100_000]);
    while came.len() < message.len() {
        while sent < message.len() {
            match channel.try_send(&message[sent..]) {
                Ok(many) => sent += many,
                Err(e) if e.kind() == System::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        channel.try_flush()?;
        match channel.try_receive(&mut buffer) {
            Ok(0) => return Err(System::UnexpectedEof.into()),
            Ok(many) => {
                came.extend_from_slice(&buffer[..many]);
                if many == buffer.len() {
                    continue;
                }
            }
            Err(e) if e.kind() == System::WouldBlock => {}
            Err(e) => return Err(e),
        }
        if came.len() < message.len() {
            socket::wait_for(channel.socket(), channel.wants_to_send(sent < message.len()), PATIENCE)?;
        }
    }
    Ok(came)
}

#[test]
fn a_channel_on_which_nothing_waits_shakes_hands_and_carries_the_same_bytes() {
    let (server, client) = (server_of(7), ClientTls::new().unwrap());
    for many in [1, 1000, 3_000_000] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM.nonblocking(), None).unwrap();
        let _ = socket.connect(&to.into());
        let channel = Channel::client_start(TcpStream::from(socket), &client, Some(server.fingerprint()), to).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut channel = Channel::server(listener.accept().unwrap().0, &server, soon()).unwrap();
                let mut some = vec![0; 70_000];
                while let Ok(many @ 1..) = channel.receive_some(&mut some) {
                    send(&mut channel, &some[..many], 5000);
                }
            });
            assert!(echo_without_waiting(channel, &content(many, 9)).unwrap() == content(many, 9));
        });
    }
}

#[test]
fn a_channel_on_which_nothing_waits_says_why_it_is_refused() {
    let client = ClientTls::new().unwrap();
    let (one, mut other) = sockets();
    one.set_nonblocking(true).unwrap();
    other.write_all(b"TLWG in clear").unwrap();
    let to = one.peer_addr().unwrap();
    let error = echo_without_waiting(Channel::client_start(one, &client, None, to).unwrap(), &[1]).unwrap_err();
    assert_eq!(socket::failure("a test", error, PATIENCE).kind(), ErrorKind::Access);
    let (one, other) = sockets();
    one.set_nonblocking(true).unwrap();
    let expected = Some(server_of(8).fingerprint());
    let channel = Channel::client_start(one, &client, expected, to).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| Channel::server(other, &server_of(7), soon()));
        let error = echo_without_waiting(channel, &[1]).unwrap_err();
        assert_eq!(socket::failure("a test", error, PATIENCE).kind(), ErrorKind::Access);
    });
}

#[test]
fn no_secret_is_in_what_debug_shows() {
    let seed: [u8; 32] = std::array::from_fn(|i| 0xa0 + i as u8);
    let key = ServerKey::from_seed(&seed).unwrap();
    let (server, client) = (ServerTls::new(&key).unwrap(), ClientTls::new().unwrap());
    let (one, other) = shake(sockets(), &client, None, &server);
    let (one, other) = (one.unwrap(), other.unwrap());
    let shown = format!("{key:?} {server:#?} {client:#?} {one:#?} {other:?} {:?}", ExporterSecret::default());
    let binding = format!("{:?}", one.binding().unwrap());
    for secret in ["160, 161", "a0a1", binding.trim_matches(['[', ']'])] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// A rustls connection, driven until `many` bytes have come from our end, which it then echoes.
fn echo_by_rustls<C, Data>(connection: &mut C, mut stream: TcpStream, many: usize, refresh: bool) -> ([u8; 32], Vec<u8>)
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<Data>>,
    Data: rustls::SideData,
{
    let mut bytes = vec![0; many];
    let mut tls = rustls::Stream::new(connection, &mut stream);
    tls.read_exact(&mut bytes).unwrap();
    if refresh {
        tls.conn.refresh_traffic_keys().unwrap();
    }
    tls.write_all(&bytes).unwrap();
    tls.flush().unwrap();
    let binding = tls.conn.export_keying_material([0; 32], b"EXPORTER-thalweg-credential", None).unwrap();
    (binding, bytes)
}

#[test]
fn the_records_keys_and_exporter_are_those_of_the_standard_as_rustls_has_them() {
    let (server, client, many) = (server_of(7), ClientTls::new().unwrap(), 300_000);
    for refresh in [false, true] {
        std::thread::scope(|scope| {
            let (one, other) = sockets();
            let config = server.one(&Arc::default());
            let theirs = scope.spawn(move || echo_by_rustls(&mut rustls::ServerConnection::new(config).unwrap(), other, many, refresh));
            let mut ours = Channel::client(one, &client, Some(server.fingerprint()), soon()).unwrap();
            ours.refresh_after(if refresh { 3 } else { u64::MAX });
            send(&mut ours, &content(many, 1), 100_000);
            assert!(receive(&mut ours, many, 1) == content(many, 1));
            assert_eq!(theirs.join().unwrap().0, ours.binding().unwrap());
        });
        std::thread::scope(|scope| {
            let (one, other) = sockets();
            let name = tickets_of(None, one.peer_addr().unwrap()).unwrap();
            let config = client.one(&Arc::default());
            let theirs = scope.spawn(move || {
                let mut connection = rustls::ClientConnection::new(config, name).unwrap();
                let mut one = one;
                while connection.is_handshaking() {
                    connection.complete_io(&mut one).unwrap();
                }
                echo_by_rustls(&mut connection, one, many, refresh)
            });
            let mut ours = Channel::server(other, &server, soon()).unwrap();
            ours.refresh_after(if refresh { 3 } else { u64::MAX });
            send(&mut ours, &content(many, 2), 100_000);
            assert!(receive(&mut ours, many, 2) == content(many, 2));
            assert_eq!(theirs.join().unwrap().0, ours.binding().unwrap());
        });
    }
}

#[test]
fn both_ends_change_their_keys_while_bytes_move() {
    let (mut one, mut other) = channels();
    one.refresh_after(2);
    other.refresh_after(5);
    for round in 0..4 {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(receive(&mut other, 400_000, 1) == content(400_000, round)));
            send(&mut one, &content(400_000, round), 90_000);
        });
        send(&mut other, &content(100_000, round), 90_000);
        assert!(receive(&mut one, 100_000, 1) == content(100_000, round));
    }
}
