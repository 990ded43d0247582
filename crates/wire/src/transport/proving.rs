//! Proof of credentials over a blocking channel: see [`crate::trust::proof`].

use super::channel::Channel;
use super::connect::Connect;
use super::socket;
use super::tls::{ClientTls, ServerTls};
use crate::address::{Pin, split_pin};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::trust::proof::{self, ANSWER_BYTES, Client, FIRST_BYTES, Next, PROOF_BYTES, Server, VERDICT_BYTES};
use crate::trust::{Gate, Identity};
use std::io::IoSlice;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A client whose server has proven itself; the verdict on the client's own proof is outstanding.
pub(super) struct Proven(Client);

/// Opens a channel to an address: encrypted, unless the address is `#plain` or on loopback.
///
/// # Errors
/// When the address is invalid, or the handshake fails.
pub(super) fn open(address: &str, options: &Connect, timeout: Duration) -> Result<(Channel, Proven)> {
    let (place, pin) = split_pin(address)?;
    let reach = || -> Result<TcpStream> {
        let stream = socket::connect(place, timeout, options.refused)?;
        socket::set_silence(&stream, timeout)?;
        if let Some(bytes) = options.socket_buffer_bytes {
            let socket = socket2::SockRef::from(&stream);
            let sized = socket.set_send_buffer_size(bytes).and_then(|()| socket.set_recv_buffer_size(bytes));
            sized.map_err(|e| Error::system("socket buffers", e))?;
        }
        Ok(stream)
    };
    let stream = reach()?;
    // An unknown peer address counts as not loopback.
    if !stream.peer_addr().map_or(pin != Pin::Plain, |peer| pin.encrypts(peer.ip())) {
        let mut channel = Channel::plain(stream);
        match prove(&mut channel, options, timeout) {
            Ok(proven) => return Ok((channel, proven)),
            // A server that listens beyond loopback, called from its own machine.
            Err(error) if error.kind() == ErrorKind::Encrypted && pin == Pin::None => {}
            Err(error) => return Err(error),
        }
        return encrypted(reach()?, pin, options, timeout);
    }
    encrypted(stream, pin, options, timeout)
}

/// Opens an authenticated channel on which nothing has been sent, for tests that violate the protocol.
///
/// # Errors
/// See [`super::Connection::connect`].
pub fn proven(address: &str, options: &Connect) -> Result<Channel> {
    let (mut channel, proven) = open(address, options, options.timeout)?;
    proven.judged(&mut channel, options.timeout)?;
    Ok(channel)
}

fn encrypted(stream: TcpStream, pin: Pin, options: &Connect, timeout: Duration) -> Result<(Channel, Proven)> {
    let mut channel = Channel::client(stream, client_tls()?, pin.key(), Instant::now() + timeout)?;
    let proven = prove(&mut channel, options, timeout)?;
    Ok((channel, proven))
}

/// Returns this process's TLS client, shared so that any connection can resume a session.
pub(super) fn client_tls() -> Result<&'static ClientTls> {
    static TLS: OnceLock<ClientTls> = OnceLock::new();
    match TLS.get() {
        Some(tls) => Ok(tls),
        None => {
            let tls = ClientTls::new()?;
            Ok(TLS.get_or_init(|| tls))
        }
    }
}

/// Proves the client's credential after the server has proven itself.
fn prove(channel: &mut Channel, options: &Connect, timeout: Duration) -> Result<Proven> {
    let lost = |e| socket::failure("its credential was awaited", e, timeout);
    let mut client = Client::new(&options.credentials, options.store)?;
    let binding = channel.binding();
    // The server asks for a second first message at most once.
    for _ in 0..2 {
        channel.send_pieces(&mut [IoSlice::new(client.first())]).map_err(lost)?;
        let mut answer = [0; ANSWER_BYTES];
        let (magic, rest) = answer.split_at_mut(proof::MAGIC.len());
        channel.receive_exact(magic).map_err(lost)?;
        proof::check_magic(magic)?;
        channel.receive_exact(rest).map_err(lost)?;
        if let Next::Prove(proof) = client.answered(&answer, &binding)? {
            channel.send_pieces(&mut [IoSlice::new(&proof)]).map_err(lost)?;
            return Ok(Proven(client));
        }
    }
    Err(Error::new(ErrorKind::Protocol, "the server did not say which store it belongs to"))
}

impl Proven {
    /// Receives the verdict, which precedes any reply to requests sent behind the proof.
    pub(super) fn judged(&self, channel: &mut Channel, timeout: Duration) -> Result<()> {
        let mut verdict = [0; VERDICT_BYTES];
        channel.receive_exact(&mut verdict).map_err(|e| socket::failure("its verdict was awaited", e, timeout))?;
        self.0.judged(&verdict)
    }
}

/// The outcome of authenticating a new connection at a server.
pub(super) enum Authentication {
    /// The client proved this identity.
    Client(Identity),
    /// The client closed the connection.
    Gone,
    /// Not this protocol: the error to reply with, as an ordinary message.
    Stranger(Error),
    /// Refused, with the reason.
    Refused(&'static str),
}

/// Authenticates a new connection at a server, by the deadline.
///
/// # Errors
/// The connection's.
pub(super) fn authenticate(channel: &mut Channel, gate: &Gate, tls: Option<&ServerTls>, by: Instant) -> Result<Authentication> {
    let lost = |e| socket::failure("a credential was awaited", e, limits::HELLO);
    if let Some(tls) = tls
        && channel.peek_is_tls(by).map_err(lost)?
    {
        let socket = Arc::clone(channel.socket());
        *channel = Channel::server(socket, tls, by)?;
    }
    let binding = channel.binding();
    // The client asks for the store's number at most once.
    for _ in 0..2 {
        let mut first = [0; FIRST_BYTES];
        let (magic, rest) = first.split_at_mut(proof::MAGIC.len());
        if !channel.receive_by(magic, by).map_err(lost)? {
            return Ok(Authentication::Gone);
        }
        if let Some(error) = stranger(magic) {
            return Ok(Authentication::Stranger(error));
        }
        channel.receive_by(rest, by).map_err(lost)?;
        let (answer, server) = Server::begin(gate, tls.is_some(), &first, &binding);
        channel.send_pieces(&mut [IoSlice::new(&answer)]).map_err(lost)?;
        let Some(server) = server else {
            if proof::asks_again(&answer) {
                continue;
            }
            return Ok(Authentication::Refused(proof::reason(&answer)));
        };
        let mut proof = [0; PROOF_BYTES];
        if !channel.receive_by(&mut proof, by).map_err(lost)? {
            return Ok(Authentication::Refused("it did not prove its credential"));
        }
        let (verdict, who) = server.prove(&proof, &binding);
        channel.send_pieces(&mut [IoSlice::new(&verdict)]).map_err(lost)?;
        return Ok(who.map_or(Authentication::Refused("a wrong proof"), Authentication::Client));
    }
    Ok(Authentication::Refused("it asked for the store's number twice"))
}

/// Returns the error for a first message that does not begin with the magic of any version of the proof.
fn stranger(magic: &[u8]) -> Option<Error> {
    let wanted = proof::MAGIC.len() - 1;
    if magic[..wanted] == proof::MAGIC[..wanted] {
        return None;
    }
    let problem = format!(
        "the first message of a connection must prove a credential: it begins with {:02x?}, expected {:02x?} (\"THALWEG\"). \
         The peer runs an earlier release, or is not a thalweg client",
        &magic[..4],
        &proof::MAGIC[..4]
    );
    Some(Error::new(ErrorKind::Protocol, problem))
}
