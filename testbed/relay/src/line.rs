//! One direction of the link: what happens to a packet between the moment it was sent and the moment it is due.
//!
//! A packet passes four places in this order, and everything here is arithmetic on the time it is given (no clock, no I/O):
//!
//! 1. **Loss**: each wire segment is lost with a fixed probability, drawn from a seeded generator. The n-th segment of a run
//!    with the same seed meets the same draw, whatever the timing.
//! 2. **Queue**: what waits for the transmitter, in segments or bytes; what does not fit is dropped from the tail. Without a
//!    rate nothing waits.
//! 3. **Transmitter**: one segment after the other at the rate, counted in bytes of IP packets. A stall stops it.
//! 4. **Delay**: a constant, plus jitter drawn evenly; packets never overtake each other.
//!
//! A super-segment (see [`crate::segment`]) that survives whole stays whole: it is due when its last wire segment is.

use std::collections::VecDeque;

use crate::random::Random;
use crate::segment::{self, Shape};

/// How much the queue before the transmitter holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Wire segments.
    Packets(u64),
    /// Bytes of IP packets.
    Bytes(u64),
}

/// What one direction does to packets.
#[derive(Clone, Debug)]
pub struct Character {
    /// Constant part of the one-way delay.
    pub delay_ns: u64,
    /// A further delay drawn evenly from 0 to this.
    pub jitter_ns: u64,
    /// Rate of the transmitter; none: as fast as the relay can.
    pub rate_bps: Option<u64>,
    /// Probability that a wire segment is lost.
    pub loss: f64,
    /// What the queue before the transmitter holds.
    pub queue: Limit,
    /// Intervals in which the transmitter stands, counted from the first TCP segment: (from, for).
    pub stalls_ns: Vec<(u64, u64)>,
}

/// Bytes that may be under way in one direction: a bound on the relay's own memory, far above any sensible bandwidth × delay.
const UNDER_WAY_MAX_BYTES: u64 = 512 << 20;

/// What one direction saw, in wire segments and bytes of IP packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Segments that came in.
    pub segments: u64,
    /// Bytes that came in.
    pub bytes: u64,
    /// Reads of the device that brought them: fewer than segments where the kernel hands over super-segments.
    pub packets: u64,
    /// Segments the loss took.
    pub lost: u64,
    /// Segments the full queue refused.
    pub queue_drops: u64,
    /// Segments refused because the relay itself held too much: a result with these is not a result.
    pub memory_drops: u64,
    /// Most bytes that waited for the transmitter.
    pub queue_max_bytes: u64,
}

/// A packet on its way, with the moment it is due at the other end.
struct Held {
    due_ns: u64,
    packet: Vec<u8>,
}

/// A share of the queue that is free again at `departs_ns`.
struct Waiting {
    departs_ns: u64,
    bytes: u64,
    segments: u64,
}

/// The state of one direction.
pub struct Line {
    character: Character,
    losses: Random,
    jitters: Random,
    origin_ns: Option<u64>,
    transmitter_free_ns: u64,
    last_due_ns: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    waiting_segments: u64,
    held: VecDeque<Held>,
    held_bytes: u64,
    counts: Counts,
}

impl Line {
    /// An idle line; `seed` fixes every draw.
    pub fn new(character: Character, seed: u64) -> Line {
        Line {
            character,
            losses: Random::new(seed),
            jitters: Random::new(!seed),
            origin_ns: None,
            transmitter_free_ns: 0,
            last_due_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_segments: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// Says when the first TCP segment of either direction came: stalls count from there.
    pub fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = Some(origin_ns);
    }

    /// What came in and what became of it, so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a packet that was sent at `now_ns`. `packet` is left as it was given when it is lost or cut, and empty when it is kept.
    pub fn admit(&mut self, now_ns: u64, packet: &mut Vec<u8>, shape: &Shape) {
        let segments = shape.segments();
        self.counts.packets += 1;
        self.counts.segments += segments;
        self.counts.bytes += shape.wire_bytes(0, segments);
        self.release(now_ns);
        let mut first = 0;
        while first < segments {
            // A run of segments that survive, ended by one that does not or by the packet's end.
            let mut end = first;
            while end < segments && !self.losses.chance(self.character.loss) {
                end += 1;
            }
            if end > first {
                self.enqueue(now_ns, packet, shape, first, end - first);
            }
            if end < segments {
                self.counts.lost += 1;
            }
            first = end + 1;
        }
    }

    /// When the next packet is due at the other end.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.due_ns)
    }

    /// The next packet that is due by `now_ns`, with the moment it was due.
    pub fn take_due(&mut self, now_ns: u64) -> Option<(u64, Vec<u8>)> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let held = self.held.pop_front()?;
        self.held_bytes -= held.packet.len() as u64;
        Some((held.due_ns, held.packet))
    }

    /// Puts `count` segments from `first` into the queue, as many as fit.
    fn enqueue(&mut self, now_ns: u64, packet: &mut Vec<u8>, shape: &Shape, first: u64, count: u64) {
        let fits = self.room_for(shape, first, count);
        self.counts.queue_drops += count - fits;
        if fits == 0 {
            return;
        }
        let bytes = shape.wire_bytes(first, fits);
        if self.held_bytes + bytes > UNDER_WAY_MAX_BYTES {
            self.counts.memory_drops += fits;
            return;
        }
        let whole = first == 0 && fits == shape.segments();
        let piece = if whole { std::mem::take(packet) } else { segment::cut(packet, shape, first, fits) };
        let departs_ns = self.transmit(now_ns, bytes);
        if self.character.rate_bps.is_some() || departs_ns > now_ns {
            self.waiting.push_back(Waiting { departs_ns, bytes, segments: fits });
            self.waiting_bytes += bytes;
            self.waiting_segments += fits;
            self.counts.queue_max_bytes = self.counts.queue_max_bytes.max(self.waiting_bytes);
        }
        let jitter_ns = if self.character.jitter_ns == 0 { 0 } else { self.jitters.below(self.character.jitter_ns + 1) };
        let due_ns = (departs_ns + self.character.delay_ns + jitter_ns).max(self.last_due_ns);
        self.last_due_ns = due_ns;
        self.held_bytes += piece.len() as u64;
        self.held.push_back(Held { due_ns, packet: piece });
    }

    /// How many of `count` segments from `first` the queue has room for. An empty queue takes at least one, so that a limit
    /// below one packet slows the line instead of closing it.
    fn room_for(&self, shape: &Shape, first: u64, count: u64) -> u64 {
        let fits = match self.character.queue {
            Limit::Packets(limit) => limit.saturating_sub(self.waiting_segments).min(count),
            Limit::Bytes(limit) => {
                let room = limit.saturating_sub(self.waiting_bytes);
                (1..=count).take_while(|&n| shape.wire_bytes(first, n) <= room).last().unwrap_or(0)
            }
        };
        if self.waiting.is_empty() { fits.max(1) } else { fits }
    }

    /// Gives the transmitter `bytes` and says when the last of them has left.
    fn transmit(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let start_ns = self.after_stall(self.transmitter_free_ns.max(now_ns));
        let takes_ns = self.character.rate_bps.map_or(0, |rate_bps| (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps)) as u64);
        self.transmitter_free_ns = start_ns + takes_ns;
        self.transmitter_free_ns
    }

    /// The first moment from `at_ns` on at which the transmitter does not stand.
    fn after_stall(&self, at_ns: u64) -> u64 {
        let Some(origin_ns) = self.origin_ns else { return at_ns };
        let since_ns = at_ns.saturating_sub(origin_ns);
        let inside = |&&(from, length): &&(u64, u64)| from <= since_ns && since_ns < from + length;
        self.character.stalls_ns.iter().find(inside).map_or(at_ns, |(from, length)| origin_ns + from + length)
    }

    /// Frees the queue of what has left the transmitter by `now_ns`.
    fn release(&mut self, now_ns: u64) {
        while let Some(gone) = self.waiting.front().filter(|waiting| waiting.departs_ns <= now_ns) {
            self.waiting_bytes -= gone.bytes;
            self.waiting_segments -= gone.segments;
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::{single, super_segment};

    const CLEAN: Character =
        Character { delay_ns: 0, jitter_ns: 0, rate_bps: None, loss: 0.0, queue: Limit::Packets(1000), stalls_ns: Vec::new() };

    fn admit(line: &mut Line, now_ns: u64, mut packet: Vec<u8>) {
        let shape = Shape::of(&packet);
        line.admit(now_ns, &mut packet, &shape);
    }

    fn due(line: &mut Line) -> Vec<u64> {
        std::iter::from_fn(|| line.take_due(u64::MAX)).map(|(due_ns, _)| due_ns).collect()
    }

    #[test]
    fn a_packet_is_due_after_its_transmission_and_the_delay() {
        let mut line = Line::new(Character { delay_ns: 5_000_000, rate_bps: Some(8_000_000), ..CLEAN }, 1);
        admit(&mut line, 1_000, single(1000));
        admit(&mut line, 1_000, single(500));
        // 1 byte takes 1 µs: the second waits for the first.
        assert_eq!(due(&mut line), [1_000 + 1_000_000 + 5_000_000, 1_000 + 1_500_000 + 5_000_000]);
    }

    #[test]
    fn a_full_queue_drops_from_the_tail_and_is_free_again_once_sent() {
        let mut line = Line::new(Character { rate_bps: Some(8_000_000), queue: Limit::Bytes(2_500), ..CLEAN }, 1);
        for _ in 0..4 {
            admit(&mut line, 0, single(1000));
        }
        assert_eq!((line.counts().queue_drops, due(&mut line)), (2, vec![1_000_000, 2_000_000]));
        admit(&mut line, 1_000_000, single(1000));
        assert_eq!((line.counts().queue_drops, due(&mut line)), (2, vec![3_000_000]));
    }

    #[test]
    fn a_queue_that_holds_part_of_a_super_segment_takes_that_part() {
        let mut line = Line::new(Character { rate_bps: Some(8_000_000), queue: Limit::Packets(3), ..CLEAN }, 1);
        admit(&mut line, 0, super_segment(5, 1000));
        assert_eq!((line.counts().segments, line.counts().queue_drops), (5, 2));
        let (_, kept) = line.take_due(u64::MAX).unwrap();
        assert_eq!(Shape::of(&kept).segments(), 3);
    }

    #[test]
    fn loss_takes_single_wire_segments_out_of_a_super_segment_and_repeats_with_its_seed() {
        let character = Character { loss: 0.02, ..CLEAN };
        let run = |seed| {
            let mut line = Line::new(character.clone(), seed);
            for now_ns in 0..1000 {
                admit(&mut line, now_ns, super_segment(40, 1000));
            }
            let lost = line.counts().lost;
            let arrived: u64 = std::iter::from_fn(|| line.take_due(u64::MAX)).map(|(_, packet)| Shape::of(&packet).segments()).sum();
            assert_eq!(arrived + lost, 40_000);
            lost
        };
        let lost = run(7);
        assert!((600..1000).contains(&lost), "{lost} of 40000 at 2 %");
        assert_eq!(lost, run(7));
        assert_ne!((run(8), run(9)), (lost, lost));
    }

    #[test]
    fn jitter_never_reorders() {
        let mut line = Line::new(Character { delay_ns: 1_000, jitter_ns: 1_000_000, ..CLEAN }, 3);
        for now_ns in 0..1000 {
            admit(&mut line, now_ns * 1000, single(100));
        }
        let due = due(&mut line);
        assert!(due.is_sorted() && due[999] > 1_000_000 && due[0] >= 1_000);
    }

    #[test]
    fn a_stall_stops_the_transmitter_from_the_first_segment_on() {
        let mut line = Line::new(Character { delay_ns: 10, stalls_ns: vec![(100, 1_000)], ..CLEAN }, 3);
        line.begin(5_000);
        for now_ns in [5_000, 5_099, 5_100, 5_500, 6_100] {
            admit(&mut line, now_ns, single(100));
        }
        assert_eq!(due(&mut line), [5_010, 5_109, 6_110, 6_110, 6_110]);
    }
}
