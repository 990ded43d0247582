//! TUN devices inside network namespaces: what the two ends of the link are.
//!
//! A network namespace belongs to a thread, and a device is made in the namespace of the thread that makes it. So each step that
//! needs a namespace is done by a short thread that enters it first; the descriptor of the device can then be used from anywhere.
//! The device goes away with its descriptor.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::options::End;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const IFF_TUN: libc::c_short = 0x0001;
/// Packets enter the kernel as from a network card, in a soft interrupt, and not as work of the thread that wrote them.
const IFF_NAPI: libc::c_short = 0x0010;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;
/// The kernel may leave checksums to us and hand over TCP super-segments of both families, with ECN.
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x08;
/// Packets the device itself may hold for us: enough that only the relay's own queue drops.
const DEVICE_QUEUE_PACKETS: libc::c_int = 20_000;
/// How long an address may take until sockets can have it.
const ADDRESS_WAIT: Duration = Duration::from_secs(5);
const ADDRESS_PAUSE: Duration = Duration::from_millis(1);

/// What could not be done, to what, and why.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: io::Error,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for Error {}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    |source| Error { what, source }
}

/// An end of the link: a TUN device that is up and has its addresses.
#[derive(Debug)]
pub struct Device {
    file: File,
    name: String,
    namespace: Namespace,
}

/// A network namespace that one can enter.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    path: PathBuf,
}

impl Namespace {
    /// Opens a namespace by the name that `ip netns` gave it, by a path, or, for an empty name, our own.
    pub fn open(name: &str) -> Result<Namespace, Error> {
        let path = match name {
            "" => PathBuf::from("/proc/thread-self/ns/net"),
            path if path.contains('/') => PathBuf::from(path),
            name => Path::new("/run/netns").join(name),
        };
        let file = File::open(&path).map_err(failed(format!("network namespace {}", path.display())))?;
        Ok(Namespace { file, path })
    }

    /// Makes a namespace without a name, which lasts as long as it is held.
    pub fn unnamed() -> Result<Namespace, Error> {
        let made = in_thread(|| {
            // SAFETY: no memory is involved; only this short thread's namespace changes.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                return Err(failed("a new network namespace (needs root)")(io::Error::last_os_error()));
            }
            Namespace::open("")
        })?;
        Ok(made)
    }

    /// A second hold on the same namespace.
    pub fn again(&self) -> Result<Namespace, Error> {
        let file = self.file.try_clone().map_err(failed(format!("network namespace {}", self.path.display())))?;
        Ok(Namespace { file, path: self.path.clone() })
    }

    /// Runs `work` in a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let fd = self.file.as_raw_fd();
        in_thread(move || {
            // SAFETY: no memory is involved; only this short thread's namespace changes.
            if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } < 0 {
                return Err(failed(format!("entering {} (needs root)", self.path.display()))(io::Error::last_os_error()));
            }
            work()
        })
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl Device {
    /// Makes the device `name` for `end`, gives it its addresses and brings it up.
    pub fn create(end: &End, name: &str, mtu: u32, offload: bool) -> Result<Device, Error> {
        Device::create_in(Namespace::open(&end.namespace)?, &end.addresses, name, mtu, offload)
    }

    /// The same in a namespace that is already open.
    pub fn create_in(namespace: Namespace, addresses: &[(IpAddr, u8)], name: &str, mtu: u32, offload: bool) -> Result<Device, Error> {
        let file = namespace.run(|| {
            let file = open(name, offload)?;
            configure(name, addresses, mtu)?;
            Ok(file)
        })?;
        Ok(Device { file, name: name.to_owned(), namespace })
    }

    /// The descriptor, which does not block.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Packets the kernel dropped because we did not read them in time.
    pub fn unread_packets(&self) -> Result<u64, Error> {
        self.namespace.run(|| {
            let text = fs::read_to_string("/proc/thread-self/net/dev").map_err(failed("/proc/thread-self/net/dev"))?;
            let prefix = format!("{}:", self.name);
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&prefix)).unwrap_or_default();
            // Eight columns of what was received, then what was sent: bytes, packets, errors, drops.
            Ok(line.split_whitespace().nth(11).and_then(|drops| drops.parse().ok()).unwrap_or(0))
        })
    }
}

/// Opens a TUN device in this thread's namespace.
fn open(name: &str, offload: bool) -> Result<File, Error> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun").map_err(failed("/dev/net/tun"))?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NAPI | IFF_NO_PI | IFF_VNET_HDR;
    control(&file, TUNSETIFF, &mut request, || format!("making the TUN device {name}"))?;
    let offloads = if offload { OFFLOADS } else { 0 };
    // SAFETY: this request takes a number, not a pointer.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, offloads) } < 0 {
        return Err(failed(format!("offloads of {name}"))(io::Error::last_os_error()));
    }
    Ok(file)
}

/// Sizes, addresses and the up flag of a device in this thread's namespace.
fn configure(name: &str, addresses: &[(IpAddr, u8)], mtu: u32) -> Result<(), Error> {
    let socket = datagram(libc::AF_INET)?;
    let mut sized = request(name);
    sized.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    control(&socket, libc::SIOCSIFMTU as _, &mut sized, || format!("MTU {mtu} of {name}"))?;
    sized.ifr_ifru.ifru_mtu = DEVICE_QUEUE_PACKETS;
    control(&socket, libc::SIOCSIFTXQLEN as _, &mut sized, || format!("queue of {name}"))?;
    quiet(name, addresses.iter().any(|(address, _)| address.is_ipv6()));
    let mut up = request(name);
    control(&socket, libc::SIOCGIFFLAGS as _, &mut up, || format!("flags of {name}"))?;
    // SAFETY: the kernel has just filled the flags in.
    unsafe { up.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    control(&socket, libc::SIOCSIFFLAGS as _, &mut up, || format!("bringing {name} up"))?;
    addresses.iter().try_for_each(|&(address, prefix)| match address {
        IpAddr::V4(address) => add_v4(&socket, name, address.octets(), prefix),
        IpAddr::V6(address) => add_v6(name, address.octets(), prefix),
    })
}

/// Keeps the kernel from sending packets of its own (router and neighbour discovery), which would shift the draws of loss.
/// Best effort: without IPv6 in the kernel there is nothing to quieten.
fn quiet(name: &str, with_v6: bool) {
    let settings: &[(&str, &str)] =
        if with_v6 { &[("accept_dad", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")] } else { &[("disable_ipv6", "1")] };
    for (setting, value) in settings {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{setting}"), value);
    }
}

fn add_v4(socket: &OwnedFd, name: &str, octets: [u8; 4], prefix: u8) -> Result<(), Error> {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    for (code, value) in [(libc::SIOCSIFADDR, u32::from_be_bytes(octets)), (libc::SIOCSIFNETMASK, mask)] {
        let mut request = request(name);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: value.to_be() },
            sin_zero: [0; 8],
        };
        // SAFETY: both are plain data of 16 bytes.
        request.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
        control(socket, code as _, &mut request, || format!("address {}/{prefix} of {name}", std::net::Ipv4Addr::from(octets)))?;
    }
    Ok(())
}

fn add_v6(name: &str, octets: [u8; 16], prefix: u8) -> Result<(), Error> {
    let socket = datagram(libc::AF_INET6)?;
    let mut indexed = request(name);
    control(&socket, libc::SIOCGIFINDEX as _, &mut indexed, || format!("index of {name}"))?;
    let mut request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: octets },
        ifr6_prefixlen: prefix.into(),
        // SAFETY: the kernel has just filled the index in.
        ifr6_ifindex: unsafe { indexed.ifr_ifru.ifru_ifindex },
    };
    let what = || format!("address {}/{prefix} of {name}", std::net::Ipv6Addr::from(octets));
    control(&socket, libc::SIOCSIFADDR as _, &mut request, what)?;
    usable(octets.into()).map_err(failed(what()))
}

/// Waits until the kernel lets sockets have a new address: it takes an IPv6 address into use in a thread of its own.
fn usable(address: std::net::Ipv6Addr) -> io::Result<()> {
    let deadline = Instant::now() + ADDRESS_WAIT;
    loop {
        match UdpSocket::bind((address, 0)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && Instant::now() < deadline => std::thread::sleep(ADDRESS_PAUSE),
            bound => return bound.map(drop),
        }
    }
}

/// A request about the interface `name`, whose length the options have bounded.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

fn datagram(family: libc::c_int) -> Result<OwnedFd, Error> {
    // SAFETY: plain arguments.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(failed("a socket to configure the device with")(io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn control<T>(file: &impl AsRawFd, code: libc::c_ulong, argument: &mut T, what: impl FnOnce() -> String) -> Result<(), Error> {
    // SAFETY: every caller passes the structure its request reads and writes.
    if unsafe { libc::ioctl(file.as_raw_fd(), code as _, argument as *mut T) } < 0 {
        return Err(failed(what())(io::Error::last_os_error()));
    }
    Ok(())
}
