//! The TLS handshake, without blocking: received bytes go in, bytes to send come out, and it ends with a [`Session`].
//!
//! Records are passed to rustls one at a time, so that everything behind the handshake's last record is left for the session.

use super::config::{ClientTls, ServerTls, tickets_of};
use super::exporter::ExporterSecret;
use super::key::Fingerprint;
use super::session::{End, Opened, Session};
use super::{broken, protocol, records};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::transport::header::MAGIC;
use crate::transport::socket;
use rustix::net::RecvFlags;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, HandshakeKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::Arc;

/// Bytes per receive.
const RECEIVE_BYTES: usize = 8 << 10;

/// A handshake in progress.
pub(in crate::transport) struct Handshake {
    end: Shaking,
    exporter: Arc<ExporterSecret>,
    /// Received bytes: rustls has seen `[begin..fed]` and may want to see them again, the rest not.
    input: Vec<u8>,
    begin: usize,
    fed: usize,
    /// Bytes to send, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    progress: Progress,
}

/// Progress of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    Begun,
    Done,
}

enum Shaking {
    Client { connection: Box<UnbufferedClientConnection>, expected: Option<Fingerprint> },
    Server { connection: Box<UnbufferedServerConnection>, fingerprint: Fingerprint },
}

/// What to do next.
enum Turn {
    /// Call again.
    Again,
    /// Feed another record.
    More,
}

impl Handshake {
    /// Starts a client's handshake with the server at `address`, whose key must have the fingerprint `expected`.
    pub(in crate::transport) fn client(tls: &ClientTls, expected: Option<Fingerprint>, address: SocketAddr) -> Result<Handshake> {
        let exporter = Arc::<ExporterSecret>::default();
        let connection = UnbufferedClientConnection::new(tls.one(&exporter), tickets_of(expected, address)?).map_err(failed)?;
        Ok(Handshake::new(Shaking::Client { connection: Box::new(connection), expected }, exporter))
    }

    /// Starts a server's handshake.
    pub(in crate::transport) fn server(tls: &ServerTls) -> Result<Handshake> {
        let exporter = Arc::<ExporterSecret>::default();
        let connection = UnbufferedServerConnection::new(tls.one(&exporter)).map_err(failed)?;
        Ok(Handshake::new(Shaking::Server { connection: Box::new(connection), fingerprint: tls.fingerprint() }, exporter))
    }

    fn new(end: Shaking, exporter: Arc<ExporterSecret>) -> Handshake {
        Handshake { end, exporter, input: Vec::new(), begin: 0, fed: 0, output: Vec::new(), sent: 0, progress: Progress::New }
    }

    /// Sends and (unless `receives` is false) receives as much as possible without blocking; returns whether the handshake is
    /// complete: then call [`Handshake::finish`].
    ///
    /// # Errors
    /// The connection's, the peer's, or an interceptor's.
    pub(in crate::transport) fn step(&mut self, socket: &TcpStream, receives: bool) -> std::io::Result<bool> {
        if self.progress == Progress::New {
            self.progress = Progress::Begun;
            self.proceed(&[]).map_err(broken)?;
        }
        loop {
            match socket::send_now(socket, &self.output, &mut self.sent) {
                // The peer's alert may be waiting to be received.
                Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => return Err(e),
                _ => {}
            }
            if self.progress == Progress::Done || !receives {
                return Ok(self.progress == Progress::Done && !self.wants_to_send());
            }
            let mut received = [0; RECEIVE_BYTES];
            match socket::receive(socket, &mut received, RecvFlags::DONTWAIT) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(many) => match self.proceed(&received[..many]) {
                    Ok(false) => {}
                    Ok(true) => self.progress = Progress::Done,
                    Err(error) => {
                        let _ = socket::send_now(socket, &self.output, &mut self.sent);
                        return Err(broken(error));
                    }
                },
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }

    pub(in crate::transport) fn wants_to_send(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Advances with `received`, newly received bytes; returns whether the handshake is complete. After an error, the output holds an
    /// alert for the peer.
    fn proceed(&mut self, received: &[u8]) -> Result<bool> {
        self.input.extend_from_slice(received);
        let result = match self.input.len() <= limits::TLS_HANDSHAKE_BYTES {
            true => self.turns(),
            false => Err(protocol(format!("more than {} bytes of TLS handshake", limits::TLS_HANDSHAKE_BYTES))),
        };
        if result.is_err() {
            // rustls encodes the alert when it is called once more.
            for _ in 0..4 {
                let (_, turn) = self.turn(false);
                if !matches!(turn, Ok(Turn::Again)) {
                    break;
                }
            }
        }
        result
    }

    fn turns(&mut self) -> Result<bool> {
        loop {
            let (discard, turn) = self.turn(true);
            self.begin += discard;
            match turn? {
                Turn::Again => continue,
                Turn::More if !self.state().is_handshaking() => return Ok(true),
                Turn::More => {}
            }
            let rest = &self.input[self.fed..];
            match records::length(rest).map_err(|e| self.no_record(e))? {
                Some(length) if length <= rest.len() => self.fed += length,
                _ => return Ok(false),
            }
        }
    }

    fn turn(&mut self, sees_input: bool) -> (usize, Result<Turn>) {
        let input: &mut [u8] = if sees_input { &mut self.input[self.begin..self.fed] } else { &mut [] };
        match &mut self.end {
            Shaking::Client { connection, .. } => turn(connection.process_tls_records(input), &mut self.output),
            Shaking::Server { connection, .. } => turn(connection.process_tls_records(input), &mut self.output),
        }
    }

    fn state(&self) -> &CommonState {
        match &self.end {
            Shaking::Client { connection, .. } => connection.deref().deref(),
            Shaking::Server { connection, .. } => connection.deref().deref(),
        }
    }

    /// Explains bytes that are not TLS.
    fn no_record(&self, error: Error) -> Error {
        let received = &self.input[self.fed..];
        let is_ours = received.starts_with(&MAGIC.to_le_bytes()) || received.starts_with(b"THAL");
        match (&self.end, is_ours) {
            (Shaking::Client { .. }, true) => Error::new(
                ErrorKind::Access,
                "the server answers in clear, but TLS was expected: it is not the server in the address, or was started with --plain. If \
                 its store runs with --plain and the network is trusted, use thal://HOST:PORT#plain",
            ),
            (Shaking::Client { .. }, false) => protocol(format!("the server does not speak TLS ({})", error.message())),
            (Shaking::Server { .. }, true) => {
                Error::new(ErrorKind::Access, "this server speaks TLS only: use its address with the fingerprint (thal://HOST:PORT#...)")
            }
            (Shaking::Server { .. }, false) => protocol(format!("this server speaks TLS only ({})", error.message())),
        }
    }

    /// Returns the session.
    ///
    /// # Errors
    /// The server's key is not the expected one.
    pub(in crate::transport) fn finish(self) -> Result<Session> {
        if self.begin != self.fed {
            return Err(protocol("a TLS handshake that ends within a message"));
        }
        let is_resumed = self.state().handshake_kind() == Some(HandshakeKind::Resumed);
        let suite = self.state().negotiated_cipher_suite().and_then(|suite| suite.tls13());
        let suite = suite.ok_or_else(|| protocol("a TLS handshake without a cipher"))?;
        let binding = self.exporter.binding(suite)?;
        let key = self.state().peer_certificates().and_then(|keys| keys.first()).map(|key| Fingerprint::of(key));
        let fingerprint = match &self.end {
            Shaking::Server { fingerprint, .. } => *fingerprint,
            Shaking::Client { expected, .. } => is_expected(key, *expected)?,
        };
        let (secrets, end) = match self.end {
            Shaking::Client { connection, .. } => {
                let (secrets, connection) = connection.dangerous_into_kernel_connection().map_err(failed)?;
                (secrets, End::Client(Box::new(connection)))
            }
            Shaking::Server { connection, .. } => {
                let (secrets, connection) = connection.dangerous_into_kernel_connection().map_err(failed)?;
                (secrets, End::Server(Box::new(connection)))
            }
        };
        Session::new(Opened { end, secrets, suite, binding, fingerprint, is_resumed, received: &self.input[self.fed..] })
    }
}

/// Checks the fingerprint of the server's key.
fn is_expected(key: Option<Fingerprint>, expected: Option<Fingerprint>) -> Result<Fingerprint> {
    let key = key.ok_or_else(|| protocol("a server without a key"))?;
    match expected {
        Some(expected) if expected != key => Err(Error::new(
            ErrorKind::Access,
            format!(
                "its key's fingerprint is {key}, expected {expected}: it is not the server in the address, or the connection is \
                 intercepted; if its store was recreated, use its new address"
            ),
        )),
        _ => Ok(key),
    }
}

fn turn<Data>(status: UnbufferedStatus<'_, '_, Data>, output: &mut Vec<u8>) -> (usize, Result<Turn>) {
    let turn = match status.state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let at = output.len();
            let mut room = records::RECORD_BYTES;
            loop {
                output.resize(at + room, 0);
                match data.encode(&mut output[at..]) {
                    Ok(written) => {
                        output.truncate(at + written);
                        break Ok(Turn::Again);
                    }
                    Err(EncodeError::InsufficientSize(needed)) if needed.required_size > room => room = needed.required_size,
                    Err(error) => break Err(protocol(format!("TLS handshake: {error}"))),
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The bytes are in `output`, which is as good as sent.
            data.done();
            Ok(Turn::Again)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(Turn::More),
        Ok(_) => Err(protocol("the peer ended the TLS handshake")),
        Err(error) => Err(failed(error)),
    };
    (status.discard, turn)
}

fn failed(error: rustls::Error) -> Error {
    match error {
        rustls::Error::AlertReceived(alert) => protocol(format!("the peer refused the TLS handshake: {alert:?}")),
        other => protocol(format!("the TLS handshake failed: {other}")),
    }
}
