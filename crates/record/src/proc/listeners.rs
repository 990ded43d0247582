//! Finds listening processes by port, in each network namespace.

use super::processes::{self, numbers_in};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use thalweg_base::proc::stat::Stat;

/// A listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Its address.
    pub address: SocketAddr,
    /// Its inode, as in `/proc/PID/fd`.
    pub inode: u64,
}

/// Returns the listening sockets in a process's network namespace.
pub(crate) fn listening(pid: u32) -> Vec<Listener> {
    let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
    ["tcp", "tcp6"].into_iter().flat_map(|file| text(file).lines().skip(1).filter_map(listener).collect::<Vec<_>>()).collect()
}

/// Returns a process's network namespace, as /proc names it: `net:[4026531840]`.
pub(crate) fn namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Parses the inode number in `socket:[12345]`.
pub(crate) fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the inodes of a process's open sockets.
fn sockets_of(pid: u32) -> impl Iterator<Item = u64> {
    let directory = format!("/proc/{pid}/fd");
    let links = numbers_in(&directory).into_iter().filter_map(move |fd| fs::read_link(format!("{directory}/{fd}")).ok());
    links.filter_map(|target| socket_inode(target.to_str()?))
}

/// Listening sockets in every readable network namespace, and their owners.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    spaces: Vec<Space>,
    /// Processes by the inode of their socket; only processes whose descriptors are readable.
    owners: BTreeMap<u64, BTreeSet<u32>>,
}

/// Reads every readable network namespace.
fn spaces(table: &BTreeMap<u32, Stat>) -> Vec<Space> {
    let mut spaces: Vec<Space> = Vec::new();
    for pid in [std::process::id()].into_iter().chain(table.keys().copied()) {
        let Some(name) = namespace(pid) else { continue };
        if !spaces.iter().any(|space| space.name == name) {
            spaces.push(Space::read(name, pid));
        }
    }
    spaces
}

/// Returns the processes that have each of these sockets open, among those with readable descriptors.
fn owners(table: &BTreeMap<u32, Stat>, inodes: &BTreeSet<u64>) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut owners: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for process in table.values().filter(|process| !process.is_kernel()) {
        for inode in sockets_of(process.pid).filter(|inode| inodes.contains(inode)) {
            owners.entry(inode).or_default().insert(process.pid);
        }
    }
    owners
}

/// A connection request: both ends, and the number of the caller's network namespace.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct Call {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub namespace: u32,
}

/// Who must answer a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// No process on this machine listens there.
    Elsewhere,
    /// The listening process here has accepted it, or it is over.
    Accepted,
    /// These processes listen, and none has accepted it.
    Waiting(BTreeSet<u32>),
}

/// Returns who must answer each of these calls. Socket owners are looked up only if one of the calls waits.
pub(crate) fn callees(calls: &[Call]) -> Vec<Callee> {
    let table = processes::all();
    let spaces = spaces(&table);
    // Each namespace's tables are read once, however many calls there are.
    let mut unaccepted: BTreeMap<u32, BTreeSet<(SocketAddr, SocketAddr)>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut wanted = BTreeSet::new();
    for call in calls {
        let (mut listens, mut accepts) = (false, BTreeSet::new());
        for space in spaces.iter().filter(|space| space.is_reached(call)) {
            let inodes: Vec<u64> = space.answering(call.to).map(|listener| listener.inode).collect();
            listens |= !inodes.is_empty();
            if inodes.is_empty() {
                continue;
            }
            if unaccepted.entry(space.pid).or_insert_with(|| space.unaccepted()).contains(&(call.from, call.to)) {
                accepts.extend(inodes);
            }
        }
        wanted.extend(accepts.iter().copied());
        found.push((listens, accepts));
    }
    let owners = if wanted.is_empty() { BTreeMap::new() } else { owners(&table, &wanted) };
    let callee = |(listens, accepts): (bool, BTreeSet<u64>)| match (listens, accepts.is_empty()) {
        (false, _) => Callee::Elsewhere,
        (true, true) => Callee::Accepted,
        (true, false) => Callee::Waiting(accepts.iter().filter_map(|inode| owners.get(inode)).flatten().copied().collect()),
    };
    found.into_iter().map(callee).collect()
}

/// One network namespace.
#[derive(Debug)]
struct Space {
    name: PathBuf,
    /// A process in it.
    pid: u32,
    /// Its own addresses.
    own: BTreeSet<IpAddr>,
    listening: Vec<Listener>,
    /// Inodes of contactable sockets without a TCP port: listening Unix sockets, and datagram sockets on ports below
    /// the ephemeral range.
    called: BTreeSet<u64>,
}

impl Listeners {
    /// Reads the namespaces of these processes.
    pub(crate) fn read(table: &BTreeMap<u32, Stat>) -> Listeners {
        let spaces = spaces(table);
        let inodes =
            spaces.iter().flat_map(|space| space.listening.iter().map(|listener| listener.inode).chain(space.called.iter().copied()));
        let inodes = inodes.collect();
        let owners = owners(table, &inodes);
        Listeners { spaces, owners }
    }

    fn on_port(&self, port: u16) -> impl Iterator<Item = u64> {
        self.spaces
            .iter()
            .flat_map(|space| &space.listening)
            .filter(move |listener| listener.address.port() == port)
            .map(|listener| listener.inode)
    }

    /// Returns the processes that listen on `port`.
    pub(crate) fn processes(&self, port: u16) -> BTreeSet<u32> {
        self.on_port(port).filter_map(|inode| self.owners.get(&inode)).flatten().copied().collect()
    }

    /// Whether any socket listens on `port`, even one with an invisible owner.
    pub(crate) fn is_open(&self, port: u16) -> bool {
        self.on_port(port).next().is_some()
    }

    /// Whether a process listens: on a port, for datagrams, or on a Unix socket.
    pub(crate) fn has(&self, pid: u32) -> bool {
        self.owners.values().any(|owners| owners.contains(&pid))
    }

    /// Returns the processes listening at an address, as seen from `namespace`; empty if it is another machine's.
    pub(crate) fn at(&self, address: impl ToSocketAddrs, namespace: &Path) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for address in address.to_socket_addrs().into_iter().flatten() {
            // Each namespace has its own loopback.
            let reached = |space: &&Space| space.name == namespace || !address.ip().is_loopback();
            for listener in self.spaces.iter().filter(reached).flat_map(|space| space.answering(address)) {
                found.extend(self.owners.get(&listener.inode).into_iter().flatten());
            }
        }
        found
    }
}

impl Space {
    fn read(name: PathBuf, pid: u32) -> Space {
        let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        let mut own = own_addresses(&text("fib_trie"));
        own.extend(
            text("if_inet6").lines().filter_map(|line| Some(IpAddr::from(u128::from_str_radix(line.get(..32)?, 16).ok()?.to_be_bytes()))),
        );
        let unix = text("unix").lines().skip(1).filter_map(unix_listener).collect::<Vec<_>>();
        let first = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
            .unwrap_or_default()
            .split_ascii_whitespace()
            .next()
            .and_then(|port| port.parse().ok());
        let first = first.unwrap_or(FIRST_CALLERS_PORT);
        let datagrams = ["udp", "udp6"]
            .into_iter()
            .flat_map(|file| text(file).lines().skip(1).filter_map(|line| datagrams_listener(line, first)).collect::<Vec<_>>());
        let called = unix.into_iter().chain(datagrams).collect();
        Space { name, pid, own, listening: listening(pid), called }
    }

    /// Whether a call can lead here: each namespace has its own loopback.
    fn is_reached(&self, call: &Call) -> bool {
        !call.to.ip().is_loopback() || self.name == Path::new(&format!("net:[{}]", call.namespace))
    }

    /// Returns the calls that wait in a listener's queue or were not even admitted to it. An unaccepted connection
    /// belongs to no file.
    fn unaccepted(&self) -> BTreeSet<(SocketAddr, SocketAddr)> {
        let text = |file: &str| fs::read_to_string(format!("/proc/{}/net/{file}", self.pid)).unwrap_or_default();
        ["tcp", "tcp6"].into_iter().flat_map(|file| text(file).lines().skip(1).filter_map(not_accepted).collect::<Vec<_>>()).collect()
    }

    /// Returns the listeners that would take a connection to this address.
    fn answering(&self, to: SocketAddr) -> impl Iterator<Item = &Listener> {
        let is_own = to.ip().is_loopback() || self.own.contains(&to.ip());
        let takes = move |at: &SocketAddr| at.port() == to.port() && (at.ip().to_canonical() == to.ip() || at.ip().is_unspecified());
        self.listening.iter().filter(move |listener| is_own && takes(&listener.address))
    }
}

/// Returns a namespace's own addresses from /proc/net/fib_trie: each precedes its line `/32 host LOCAL`.
fn own_addresses(trie: &str) -> BTreeSet<IpAddr> {
    let lines: Vec<&str> = trie.lines().map(str::trim).collect();
    let local = lines.windows(2).filter(|pair| pair[1] == "/32 host LOCAL");
    local.filter_map(|pair| pair[0].trim_start_matches(['|', '-', ' ']).parse::<IpAddr>().ok()).collect()
}

/// The kernel's number of the state LISTEN, in hexadecimal.
const LISTEN: &str = "0A";

/// Parses a line of /proc/net/tcp or tcp6 with a listening socket.
fn listener(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTEN {
        return None;
    }
    Some(Listener { address: address(fields.get(1)?)?, inode: fields.get(9)?.parse().ok()? })
}

/// Default start of the ephemeral port range.
const FIRST_CALLERS_PORT: u16 = 32_768;

/// Returns the inode of a listening socket in a line of /proc/net/unix.
pub(crate) fn unix_listener(line: &str) -> Option<u64> {
    const LISTENS: u32 = 1 << 16;
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
    (flags & LISTENS != 0).then(|| fields.get(6)?.parse().ok()).flatten()
}

/// Returns the inode of an unconnected datagram socket on a port below `first`, from a line of /proc/net/udp or udp6.
fn datagrams_listener(line: &str, first: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (own, peer) = (address(fields.get(1)?)?, address(fields.get(2)?)?);
    (peer.port() == 0 && own.port() < first).then(|| fields.get(9)?.parse().ok()).flatten()
}

/// Returns the unaccepted call in a line of /proc/net/tcp or tcp6: the called end exists (even half open, or given up
/// by the caller) and belongs to no file, or the caller is still connecting.
fn not_accepted(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    const ASKING: &str = "02";
    const COME_ABOUT: [&str; 3] = ["01", "03", "08"];
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let end = |at: usize| fields.get(at).and_then(|text| address(text)).map(|a| SocketAddr::new(a.ip().to_canonical(), a.port()));
    match *fields.get(3)? {
        ASKING => Some((end(1)?, end(2)?)),
        state if COME_ABOUT.contains(&state) && fields.get(9) == Some(&"0") => Some((end(2)?, end(1)?)),
        _ => None,
    }
}

/// Returns the peer of this socket in a line of /proc/net/udp or udp6; its bound address if it is unconnected.
fn peer_of(line: &str, inode: u64) -> Option<SocketAddr> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.get(9)?.parse::<u64>().ok()? != inode {
        return None;
    }
    let peer = address(fields.get(2)?)?;
    if peer.port() == 0 { address(fields.get(1)?) } else { Some(peer) }
}

/// Returns a datagram socket's peer, in the network namespace of `pid`; `None` if the socket is of another kind.
pub(crate) fn datagrams_to(pid: u32, inode: u64) -> Option<SocketAddr> {
    let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
    ["udp", "udp6"].into_iter().find_map(|file| text(file).lines().skip(1).find_map(|line| peer_of(line, inode)))
}

/// Returns the datagram socket that is bound to an address of this machine, in the network namespace of `pid`.
pub(crate) fn datagrams_at(pid: u32, at: SocketAddr) -> Option<u64> {
    let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
    ["udp", "udp6"].into_iter().find_map(|file| text(file).lines().skip(1).find_map(|line| bound_to(line, at)))
}

/// Returns the socket in a line of /proc/net/udp or udp6, if it is bound to this address.
fn bound_to(line: &str, at: SocketAddr) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let own = address(fields.get(1)?)?;
    // (Whether another address is this machine's is not known.)
    let is_there = own.ip().to_canonical() == at.ip().to_canonical() || own.ip().is_unspecified() && at.ip().to_canonical().is_loopback();
    (own.port() == at.port() && is_there && !at.ip().is_unspecified()).then(|| fields.get(9)?.parse().ok()).flatten()
}

/// Parses an address as the kernel prints it: four-byte words in the CPU's byte order.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<u32>> = (0..address.len() / 8).map(|at| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()).collect();
    let bytes: Vec<u8> = words?.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_at_an_address_is_found_and_no_neighbour_with_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let listeners = Listeners::read(&processes::all());
        let ours = namespace(std::process::id()).expect("a namespace");
        // (So does, briefly, a child that another test is about to start.)
        assert!(listeners.at(format!("127.0.0.1:{port}"), &ours).contains(&std::process::id()));
        assert!(listeners.is_open(port) && listeners.has(std::process::id()));
        assert!(listeners.processes(port).contains(&std::process::id()));
        // Another machine's address, another loopback address, another namespace's loopback.
        assert!(listeners.at(format!("192.0.2.7:{port}"), &ours).is_empty());
        assert!(listeners.at(format!("127.0.0.2:{port}"), &ours).is_empty());
        assert!(listeners.at(format!("127.0.0.1:{port}"), Path::new("net:[1]")).is_empty());
        assert!(listeners.at("nonsense", &ours).is_empty());
    }

    #[test]
    fn the_socket_at_a_datagrams_address_is_found_on_this_machine_only() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let at = socket.local_addr().expect("an address");
        let own = std::process::id();
        assert!(datagrams_at(own, at).is_some());
        assert_eq!(datagrams_at(own, SocketAddr::new("192.0.2.7".parse().expect("one"), at.port())), None);
        assert_eq!(datagrams_at(own, SocketAddr::new("0.0.0.0".parse().expect("one"), at.port())), None);
        let any = "  7: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 0";
        assert_eq!(bound_to(any, "127.0.0.1:53".parse().expect("one")), Some(4711));
        assert_eq!(bound_to(any, "10.0.0.7:53".parse().expect("one")), None, "perhaps another machine's");
    }

    #[test]
    fn a_call_waits_for_who_listens_until_it_is_accepted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let to = listener.local_addr().expect("an address");
        let caller = std::net::TcpStream::connect(to).expect("connected");
        let name = namespace(std::process::id()).expect("a namespace").to_string_lossy().into_owned();
        let number = name.trim_start_matches("net:[").trim_end_matches(']').parse().expect("a number");
        let call = Call { from: caller.local_addr().expect("an address"), to, namespace: number };
        let neighbour = Call { namespace: 1, ..call };
        // (A child that another test is about to start briefly has everything open that is open here.)
        let found = callees(&[call, neighbour]);
        assert!(matches!(&found[0], Callee::Waiting(by) if by.contains(&std::process::id())), "{found:?}");
        assert_eq!(found[1], Callee::Elsewhere);
        let accepted = listener.accept().expect("accepted");
        assert_eq!(callees(&[call]), [Callee::Accepted]);
        drop((caller, accepted, listener));
        let begun = std::time::Instant::now();
        while callees(&[call]) != [Callee::Elsewhere] {
            assert!(begun.elapsed().as_secs() < 60, "somebody listens there still");
        }
    }

    #[test]
    fn a_call_that_is_not_let_into_the_queue_waits_as_well() {
        let call: (SocketAddr, SocketAddr) = ("127.0.0.1:7001".parse().expect("it"), "127.0.0.1:7000".parse().expect("it"));
        let line = |ends: &str, state: &str, inode: u32| {
            not_accepted(&format!("0: {ends} {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1")) == Some(call)
        };
        let (called, caller) = ("0100007F:1B58 0100007F:1B59", "0100007F:1B59 0100007F:1B58");
        assert!(line(caller, "02", 4711) && line(called, "03", 0) && line(called, "01", 0) && line(called, "08", 0));
        assert!(!line(called, "01", 4711) && !line(caller, "01", 4711) && !line(called, "05", 0));
        let six = "0000000000000000FFFF00000100007F:1B58 0000000000000000FFFF00000100007F:1B59";
        assert!(line(six, "01", 0));
        assert_eq!(not_accepted("rubbish"), None);
    }

    #[test]
    fn who_can_be_called_on_a_unix_socket_or_for_names_listens() {
        let unix = "0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/database.sock";
        assert_eq!(unix_listener(unix), Some(4711));
        assert_eq!(unix_listener(&unix.replace("00010000", "00000000")), None);
        let resolver = "  12: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 101 0 4712 2 0000000000000000 0";
        assert_eq!(datagrams_listener(resolver, 32_768), Some(4712));
        // A client: it has an ephemeral port, or a peer.
        assert_eq!(datagrams_listener(&resolver.replace(":0035", ":C350"), 32_768), None);
        assert_eq!(datagrams_listener(&resolver.replace("00000000:0000 07", "3500007F:0035 01"), 32_768), None);
        let directory = tempfile::tempdir().expect("a directory");
        let _listens = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).expect("bound");
        assert!(Listeners::read(&processes::all()).has(std::process::id()));
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let line = |address: &str| format!("0: {address} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1");
        assert_eq!(
            listener(&line("0100007F:1B58")),
            Some(Listener { address: "127.0.0.1:7000".parse().expect("an address"), inode: 4711 })
        );
        assert_eq!(listener(&line("0100007F:1B58").replace(" 0A ", " 01 ")), None);
        assert_eq!(listener("rubbish"), None);
        let six = listener(&line("00000000000000000000000001000000:1B58"));
        assert_eq!(six, Some(Listener { address: "[::1]:7000".parse().expect("an address"), inode: 4711 }));
        let trie =
            "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.86.1.0\n        /24 link UNICAST\n     |-- 10.86.1.1\n        /32 host LOCAL\n";
        assert_eq!(own_addresses(trie), BTreeSet::from(["10.86.1.1".parse().expect("an address")]));
    }
}
