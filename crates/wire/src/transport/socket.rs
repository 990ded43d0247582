//! Blocking socket I/O with timeouts, refusals and resets mapped to the store's errors.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use rustix::net::{RecvFlags, SendFlags};
use std::io::{IoSlice, IoSliceMut, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};
use thalweg_trace::TcpInfo;

/// From this size on, receives use fewer wake-ups.
pub(super) const LARGE_BYTES: usize = limits::WAKE_BYTES / 4;

/// Connects within `timeout`. A refused connection is retried until `refused_for` has passed (the server may be starting).
pub(crate) fn connect(address: &str, timeout: Duration, refused_for: Duration) -> Result<TcpStream> {
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

/// Sets the time without progress after which calls on the socket time out.
pub(crate) fn set_silence(stream: &TcpStream, silence: Duration) -> Result<()> {
    let silence = Some(silence.max(Duration::from_millis(1)));
    stream.set_read_timeout(silence).and_then(|()| stream.set_write_timeout(silence)).map_err(|e| Error::system("socket timeout", e))
}

/// Detects within [`limits::KEEP_ALIVE`] that the peer's machine is gone, even if nothing is awaited from it or the last reply to
/// it was never acknowledged.
pub(crate) fn keep_alive(stream: &TcpStream) -> Result<()> {
    let probe = limits::KEEP_ALIVE / 5;
    let probes = socket2::TcpKeepalive::new().with_time(probe * 2).with_interval(probe).with_retries(3);
    let socket = socket2::SockRef::from(stream);
    socket
        .set_tcp_keepalive(&probes)
        .and_then(|()| socket.set_tcp_user_timeout(Some(limits::KEEP_ALIVE)))
        .map_err(|e| Error::system("keep-alive probes", e))
}

/// Maps a failed send or receive to an error. `what`: what was being waited for, as in "while its reply was awaited".
pub(crate) fn failure(what: &str, error: std::io::Error, silence: Duration) -> Error {
    if let Some(known) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return known.clone();
    }
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            Error::new(ErrorKind::TimedOut, format!("silent for {:.1} s while {what}; is it stopped or cut off?", silence.as_secs_f64()))
        }
        std::io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Reset, format!("closed the connection while {what}; was it stopped?")),
        _ => Error::system(format!("connection lost while {what}"), error),
    }
}

/// Sends all pieces with as few system calls as possible.
pub(crate) fn send_pieces(stream: &TcpStream, pieces: &mut [IoSlice<'_>]) -> std::io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, sendmsg};
    let mut rest = pieces;
    loop {
        while rest.first().is_some_and(|p| p.is_empty()) {
            rest = &mut rest[1..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        // One call takes at most 1024 pieces (IOV_MAX).
        let many = rest.len().min(1024);
        match sendmsg(stream, &rest[..many], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut rest, n),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Fills `buffer`, as for small messages.
pub(crate) fn receive_exact(mut stream: &TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    stream.read_exact(buffer)
}

/// Fills `buffer` until the deadline, however slowly bytes arrive; `false`: the peer closed the connection before the first byte.
pub(crate) fn receive_by(stream: &TcpStream, buffer: &mut [u8], by: Instant) -> std::io::Result<bool> {
    let mut have = 0;
    while have < buffer.len() {
        wait_readable(stream, by.saturating_duration_since(Instant::now()))?;
        match rustix::net::recv(stream, &mut buffer[have..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) if have == 0 => return Ok(false),
            Ok((_, 0)) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok((_, many)) => have += many,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

/// Fills `buffer`; a large one with fewer wake-ups ([`receive_pieces`]).
pub(crate) fn receive_payload(stream: &TcpStream, buffer: &mut [u8], silence: Duration) -> std::io::Result<()> {
    if buffer.len() < LARGE_BYTES {
        return receive_exact(stream, buffer);
    }
    receive_pieces(stream, &mut [IoSliceMut::new(buffer)], silence)
}

/// Fills several pieces in order. The thread sleeps until half a megabyte has arrived ([`limits::WAKE_BYTES`]) instead of waking
/// for every few segments. The kernel wakes it earlier when its buffer is full or the connection ends, so it never waits for
/// bytes that cannot arrive.
pub(crate) fn receive_pieces(stream: &TcpStream, pieces: &mut [IoSliceMut<'_>], silence: Duration) -> std::io::Result<()> {
    use rustix::net::{RecvAncillaryBuffer, recvmsg};
    let mut left: usize = pieces.iter().map(|p| p.len()).sum();
    let mut rest = pieces;
    let mut wake = Wake::new(stream);
    while left > 0 {
        wake.at(left.min(limits::WAKE_BYTES));
        wait_readable(stream, silence)?;
        while rest.first().is_some_and(|p| p.is_empty()) {
            rest = &mut rest[1..];
        }
        // One call takes at most 1024 pieces (IOV_MAX).
        let many = rest.len().min(1024);
        match recvmsg(stream, &mut rest[..many], &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT) {
            Ok(got) if got.bytes == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                left -= got.bytes;
                IoSliceMut::advance_slices(&mut rest, got.bytes);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Receives once, retrying after signals; 0: the peer has closed the connection.
pub(super) fn receive(stream: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> std::io::Result<usize> {
    loop {
        match rustix::net::recv(stream, &mut *buffer, flags) {
            Err(rustix::io::Errno::INTR) => {}
            received => return Ok(received.map(|(_, many)| many)?),
        }
    }
}

/// Sends all bytes; `more`: further bytes follow immediately, so that the last ones do not make a short segment.
pub(super) fn send_all(stream: &TcpStream, mut bytes: &[u8], more: bool) -> std::io::Result<()> {
    let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, flags) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(many) => bytes = &bytes[many..],
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Sends what follows `sent` as far as possible without blocking; also callable while connecting.
pub(super) fn send_now(stream: &TcpStream, bytes: &[u8], sent: &mut usize) -> std::io::Result<()> {
    use rustix::io::Errno;
    while *sent < bytes.len() {
        match rustix::net::send(stream, &bytes[*sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(many) => *sent += many,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::INPROGRESS | Errno::NOTCONN) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Sets how many bytes wake a thread that waits for the socket. Back to 1 on drop: a header must be seen immediately.
pub(super) struct Wake<'a> {
    stream: &'a TcpStream,
    bytes: usize,
}

impl<'a> Wake<'a> {
    pub(super) fn new(stream: &'a TcpStream) -> Wake<'a> {
        Wake { stream, bytes: 1 }
    }

    pub(super) fn at(&mut self, bytes: usize) {
        if bytes != self.bytes {
            set_wake_bytes(self.stream, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.at(1);
    }
}

/// Sets `SO_RCVLOWAT`. Only a hint: on failure the thread wakes more often.
fn set_wake_bytes(stream: &TcpStream, bytes: usize) {
    let bytes = bytes as libc::c_int;
    // SAFETY: the option's value is an int, and lives for the call.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// Reads `TCP_INFO`.
pub(super) fn tcp_info(stream: &TcpStream) -> Option<TcpInfo> {
    // Larger than any kernel's structure.
    let mut bytes = [0_u8; 512];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: at most `length` bytes are written, which the buffer has.
    let done =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut length) };
    if done == 0 { TcpInfo::parse(bytes.get(..length as usize)?) } else { None }
}

/// Returns the size of the send buffer as counted by the kernel.
pub(super) fn send_buffer_bytes(stream: &TcpStream) -> Option<u32> {
    socket2::SockRef::from(stream).send_buffer_size().ok()?.try_into().ok()
}

/// Waits at most `silence` for something to receive.
pub(crate) fn wait_readable(stream: &TcpStream, silence: Duration) -> std::io::Result<()> {
    let timeout = rustix::event::Timespec { tv_sec: silence.as_secs() as i64, tv_nsec: i64::from(silence.subsec_nanos()) };
    loop {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(stream.as_fd(), rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            // Fewer bytes than the low-water mark may have arrived: that is progress too.
            Ok(0) if unread(stream) == 0 => return Err(std::io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits at most `silence` until the socket is readable or, if `sending`, writable.
pub(super) fn wait_for(stream: &TcpStream, sending: bool, silence: Duration) -> std::io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let timeout = Timespec { tv_sec: silence.as_secs() as i64, tv_nsec: i64::from(silence.subsec_nanos()) };
    let flags = if sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    loop {
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(stream.as_fd(), flags)], Some(&timeout)) {
            Ok(0) => return Err(std::io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits at most `silence` until the socket or `wake` is readable; returns `false` only if `wake` alone is.
pub(super) fn is_readable_before(stream: &TcpStream, wake: BorrowedFd<'_>, silence: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let timeout = Timespec { tv_sec: silence.as_secs() as i64, tv_nsec: i64::from(silence.subsec_nanos()) };
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN), PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    // If poll fails, the receive that follows waits or reports the error.
    !matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(n) if n > 0) || !fds[0].revents().is_empty()
}

/// Returns the bytes available to receive.
fn unread(stream: &TcpStream) -> u64 {
    rustix::io::ioctl_fionread(stream).unwrap_or(0)
}

/// Whether a receive would return immediately, with data or the connection's end.
pub(crate) fn is_readable(stream: &TcpStream) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(stream.as_fd(), rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(n) if n > 0)
}

/// Waits without limit until there is something to receive or the connection ends.
pub(super) fn wait_until_readable(stream: &TcpStream) {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(stream.as_fd(), rustix::event::PollFlags::IN)];
    // If poll fails, the receive that follows waits or reports the error.
    let _ = rustix::event::poll(&mut fds, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_machine_that_vanished_is_noticed_within_what_is_promised() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        keep_alive(&stream).unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let probes = socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert!(socket.tcp_keepalive_time().unwrap() + probes <= limits::KEEP_ALIVE);
        assert!(socket.tcp_user_timeout().unwrap().is_some_and(|unanswered| unanswered <= limits::KEEP_ALIVE));
    }
}
