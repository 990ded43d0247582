//! Captures every packet of a network namespace.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Size of the receive buffer.
const WAITING_BYTES: libc::c_int = 64 << 20;
/// Maximum size of a packet: those within one machine are joined before segmentation.
const PACKET_BYTES: usize = 256 << 10;

/// A capture, which reads until ended.
pub(super) struct Packets {
    enough: Arc<AtomicBool>,
    reader: JoinHandle<Result<Vec<Vec<u8>>>>,
}

fn checked(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("a small type");
    // SAFETY: the value is readable for its length during the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, std::ptr::from_ref(value).cast(), length) }).map(drop)
}

/// Returns a socket that receives all packets; moves the thread into the namespace.
fn socket(namespace: &str) -> Result<OwnedFd> {
    let namespace = File::open(namespace)?;
    // SAFETY: setns changes the network of this thread alone, which ends with the capture.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    let all = libc::ETH_P_ALL as u16;
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe {
        OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(all.to_be())))?)
    };
    set(&socket, libc::SO_RCVBUFFORCE, &WAITING_BYTES)?;
    set(&socket, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 20_000 })?;
    Ok(socket)
}

/// Returns the number of packets dropped for lack of buffer space.
fn lost(socket: &OwnedFd) -> Result<u32> {
    let (mut counts, mut length) = ([0_u32; 2], 8);
    // SAFETY: two numbers are written to an array of two.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, counts.as_mut_ptr().cast(), &raw mut length)
    })?;
    Ok(counts[1])
}

impl Packets {
    /// Starts a capture.
    pub(super) fn of(namespace: String) -> Packets {
        let enough = Arc::new(AtomicBool::new(false));
        let (stop, (begun, begins)) = (Arc::clone(&enough), std::sync::mpsc::channel());
        let reader = std::thread::spawn(move || {
            let socket = socket(&namespace);
            begun.send(()).expect("it is waited for");
            read(&socket?, &stop)
        });
        begins.recv().expect("it begins");
        Packets { enough, reader }
    }

    /// Ends the capture; returns all packets.
    pub(super) fn end(self) -> Vec<Vec<u8>> {
        self.enough.store(true, Ordering::SeqCst);
        self.reader.join().expect("the reader ends").expect("packets can be read")
    }
}

fn read(socket: &OwnedFd, enough: &AtomicBool) -> Result<Vec<Vec<u8>>> {
    let (mut all, mut packet) = (Vec::new(), vec![0; PACKET_BYTES]);
    loop {
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        match checked(unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) } as libc::c_int) {
            Ok(length) => all.push(packet[..length as usize].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !enough.load(Ordering::SeqCst) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    assert_eq!(lost(socket)?, 0, "packets were lost, and may have had anything in them");
    Ok(all)
}
