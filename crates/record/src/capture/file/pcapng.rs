//! Reads pcapng: sections of blocks. Interfaces are described before their packets, each with its link type and clock
//! resolution; unknown blocks are skipped without reading them into memory.

use super::input::Input;
use super::packet::{MOST_PACKET_BYTES, Next, Order, PacketRange, cut_short, instant};
use std::io;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Maximum interfaces of a section.
const MOST_INTERFACES: usize = 4096;

/// Maximum size of a known block: its packet plus options.
const MOST_BLOCK_BYTES: u32 = MOST_PACKET_BYTES + (1 << 20);

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Nanoseconds = units × `multiply` / `divide`.
    multiply: u64,
    divide: u64,
    offset_s: i64,
    dropped: u64,
}

/// Position in a pcapng file.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    order: Option<Order>,
    interfaces: Vec<Interface>,
    dropped_before: u64,
    last_ns: i64,
}

impl Sections {
    /// Returns the lost packets counted by the capturing program.
    pub(crate) fn dropped(&self) -> u64 {
        self.interfaces.iter().fold(self.dropped_before, |sum, i| sum.saturating_add(i.dropped))
    }

    /// Returns the next packet. Skipped blocks use no memory.
    pub(crate) fn next(&mut self, input: &mut Input) -> io::Result<Next> {
        loop {
            let position = input.position();
            let damaged =
                |what: &str| Ok(Next::End(Some(format!("is damaged at byte {position}: {what}; the packets before it are used"))));
            let head = input.peek(12)?;
            if head.is_empty() {
                return Ok(Next::End(None));
            }
            if head.len() < 12 {
                return Ok(Next::End(Some(cut_short(position))));
            }
            if u32::from_be_bytes([head[0], head[1], head[2], head[3]]) == SECTION {
                let order = match u32::from_be_bytes([head[8], head[9], head[10], head[11]]) {
                    0x1a2b_3c4d => Order { big: true },
                    0x4d3c_2b1a => Order { big: false },
                    _ => return damaged("a section without its byte order"),
                };
                self.dropped_before = self.dropped();
                self.interfaces.clear();
                self.order = Some(order);
            }
            let Some(order) = self.order else { return damaged("no section") };
            let (kind, length) = (order.u32(head, 0), order.u32(head, 4));
            if length < 12 || !length.is_multiple_of(4) {
                return damaged("a block of an impossible length");
            }
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | STATISTICS | ENHANCED_PACKET) {
                if !input.skip(u64::from(length))? {
                    return Ok(Next::End(Some(cut_short(position))));
                }
                continue;
            }
            if length > MOST_BLOCK_BYTES {
                return damaged("a block of an impossible length");
            }
            let length = length as usize;
            let block = input.peek(length)?;
            if block.len() < length {
                return Ok(Next::End(Some(cut_short(position))));
            }
            match self.block(kind, order, block) {
                Some(found) => return Ok(Next::Packet(found)),
                None => input.consume(length),
            }
        }
    }

    /// Handles a complete block of a known kind; returns its packet, if any.
    fn block(&mut self, kind: u32, order: Order, block: &[u8]) -> Option<PacketRange> {
        let body_end = block.len() - 4;
        let long_enough = |bytes: usize| body_end >= bytes;
        match kind {
            INTERFACE if long_enough(16) => {
                if self.interfaces.len() < MOST_INTERFACES {
                    self.interfaces.push(interface(order, &block[..body_end]));
                }
                None
            }
            STATISTICS if long_enough(20) => {
                let number = order.u32(block, 8) as usize;
                let dropped = options(order, &block[20..body_end]).find(|(code, value)| *code == 5 && value.len() >= 8);
                if let (Some(interface), Some((_, value))) = (self.interfaces.get_mut(number), dropped) {
                    interface.dropped = order.u64(value, 0);
                }
                None
            }
            ENHANCED_PACKET if long_enough(28) => self.packet(order, block, order.u32(block, 8), 28),
            OLD_PACKET if long_enough(28) => self.packet(order, block, u32::from(order.u16(block, 8)), 28),
            SIMPLE_PACKET if long_enough(12) => {
                let interface = self.interfaces.first()?;
                let wire_bytes = order.u32(block, 8);
                let to = body_end.min(12 + wire_bytes as usize);
                Some(PacketRange { at_ns: self.last_ns, link: interface.link, wire_bytes, from: 12, to, length: block.len() })
            }
            _ => None,
        }
    }

    fn packet(&mut self, order: Order, block: &[u8], interface: u32, from: usize) -> Option<PacketRange> {
        let interface = *self.interfaces.get(interface as usize)?;
        let units = u64::from(order.u32(block, 12)) << 32 | u64::from(order.u32(block, 16));
        let (captured, wire_bytes) = (order.u32(block, 20), order.u32(block, 24));
        let to = from.checked_add(captured as usize).filter(|&to| to <= block.len() - 4)?;
        let ns = i128::from(units) * i128::from(interface.multiply) / i128::from(interface.divide);
        self.last_ns = instant(ns + i128::from(interface.offset_s) * 1_000_000_000);
        Some(PacketRange { at_ns: self.last_ns, link: interface.link, wire_bytes: wire_bytes.max(captured), from, to, length: block.len() })
    }
}

fn interface(order: Order, block: &[u8]) -> Interface {
    let mut made = Interface { link: u32::from(order.u16(block, 8)), multiply: 1000, divide: 1, offset_s: 0, dropped: 0 };
    for (code, value) in options(order, &block[16..]) {
        match (code, value) {
            (9, [resolution, ..]) => (made.multiply, made.divide) = resolution_ns(*resolution),
            (14, value) if value.len() >= 8 => made.offset_s = order.u64(value, 0) as i64,
            _ => {}
        }
    }
    made
}

/// Returns a clock's unit in nanoseconds, as a fraction: a power of ten, or of two if the highest bit is set. A unit
/// too fine to divide by in 64 bits is clamped.
fn resolution_ns(resolution: u8) -> (u64, u64) {
    let exponent = u32::from(resolution & 0x7f);
    match resolution & 0x80 {
        0 if exponent <= 9 => (10_u64.pow(9 - exponent), 1),
        0 => (1, 10_u64.pow((exponent - 9).min(19))),
        _ => (1_000_000_000, 1 << exponent.min(63)),
    }
}

/// Iterates over a block's options: code and value.
fn options(order: Order, bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + 4)?;
        let (code, length) = (order.u16(head, 0), usize::from(order.u16(head, 2)));
        if code == 0 {
            return None;
        }
        let value = bytes.get(at + 4..at + 4 + length)?;
        at += 4 + length.next_multiple_of(4);
        Some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_any_resolution_becomes_nanoseconds() {
        assert_eq!(resolution_ns(6), (1000, 1));
        assert_eq!(resolution_ns(9), (1, 1));
        assert_eq!(resolution_ns(0), (1_000_000_000, 1));
        assert_eq!(resolution_ns(12), (1, 1000));
        assert_eq!(resolution_ns(0x80 | 10), (1_000_000_000, 1024));
        assert!(resolution_ns(0xff).1 > 0 && resolution_ns(0x7f).1 > 0);
    }
}
