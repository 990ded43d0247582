//! What the kernel hands over: a packet behind a `virtio_net_hdr`, often a *super-segment* of many wire segments.
//!
//! With offload the kernel gives a TUN device up to 64 KiB of one TCP stream as a single packet and says in the header before it
//! how large a wire segment would be (`gso_size`); handed to another TUN device with the same header, it arrives as one packet.
//! That raises what the relay can carry manyfold. Where only some of the wire segments go on, [`cut`] makes the packet that
//! holds just those, as the kernel's own segmentation would have: sequence number, lengths, IPv4 identification and header
//! checksum, flags that belong to the first or last segment alone. The TCP checksum of such packets is left to the receiver's
//! side (`NEEDS_CSUM`): its field holds the sum over addresses, protocol and length only, and is made anew for the new length.

/// Bytes of the header before each packet (`struct virtio_net_hdr`).
pub const PREFIX_BYTES: usize = 10;

const GSO_SIZE: usize = 4;
const GSO_TYPE: usize = 1;
const HDR_LEN: usize = 2;
const GSO_NONE: u8 = 0;
const GSO_ECN: u8 = 0x80;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;

const TCP: u8 = 6;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// Where a packet's parts are; offsets count from the packet's first byte, the prefix included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    ip_at: usize,
    transport_at: usize,
    payload_at: usize,
    end: usize,
    segment_payload: usize,
    tcp: bool,
}

impl Shape {
    /// Reads a packet's shape. Anything that is not a TCP super-segment is one wire segment.
    pub fn of(packet: &[u8]) -> Shape {
        let ip_at = PREFIX_BYTES.min(packet.len());
        let single = Shape { ip_at, transport_at: ip_at, payload_at: ip_at, end: packet.len(), segment_payload: usize::MAX, tcp: false };
        let Some((transport_at, protocol)) = transport(packet) else { return single };
        if protocol != TCP || packet.len() < transport_at + 20 {
            return single;
        }
        let payload_at = transport_at + usize::from(packet[transport_at + 12] >> 4) * 4;
        if payload_at > packet.len() {
            return single;
        }
        let gso_size = usize::from(u16::from_ne_bytes([packet[GSO_SIZE], packet[GSO_SIZE + 1]]));
        let super_segment = matches!(packet[GSO_TYPE] & !GSO_ECN, GSO_TCP_V4 | GSO_TCP_V6) && gso_size > 0;
        Shape { transport_at, payload_at, segment_payload: if super_segment { gso_size } else { usize::MAX }, tcp: true, ..single }
    }

    /// Whether it is TCP.
    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Wire segments the packet stands for, at least 1.
    pub fn segments(&self) -> u64 {
        (self.end - self.payload_at).div_ceil(self.segment_payload).max(1) as u64
    }

    /// Bytes that `count` wire segments from `first` take as IP packets: each has headers of its own.
    pub fn wire_bytes(&self, first: u64, count: u64) -> u64 {
        let (from, to) = self.payload(first, count);
        (to - from) as u64 + count * (self.payload_at - self.ip_at) as u64
    }

    /// Where the payload of `count` wire segments from `first` is in the packet.
    fn payload(&self, first: u64, count: u64) -> (usize, usize) {
        let at = |index: u64| self.payload_at.saturating_add(self.segment_payload.saturating_mul(index as usize)).min(self.end);
        (at(first), at(first + count))
    }
}

/// Where the transport header begins, and its protocol. None: not IP, cut short, or an IPv6 packet with extension headers.
fn transport(packet: &[u8]) -> Option<(usize, u8)> {
    let ip = packet.get(PREFIX_BYTES..)?;
    match ip.first()? >> 4 {
        4 if ip.len() >= 20 => Some((PREFIX_BYTES + usize::from(ip[0] & 15) * 4, ip[9])),
        6 if ip.len() >= 40 => Some((PREFIX_BYTES + 40, ip[6])),
        _ => None,
    }
}

/// The packet that holds only `count` wire segments of `packet` from `first` on. `shape` is the packet's, and a TCP super-segment's.
pub fn cut(packet: &[u8], shape: &Shape, first: u64, count: u64) -> Vec<u8> {
    let (from, to) = shape.payload(first, count);
    let mut piece = Vec::with_capacity(shape.payload_at + to - from);
    piece.extend_from_slice(&packet[..shape.payload_at]);
    piece.extend_from_slice(&packet[from..to]);
    if count == 1 {
        piece[GSO_TYPE] = GSO_NONE;
        piece[GSO_SIZE..GSO_SIZE + 2].fill(0);
        piece[HDR_LEN..HDR_LEN + 2].fill(0);
    }
    let tcp_bytes = piece.len() - shape.transport_at;
    let tcp = shape.transport_at;
    let sequence = u32::from_be_bytes(piece[tcp + 4..tcp + 8].try_into().unwrap_or_default());
    let skipped = (from - shape.payload_at) as u32;
    piece[tcp + 4..tcp + 8].copy_from_slice(&sequence.wrapping_add(skipped).to_be_bytes());
    if first > 0 {
        piece[tcp + 13] &= !TCP_CWR;
    }
    if to < shape.end {
        piece[tcp + 13] &= !(TCP_FIN | TCP_PSH);
    }
    let ip = shape.ip_at;
    let addresses = if piece[ip] >> 4 == 4 {
        let total = (piece.len() - ip) as u16;
        piece[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
        let identification = u16::from_be_bytes([piece[ip + 4], piece[ip + 5]]).wrapping_add(first as u16);
        piece[ip + 4..ip + 6].copy_from_slice(&identification.to_be_bytes());
        piece[ip + 10..ip + 12].fill(0);
        let header = !ones_complement(&piece[ip..tcp], 0);
        piece[ip + 10..ip + 12].copy_from_slice(&header.to_be_bytes());
        ip + 12..ip + 20
    } else {
        piece[ip + 4..ip + 6].copy_from_slice(&(tcp_bytes as u16).to_be_bytes());
        ip + 8..ip + 40
    };
    let pseudo = ones_complement(&piece[addresses], u32::from(TCP) + tcp_bytes as u32);
    piece[tcp + 16..tcp + 18].copy_from_slice(&pseudo.to_be_bytes());
    piece
}

/// The one's complement sum of 16-bit words, begun with `sum`. `bytes` has an even length.
fn ones_complement(bytes: &[u8], sum: u32) -> u16 {
    let mut sum = bytes.chunks_exact(2).fold(sum, |sum, word| sum + u32::from(u16::from_be_bytes([word[0], word[1]])));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An IPv4 packet that is not TCP, of `bytes` bytes.
    pub fn single(bytes: usize) -> Vec<u8> {
        let mut packet = vec![0; PREFIX_BYTES + bytes];
        packet[PREFIX_BYTES] = 0x45;
        packet[PREFIX_BYTES + 9] = 17;
        packet
    }

    /// A TCP super-segment of `segments` wire segments with `payload` bytes each, the last one byte short.
    pub fn super_segment(segments: usize, payload: usize) -> Vec<u8> {
        let mut packet = single(40);
        packet[0] = 1;
        packet[GSO_TYPE] = GSO_TCP_V4;
        packet[GSO_SIZE..GSO_SIZE + 2].copy_from_slice(&(payload as u16).to_ne_bytes());
        let ip = PREFIX_BYTES;
        packet[ip + 5] = 0xfe;
        packet[ip + 9] = TCP;
        packet[ip + 12..ip + 20].copy_from_slice(&[10, 1, 2, 3, 10, 1, 2, 4]);
        packet[ip + 24..ip + 28].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
        packet[ip + 32] = 5 << 4;
        packet[ip + 33] = TCP_CWR | TCP_PSH | TCP_FIN | 0x10;
        packet.extend((0..segments * payload - 1).map(|index| (index % 251) as u8));
        packet
    }

    fn sequence(packet: &[u8]) -> u32 {
        u32::from_be_bytes(packet[PREFIX_BYTES + 24..PREFIX_BYTES + 28].try_into().unwrap())
    }

    #[test]
    fn pieces_hold_every_byte_once_with_consecutive_sequence_numbers() {
        let packet = super_segment(7, 1000);
        let shape = Shape::of(&packet);
        assert_eq!((shape.segments(), shape.wire_bytes(0, 7), shape.is_tcp()), (7, 6999 + 7 * 40, true));
        let pieces = [cut(&packet, &shape, 0, 2), cut(&packet, &shape, 2, 1), cut(&packet, &shape, 3, 4)];
        let mut payload = Vec::new();
        for (piece, segments) in pieces.iter().zip([2, 1, 4]) {
            assert_eq!(Shape::of(piece).segments(), segments);
            assert_eq!(sequence(piece), sequence(&packet).wrapping_add(payload.len() as u32));
            let ip = &piece[PREFIX_BYTES..];
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert_eq!(ones_complement(&ip[..20], 0), 0xffff, "IPv4 header checksum");
            assert_eq!(
                u32::from(u16::from_be_bytes([ip[36], ip[37]])),
                0x0a01 * 2 + 0x0203 + 0x0204 + 6 + (ip.len() as u32 - 20),
                "the sum over the pseudo header"
            );
            payload.extend_from_slice(&ip[40..]);
        }
        assert_eq!(payload, packet[PREFIX_BYTES + 40..]);
        let flags = pieces.each_ref().map(|piece| piece[PREFIX_BYTES + 33]);
        assert_eq!(flags, [TCP_CWR | 0x10, 0x10, TCP_PSH | TCP_FIN | 0x10]);
        let identification = pieces.each_ref().map(|piece| u16::from_be_bytes([piece[PREFIX_BYTES + 4], piece[PREFIX_BYTES + 5]]));
        assert_eq!(identification, [0xfe, 0x100, 0x101]);
        assert_eq!(pieces[1][GSO_TYPE], GSO_NONE);
        assert_eq!(pieces[2][GSO_TYPE], GSO_TCP_V4);
    }

    #[test]
    fn whatever_comes_has_a_shape() {
        for length in 0..80 {
            for first in [0x00, 0x45, 0x4f, 0x60] {
                let mut packet = vec![0xff; length];
                if let Some(byte) = packet.get_mut(PREFIX_BYTES) {
                    *byte = first;
                }
                assert!(Shape::of(&packet).segments() >= 1);
            }
        }
    }
}
