//! The kernel's information on TCP sockets, available to any user: `sock_diag` over netlink. One request returns all
//! connections of this network namespace, each with the structure that `getsockopt(TCP_INFO)` gives a program of its
//! own socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use thalweg_trace::TcpInfo;

/// The kernel's `TCP_LISTEN`.
pub(crate) const LISTEN: u8 = 10;

const ESTABLISHED: u8 = 1;
/// The kernel's `TCP_SYN_SENT`.
pub(crate) const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Size of an answer's fixed part.
const ANSWER_BYTES: usize = 72;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const UNIX_REQUEST_BYTES: usize = 24;
const UNIX_ANSWER_BYTES: usize = 16;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// One TCP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Its inode, as in `/proc/PID/fd`.
    pub inode: u64,
    /// The kernel's number of its state, e.g. [`LISTEN`].
    pub state: u8,
    /// The local end.
    pub local: SocketAddr,
    /// The remote end.
    pub peer: SocketAddr,
    /// Bytes received and not read.
    pub unread_bytes: u32,
    /// Bytes written and not acknowledged.
    pub queued_bytes: u32,
    /// Its send buffer's size.
    pub send_buffer_bytes: Option<u32>,
    /// TCP's own state.
    pub info: Option<TcpInfo>,
}

impl Socket {
    /// Returns the bytes written since the connection began. (Acknowledged bytes would not do: the connecting end
    /// counts its SYN.)
    pub(crate) fn written_bytes(&self) -> Option<u64> {
        let info = self.info?;
        // A closed end counts its FIN as unsent.
        let open = matches!(self.state, ESTABLISHED | CLOSE_WAIT);
        let unsent = u64::from(info.unsent_bytes?);
        let unsent = if open { unsent } else { unsent.saturating_sub(1) };
        (info.sent_bytes? + unsent).checked_sub(info.retransmitted_bytes?)
    }

    /// Whether this end accepted the connection; `None` if TCP's state does not show it. The connecting end's SYN
    /// counts as one acknowledged byte; the accepting end's SYN is acknowledged before its socket exists.
    pub(crate) fn accepted(&self) -> Option<bool> {
        if self.state == SYN_SENT {
            return Some(false);
        }
        // A FIN counts too: only an end that has sent none is conclusive.
        let info = self.info.filter(|_| matches!(self.state, ESTABLISHED | CLOSE_WAIT))?;
        // (The queue length is read a moment later than TCP's state: if nothing is in flight, that state suffices.)
        let acknowledged = match info.unacked_segments {
            0 => info.sent_bytes?.checked_sub(info.retransmitted_bytes?)?,
            _ => self.written_bytes()?.checked_sub(u64::from(self.queued_bytes))?,
        };
        match info.acked_bytes?.checked_sub(acknowledged)? {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }

    /// Returns the bytes read since the connection began.
    pub(crate) fn read_bytes(&self) -> Option<u64> {
        self.info?.received_bytes?.checked_sub(u64::from(self.unread_bytes))
    }
}

/// Returns an address as used in connection names: IPv4 if an IPv6 socket uses it.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A netlink socket for queries.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Diagnostics {
    /// Opens the netlink socket.
    ///
    /// # Errors
    /// The kernel has no socket diagnostics, or a sandbox forbids them.
    pub(crate) fn open() -> std::io::Result<Diagnostics> {
        // SAFETY: a system call without pointers; the descriptor is new and ours.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG);
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let timeout = libc::timeval { tv_sec: 1, tv_usec: 0 };
        // SAFETY: the option's value is read from `timeout`, which has the stated size. A missing answer becomes an
        // error.
        unsafe {
            let length = size_of_val(&timeout) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const timeout).cast(), length);
        }
        Ok(Diagnostics { socket, buffer: vec![0; 64 << 10] })
    }

    /// Returns all TCP sockets of this network namespace.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn sockets(&mut self) -> std::io::Result<Vec<Socket>> {
        let mut sockets = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.ask(family as u8)?;
            while self.receive(|message| sockets.extend(parse_socket(message)))? {}
        }
        Ok(sockets)
    }

    /// Returns the peer of each connected Unix socket, by inode, in both directions.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn unix_peers(&mut self) -> std::io::Result<BTreeMap<u64, u64>> {
        let mut request = [0_u8; HEADER_BYTES + UNIX_REQUEST_BYTES];
        request[16] = libc::AF_UNIX as u8;
        request[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        request[28..32].copy_from_slice(&UDIAG_SHOW_PEER.to_ne_bytes());
        self.send(&mut request)?;
        let mut peers = BTreeMap::new();
        while self.receive(|message| peers.extend(parse_unix(message)))? {}
        Ok(peers)
    }

    /// Sends a request after filling in its header.
    fn send(&self, request: &mut [u8]) -> std::io::Result<()> {
        let length = request.len() as u32;
        request[..4].copy_from_slice(&length.to_ne_bytes());
        request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        // SAFETY: the buffer has the stated length.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        if sent < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }

    fn ask(&self, family: u8) -> std::io::Result<()> {
        let mut request = [0_u8; REQUEST_BYTES];
        request[16] = family;
        request[17] = libc::IPPROTO_TCP as u8;
        request[18] = (1 << (INET_DIAG_INFO - 1)) | (1 << (INET_DIAG_SKMEMINFO - 1));
        // States of connections that carry bytes, and of listeners.
        let states: u32 = (1 << 1) | (1 << 2) | (1 << 4) | (1 << 5) | (1 << 8) | (1 << 9) | (1 << LISTEN);
        request[20..24].copy_from_slice(&states.to_ne_bytes());
        self.send(&mut request)
    }

    /// Receives one datagram of answers; `false` if it was the last.
    fn receive(&mut self, mut each: impl FnMut(&[u8])) -> std::io::Result<bool> {
        // SAFETY: the buffer has the stated length.
        let n = unsafe { libc::recv(self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
        if n < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mut left = &self.buffer[..n as usize];
        while let (Some(length), Some(kind)) = (u32_at(left, 0), u16_at(left, 4)) {
            let length = length as usize;
            let Some(message) = left.get(HEADER_BYTES..length) else { break };
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(false),
                libc::NLMSG_ERROR => {
                    let code = u32_at(message, 0).unwrap_or(0) as i32;
                    return Err(std::io::Error::from_raw_os_error(-code));
                }
                _ => each(message),
            }
            left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(n > 0)
    }
}

/// Parses one answer (`struct unix_diag_msg` and its attributes): the inodes of the socket and its peer.
fn parse_unix(message: &[u8]) -> Option<(u64, u64)> {
    let inode = u64::from(u32_at(message, 4)?);
    let mut left = message.get(UNIX_ANSWER_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(left, 0), u16_at(left, 2)) {
        if kind == UNIX_DIAG_PEER {
            return Some((inode, u64::from(u32_at(left, 4)?)));
        }
        left = left.get(usize::from(length).max(4).next_multiple_of(4)..)?;
    }
    None
}

/// Parses one answer (`struct inet_diag_msg` and its attributes).
fn parse_socket(message: &[u8]) -> Option<Socket> {
    let family = i32::from(*message.first()?);
    let port = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| -> Option<IpAddr> {
        Some(match family {
            libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(message.get(at..at + 4)?).ok()?).into(),
            _ => Ipv6Addr::from(<[u8; 16]>::try_from(message.get(at..at + 16)?).ok()?).into(),
        })
    };
    let mut socket = Socket {
        inode: u64::from(u32_at(message, 68)?),
        state: *message.get(1)?,
        local: plain(SocketAddr::new(address(8)?, port(4)?)),
        peer: plain(SocketAddr::new(address(24)?, port(6)?)),
        unread_bytes: u32_at(message, 56)?,
        queued_bytes: u32_at(message, 60)?,
        send_buffer_bytes: None,
        info: None,
    };
    let mut left = message.get(ANSWER_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(left, 0), u16_at(left, 2)) {
        let Some(value) = left.get(4..usize::from(length)) else { break };
        match kind {
            INET_DIAG_INFO => socket.info = TcpInfo::parse(value),
            INET_DIAG_SKMEMINFO => socket.send_buffer_bytes = u32_at(value, 12),
            _ => {}
        }
        left = left.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Returns both ends of a connection, as the kernel reports them after `bytes` went one way and 5 the other.
    fn both_ends(bytes: usize) -> (Socket, Socket) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut client = std::net::TcpStream::connect(address).expect("connected");
        let (mut server, from) = listener.accept().expect("accepted");
        client.write_all(&vec![1; bytes]).expect("sent");
        server.read_exact(&mut vec![0; bytes]).expect("received");
        server.write_all(b"reply").expect("sent");
        client.read_exact(&mut [0; 5]).expect("received");
        let mut diagnostics = Diagnostics::open().expect("the kernel has socket diagnostics");
        let sockets = diagnostics.sockets().expect("answered");
        assert!(sockets.iter().any(|s| s.state == LISTEN && s.local.port() == address.port()));
        let find = |local: SocketAddr| sockets.iter().find(|s| s.local == local && s.state != LISTEN).expect("there").clone();
        (find(from), find(address))
    }

    #[test]
    fn bytes_of_a_connection_are_the_same_at_both_ends() {
        for bytes in [1, 65_536] {
            let (client, server) = both_ends(bytes);
            assert_eq!(server.read_bytes(), Some(bytes as u64));
            assert_eq!(server.written_bytes(), Some(5));
            assert_eq!(client.read_bytes(), Some(5));
            assert_eq!(client.written_bytes(), Some(bytes as u64));
            assert!(client.send_buffer_bytes > Some(0), "{client:?}");
            let info = client.info.expect("TCP's figures");
            assert!(info.cwnd_segments > 0 && info.segment_bytes > 0, "{info:?}");
        }
    }

    #[test]
    fn which_end_accepted_a_connection_is_known_from_what_was_acknowledged() {
        for bytes in [0, 1, 65_536] {
            let (client, server) = both_ends(bytes);
            assert_eq!((client.accepted(), server.accepted()), (Some(false), Some(true)), "{bytes}: {client:?} {server:?}");
        }
    }
}
