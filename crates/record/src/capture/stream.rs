//! Reassembles one direction of a TCP connection from packets: bytes in order, once each, and what TCP did about
//! them.
//!
//! Segments may be retransmitted, reordered, captured twice, or missing from the capture. Bytes are passed on in
//! stream order as soon as that order is certain. A gap is held open while it can still be filled; once the other end
//! has acknowledged data beyond it, the capture itself lost the bytes, and they are passed on as missing.

use std::collections::{BTreeMap, VecDeque};

/// Maximum bytes of segments held beyond a gap, per direction.
const HELD_BYTES: usize = 1 << 20;

/// Maximum segments held beyond a gap, per direction.
const HELD_SEGMENTS: usize = 512;

/// Maximum distance from the stream of a continuation: about a window. One in 2,000 unrelated sequence numbers is as
/// near.
const NEAR_BYTES: u64 = 1 << 20;

/// A gap filled after this time was filled by a retransmission, not by reordering.
const REORDERED_NS: i64 = 3_000_000;

/// Time after which an unfilled gap is given up.
const HOLE_NS: i64 = 3_000_000_000;

/// A sender that retransmits after being idle for this long did so on its timer: timers are at least 200 ms.
const TIMER_NS: i64 = 150_000_000;

/// Unacknowledged segments remembered, for round-trip times.
const OUTSTANDING: usize = 1024;

/// Classification of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// New bytes, or none.
    New,
    /// A retransmission; `timer` if the sender's timer expired.
    Retransmission { timer: bool },
    /// Arrived after later segments.
    Reordered,
    /// A keepalive probe.
    Keepalive,
}

/// A piece of the stream, in order.
pub(super) struct Piece<'a> {
    pub at_ns: i64,
    pub data: &'a [u8],
    /// Bytes after `data` that were sent but not captured.
    pub missing: u64,
    /// Whether a segment begins here: programs tend to begin messages there.
    pub at_start: bool,
}

struct Held {
    data: Vec<u8>,
    bytes: u64,
}

/// One direction.
#[derive(Default)]
pub(super) struct Stream {
    /// Whether any of it was seen, and the position of `sequence` in it: bytes passed on so far.
    started: bool,
    first_sequence: u32,
    sequence: u32,
    next: u64,
    /// Whether it was seen from its first byte.
    pub from_start: bool,
    /// The end of the bytes sent.
    pub highest: u64,
    /// Bytes acknowledged by the other end.
    pub acknowledged: u64,
    held: BTreeMap<u64, Held>,
    pub held_bytes: usize,
    hole_since_ns: i64,
    last_sent_ns: i64,
    outstanding: VecDeque<(u64, i64)>,
    pub scale: Option<u8>,
    /// The window offered by this end, if its scale is known.
    pub window_bytes: Option<u64>,
    pub srtt_ns: Option<i64>,
    pub least_rtt_ns: Option<i64>,
    pub finished: bool,
    /// Bytes lost by the capture.
    pub missing_bytes: u64,
}

impl Stream {
    /// Handles the connection's SYN, or SYN and acknowledgement.
    pub(super) fn synchronise(&mut self, sequence: u32, scale: Option<u8>) {
        if !self.started {
            (self.started, self.from_start, self.sequence, self.scale) = (true, true, sequence.wrapping_add(1), scale);
            self.first_sequence = sequence;
        }
    }

    /// Returns the sequence number of its SYN; meaningless if that was not seen.
    pub(super) fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// Whether a sequence number is near the stream's position; `None` if nothing of the stream was seen.
    pub(super) fn is_near(&self, sequence: u32) -> Option<bool> {
        self.started.then(|| self.offset(sequence).abs_diff(self.highest as i64) <= NEAR_BYTES)
    }

    /// Converts a sequence number to a stream position; negative before the first byte seen.
    fn offset(&self, sequence: u32) -> i64 {
        self.next as i64 + i64::from(sequence.wrapping_sub(self.sequence) as i32)
    }

    fn advance(&mut self, to: u64) {
        self.sequence = self.sequence.wrapping_add((to - self.next) as u32);
        self.next = to;
        self.highest = self.highest.max(to);
    }

    /// Handles a segment with `bytes` bytes, of which `data` were captured. `room`: bytes that may be held beyond
    /// gaps.
    pub(super) fn segment(
        &mut self,
        at_ns: i64,
        sequence: u32,
        data: &[u8],
        bytes: u64,
        room: usize,
        deliver: &mut impl FnMut(Piece<'_>),
    ) -> Verdict {
        if !self.started {
            (self.started, self.sequence) = (true, sequence);
        }
        let mut offset = self.offset(sequence);
        if offset.abs_diff(self.next as i64) > 1 << 30 {
            // Another stream under the same name: start over.
            self.held.clear();
            self.held_bytes = 0;
            self.outstanding.clear();
            self.sequence = sequence;
            offset = self.next as i64;
            self.highest = self.next;
            deliver(Piece { at_ns, data: &[], missing: u64::MAX / 4, at_start: false });
        }
        if bytes <= 1 && offset + 1 == self.next as i64 && self.acknowledged >= self.next {
            return Verdict::Keepalive;
        }
        if bytes == 0 {
            return Verdict::New;
        }
        let end = offset + bytes as i64;
        let verdict = self.verdict(at_ns, offset, end);
        self.last_sent_ns = at_ns;
        if end <= self.next as i64 {
            return verdict;
        }
        // Skips what was passed on already.
        let known = (self.next as i64 - offset).max(0) as u64;
        let data = &data[(known as usize).min(data.len())..];
        let (offset, bytes) = ((offset.max(0) as u64).max(self.next), bytes - known);
        let end = offset + bytes;
        if end > self.highest {
            if self.outstanding.len() < OUTSTANDING {
                self.outstanding.push_back((end, at_ns));
            }
            self.highest = end;
        }
        if offset == self.next {
            deliver(Piece { at_ns, data, missing: bytes - data.len() as u64, at_start: known == 0 });
            self.advance(end);
            self.deliver_held(at_ns, deliver);
        } else {
            self.hold(at_ns, offset, data, bytes);
            if self.held_bytes > room || self.held.len() > HELD_SEGMENTS || at_ns - self.hole_since_ns > HOLE_NS {
                self.give_up_hole(at_ns, deliver);
            }
        }
        verdict
    }

    fn verdict(&mut self, at_ns: i64, offset: i64, end: i64) -> Verdict {
        let timer = at_ns - self.last_sent_ns >= TIMER_NS;
        let sent_before = end <= self.next as i64 || offset < self.next as i64 || self.held.contains_key(&(offset as u64));
        if sent_before {
            // The acknowledgement may be for either transmission, so it gives no round-trip time.
            self.outstanding.clear();
            return Verdict::Retransmission { timer };
        }
        if (end as u64) <= self.highest && !self.held.is_empty() {
            self.outstanding.clear();
            let late = at_ns - self.hole_since_ns > REORDERED_NS;
            return if late { Verdict::Retransmission { timer } } else { Verdict::Reordered };
        }
        Verdict::New
    }

    fn hold(&mut self, at_ns: i64, offset: u64, data: &[u8], bytes: u64) {
        if self.held.is_empty() {
            self.hole_since_ns = at_ns;
        }
        let data = data[..data.len().min(HELD_BYTES)].to_vec();
        self.held_bytes += data.len();
        if let Some(before) = self.held.insert(offset, Held { data, bytes }) {
            self.held_bytes -= before.data.len();
        }
    }

    /// Passes on what has become contiguous.
    fn deliver_held(&mut self, at_ns: i64, deliver: &mut impl FnMut(Piece<'_>)) {
        while let Some(entry) = self.held.first_entry() {
            let offset = *entry.key();
            if offset > self.next {
                break;
            }
            let held = entry.remove();
            self.held_bytes -= held.data.len();
            let end = offset + held.bytes;
            if end > self.next {
                let known = self.next - offset;
                let data = &held.data[(known as usize).min(held.data.len())..];
                deliver(Piece { at_ns, data, missing: end - self.next - data.len() as u64, at_start: known == 0 });
                self.advance(end);
            }
        }
        self.hole_since_ns = at_ns;
    }

    /// Gives up the gap before the first held segment.
    fn give_up_hole(&mut self, at_ns: i64, deliver: &mut impl FnMut(Piece<'_>)) {
        if let Some((&offset, _)) = self.held.first_key_value() {
            let missing = offset.saturating_sub(self.next);
            self.missing_bytes += missing;
            deliver(Piece { at_ns, data: &[], missing, at_start: false });
            self.advance(self.next + missing);
            self.deliver_held(at_ns, deliver);
        }
    }

    /// Ends the stream: passes on what was held.
    pub(super) fn end(&mut self, at_ns: i64, deliver: &mut impl FnMut(Piece<'_>)) {
        while !self.held.is_empty() {
            self.give_up_hole(at_ns, deliver);
        }
    }

    /// Handles the other end's acknowledgement up to `sequence`. Returns a round-trip time if it reveals one.
    pub(super) fn acknowledge(&mut self, at_ns: i64, sequence: u32, deliver: &mut impl FnMut(Piece<'_>)) -> Option<i64> {
        if !self.started {
            return None;
        }
        let offset = u64::try_from(self.offset(sequence)).ok()?;
        // A FIN's acknowledgement counts one byte more than was sent; one far beyond belongs to another stream.
        if offset > self.highest + 1 + (1 << 30) {
            return None;
        }
        self.acknowledged = self.acknowledged.max(offset.min(self.highest));
        if !self.held.is_empty() && offset > self.next {
            // The other end has the bytes that this capture lacks.
            self.give_up_hole(at_ns, deliver);
        }
        let mut sent_ns = None;
        while let Some(&(end, at)) = self.outstanding.front() {
            if end > offset {
                break;
            }
            sent_ns = Some(at);
            self.outstanding.pop_front();
        }
        let rtt_ns = (at_ns - sent_ns?).max(0);
        self.srtt_ns = Some(self.srtt_ns.map_or(rtt_ns, |srtt| srtt + (rtt_ns - srtt) / 8));
        self.least_rtt_ns = Some(self.least_rtt_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        Some(rtt_ns)
    }

    /// Handles the window offered by this end; `true` if it has just closed.
    pub(super) fn offer(&mut self, window: u16, scale_known: bool, reset: bool) -> bool {
        let shift = if scale_known { self.scale.unwrap_or(0) } else { 0 };
        let bytes = u64::from(window) << shift;
        let closed = window == 0 && !reset && self.window_bytes != Some(0);
        // A zero window is zero at any scale.
        if scale_known || window == 0 {
            self.window_bytes = Some(bytes);
        } else {
            self.window_bytes = None;
        }
        closed
    }

    /// Returns the bytes sent but not acknowledged.
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.highest.saturating_sub(self.acknowledged)
    }

    /// Returns a stream position if the other end would count it the same.
    pub(super) fn position(&self, offset: u64) -> Option<u64> {
        self.from_start.then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: usize = 1 << 20;

    /// Collects a stream's output: bytes, with `None` for each missing one.
    fn collect(out: &mut Vec<Option<u8>>) -> impl FnMut(Piece<'_>) {
        |piece| {
            out.extend(piece.data.iter().map(|b| Some(*b)));
            out.extend(std::iter::repeat_n(None, piece.missing.min(1 << 20) as usize));
        }
    }

    fn stream(isn: u32) -> Stream {
        let mut stream = Stream::default();
        stream.synchronise(isn, Some(7));
        stream
    }

    proptest! {
        #[test]
        fn bytes_come_once_and_in_order_however_segments_come(isn: u32, cuts in prop::collection::vec(1_usize..40, 1..30), order in prop::collection::vec(0_usize..1000, 0..60)) {
            let total: usize = cuts.iter().sum();
            let bytes: Vec<u8> = (0..total).map(|i| i as u8).collect();
            let mut segments: Vec<(usize, usize)> = Vec::new();
            let mut at = 0;
            for cut in &cuts {
                segments.push((at, at + cut));
                at += cut;
            }
            // Shuffled by swaps, some retransmitted, some overlapping their neighbours.
            let mut sent = segments.clone();
            for (i, &pick) in order.iter().enumerate() {
                let (a, b) = (i % sent.len(), pick % sent.len());
                sent.swap(a, b);
                let (from, to) = segments[pick % segments.len()];
                sent.push((from.saturating_sub(pick % 7), to));
            }
            let (mut stream, mut out) = (stream(isn), Vec::new());
            for (i, &(from, to)) in sent.iter().enumerate() {
                let sequence = isn.wrapping_add(1 + from as u32);
                stream.segment(i as i64, sequence, &bytes[from..to], (to - from) as u64, ROOM, &mut collect(&mut out));
            }
            prop_assert_eq!(out, bytes.iter().map(|b| Some(*b)).collect::<Vec<_>>());
            prop_assert_eq!((stream.held_bytes, stream.held.len()), (0, 0));
        }
    }

    #[test]
    fn what_the_other_end_has_and_the_capture_lacks_is_missing() {
        let (mut stream, mut out) = (stream(9), Vec::new());
        stream.segment(0, 10, b"ab", 2, ROOM, &mut collect(&mut out));
        stream.segment(1, 14, b"ef", 2, ROOM, &mut collect(&mut out));
        assert_eq!(out.len(), 2, "a hole is waited for");
        stream.acknowledge(2, 16, &mut collect(&mut out));
        assert_eq!(out, [Some(b'a'), Some(b'b'), None, None, Some(b'e'), Some(b'f')]);
        assert_eq!(stream.missing_bytes, 2);
    }

    #[test]
    fn a_snapped_segment_is_missing_its_tail() {
        let (mut stream, mut out) = (stream(0), Vec::new());
        assert_eq!(stream.segment(0, 1, b"abc", 6, ROOM, &mut collect(&mut out)), Verdict::New);
        stream.segment(0, 7, b"g", 1, ROOM, &mut collect(&mut out));
        assert_eq!(out, [Some(b'a'), Some(b'b'), Some(b'c'), None, None, None, Some(b'g')]);
    }

    #[test]
    fn sending_again_coming_late_and_asking_are_distinguished() {
        let (mut stream, mut out) = (stream(0), Vec::new());
        let sink = &mut collect(&mut out);
        stream.segment(0, 1, &[0; 10], 10, ROOM, sink);
        assert_eq!(stream.segment(1_000_000, 1, &[0; 10], 10, ROOM, sink), Verdict::Retransmission { timer: false });
        assert_eq!(stream.segment(300_000_000, 1, &[0; 10], 10, ROOM, sink), Verdict::Retransmission { timer: true });
        stream.segment(301_000_000, 21, &[0; 10], 10, ROOM, sink);
        assert_eq!(stream.segment(301_100_000, 11, &[0; 10], 10, ROOM, sink), Verdict::Reordered);
        stream.acknowledge(302_000_000, 31, sink);
        assert_eq!(stream.segment(400_000_000, 30, &[0; 1], 1, ROOM, sink), Verdict::Keepalive);
        stream.segment(500_000_000, 41, &[0; 10], 10, ROOM, sink);
        assert_eq!(stream.segment(520_000_000, 31, &[0; 10], 10, ROOM, sink), Verdict::Retransmission { timer: false });
        assert_eq!(stream.in_flight_bytes(), 20);
    }

    #[test]
    fn round_trips_are_measured_and_not_from_segments_sent_twice() {
        let (mut stream, mut none) = (stream(0), Vec::new());
        let sink = &mut collect(&mut none);
        stream.segment(0, 1, &[0; 10], 10, ROOM, sink);
        assert_eq!(stream.acknowledge(5_000_000, 11, sink), Some(5_000_000));
        stream.segment(6_000_000, 11, &[0; 10], 10, ROOM, sink);
        stream.segment(7_000_000, 11, &[0; 10], 10, ROOM, sink);
        assert_eq!(stream.acknowledge(8_000_000, 21, sink), None);
        assert_eq!(stream.least_rtt_ns, Some(5_000_000));
    }
}
