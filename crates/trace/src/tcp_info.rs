//! The kernel's state of a TCP connection, `struct tcp_info`: a program reads it from its own socket
//! (`getsockopt(TCP_INFO)`), and from netlink for all others. Its length depends on the kernel; newer fields are at
//! the end.

use crate::{Counter, CounterName, CounterOf, Event, ObjectId, Time};

/// TCP's state of a connection; fields that this kernel lacks are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub timeouts: u8,
    pub segment_bytes: u32,
    /// Size of the segments that arrive.
    pub arriving_segment_bytes: u32,
    /// Time since data, and since an acknowledgement, last came; in steps of the kernel's tick.
    pub data_came_ms: u32,
    pub acknowledgement_came_ms: u32,
    pub unacked_segments: u32,
    pub sacked_segments: u32,
    pub lost_segments: u32,
    pub retransmitted_segments: u32,
    pub srtt_us: u32,
    pub ssthresh_segments: u32,
    pub cwnd_segments: u32,
    /// Round trip as arriving data shows it; 0 if none did.
    pub receive_rtt_us: u32,
    pub total_retransmits: u32,
    /// Bytes acknowledged by the other end; the connecting end's own SYN counts as one.
    pub acked_bytes: Option<u64>,
    /// Bytes received in order.
    pub received_bytes: Option<u64>,
    pub unsent_bytes: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub busy_us: Option<u64>,
    pub receive_window_limited_us: Option<u64>,
    pub send_buffer_limited_us: Option<u64>,
    /// Bytes sent, including retransmissions.
    pub sent_bytes: Option<u64>,
    pub retransmitted_bytes: Option<u64>,
    /// Segments that arrived before an earlier one.
    pub out_of_order_segments: Option<u32>,
    pub peer_window_bytes: Option<u32>,
    /// The receive window that this end offers.
    pub offered_window_bytes: Option<u32>,
    /// Number of expirations of the retransmission timer.
    pub total_timeouts: Option<u16>,
}

/// Returns the `BYTES` bytes at an offset, if the structure is long enough.
fn field<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

impl TcpInfo {
    /// Parses the kernel's `struct tcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> Option<TcpInfo> {
        let word = |at: usize| field(bytes, at).map(u32::from_ne_bytes);
        let wide = |at: usize| field(bytes, at).map(u64::from_ne_bytes);
        Some(TcpInfo {
            timeouts: *bytes.get(2)?,
            segment_bytes: word(16)?,
            arriving_segment_bytes: word(20)?,
            data_came_ms: word(52)?,
            acknowledgement_came_ms: word(56)?,
            unacked_segments: word(24)?,
            sacked_segments: word(28)?,
            lost_segments: word(32)?,
            retransmitted_segments: word(36)?,
            srtt_us: word(68)?,
            ssthresh_segments: word(76)?,
            cwnd_segments: word(80)?,
            receive_rtt_us: word(92)?,
            total_retransmits: word(100)?,
            acked_bytes: wide(120),
            received_bytes: wide(128),
            unsent_bytes: word(144),
            min_rtt_us: word(148).filter(|us| *us != u32::MAX),
            busy_us: wide(168),
            receive_window_limited_us: wide(176),
            send_buffer_limited_us: wide(184),
            sent_bytes: wide(200),
            retransmitted_bytes: wide(208),
            out_of_order_segments: word(224),
            peer_window_bytes: word(228),
            offered_window_bytes: word(232),
            total_timeouts: field(bytes, 240).map(u16::from_ne_bytes),
        })
    }

    /// Returns the bytes sent but not acknowledged.
    pub fn in_flight_bytes(&self) -> u64 {
        let out = u64::from(self.unacked_segments) + u64::from(self.retransmitted_segments);
        let settled = u64::from(self.sacked_segments) + u64::from(self.lost_segments);
        out.saturating_sub(settled) * u64::from(self.segment_bytes)
    }

    /// Returns the connection's state as counters; unknown ones have no value. (`acked_bytes` and `received_bytes`
    /// have the position in its streams.)
    pub fn values(&self, send_buffer_bytes: Option<u32>, unread_bytes: Option<u32>) -> [(CounterName, Option<i64>); 12] {
        let segments = |many: u32| i64::from(many) * i64::from(self.segment_bytes);
        let wide = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        // The initial threshold is "infinite", which cannot be drawn.
        let ssthresh = (self.ssthresh_segments < 0x7fff_ffff).then(|| segments(self.ssthresh_segments));
        [
            (CounterName::TcpCwndBytes, Some(segments(self.cwnd_segments))),
            (CounterName::TcpSsthreshBytes, ssthresh),
            (CounterName::TcpSrttUs, Some(i64::from(self.srtt_us))),
            (CounterName::TcpInFlightBytes, Some(wide(self.in_flight_bytes()))),
            (CounterName::TcpReceiveWindowBytes, self.peer_window_bytes.map(i64::from)),
            (CounterName::TcpSendBufferBytes, send_buffer_bytes.map(i64::from)),
            (CounterName::TcpUnsentBytes, self.unsent_bytes.map(i64::from)),
            (CounterName::TcpUnreadBytes, unread_bytes.map(i64::from)),
            (CounterName::TcpMinRttUs, self.min_rtt_us.map(i64::from)),
            (CounterName::TcpBusyUs, self.busy_us.map(wide)),
            (CounterName::TcpReceiveWindowLimitedUs, self.receive_window_limited_us.map(wide)),
            (CounterName::TcpSendBufferLimitedUs, self.send_buffer_limited_us.map(wide)),
        ]
    }

    /// Returns what this end shows of the other's sending, as counters; what is not known has no value.
    pub fn of_arrivals(&self) -> [(CounterName, Option<i64>); 3] {
        [
            (CounterName::TcpReceiveRttUs, (self.receive_rtt_us > 0).then(|| i64::from(self.receive_rtt_us))),
            (CounterName::TcpOutOfOrder, self.out_of_order_segments.map(i64::from)),
            (CounterName::TcpOfferedWindowBytes, self.offered_window_bytes.map(i64::from)),
        ]
    }

    /// Adds a row for each known counter.
    pub fn counters(&self, object: ObjectId, at: Time, send_buffer_bytes: Option<u32>, unread_bytes: Option<u32>, out: &mut Vec<Event>) {
        let of = CounterOf::Object(object);
        let counter = |(name, value): (CounterName, Option<i64>)| Some(Event::Counter(Counter { of, name, at, value: value? }));
        out.extend(self.values(send_buffer_bytes, unread_bytes).into_iter().chain(self.of_arrivals()).filter_map(counter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernels_shorter_answer_leaves_fields_out() {
        let info = TcpInfo::parse(&[0; 104]).expect("parsed");
        assert_eq!((info.sent_bytes, info.min_rtt_us), (None, None));
        assert_eq!(TcpInfo::parse(&[0; 50]), None);
    }

    #[test]
    fn each_field_is_read_from_its_place_in_the_kernels_structure() {
        let mut bytes = [0_u8; 248];
        for (at, value) in [
            (16, 1448_u32),
            (24, 7),
            (28, 2),
            (68, 300),
            (76, 0x7fff_ffff),
            (80, 10),
            (144, 5),
            (92, 410),
            (148, 90),
            (224, 3),
            (228, 65_536),
            (232, 99),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(120, 1_000_001_u64), (128, 64), (168, 9)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let info = TcpInfo::parse(&bytes).expect("parsed");
        assert_eq!((info.acked_bytes, info.received_bytes, info.in_flight_bytes()), (Some(1_000_001), Some(64), 5 * 1448));
        let known = info.values(None, Some(3));
        let value = |name| known.iter().find(|(n, _)| *n == name).and_then(|(_, value)| *value);
        assert_eq!(value(CounterName::TcpCwndBytes), Some(14_480));
        assert_eq!(value(CounterName::TcpSsthreshBytes), None, "it has none yet");
        assert_eq!((value(CounterName::TcpMinRttUs), value(CounterName::TcpReceiveWindowBytes)), (Some(90), Some(65_536)));
        assert_eq!((value(CounterName::TcpSendBufferBytes), value(CounterName::TcpUnreadBytes)), (None, Some(3)));
        assert_eq!(info.of_arrivals().map(|(_, value)| value), [Some(410), Some(3), Some(99)]);
    }
}
