//! Captures built byte by byte: a TCP conversation of RPCs, in every format and link layer.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A captured packet: its time, its bytes from the IP header on, and its length on the wire.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at_ns: i64,
    pub ip: Vec<u8>,
    pub wire_bytes: usize,
}

/// Half of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub ip: IpAddr,
    pub port: u16,
    sequence: u32,
}

/// A client and a server in conversation.
pub struct Talk {
    pub sides: [Side; 2],
    pub packets: Vec<Packet>,
    pub at_ns: i64,
    identification: u16,
    pub segment_bytes: usize,
}

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH_ACK: u8 = 0x18;
pub const ACK: u8 = 0x10;

/// 2026-01-01.
pub const BEGIN_NS: i64 = 1_767_225_600_000_000_000;

impl Talk {
    /// Starts a conversation over IPv4 or IPv6.
    pub fn new(v6: bool, client_port: u16) -> Talk {
        let address = |n: u8| match v6 {
            false => IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)),
            true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n))),
        };
        let sides = [Side { ip: address(1), port: client_port, sequence: 0xffff_f000 }, Side { ip: address(2), port: 2049, sequence: 77 }];
        Talk { sides, packets: Vec::new(), at_ns: BEGIN_NS, identification: 1, segment_bytes: 1448 }
    }

    /// SYN, SYN and ACK, ACK.
    pub fn connect(&mut self) {
        self.segment(CLIENT, SYN, &[], &[3, 3, 7, 0]);
        self.sides[CLIENT].sequence = self.sides[CLIENT].sequence.wrapping_add(1);
        self.segment(SERVER, SYN | ACK, &[], &[3, 3, 7, 0]);
        self.sides[SERVER].sequence += 1;
        self.segment(CLIENT, ACK, &[], &[]);
    }

    /// Sends bytes from one side, in segments 10 µs apart, and acknowledges all of them.
    pub fn send(&mut self, from: usize, bytes: &[u8]) {
        for chunk in bytes.chunks(self.segment_bytes) {
            self.segment(from, PSH_ACK, chunk, &[]);
            self.sides[from].sequence = self.sides[from].sequence.wrapping_add(chunk.len() as u32);
        }
        self.segment(1 - from, ACK, &[], &[]);
    }

    pub fn segment(&mut self, from: usize, flags: u8, payload: &[u8], options: &[u8]) {
        let (a, b) = (self.sides[from], self.sides[1 - from]);
        let mut tcp = Vec::new();
        tcp.extend_from_slice(&a.port.to_be_bytes());
        tcp.extend_from_slice(&b.port.to_be_bytes());
        tcp.extend_from_slice(&a.sequence.to_be_bytes());
        tcp.extend_from_slice(&if flags & ACK != 0 { b.sequence } else { 0 }.to_be_bytes());
        tcp.extend_from_slice(&[(((20 + options.len()) / 4) << 4) as u8, flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend_from_slice(options);
        tcp.extend_from_slice(payload);
        self.ip(from, 6, &tcp);
    }

    pub fn datagram(&mut self, from: usize, payload: &[u8]) {
        let (a, b) = (self.sides[from], self.sides[1 - from]);
        let mut udp = [a.port.to_be_bytes(), b.port.to_be_bytes(), (8 + payload.len() as u16).to_be_bytes(), [0, 0]].concat();
        udp.extend_from_slice(payload);
        self.ip(from, 17, &udp);
    }

    fn ip(&mut self, from: usize, protocol: u8, body: &[u8]) {
        self.identification = self.identification.wrapping_add(1).max(1);
        let ip = match (self.sides[from].ip, self.sides[1 - from].ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mut ip = vec![0x45, 0];
                ip.extend_from_slice(&((20 + body.len()) as u16).to_be_bytes());
                ip.extend_from_slice(&self.identification.to_be_bytes());
                ip.extend_from_slice(&[0, 0, 64, protocol, 0, 0]);
                ip.extend_from_slice(&a.octets());
                ip.extend_from_slice(&b.octets());
                ip
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mut ip = vec![0x60, 0, 0, 0];
                ip.extend_from_slice(&(body.len() as u16).to_be_bytes());
                ip.extend_from_slice(&[protocol, 64]);
                ip.extend_from_slice(&a.octets());
                ip.extend_from_slice(&b.octets());
                ip
            }
            _ => panic!("both sides speak one IP"),
        };
        let ip = [&ip[..], body].concat();
        self.packets.push(Packet { at_ns: self.at_ns, wire_bytes: ip.len(), ip });
        self.at_ns += 10_000;
    }

    /// Lets time pass.
    pub fn wait(&mut self, ns: i64) {
        self.at_ns += ns;
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// Prepends a record mark.
pub fn record(body: Vec<u8>) -> Vec<u8> {
    [&(0x8000_0000 | body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Makes an NFSv3 call with AUTH_SYS credentials; its payload is full of apparent record marks.
pub fn call(xid: u32, procedure: u32, payload: usize) -> Vec<u8> {
    let mut body = words(&[xid, 0, 2, 100_003, 3, procedure, 1, 20, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([0x80, 0, 0, 0x40].iter().cycle().take(payload));
    body
}

/// Makes a call of any program, without arguments.
pub fn call_of(xid: u32, program: u32, version: u32, procedure: u32) -> Vec<u8> {
    words(&[xid, 0, 2, program, version, procedure, 0, 0, 0, 0])
}

/// Makes its reply.
pub fn reply(xid: u32, status: u32, payload: usize) -> Vec<u8> {
    let mut body = words(&[xid, 1, 0, 0, 0, 0, status]);
    body.extend(std::iter::repeat_n(0, payload));
    body
}

/// The format of a capture.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    Pcap {
        big: bool,
        nanoseconds: bool,
    },
    /// `resolution`: of the second interface, which has every other packet.
    Pcapng {
        big: bool,
        resolution: u8,
    },
}

/// The link layer before the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Tagged,
    TwiceTagged,
    Cooked,
    Cooked2,
    Raw,
    Null,
}

impl Link {
    pub const ALL: [Link; 7] = [Link::Ethernet, Link::Tagged, Link::TwiceTagged, Link::Cooked, Link::Cooked2, Link::Raw, Link::Null];

    fn number(self) -> u32 {
        match self {
            Link::Ethernet | Link::Tagged | Link::TwiceTagged => 1,
            Link::Cooked => 113,
            Link::Cooked2 => 276,
            Link::Raw => 101,
            Link::Null => 0,
        }
    }

    fn head(self, v6: bool) -> Vec<u8> {
        let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
        match self {
            Link::Ethernet => [&[2; 12][..], &kind].concat(),
            Link::Tagged => [&[2; 12][..], &[0x81, 0, 0, 9], &kind].concat(),
            Link::TwiceTagged => [&[2; 12][..], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7], &kind].concat(),
            Link::Cooked => [&[0; 14][..], &kind].concat(),
            Link::Cooked2 => [&kind[..], &[0; 18]].concat(),
            Link::Raw => Vec::new(),
            Link::Null => vec![if v6 { 30 } else { 2 }, 0, 0, 0],
        }
    }
}

/// Writes packets as a capture, each truncated to `snaplen` bytes.
pub fn write(packets: &[Packet], format: Format, link: Link, snaplen: usize) -> Vec<u8> {
    let framed = packets.iter().map(|p| {
        let head = link.head(p.ip[0] >> 4 == 6);
        let bytes = [&head[..], &p.ip].concat();
        (p.at_ns, p.wire_bytes + head.len(), bytes[..bytes.len().min(snaplen)].to_vec())
    });
    match format {
        Format::Pcap { big, nanoseconds } => pcap(framed, big, nanoseconds, link.number()),
        Format::Pcapng { big, resolution } => pcapng(framed, big, resolution, link.number()),
    }
}

fn number(big: bool, n: u32) -> [u8; 4] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

fn pcap(packets: impl Iterator<Item = (i64, usize, Vec<u8>)>, big: bool, nanoseconds: bool, link: u32) -> Vec<u8> {
    let n = |n| number(big, n);
    let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut out = [n(magic), version, n(0), n(0), n(262_144), n(link)].concat();
    for (at_ns, wire, bytes) in packets {
        let fraction = (at_ns % 1_000_000_000) as u32 / if nanoseconds { 1 } else { 1000 };
        out.extend([n((at_ns / 1_000_000_000) as u32), n(fraction), n(bytes.len() as u32), n(wire as u32)].concat());
        out.extend(bytes);
    }
    out
}

fn block(out: &mut Vec<u8>, big: bool, kind: u32, body: &[u8]) {
    let padded = body.len().next_multiple_of(4);
    let length = number(big, 12 + padded as u32);
    out.extend(number(big, kind));
    out.extend(length);
    out.write_all(body).unwrap();
    out.resize(out.len() + padded - body.len(), 0);
    out.extend(length);
}

fn pcapng(packets: impl Iterator<Item = (i64, usize, Vec<u8>)>, big: bool, resolution: u8, link: u32) -> Vec<u8> {
    let n = |n| number(big, n);
    let short = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut out = Vec::new();
    // A comment in the section, an unknown block, and two interfaces: microseconds, and any resolution.
    let comment = [&short(1)[..], &short(5), b"hello\0\0\0", &short(0), &short(0)].concat();
    let section = [&n(0x1a2b_3c4d)[..], &short(1), &short(0), &[0xff; 8], &comment].concat();
    block(&mut out, big, 0x0a0d_0d0a, &section);
    block(&mut out, big, 0x0bad, &[7; 41]);
    let interface = [&short(link as u16)[..], &short(0), &n(0)].concat();
    block(&mut out, big, 1, &interface);
    let option = [&short(9)[..], &short(1), &[resolution, 0, 0, 0], &short(0), &short(0)].concat();
    block(&mut out, big, 1, &[interface, option].concat());
    for (i, (at_ns, wire, bytes)) in packets.enumerate() {
        let units_per_s: u128 = match (i % 2, resolution & 0x80) {
            (0, _) => 1_000_000,
            (_, 0) => 10_u128.pow(u32::from(resolution)),
            _ => 1 << (resolution & 0x7f),
        };
        let units = ((at_ns as u128 * units_per_s).div_ceil(1_000_000_000)) as u64;
        let head = [n((i % 2) as u32), n((units >> 32) as u32), n(units as u32), n(bytes.len() as u32), n(wire as u32)].concat();
        let mut body = [head, bytes].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(&comment);
        block(&mut out, big, 6, &body);
    }
    let dropped = [&n(1)[..], &[0; 8], &short(5), &short(8), &if big { 3_u64.to_be_bytes() } else { 3_u64.to_le_bytes() }].concat();
    block(&mut out, big, 5, &dropped);
    out
}
