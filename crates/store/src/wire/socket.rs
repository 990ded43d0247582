//! Blocking socket I/O that knows what silence, refusal and reset mean.

use crate::error::{Error, ErrorKind, Result};
use std::io::{IoSlice, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connects within `timeout`. A refusal is tried again until `refused_for` has passed (a server that is just starting).
pub fn connect(address: &str, timeout: Duration, refused_for: Duration) -> Result<TcpStream> {
    let begun = Instant::now();
    let addresses: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|e| Error::new(ErrorKind::NotFound, format!("{address} is not an address (expected HOST:PORT): {e}")))?
        .collect();
    loop {
        let mut last = Error::new(ErrorKind::NotFound, format!("{address}: no such host"));
        for one in &addresses {
            match TcpStream::connect_timeout(one, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|e| Error::system(format!("{address}: TCP_NODELAY"), e))?;
                    return Ok(stream);
                }
                Err(e) if e.kind() == std::io::ErrorKind::TimedOut => {
                    last = Error::new(ErrorKind::TimedOut, format!("{address} did not answer for {:.1} s", timeout.as_secs_f64()));
                }
                Err(e) => last = Error::system(format!("connecting to {address}"), e),
            }
        }
        if last.kind() != ErrorKind::Refused || begun.elapsed() >= refused_for {
            return Err(last);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets calls on the socket give up after `silence` without progress.
pub fn set_silence(stream: &TcpStream, silence: Duration) -> Result<()> {
    let silence = Some(silence.max(Duration::from_millis(1)));
    stream.set_read_timeout(silence).and_then(|()| stream.set_write_timeout(silence)).map_err(|e| Error::system("socket timeout", e))
}

/// What a failed send or receive means.
pub fn failure(what: &str, error: std::io::Error, silence: Duration) -> Error {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            Error::new(ErrorKind::TimedOut, format!("silent for {:.1} s while {what}; is it stopped or cut off?", silence.as_secs_f64()))
        }
        std::io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Reset, format!("closed the connection while {what}; was it stopped?")),
        _ => Error::system(format!("connection lost while {what}"), error),
    }
}

/// Sends all of it.
pub fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, rustix::net::SendFlags::NOSIGNAL) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Sends all of several pieces with as few calls as the system allows; `more` says that something follows at once.
pub fn send_pieces(stream: &TcpStream, pieces: &mut [IoSlice<'_>], more: bool) -> std::io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
    let flags = SendFlags::NOSIGNAL | if more { SendFlags::MORE } else { SendFlags::empty() };
    let mut rest = pieces;
    loop {
        while rest.first().is_some_and(|p| p.is_empty()) {
            rest = &mut rest[1..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        // The system takes at most 1024 pieces (IOV_MAX) in one call.
        let many = rest.len().min(1024);
        match sendmsg(stream, &rest[..many], &mut SendAncillaryBuffer::default(), flags) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut rest, n),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Fills `buffer` from the socket.
pub fn receive_exact(mut stream: &TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    stream.read_exact(buffer)
}

/// Whether something can be received at once (or the connection is at its end).
pub fn is_readable(stream: &TcpStream) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(stream.as_fd(), rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(n) if n > 0)
}
