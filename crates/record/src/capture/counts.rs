//! Counts of what a capture contains.

use super::frame::Unused;

/// Counts over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    /// Packets captured only in part.
    pub cut_packets: u64,
    /// Maximum bytes captured of such a packet.
    pub longest_cut_bytes: u64,
    pub tcp_segments: u64,
    pub udp_datagrams: u64,
    /// Packets other than TCP over IP or RPC over UDP.
    pub other_packets: u64,
    /// Packets of ports other than the requested ones.
    pub other_ports: u64,
    /// Segments of connections without RPCs.
    pub other_segments: u64,
    pub fragments: u64,
    pub broken_packets: u64,
    /// Packets of an unknown link type, and the first such type.
    pub unknown_link: u64,
    pub link_type: Option<u32>,
    pub captured_twice: u64,
    pub tcp_retransmissions: u64,
    pub tcp_timeouts: u64,
    pub reordered: u64,
    pub keepalives: u64,
    pub zero_windows: u64,
    /// Bytes exchanged by the ends but missing from the capture.
    pub missing_bytes: u64,
    /// Times synchronisation with a stream of RPCs was lost and regained.
    pub resynchronised: u64,
    /// Messages whose head was not captured.
    pub headless: u64,
    pub calls: u64,
    pub replies: u64,
    pub rpc_retransmissions: u64,
    pub unanswered: u64,
    /// Bytes of messages with unknown heads.
    pub loose_bytes: u64,
    /// Calls with missing heads, inferred from their replies.
    pub calls_not_captured: u64,
    /// Replies to calls that should have been captured but were not.
    pub unmatched_replies: u64,
    pub duplicate_replies: u64,
    /// Calls whose replies the capture missed.
    pub replies_not_captured: u64,
    pub connections: u64,
    /// Connections older than the capture.
    pub half_seen: u64,
    /// Connections dropped because there were too many.
    pub forgotten_connections: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: i64,
    /// From the first byte of the first RPC to the last byte of the last.
    pub(super) rpc_ns: Option<(i64, i64)>,
}

impl Counts {
    pub(super) fn packet(&mut self, at_ns: i64, captured_bytes: u64, wire_bytes: u64) {
        self.packets += 1;
        self.captured_bytes += captured_bytes;
        self.wire_bytes += wire_bytes;
        if captured_bytes < wire_bytes {
            self.cut_packets += 1;
            self.longest_cut_bytes = self.longest_cut_bytes.max(captured_bytes);
        }
        self.first_ns = Some(self.first_ns.map_or(at_ns, |first| first.min(at_ns)));
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// Extends the interval in which RPC bytes passed or a call was pending.
    pub(super) fn rpc(&mut self, from_ns: i64, to_ns: i64) {
        let (first, last) = self.rpc_ns.unwrap_or((from_ns, to_ns));
        self.rpc_ns = Some((first.min(from_ns), last.max(to_ns)));
    }

    pub(super) fn unused(&mut self, why: Unused, link: u32) {
        match why {
            Unused::Other => self.other_packets += 1,
            Unused::Fragment => self.fragments += 1,
            Unused::Broken => self.broken_packets += 1,
            Unused::Link => {
                self.unknown_link += 1;
                self.link_type.get_or_insert(link);
            }
        }
    }

    /// Returns names and values for the recording's attributes, without zeros.
    pub(super) fn attributes(&self) -> Vec<(String, String)> {
        let all = [
            ("packets", self.packets),
            ("captured_bytes", self.captured_bytes),
            ("wire_bytes", self.wire_bytes),
            ("cut_packets", self.cut_packets),
            ("longest_cut_bytes", self.longest_cut_bytes),
            ("tcp_segments", self.tcp_segments),
            ("udp_datagrams", self.udp_datagrams),
            ("other_packets", self.other_packets),
            ("other_ports", self.other_ports),
            ("other_segments", self.other_segments),
            ("fragments", self.fragments),
            ("broken_packets", self.broken_packets),
            ("unknown_link", self.unknown_link),
            ("captured_twice", self.captured_twice),
            ("tcp_retransmissions", self.tcp_retransmissions),
            ("tcp_timeouts", self.tcp_timeouts),
            ("reordered", self.reordered),
            ("keepalives", self.keepalives),
            ("zero_windows", self.zero_windows),
            ("missing_bytes", self.missing_bytes),
            ("resynchronised", self.resynchronised),
            ("headless", self.headless),
            ("calls", self.calls),
            ("replies", self.replies),
            ("rpc_retransmissions", self.rpc_retransmissions),
            ("unanswered", self.unanswered),
            ("loose_bytes", self.loose_bytes),
            ("calls_not_captured", self.calls_not_captured),
            ("unmatched_replies", self.unmatched_replies),
            ("duplicate_replies", self.duplicate_replies),
            ("replies_not_captured", self.replies_not_captured),
            ("connections", self.connections),
            ("half_seen", self.half_seen),
            ("forgotten_connections", self.forgotten_connections),
        ];
        all.iter().filter(|(_, n)| *n > 0).map(|(name, n)| (format!("capture.{name}"), n.to_string())).collect()
    }
}
