//! The byte channel of a connection: every connection of the store is a [`Channel`], and nothing else reads or writes its socket.
//!
//! A channel is plain or TLS 1.3 ([`super::tls`]), transparently to its user. One thread at a time uses it, for both directions.
//! Other threads may only end it: they hold the socket ([`Channel::socket`]) and shut it down, and the thread sees the end.

use super::socket;
use super::tls::{ClientTls, Fingerprint, Handshake, ServerTls, Session};
use crate::error::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// One end of a connection.
pub struct Channel {
    socket: Arc<TcpStream>,
    layer: Layer,
}

enum Layer {
    Plain,
    Shaking(Box<Handshake>),
    Secure(Box<Session>),
    /// The handshake failed.
    Refused(Error),
}

impl Channel {
    /// Makes a channel in clear.
    pub fn plain(stream: impl Into<Arc<TcpStream>>) -> Channel {
        Channel { socket: stream.into(), layer: Layer::Plain }
    }

    /// Performs the TLS handshake with a server whose key has this fingerprint; `None`: any key, and the caller authenticates the
    /// server over the session ([`Channel::binding`]).
    ///
    /// # Errors
    /// [`ErrorKind::Access`]: another key, or a server in clear. [`ErrorKind::TimedOut`]: not finished by `by`. Others: TLS
    /// failures.
    pub fn client(stream: impl Into<Arc<TcpStream>>, tls: &ClientTls, expected: Option<Fingerprint>, by: Instant) -> Result<Channel> {
        let socket = stream.into();
        let address = socket.peer_addr().map_err(|e| Error::system("connection", e))?;
        let handshake = Handshake::client(tls, expected, address)?;
        shake(socket, handshake, by)
    }

    /// Starts the TLS handshake with the server at `to`, on a non-blocking socket that may still be connecting:
    /// [`Channel::try_send`] and [`Channel::try_receive`] continue it. Other calls fail until it is finished.
    ///
    /// # Errors
    /// The TLS library's.
    pub fn client_start(
        stream: impl Into<Arc<TcpStream>>,
        tls: &ClientTls,
        expected: Option<Fingerprint>,
        to: SocketAddr,
    ) -> Result<Channel> {
        let handshake = Handshake::client(tls, expected, to)?;
        Ok(Channel { socket: stream.into(), layer: Layer::Shaking(Box::new(handshake)) })
    }

    /// Performs the TLS handshake with a client.
    ///
    /// # Errors
    /// [`ErrorKind::Access`]: a client in clear. [`ErrorKind::TimedOut`]: not finished by `by`. Others: TLS failures.
    pub fn server(stream: impl Into<Arc<TcpStream>>, tls: &ServerTls, by: Instant) -> Result<Channel> {
        shake(stream.into(), Handshake::server(tls)?, by)
    }

    /// Whether the peer's first byte begins a TLS handshake; consumes nothing. Call before anything is received.
    ///
    /// # Errors
    /// The connection's, also when it has ended; [`std::io::ErrorKind::TimedOut`].
    pub fn peek_is_tls(&self, by: Instant) -> std::io::Result<bool> {
        let mut first = [0_u8; 1];
        loop {
            socket::wait_readable(&self.socket, by.saturating_duration_since(Instant::now()))?;
            match socket::receive(&self.socket, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(first[0] == TLS_HANDSHAKE),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn session(&self) -> Option<&Session> {
        match &self.layer {
            Layer::Secure(session) => Some(session),
            _ => None,
        }
    }

    /// Returns 32 bytes known to both ends of this session and unique to it: a proof bound to them is valid for this very peer
    /// only. `None`: plain, or not open yet.
    pub fn binding(&self) -> Option<[u8; 32]> {
        self.session().map(|session| session.binding)
    }

    /// Returns the fingerprint of the server's key, at both ends. `None`: plain, or not open yet.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.session().map(|session| session.fingerprint)
    }

    /// Whether the session resumes an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.session().is_some_and(|session| session.is_resumed)
    }

    /// Whether the channel is encrypted, or will be after its handshake.
    pub fn is_tls(&self) -> bool {
        !matches!(self.layer, Layer::Plain)
    }

    /// Returns the socket, for threads that may end the connection; never send or receive on it.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Duplicates the socket's descriptor; see [`Channel::socket`].
    ///
    /// # Errors
    /// When no descriptor is available.
    pub fn try_clone(&self) -> std::io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// The system's, for instance when the connection has ended.
    pub fn peer_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Shuts down the connection, or one direction of it.
    ///
    /// # Errors
    /// The system's, for instance when the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> std::io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Sets the time without progress after which calls time out.
    ///
    /// # Errors
    /// The system's.
    pub fn set_silence(&self, silence: Duration) -> Result<()> {
        socket::set_silence(&self.socket, silence)
    }

    /// Returns the session for blocking calls; `None`: plain.
    fn open(&mut self) -> std::io::Result<(&TcpStream, Option<&mut Session>)> {
        let session = match &mut self.layer {
            Layer::Plain => None,
            Layer::Secure(session) => Some(&mut **session),
            Layer::Shaking(_) => return Err(std::io::Error::other(Error::new(ErrorKind::Io, "the TLS handshake is not finished: a bug"))),
            Layer::Refused(error) => return Err(std::io::Error::other(error.clone())),
        };
        Ok((&self.socket, session))
    }

    /// Sends all pieces with as few system calls as possible.
    ///
    /// # Errors
    /// An I/O error; the channel is unusable afterwards.
    pub fn send_pieces(&mut self, pieces: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::send_pieces(socket, pieces),
            (socket, Some(session)) => session.send_pieces(socket, pieces),
        }
    }

    /// Blocks until at least one byte has arrived (unless `buffer` is empty), and returns how many were read; 0: the peer has closed the
    /// connection.
    ///
    /// # Errors
    /// An I/O error. After [`std::io::ErrorKind::WouldBlock`] (timeout) the channel stays usable.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.open()? {
            (socket, None) => socket::receive(socket, buffer, RecvFlags::empty()),
            (socket, Some(session)) => session.receive_some(socket, buffer),
        }
    }

    /// Fills `buffer`, waking for any bytes that arrive; for small messages.
    ///
    /// # Errors
    /// An I/O error, also when the connection has ended; the channel is unusable afterwards.
    pub fn receive_exact(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_exact(socket, buffer),
            (socket, Some(session)) => session.receive_exact(socket, buffer),
        }
    }

    /// Fills `buffer` until the deadline, however slowly bytes arrive; `false`: the peer closed the connection before the first
    /// byte.
    ///
    /// # Errors
    /// An I/O error; the channel is unusable afterwards.
    pub fn receive_by(&mut self, buffer: &mut [u8], by: Instant) -> std::io::Result<bool> {
        match self.open()? {
            (socket, None) => socket::receive_by(socket, buffer, by),
            (socket, Some(session)) => session.receive_by(socket, buffer, by),
        }
    }

    /// Fills `buffer`; a large one with fewer wake-ups ([`Channel::receive_pieces`]).
    ///
    /// # Errors
    /// An I/O error, also when the connection has ended; the channel is unusable afterwards.
    pub fn receive_payload(&mut self, buffer: &mut [u8], silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_payload(socket, buffer, silence),
            (socket, Some(session)) if buffer.len() < socket::LARGE_BYTES => session.receive_exact(socket, buffer),
            (socket, Some(session)) => session.receive_pieces(socket, &mut [IoSliceMut::new(buffer)], silence),
        }
    }

    /// Fills several pieces in order; the thread wakes only when many bytes have arrived.
    ///
    /// # Errors
    /// An I/O error, also when the connection has ended; the channel is unusable afterwards.
    pub fn receive_pieces(&mut self, pieces: &mut [IoSliceMut<'_>], silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_pieces(socket, pieces, silence),
            (socket, Some(session)) => session.receive_pieces(socket, pieces, silence),
        }
    }

    /// Waits at most `silence` for something to receive.
    ///
    /// # Errors
    /// An I/O error, or [`std::io::ErrorKind::TimedOut`].
    pub fn wait_readable(&mut self, silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::wait_readable(socket, silence),
            (socket, Some(session)) => session.wait_readable(socket, silence),
        }
    }

    /// Waits at most `silence` for something to receive or for `wake` to become readable; `false`: woken.
    pub fn is_readable_before(&mut self, wake: BorrowedFd<'_>, silence: Duration) -> bool {
        self.is_readable() || socket::is_readable_before(&self.socket, wake, silence)
    }

    /// Whether a receive would return immediately, with data or the connection's end.
    pub fn is_readable(&mut self) -> bool {
        match self.open() {
            Ok((socket, None)) => socket::is_readable(socket),
            Ok((socket, Some(session))) => session.is_readable(socket),
            Err(_) => true,
        }
    }
}

#[cfg(test)]
impl Channel {
    /// Changes the sending keys after this many records.
    pub(super) fn refresh_after(&mut self, records: u64) {
        let Layer::Secure(session) = &mut self.layer else { panic!("it is not open") };
        session.refresh_after = records;
    }
}

/// Non-blocking calls.
impl Channel {
    /// Accepts as many of `bytes` as possible without blocking; returns how many. Accepted bytes may still be buffered
    /// ([`Channel::try_flush`]).
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none accepted, also while connecting. Others are the connection's.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.continue_handshake(false)?;
        match self.open()? {
            (socket, None) => {
                let mut sent = 0;
                socket::send_now(socket, bytes, &mut sent)?;
                if sent == 0 && !bytes.is_empty() { Err(Errno::AGAIN.into()) } else { Ok(sent) }
            }
            (socket, Some(session)) => session.try_send(socket, bytes),
        }
    }

    /// Sends buffered bytes as far as possible without blocking.
    ///
    /// # Errors
    /// The connection's.
    pub fn try_flush(&mut self) -> std::io::Result<()> {
        match &mut self.layer {
            Layer::Secure(session) => session.try_flush(&self.socket),
            Layer::Plain | Layer::Shaking(_) | Layer::Refused(_) => Ok(()),
        }
    }

    /// Whether to poll the socket for writing as well as for reading; `has_more`: the caller has bytes for [`Channel::try_send`].
    /// False while the handshake waits for the server.
    pub fn wants_to_send(&self, has_more: bool) -> bool {
        match &self.layer {
            Layer::Plain => has_more,
            Layer::Shaking(handshake) => handshake.wants_to_send(),
            Layer::Secure(session) => has_more || session.wants_to_send(),
            Layer::Refused(_) => false,
        }
    }

    /// Fills `buffer` as far as possible without blocking; returns the number of bytes. A short count means that nothing more is
    /// available and the socket is to be polled. 0: the peer has closed the connection.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none available, also while connecting. Others are the connection's.
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.continue_handshake(true)?;
        let received = match self.open()? {
            (socket, None) => socket::receive(socket, buffer, RecvFlags::DONTWAIT),
            (socket, Some(session)) => session.try_receive(socket, buffer),
        };
        received.map_err(unless_connecting)
    }

    /// Continues a handshake: [`std::io::ErrorKind::WouldBlock`] until it is finished.
    fn continue_handshake(&mut self, receives: bool) -> std::io::Result<()> {
        let Layer::Shaking(handshake) = &mut self.layer else { return Ok(()) };
        let next = match handshake.step(&self.socket, receives).map_err(unless_connecting) {
            Ok(false) => return Err(Errno::AGAIN.into()),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Err(e),
            Err(e) => Layer::Refused(agreement_failed(e)),
            Ok(true) => {
                let unfinished = Layer::Refused(Error::new(ErrorKind::Io, "the TLS handshake was interrupted: a bug"));
                let Layer::Shaking(handshake) = std::mem::replace(&mut self.layer, unfinished) else { return Ok(()) };
                handshake.finish().map_or_else(Layer::Refused, |session| Layer::Secure(Box::new(session)))
            }
        };
        self.layer = next;
        self.open().map(drop)
    }
}

/// Maps the error of a socket that is still connecting to `WouldBlock`.
fn unless_connecting(error: std::io::Error) -> std::io::Error {
    if error.kind() == std::io::ErrorKind::NotConnected { Errno::AGAIN.into() } else { error }
}

/// Performs a whole handshake by the deadline.
fn shake(socket: Arc<TcpStream>, mut handshake: Handshake, by: Instant) -> Result<Channel> {
    while !handshake.step(&socket, true).map_err(agreement_failed)? {
        let left = by.saturating_duration_since(Instant::now());
        socket::wait_for(&socket, handshake.wants_to_send(), left).map_err(agreement_failed)?;
    }
    let session = handshake.finish()?;
    Ok(Channel { socket, layer: Layer::Secure(Box::new(session)) })
}

fn agreement_failed(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::TimedOut => {
            Error::new(ErrorKind::TimedOut, "the TLS handshake did not finish in time: the peer is silent or slow, or does not use TLS")
        }
        _ => socket::failure("TLS was negotiated", error, Duration::ZERO),
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layer = match &self.layer {
            Layer::Plain => "plain",
            Layer::Shaking(_) => "TLS, handshake",
            Layer::Secure(_) => "TLS",
            Layer::Refused(_) => "TLS, refused",
        };
        f.debug_struct("Channel").field("socket", &self.socket).field("layer", &layer).finish()
    }
}
