//! What bytes of a connection go through: every connection of the store is a [`Channel`], and nothing else reads or writes its socket.
//!
//! A channel is used by one thread at a time, for both directions. Others may only end it: they hold the socket ([`Channel::socket`]),
//! shut it down, and the thread sees the end.

use super::socket;
use crate::error::Result;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: Arc<TcpStream>,
}

impl Channel {
    /// One on which bytes are sent as they are.
    pub fn plain(stream: impl Into<Arc<TcpStream>>) -> Channel {
        Channel { socket: stream.into() }
    }

    /// What names the TLS session; `None`: bytes are in clear.
    pub fn binding(&self) -> Option<[u8; 32]> {
        None
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

    /// Sends all of several pieces with as few calls as the system allows.
    ///
    /// # Errors
    /// The connection's; it is of no more use.
    pub fn send_pieces(&mut self, pieces: &mut [IoSlice<'_>]) -> std::io::Result<()> {
        socket::send_pieces(&self.socket, pieces)
    }

    /// Waits for some bytes, at least one unless `buffer` is empty; 0: the peer has closed the connection.
    ///
    /// # Errors
    /// The connection's. After [`std::io::ErrorKind::WouldBlock`], silence, it can be used on.
    pub fn receive_some(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        receive(&self.socket, buffer, RecvFlags::empty())
    }

    /// Fills `buffer`, as small things are received.
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_exact(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        socket::receive_exact(&self.socket, buffer)
    }

    /// Fills `buffer` by a moment, however slowly the bytes come; `false`: the peer has closed the connection before the first one.
    ///
    /// # Errors
    /// The connection's; it is of no more use.
    pub fn receive_by(&mut self, buffer: &mut [u8], by: Instant) -> std::io::Result<bool> {
        socket::receive_by(&self.socket, buffer, by)
    }

    /// Fills `buffer`, as large things are received ([`Channel::receive_pieces`]).
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_payload(&mut self, buffer: &mut [u8], silence: Duration) -> std::io::Result<()> {
        socket::receive_payload(&self.socket, buffer, silence)
    }

    /// Fills several pieces, one after the other: the thread is woken when much is there.
    ///
    /// # Errors
    /// The connection's, its end included; it is of no more use.
    pub fn receive_pieces(&mut self, pieces: &mut [IoSliceMut<'_>], silence: Duration) -> std::io::Result<()> {
        socket::receive_pieces(&self.socket, pieces, silence)
    }

    /// Waits until something can be received, or for so long.
    ///
    /// # Errors
    /// The connection's, or [`std::io::ErrorKind::TimedOut`].
    pub fn wait_readable(&mut self, silence: Duration) -> std::io::Result<()> {
        socket::wait_readable(&self.socket, silence)
    }

    /// Whether something can be received at once (or the connection is at its end).
    pub fn is_readable(&mut self) -> bool {
        socket::is_readable(&self.socket)
    }

    /// Takes what can be taken of `bytes` without waiting; how many. What was taken may still stand here ([`Channel::try_flush`]).
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none now, also while the connection is being made. Others are the connection's.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::INPROGRESS | Errno::NOTCONN) => return Err(Errno::AGAIN.into()),
                sent => return Ok(sent?),
            }
        }
    }

    /// Sends what was taken and not sent, as far as that goes without waiting. There is more while [`Channel::wants_to_send`].
    ///
    /// # Errors
    /// The connection's.
    pub fn try_flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether the channel has something to send, besides what it is to be given: to poll for.
    pub fn wants_to_send(&self) -> bool {
        false
    }

    /// Fills `buffer` as far as that goes without waiting; how many bytes. Fewer than it has room for: nothing more is here, and the
    /// socket is to be polled. 0: the peer has closed the connection.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::WouldBlock`]: none now, also while the connection is being made. Others are the connection's.
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match receive(&self.socket, buffer, RecvFlags::DONTWAIT) {
            Err(e) if e.kind() == std::io::ErrorKind::NotConnected => Err(Errno::AGAIN.into()),
            received => received,
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One call, made again when a signal interrupts it.
fn receive(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> std::io::Result<usize> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, flags) {
            Err(Errno::INTR) => {}
            received => return Ok(received.map(|(_, many)| many)?),
        }
    }
}
