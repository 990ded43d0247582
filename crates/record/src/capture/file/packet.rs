//! What the two formats share: where a packet is in the file, numbers in the file's byte order, and bounds.

/// A captured packet may have so many bytes; above it the file is taken to be damaged.
pub(crate) const MOST_PACKET_BYTES: u32 = 4 << 20;

/// The latest instant that is taken as it stands: later ones would not leave room for sums.
const MOST_NS: i128 = i64::MAX as i128 / 2;

/// An instant of a file, kept within what can be computed with.
pub(crate) fn instant(ns: i128) -> i64 {
    ns.clamp(0, MOST_NS) as i64
}

/// Where a packet's bytes are in the window of the input.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub at_ns: i64,
    pub link: u32,
    pub wire_bytes: u32,
    pub from: usize,
    pub to: usize,
    /// The whole record or block.
    pub length: usize,
}

/// What comes next in a file.
pub(crate) enum Next {
    Packet(Found),
    /// The end; a sentence where it is not a proper one.
    End(Option<String>),
}

/// A number in the byte order of the file.
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

/// The sentence on a file that ends too early.
pub(crate) fn cut_short(position: u64) -> String {
    format!("ends in the middle of the packet at byte {position}; what stands before it is used")
}
