//! Parses a frame into a TCP segment or UDP datagram: link layer, IP, ports. The payload is borrowed, never copied.
//!
//! Lengths come from the headers rather than the frame: Ethernet pads, segmentation offload writes 0, and a snapped
//! packet has fewer bytes than on the wire.

use std::net::{IpAddr, Ipv6Addr};

/// An end of a connection. IPv4 addresses are stored as mapped IPv6, so that both spellings of an end are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct End {
    pub ip: u128,
    pub port: u16,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Ipv6Addr::from(self.ip).to_canonical() {
            IpAddr::V4(v4) => write!(f, "{v4}:{}", self.port),
            IpAddr::V6(v6) => write!(f, "[{v6}]:{}", self.port),
        }
    }
}

/// The relevant fields of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub window: u16,
    /// The window scale; only in a SYN.
    pub scale: Option<u8>,
    /// Distinguishes a packet captured twice from one sent twice: IP's identification, and TCP's checksum and timestamps.
    pub fingerprint: u64,
}

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp(Tcp),
    Udp,
}

/// A segment or a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub from: End,
    pub to: End,
    pub transport: Transport,
    /// The captured payload.
    pub payload: &'a [u8],
    /// Payload length on the wire, at least `payload.len()`.
    pub payload_bytes: u64,
}

/// Why a frame is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// Neither TCP nor UDP over IP.
    Other,
    /// A fragment of a datagram without the ports.
    Fragment,
    /// Too short for its headers, or with invalid headers.
    Broken,
    /// An unknown link type.
    Link,
}

/// Known link types, numbered as in capture files.
pub(super) mod link {
    pub(crate) const NULL: u32 = 0;
    pub(crate) const ETHERNET: u32 = 1;
    pub(crate) const RAW: u32 = 101;
    pub(crate) const LOOP: u32 = 108;
    pub(crate) const COOKED: u32 = 113;
    pub(crate) const IPV4: u32 = 228;
    pub(crate) const IPV6: u32 = 229;
    pub(crate) const COOKED_2: u32 = 276;
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Parses a frame that had `wire_bytes` bytes on the wire.
pub(super) fn parse(link_type: u32, data: &[u8], wire_bytes: u32) -> Result<Segment<'_>, Unused> {
    let start = match link_type {
        link::ETHERNET => ethernet(data, 12)?,
        link::NULL | link::LOOP => 4,
        link::RAW | link::IPV4 | link::IPV6 | 12 | 14 => 0,
        link::COOKED => ethernet(data, 14)?,
        link::COOKED_2 => cooked_2(data)?,
        _ => return Err(Unused::Link),
    };
    let packet = data.get(start..).ok_or(Unused::Broken)?;
    let wire = u64::from(wire_bytes).saturating_sub(start as u64).max(packet.len() as u64);
    match packet.first().ok_or(Unused::Broken)? >> 4 {
        4 => ipv4(packet, wire),
        6 => ipv6(packet, wire),
        _ => Err(Unused::Other),
    }
}

/// Returns the offset of the IP header, after the EtherType at `at` and any VLAN tags.
fn ethernet(data: &[u8], mut at: usize) -> Result<usize, Unused> {
    loop {
        match u16_at(data, at).ok_or(Unused::Broken)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            0x0800 | 0x86dd => return Ok(at + 2),
            _ => return Err(Unused::Other),
        }
    }
}

fn cooked_2(data: &[u8]) -> Result<usize, Unused> {
    match u16_at(data, 0).ok_or(Unused::Broken)? {
        0x0800 | 0x86dd => Ok(20),
        0x8100 | 0x88a8 => ethernet(data, 22),
        _ => Err(Unused::Other),
    }
}

fn ipv4(packet: &[u8], wire: u64) -> Result<Segment<'_>, Unused> {
    let head = packet.get(..20).ok_or(Unused::Broken)?;
    let head_bytes = usize::from(head[0] & 15) * 4;
    if head_bytes < 20 {
        return Err(Unused::Broken);
    }
    let total = u64::from(u16_at(head, 2).ok_or(Unused::Broken)?);
    // Segmentation offload may leave the length 0.
    let total = if total == 0 { wire } else { total.min(wire) };
    let fragment = u16_at(head, 6).ok_or(Unused::Broken)?;
    if fragment & 0x1fff != 0 {
        return Err(Unused::Fragment);
    }
    let mapped = |at: usize| 0xffff_0000_0000_u128 | u128::from(u32_at(head, at).unwrap_or(0));
    let identification = u64::from(u16_at(head, 4).unwrap_or(0));
    let body = packet.get(head_bytes..).ok_or(Unused::Broken)?;
    let body_bytes = total.checked_sub(head_bytes as u64).ok_or(Unused::Broken)?;
    transport(head[9], body, body_bytes, mapped(12), mapped(16), identification)
}

fn ipv6(packet: &[u8], wire: u64) -> Result<Segment<'_>, Unused> {
    let head = packet.get(..40).ok_or(Unused::Broken)?;
    let length = u64::from(u16_at(head, 4).ok_or(Unused::Broken)?);
    // 0: a jumbogram, or segmentation offload.
    let mut left = if length == 0 { wire.saturating_sub(40) } else { length.min(wire.saturating_sub(40)) };
    let address = |at: usize| u128::from_be_bytes(head[at..at + 16].try_into().expect("16 bytes"));
    let (mut next, mut at) = (head[6], 40);
    // Each iteration advances by at least 8 bytes, so the loop ends with the packet.
    loop {
        let bytes = match next {
            0 | 43 | 60 | 135 => (usize::from(*packet.get(at + 1).ok_or(Unused::Broken)?) + 1) * 8,
            51 => (usize::from(*packet.get(at + 1).ok_or(Unused::Broken)?) + 2) * 4,
            44 => {
                if u16_at(packet, at + 2).ok_or(Unused::Broken)? & 0xfff8 != 0 {
                    return Err(Unused::Fragment);
                }
                8
            }
            _ => break,
        };
        next = packet[at];
        at += bytes;
        left = left.checked_sub(bytes as u64).ok_or(Unused::Broken)?;
    }
    let body = packet.get(at..).ok_or(Unused::Broken)?;
    transport(next, body, left, address(8), address(24), 0)
}

fn transport(protocol: u8, body: &[u8], body_bytes: u64, from: u128, to: u128, identification: u64) -> Result<Segment<'_>, Unused> {
    // Ethernet pads short packets.
    let body = &body[..body.len().min(usize::try_from(body_bytes).unwrap_or(usize::MAX))];
    let ports = |at: usize| u16_at(body, at).ok_or(Unused::Broken);
    let (from, to) = match protocol {
        6 | 17 => (End { ip: from, port: ports(0)? }, End { ip: to, port: ports(2)? }),
        _ => return Err(Unused::Other),
    };
    let (transport, head_bytes, payload_bytes) = if protocol == 17 {
        let length = u64::from(ports(4)?);
        (Transport::Udp, 8, if length == 0 { body_bytes.saturating_sub(8) } else { length.saturating_sub(8) })
    } else {
        let head = body.get(..20).ok_or(Unused::Broken)?;
        let head_bytes = usize::from(head[12] >> 4) * 4;
        if head_bytes < 20 {
            return Err(Unused::Broken);
        }
        let options = body.get(20..head_bytes).unwrap_or(&[]);
        let payload_bytes = body_bytes.checked_sub(head_bytes as u64).ok_or(Unused::Broken)?;
        (Transport::Tcp(tcp(head, options, identification)), head_bytes, payload_bytes)
    };
    let payload = body.get(head_bytes..).unwrap_or(&[]);
    Ok(Segment { from, to, transport, payload, payload_bytes: payload_bytes.max(payload.len() as u64) })
}

fn tcp(head: &[u8], options: &[u8], identification: u64) -> Tcp {
    let mut scale = None;
    let mut stamps = 0;
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        match (*kind, after.first()) {
            (0, _) => break,
            (1, _) => rest = after,
            (kind, Some(&length)) if length >= 2 && rest.len() >= usize::from(length) => {
                if kind == 3 && length == 3 {
                    scale = Some(after[1].min(14));
                }
                if kind == 8 && length == 10 {
                    stamps = u32_at(after, 1).unwrap_or(0);
                }
                rest = &rest[usize::from(length)..];
            }
            _ => break,
        }
    }
    let checksum = u64::from(u16_at(head, 16).unwrap_or(0));
    let flags = head[13];
    Tcp {
        sequence: u32_at(head, 4).unwrap_or(0),
        acknowledgement: u32_at(head, 8).unwrap_or(0),
        flags,
        window: u16_at(head, 14).unwrap_or(0),
        scale: if flags & SYN != 0 { scale } else { None },
        fingerprint: identification << 48 | checksum << 32 | u64::from(stamps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_packet(payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        p.extend_from_slice(&[3, 0xe8, 8, 1, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        p.extend_from_slice(payload);
        let length = (p.len() as u16).to_be_bytes();
        (p[2], p[3]) = (length[0], length[1]);
        p
    }

    #[test]
    fn tags_padding_and_cut_packets_do_not_change_what_was_sent() {
        let ip = tcp_packet(b"hello");
        let mut tagged = vec![0; 12];
        tagged.extend_from_slice(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]);
        tagged.extend_from_slice(&ip);
        tagged.extend_from_slice(&[0; 9]);
        let segment = parse(link::ETHERNET, &tagged, tagged.len() as u32).unwrap();
        assert_eq!((segment.payload, segment.payload_bytes), (&b"hello"[..], 5));
        assert_eq!((segment.from.to_string(), segment.to.to_string()), ("10.0.0.1:1000".into(), "10.0.0.2:2049".into()));
        let cut = parse(link::RAW, &ip[..42], ip.len() as u32).unwrap();
        assert_eq!((cut.payload, cut.payload_bytes), (&b"he"[..], 5));
        assert_eq!(parse(link::RAW, &ip[..30], 45).unwrap_err(), Unused::Broken);
        assert_eq!(parse(77, &ip, 45).unwrap_err(), Unused::Link);
    }

    #[test]
    fn extension_headers_are_passed_over_and_later_fragments_recorded() {
        let tcp = &tcp_packet(b"x")[20..];
        let mut p = vec![0x60, 0, 0, 0, 0, (tcp.len() + 16) as u8, 0, 64];
        p.extend_from_slice(&[0xfd; 32]);
        p.extend_from_slice(&[44, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 1]);
        p.extend_from_slice(tcp);
        assert_eq!(parse(link::RAW, &p, p.len() as u32).unwrap().payload, b"x");
        p[50] = 1;
        assert_eq!(parse(link::IPV6, &p, p.len() as u32).unwrap_err(), Unused::Fragment);
    }
}
