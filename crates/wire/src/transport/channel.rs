//! What bytes of a connection go through: every connection of the store is a [`Channel`], and nothing else reads or writes its socket.
//!
//! It is plain, or TLS 1.3 ([`super::tls`]); who uses it sees no difference. A channel is used by one thread at a time, for both
//! directions. Others may only end it: they hold the socket ([`Channel::socket`]), shut it down, and the thread sees the end.

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

/// The first byte of a handshake's first record.
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
    /// One on which bytes are sent as they are.
    pub fn plain(stream: impl Into<Arc<TcpStream>>) -> Channel {
        Channel { socket: stream.into(), layer: Layer::Plain }
    }

    /// Shakes hands with a server whose key is to have this fingerprint; `None`: any key, and the caller makes sure of the server by
    /// what it binds to the session ([`Channel::binding`]).
    ///
    /// # Errors
    /// [`ErrorKind::Access`]: another key, or a server that speaks in clear. [`ErrorKind::TimedOut`]: not done by then. Others: no TLS.
    pub fn client(stream: impl Into<Arc<TcpStream>>, tls: &ClientTls, expected: Option<Fingerprint>, by: Instant) -> Result<Channel> {
        let socket = stream.into();
        let address = socket.peer_addr().map_err(|e| Error::system("connection", e))?;
        let handshake = Handshake::client(tls, expected, address)?;
        shake(socket, handshake, by)
    }

    /// Begins to shake hands with the server at `to`, on a socket that does not wait and may still be connecting: [`Channel::try_send`]
    /// and [`Channel::try_receive`] go on with it. Other calls cannot be used until it is done.
    ///
    /// # Errors
    /// The library's.
    pub fn client_start(
        stream: impl Into<Arc<TcpStream>>,
        tls: &ClientTls,
        expected: Option<Fingerprint>,
        to: SocketAddr,
    ) -> Result<Channel> {
        let handshake = Handshake::client(tls, expected, to)?;
        Ok(Channel { socket: stream.into(), layer: Layer::Shaking(Box::new(handshake)) })
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    /// [`ErrorKind::Access`]: it speaks in clear. [`ErrorKind::TimedOut`]: it has not done its part by then. Others: no TLS.
    pub fn server(stream: impl Into<Arc<TcpStream>>, tls: &ServerTls, by: Instant) -> Result<Channel> {
        shake(stream.into(), Handshake::server(tls)?, by)
    }

    /// Whether what the peer sends first is TLS; what it sends is not taken. For a channel on which nothing was received yet.
    ///
    /// # Errors
    /// The connection's: its end included, or [`std::io::ErrorKind::TimedOut`].
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

    /// 32 bytes that both ends of this session know, and that no other session has: what is proven with them is proven to the very peer
    /// at the other end. `None`: the channel is plain, or not open yet.
    pub fn binding(&self) -> Option<[u8; 32]> {
        self.session().map(|session| session.binding)
    }

    /// Of the server's key, at both ends. `None`: the channel is plain, or not open yet.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.session().map(|session| session.fingerprint)
    }

    /// Whether the session continues an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.session().is_some_and(|session| session.is_resumed)
    }

    /// Whether it is, or is to be, encrypted.
    pub fn is_tls(&self) -> bool {
        !matches!(self.layer, Layer::Plain)
    }

    /// The socket, for those who may end the connection; no bytes are sent or received on it.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Another descriptor of the socket, as [`Channel::socket`].
    ///
    /// # Errors
    /// When there are no descriptors.
    pub fn try_clone(&self) -> std::io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// Our address.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The system's; the connection has ended.
    pub fn peer_addr(&self) -> std::io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Ends the connection, or one direction of it.
    ///
    /// # Errors
    /// The system's; the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> std::io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Lets calls give up after `silence` without progress.
    ///
    /// # Errors
    /// The system's.
    pub fn set_silence(&self, silence: Duration) -> Result<()> {
        socket::set_silence(&self.socket, silence)
    }

    /// The session, for calls that wait; `None`: the channel is plain.
    fn open(&mut self) -> std::io::Result<(&TcpStream, Option<&mut Session>)> {
        let session = match &mut self.layer {
            Layer::Plain => None,
            Layer::Secure(session) => Some(&mut **session),
            Layer::Shaking(_) => return Err(std::io::Error::other(Error::new(ErrorKind::Io, "the TLS handshake is not done: a bug"))),
            Layer::Refused(error) => return Err(std::io::Error::other(error.clone())),
        };
        Ok((&self.socket, session))
    }

    /// Sends all of several pieces with as few calls as the system allows.
    ///
    /// # Errors
    /// The connection's; it is of no more use.
    pub fn send_pieces(&mut self, pieces: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::send_pieces(socket, pieces),
            (socket, Some(session)) => session.send_pieces(socket, pieces),
        }
    }

    /// Waits for some bytes, at least one unless `buffer` is empty; 0: the peer has closed the connection.
    ///
    /// # Errors
    /// The connection's. After [`std::io::ErrorKind::WouldBlock`], silence, it can be used on.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.open()? {
            (socket, None) => socket::receive(socket, buffer, RecvFlags::empty()),
            (socket, Some(session)) => session.receive_some(socket, buffer),
        }
    }

    /// Fills `buffer`, as small things are received.
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_exact(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_exact(socket, buffer),
            (socket, Some(session)) => session.receive_exact(socket, buffer),
        }
    }

    /// Fills `buffer` by a moment, however slowly the bytes come; `false`: the peer has closed the connection before the first one.
    ///
    /// # Errors
    /// The connection's; it is of no more use.
    pub fn receive_by(&mut self, buffer: &mut [u8], by: Instant) -> std::io::Result<bool> {
        match self.open()? {
            (socket, None) => socket::receive_by(socket, buffer, by),
            (socket, Some(session)) => session.receive_by(socket, buffer, by),
        }
    }

    /// Fills `buffer`, as large things are received ([`Channel::receive_pieces`]).
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_payload(&mut self, buffer: &mut [u8], silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_payload(socket, buffer, silence),
            (socket, Some(session)) if buffer.len() < socket::LARGE_BYTES => session.receive_exact(socket, buffer),
            (socket, Some(session)) => session.receive_pieces(socket, &mut [IoSliceMut::new(buffer)], silence),
        }
    }

    /// Fills several pieces, one after the other: the thread is woken when much is there.
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_pieces(&mut self, pieces: &mut [IoSliceMut<'_>], silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::receive_pieces(socket, pieces, silence),
            (socket, Some(session)) => session.receive_pieces(socket, pieces, silence),
        }
    }

    /// Waits until something can be received, or for so long.
    ///
    /// # Errors
    /// The connection's, or [`std::io::ErrorKind::TimedOut`].
    pub fn wait_readable(&mut self, silence: Duration) -> std::io::Result<()> {
        match self.open()? {
            (socket, None) => socket::wait_readable(socket, silence),
            (socket, Some(session)) => session.wait_readable(socket, silence),
        }
    }

    /// Waits until something can be received, until `wake` is readable, or for so long; `false`: it was woken.
    pub fn is_readable_before(&mut self, wake: BorrowedFd<'_>, silence: Duration) -> bool {
        self.is_readable() || socket::is_readable_before(&self.socket, wake, silence)
    }

    /// Whether something can be received at once (or the connection is at its end).
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
    /// New keys are used to send after so many records.
    pub(super) fn refresh_after(&mut self, records: u64) {
        let Layer::Secure(session) = &mut self.layer else { panic!("it is not open") };
        session.refresh_after = records;
    }
}

/// On which nothing waits.
impl Channel {
    /// Takes what can be taken of `bytes` without waiting; how many. What was taken may still stand here ([`Channel::try_flush`]).
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none now, also while the connection is being made. Others are the connection's.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.go_on(false)?;
        match self.open()? {
            (socket, None) => {
                let mut sent = 0;
                socket::send_now(socket, bytes, &mut sent)?;
                if sent == 0 && !bytes.is_empty() { Err(Errno::AGAIN.into()) } else { Ok(sent) }
            }
            (socket, Some(session)) => session.try_send(socket, bytes),
        }
    }

    /// Sends what was taken and not sent, as far as that goes without waiting.
    ///
    /// # Errors
    /// The connection's.
    pub fn try_flush(&mut self) -> std::io::Result<()> {
        match &mut self.layer {
            Layer::Secure(session) => session.try_flush(&self.socket),
            Layer::Plain | Layer::Shaking(_) | Layer::Refused(_) => Ok(()),
        }
    }

    /// Whether to wait until the socket takes something, besides waiting until it has something; `has_more`: there is something for
    /// [`Channel::try_send`]. It is not awaited while the server's part of a handshake is.
    pub fn wants_to_send(&self, has_more: bool) -> bool {
        match &self.layer {
            Layer::Plain => has_more,
            Layer::Shaking(handshake) => handshake.wants_to_send(),
            Layer::Secure(session) => has_more || session.wants_to_send(),
            Layer::Refused(_) => false,
        }
    }

    /// Fills `buffer` as far as that goes without waiting; how many bytes. Fewer than it has room for: nothing more is here, and the
    /// socket is to be polled. 0: the peer has closed the connection.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none now, also while the connection is being made. Others are the connection's.
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.go_on(true)?;
        let received = match self.open()? {
            (socket, None) => socket::receive(socket, buffer, RecvFlags::DONTWAIT),
            (socket, Some(session)) => session.try_receive(socket, buffer),
        };
        received.map_err(unless_connecting)
    }

    /// Goes on with a handshake: [`std::io::ErrorKind::WouldBlock`] until it is done.
    fn go_on(&mut self, receives: bool) -> std::io::Result<()> {
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

/// A connection that is being made has nothing yet.
fn unless_connecting(error: std::io::Error) -> std::io::Error {
    if error.kind() == std::io::ErrorKind::NotConnected { Errno::AGAIN.into() } else { error }
}

/// A whole handshake, by a moment.
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
            Error::new(ErrorKind::TimedOut, "the TLS handshake was not done in time: the peer is silent or slow, or speaks in clear")
        }
        _ => socket::failure("TLS was agreed on", error, Duration::ZERO),
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
