//! One sweep backward through connections' bytes: whose turn it was while nothing moved.
//!
//! A connection's spans are bursts: bytes in one direction, until the other end sends or there is a pause. Between two of them an end was
//! waited for: the one that sends next. A round trip of that is the network's. While nothing moves on any connection, all of them wait; the
//! time belongs to the connection that moves next.

use super::evidence::{Evidence, Why};
use super::part::{PARTS, Part};
use super::way::Way;
use crate::limits::connections as limits;
use crate::observe::channels::Gatherer;
use crate::observe::curve::Curve;
use crate::observe::quantile::Lengths;
use std::collections::HashMap;
use thalweg_trace::{ABSENT, ABSENT_RESULT, Source, SourceError, SpanBatch, SpanKind};

/// One burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub track: u64,
    pub way: Way,
    pub start_ns: i64,
    pub end_ns: i64,
    pub bytes: u64,
    pub failed: bool,
}

/// The next burst on a connection, going backward.
#[derive(Clone, Copy, Debug)]
struct Next {
    at_ns: i64,
    way: Way,
    /// Time before it in which nothing moved anywhere.
    quiet_ns: i64,
}

/// A connection's sums.
#[derive(Debug, Default)]
pub(super) struct Sums {
    next: Option<Next>,
    /// The last end to send.
    pub spoke_last: Option<Way>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub handshake_ns: Option<i64>,
    pub failed: bool,
    pub answers: Lengths,
    pub longest_answer_ns: i64,
    pub parts_ns: [i64; PARTS.len()],
    /// The part of these while nothing moved anywhere.
    pub alone_ns: [i64; PARTS.len()],
}

/// All sums.
pub(super) struct Gathered {
    pub start_ns: i64,
    pub end_ns: i64,
    pub tracks: HashMap<u64, Sums>,
    pub sent: Gatherer,
    pub received: Gatherer,
    pub sent_curve: Curve,
    pub received_curve: Curve,
    pub answers: Lengths,
    /// Each part over time, while nothing moved.
    pub quiet: Vec<Curve>,
    /// The earliest instant from which something moved, and its connection.
    cover: Option<(i64, u64)>,
}

/// The burst in a row, if it is one.
pub(super) fn burst(batch: &SpanBatch, row: usize) -> Option<Burst> {
    let way = match batch.kind[row] {
        SpanKind::NetSend => Way::Sent,
        SpanKind::NetReceive => Way::Received,
        SpanKind::NetConnect => Way::Connect,
        _ => return None,
    };
    let (start_ns, end_ns) = (batch.start_ns[row], batch.end_ns[row]);
    let bytes = if batch.size_bytes[row] == ABSENT { 0 } else { batch.size_bytes[row] };
    let failed = batch.result[row] < 0 && batch.result[row] != ABSENT_RESULT;
    (batch.request[row] == 0).then_some(Burst { track: batch.track[row], way, start_ns, end_ns, bytes, failed })
}

impl Gathered {
    pub(super) fn new(start_ns: i64, end_ns: i64) -> Gathered {
        let curve = || Curve::new(start_ns, end_ns, limits::FINE_BINS);
        Gathered {
            start_ns,
            end_ns,
            tracks: HashMap::new(),
            sent: Gatherer::default(),
            received: Gatherer::default(),
            sent_curve: curve(),
            received_curve: curve(),
            answers: Lengths::default(),
            quiet: PARTS.iter().map(|_| curve()).collect(),
            cover: None,
        }
    }

    /// Adds all bursts of a recording.
    pub(super) fn read(&mut self, source: &dyn Source, evidence: &Evidence) -> Result<(), SourceError> {
        for batch in source.spans_backward() {
            let batch = batch?;
            (0..batch.len()).filter_map(|row| burst(&batch, row)).for_each(|burst| self.take(&burst, evidence));
        }
        // Before a connection's first burst, while nothing moved, it had not been opened.
        let mut left: Vec<(u64, Next)> = self.tracks.iter().filter_map(|(track, sums)| Some((*track, sums.next?))).collect();
        left.sort_unstable_by_key(|(track, next)| (next.at_ns, *track));
        for (track, next) in left {
            let from_ns = next.at_ns.saturating_sub(next.quiet_ns);
            self.charge(track, Part::Client, (from_ns, next.at_ns), next.quiet_ns);
        }
        Ok(())
    }

    fn take(&mut self, burst: &Burst, evidence: &Evidence) {
        let (start_ns, end_ns) = (burst.start_ns.max(self.start_ns), burst.end_ns.min(self.end_ns));
        self.moves(burst, start_ns, end_ns);
        match self.cover {
            // No end sends after the last burst. If the last burst is a client's, the client was waiting for an answer.
            None if end_ns < self.end_ns => {
                let part = if burst.way == Way::Received { Part::Client } else { Part::Server };
                self.tracks.entry(burst.track).or_default();
                self.charge(burst.track, part, (end_ns, self.end_ns), self.end_ns - end_ns);
                self.cover = Some((start_ns, burst.track));
            }
            Some((cover_ns, track)) if end_ns < cover_ns => {
                if let Some(next) = self.tracks.get_mut(&track).and_then(|sums| sums.next.as_mut()) {
                    next.quiet_ns = cover_ns - end_ns;
                }
                self.cover = Some((start_ns, burst.track));
            }
            Some((cover_ns, _)) if start_ns >= cover_ns => {}
            _ => self.cover = Some((start_ns, burst.track)),
        }
        let next = self.tracks.get(&burst.track).and_then(|sums| sums.next);
        if let Some(next) = next.filter(|next| end_ns < next.at_ns) {
            self.between(burst, end_ns, next, evidence);
        }
        let sums = self.tracks.entry(burst.track).or_default();
        if next.is_none() {
            (sums.spoke_last, sums.last_ns, sums.first_ns) = (Some(burst.way), burst.end_ns, burst.start_ns);
        }
        sums.first_ns = sums.first_ns.min(burst.start_ns);
        sums.last_ns = sums.last_ns.max(burst.end_ns);
        if next.is_none_or(|next| start_ns < next.at_ns) {
            sums.next = Some(Next { at_ns: start_ns, way: burst.way, quiet_ns: 0 });
        }
    }

    /// Adds the burst's own bytes and time.
    fn moves(&mut self, burst: &Burst, start_ns: i64, end_ns: i64) {
        let sums = self.tracks.entry(burst.track).or_default();
        let (gatherer, curve, bytes) = match burst.way {
            Way::Sent => (&mut self.sent, &mut self.sent_curve, &mut sums.sent_bytes),
            Way::Received => (&mut self.received, &mut self.received_curve, &mut sums.received_bytes),
            Way::Connect => {
                // A handshake takes the round trip to the server; a failed one waits for the server.
                sums.failed |= burst.failed;
                sums.handshake_ns = (!burst.failed).then_some(burst.end_ns - burst.start_ns);
                return;
            }
        };
        *bytes = bytes.saturating_add(burst.bytes);
        gatherer.add(start_ns.min(end_ns), end_ns, burst.bytes);
        curve.spread(start_ns, end_ns, burst.bytes as f64);
    }

    /// Charges the wait on a connection between a burst and the next.
    fn between(&mut self, burst: &Burst, from_ns: i64, next: Next, evidence: &Evidence) {
        let gap = (from_ns, next.at_ns);
        let ns = next.at_ns - from_ns;
        if (burst.way, next.way) == (Way::Sent, Way::Received) {
            self.answers.add(ns as u64);
            let sums = self.tracks.entry(burst.track).or_default();
            sums.answers.add(ns as u64);
            sums.longest_answer_ns = sums.longest_answer_ns.max(ns);
        }
        let speaker = if next.way == Way::Received { Part::Server } else { Part::Client };
        match evidence.why(burst.track, gap, burst.way, next.way) {
            Why::Loss => self.charge(burst.track, Part::Loss, gap, next.quiet_ns),
            Why::Window => self.charge(burst.track, Part::Window, gap, next.quiet_ns),
            Why::Acknowledgement => self.charge(burst.track, Part::RoundTrip, gap, next.quiet_ns),
            Why::Turn { round_trip_ns } => {
                let network_ns = round_trip_ns.clamp(0, ns);
                let split_ns = next.at_ns - network_ns;
                self.charge(burst.track, Part::RoundTrip, (split_ns, next.at_ns), next.quiet_ns.min(network_ns));
                self.charge(burst.track, speaker, (from_ns, split_ns), next.quiet_ns - next.quiet_ns.min(network_ns));
            }
        }
    }

    /// Charges an interval to a part; for the last `quiet_ns` of it nothing moved anywhere.
    fn charge(&mut self, track: u64, part: Part, (from_ns, to_ns): (i64, i64), quiet_ns: i64) {
        let sums = self.tracks.entry(track).or_default();
        sums.parts_ns[part as usize] += (to_ns - from_ns).max(0);
        sums.alone_ns[part as usize] += quiet_ns.max(0);
        if quiet_ns > 0 {
            self.quiet[part as usize].spread(to_ns - quiet_ns, to_ns, quiet_ns as f64);
        }
    }
}
