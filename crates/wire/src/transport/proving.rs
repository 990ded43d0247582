//! The proof of credentials on a channel that blocks: see [`crate::trust::proof`].

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

/// A client's end whose server has proven itself; the verdict on its own proof is still to come.
pub(super) struct Proven(Client);

/// Makes a channel of a new connection to this address: encrypted, unless it is known or very likely that bytes go in clear there.
///
/// # Errors
/// When the address is wrong, or the server does not do its part.
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
    // (An address that cannot be found out is no loopback.)
    if !stream.peer_addr().map_or(pin != Pin::Plain, |peer| pin.encrypts(peer.ip())) {
        let mut channel = Channel::plain(stream);
        match prove(&mut channel, options, timeout) {
            Ok(proven) => return Ok((channel, proven)),
            // Somebody who listens beyond loopback, asked from the same machine.
            Err(error) if error.kind() == ErrorKind::Encrypted && pin == Pin::None => {}
            Err(error) => return Err(error),
        }
        return encrypted(reach()?, pin, options, timeout);
    }
    encrypted(stream, pin, options, timeout)
}

/// A channel to a server whose ends have proven their credentials, and on which nothing was said: for those who speak the protocol badly, on
/// purpose.
///
/// # Errors
/// As [`super::Connection::connect`].
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

/// This process's part as a client: sessions are resumed by whichever connection comes next.
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

/// Proves the client's credential, once the server has proven its own.
fn prove(channel: &mut Channel, options: &Connect, timeout: Duration) -> Result<Proven> {
    let lost = |e| socket::failure("its credential was awaited", e, timeout);
    let mut client = Client::new(&options.credentials, options.store)?;
    let binding = channel.binding();
    // Asked for its store at most once.
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
    Err(Error::new(ErrorKind::Protocol, "a server that does not say which store it is of"))
}

impl Proven {
    /// Receives the verdict, which comes before the answer to whatever was said behind the proof.
    pub(super) fn judged(&self, channel: &mut Channel, timeout: Duration) -> Result<()> {
        let mut verdict = [0; VERDICT_BYTES];
        channel.receive_exact(&mut verdict).map_err(|e| socket::failure("its verdict was awaited", e, timeout))?;
        self.0.judged(&verdict)
    }
}

/// What became of a newcomer at a server.
pub(super) enum Met {
    /// It has proven to be somebody.
    Client(Identity),
    /// It has gone.
    Gone,
    /// It does not speak this: what it is to be answered, in the form of any message.
    Stranger(Error),
    /// It was refused, and why.
    Refused(&'static str),
}

/// Meets a newcomer at a server's end, until that moment.
///
/// # Errors
/// The connection's.
pub(super) fn meet(channel: &mut Channel, gate: &Gate, tls: Option<&ServerTls>, by: Instant) -> Result<Met> {
    let lost = |e| socket::failure("a credential was awaited", e, limits::HELLO);
    if let Some(tls) = tls
        && channel.peek_is_tls(by).map_err(lost)?
    {
        let socket = Arc::clone(channel.socket());
        *channel = Channel::server(socket, tls, by)?;
    }
    let binding = channel.binding();
    // It asks which store this is at most once.
    for _ in 0..2 {
        let mut first = [0; FIRST_BYTES];
        let (magic, rest) = first.split_at_mut(proof::MAGIC.len());
        if !channel.receive_by(magic, by).map_err(lost)? {
            return Ok(Met::Gone);
        }
        if let Some(error) = stranger(magic) {
            return Ok(Met::Stranger(error));
        }
        channel.receive_by(rest, by).map_err(lost)?;
        let (answer, server) = Server::begin(gate, tls.is_some(), &first, &binding);
        channel.send_pieces(&mut [IoSlice::new(&answer)]).map_err(lost)?;
        let Some(server) = server else {
            if proof::asks_again(&answer) {
                continue;
            }
            return Ok(Met::Refused(proof::reason(&answer)));
        };
        let mut proof = [0; PROOF_BYTES];
        if !channel.receive_by(&mut proof, by).map_err(lost)? {
            return Ok(Met::Refused("it did not prove its credential"));
        }
        let (verdict, who) = server.prove(&proof, &binding);
        channel.send_pieces(&mut [IoSlice::new(&verdict)]).map_err(lost)?;
        return Ok(who.map_or(Met::Refused("a wrong proof"), Met::Client));
    }
    Ok(Met::Refused("it asks for the store again and again"))
}

/// An error for those who begin otherwise than with a proof, of any version.
fn stranger(magic: &[u8]) -> Option<Error> {
    let wanted = proof::MAGIC.len() - 1;
    if magic[..wanted] == proof::MAGIC[..wanted] {
        return None;
    }
    let problem = format!(
        "the first message of a connection must prove a credential: it begins with {:02x?}, expected {:02x?} (\"THALWEG\"). An earlier release, or \
         no client of thalweg",
        &magic[..4],
        &proof::MAGIC[..4]
    );
    Some(Error::new(ErrorKind::Protocol, problem))
}
