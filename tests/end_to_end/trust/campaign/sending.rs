//! Bytes that no regular client sends to a server: whole messages, and invalid ones.

use super::super::address;
use super::asking::World;
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use thalweg_wire::protocol::common::{CommonRequest, Hello};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Channel, Connect, HEADER_BYTES, Header, Kind, VERSION, VERSION_MIN, proven};

/// Timeout for an answer. Later ones (of requests answered late) are not read: the client has disconnected.
const PATIENCE: Duration = Duration::from_millis(250);

/// Part of a server's error for a request that made it panic.
const PANIC: &[u8] = b"ended in a panic";

/// The length of a client's first message.
pub(super) const FIRST_BYTES: usize = 144;

/// A client that has proven a credential and said hello.
pub(super) struct Client {
    address: String,
    credential: PathBuf,
    channel: Option<Channel>,
    /// Requests that succeeded, and those answered with an error.
    pub done: usize,
    pub refused: usize,
}

/// An outgoing message.
pub(super) struct Message {
    pub bytes: Vec<u8>,
    /// Its length and checksum match its header, so it is answered, and another may follow.
    pub is_right: bool,
}

/// Returns the header of an unrecorded request.
pub(super) fn header(kind: Kind, request: u64, (body_bytes, payload_bytes): (u32, u64), payload_crc: u32) -> Header {
    Header { kind, reply: false, status: 0, request, body_bytes, payload_bytes, payload_crc, session: 0 }
}

/// Concatenates this header, a body and a payload.
pub(super) fn framed(header: Header, body: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend_from_slice(body);
    header.encode_into(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns a valid message.
pub(super) fn message(kind: Kind, request: u64, body: &[u8], payload: &[u8]) -> Vec<u8> {
    let payload_crc = if payload.is_empty() { 0 } else { thalweg_bulk::crc32c(payload) };
    framed(header(kind, request, (body.len() as u32, payload.len() as u64), payload_crc), body, payload)
}

/// Returns the first message of a connection.
pub(super) fn hello() -> Vec<u8> {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        client: "hostile".into(),
        node: String::new(),
        store: None,
        service_start: None,
    };
    message(Kind::Common, 1, &postcard::to_allocvec(&CommonRequest::Hello(hello)).expect("memory"), &[])
}

impl Client {
    pub(super) fn new(world: &World, server: usize, credential: PathBuf) -> Client {
        Client { address: address(&world.store.store, server), credential, channel: None, done: 0, refused: 0 }
    }

    /// Sends a message and reads the answer.
    pub(super) fn send(&mut self, message: &Message) {
        let mut channel = self.channel.take().unwrap_or_else(|| self.connected());
        // A closed connection does not mean that the server has stopped: the next connection shows that.
        let sent = channel.send_pieces(&mut [IoSlice::new(&message.bytes)]);
        if !message.is_right {
            let _ = channel.shutdown(Shutdown::Write);
        }
        if let (Ok(()), Some(status)) = (sent, answer(&mut channel)) {
            *(if status == 0 { &mut self.done } else { &mut self.refused }) += 1;
            self.channel = message.is_right.then_some(channel);
        }
    }

    fn connected(&self) -> Channel {
        let options = Connect { credentials: Credentials::file(&self.credential), ..Connect::default() };
        let mut channel = proven(&self.address, &options).expect("the server takes who has a credential");
        channel.send_pieces(&mut [IoSlice::new(&hello())]).expect("the server listens");
        assert_eq!(answer(&mut channel), Some(0), "the server says hello");
        channel.set_silence(PATIENCE).expect("a silence that is not zero");
        channel
    }
}

/// Reads the next answer and returns its status; `None` if there is none.
fn answer(channel: &mut Channel) -> Option<u32> {
    let mut head = [0; HEADER_BYTES];
    channel.receive_exact(&mut head).ok()?;
    let header = Header::decode(&head).expect("a server's header is right");
    let mut body = vec![0; header.body_bytes as usize];
    channel.receive_exact(&mut body).ok()?;
    assert!(!holds(&body, PANIC), "{}", String::from_utf8_lossy(&body));
    let mut payload = vec![0; header.payload_bytes as usize];
    channel.receive_exact(&mut payload).ok()?;
    Some(header.status)
}

/// Sends `first` as a stranger, and `then` after an answer; returns everything that the server sends.
pub(super) fn stranger(address: &str, first: &[u8], then: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit that is not zero");
    let mut all = Vec::new();
    let _ = stream.write_all(first);
    let mut piece = [0; 512];
    if first.len() == FIRST_BYTES
        && first.starts_with(b"THALWEG\x01")
        && let Ok(length) = stream.read(&mut piece)
    {
        all.extend_from_slice(&piece[..length]);
    }
    let _ = stream.write_all(then);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut all);
    assert!(!holds(&all, PANIC), "{}", String::from_utf8_lossy(&all));
    all
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
