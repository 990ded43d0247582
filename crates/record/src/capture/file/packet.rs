//! Shared by both formats: a packet's position in the file, numbers in the file's byte order, and limits.

/// Maximum bytes of a captured packet; a larger one means the file is damaged.
pub(crate) const MOST_PACKET_BYTES: u32 = 4 << 20;

/// Latest instant taken unchanged: later ones would leave no room for sums.
const MOST_NS: i128 = i64::MAX as i128 / 2;

/// Returns an instant of the file, clamped to the computable range.
pub(crate) fn instant(ns: i128) -> i64 {
    ns.clamp(0, MOST_NS) as i64
}

/// Position of a packet's bytes in the input's window.
#[derive(Clone, Copy)]
pub(crate) struct PacketRange {
    pub at_ns: i64,
    pub link: u32,
    pub wire_bytes: u32,
    pub from: usize,
    pub to: usize,
    /// Length of the whole record or block.
    pub length: usize,
}

/// The next item of a file.
pub(crate) enum Next {
    Packet(PacketRange),
    /// The end; with a sentence if it is not a regular one.
    End(Option<String>),
}

/// Reads numbers in the file's byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub big: bool,
}

impl Order {
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self.big { first << 32 | second } else { second << 32 | first }
    }
}

/// Formats the problem of a file that ends too early.
pub(crate) fn cut_short(position: u64) -> String {
    format!("ends in the middle of the packet at byte {position}; the packets before it are used")
}
