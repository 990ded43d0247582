//! Unanswered bytes on each connection, gathered as the recording is read: turns of sending and receiving, and bytes within one round trip.
//!
//! A program that sends what its protocol allows, and then waits for the other end, moves at most that much per round trip, on any link. No
//! protocol need be known for that. A *turn* is a send after which bytes come back; it is *long* if they come no sooner than a round trip
//! later: nothing else was in flight. The most bytes received within any round trip is the most that was ever in flight.

use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::quantile::Lengths;
use crate::observe::span::LiveSpan;
use crate::observe::tables::Tables;
use foldhash::{HashMap, HashMapExt};
use std::collections::VecDeque;
use thalweg_trace::SpanKind;

/// One connection as its client's threads used it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Bytes handed to it and taken from it.
    pub bytes: [u64; 2],
    /// Sends after which bytes came back.
    pub turns: u64,
    /// Turns that took at least a round trip.
    pub long_turns: u64,
    /// Time of its first bytes.
    pub first: i64,
    /// Time of its last bytes.
    pub last: i64,
    /// First arrival after the send that the walk has not reached yet.
    answered: Option<i64>,
    arriving: Arriving,
}

/// Arrivals within one round trip, seen backward.
#[derive(Debug, Default)]
struct Arriving {
    /// Arrivals of the round trip after the last one seen: time and bytes.
    within: VecDeque<(i64, u64)>,
    bytes: u64,
    most: u64,
    /// Bytes in the round trip after each arrival.
    sums: Lengths,
}

impl Arriving {
    fn add(&mut self, at: i64, bytes: u64, round_trip_ns: i64) {
        self.within.push_front((at, bytes));
        self.bytes += bytes;
        while self.within.len() > limits::MOST_ARRIVALS || self.within.back().is_some_and(|&(last, _)| last >= at + round_trip_ns) {
            self.bytes -= self.within.pop_back().map_or(0, |(_, bytes)| bytes);
        }
        self.most = self.most.max(self.bytes);
        self.sums.add(self.bytes);
    }
}

impl Exchange {
    fn new() -> Exchange {
        let (first, last) = (i64::MAX, i64::MIN);
        Exchange { bytes: [0; 2], turns: 0, long_turns: 0, first, last, answered: None, arriving: Arriving::default() }
    }

    /// Bytes of the larger direction.
    pub(crate) fn larger(&self) -> u64 {
        self.bytes[0].max(self.bytes[1])
    }

    /// Time it was in use, in nanoseconds.
    pub(crate) fn used_ns(&self) -> i64 {
        self.last.saturating_sub(self.first).max(1)
    }

    /// The most bytes received within one round trip, and the most in this part of the readings; `None` if the round trip is not known.
    pub(crate) fn arrived(&self, part: f64) -> Option<(u64, u64)> {
        (self.arriving.most > 0).then(|| (self.arriving.most, self.arriving.sums.quantile_ns(part)))
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// By connection: its least round trip in nanoseconds, if there is a path at all.
    round_trips: Vec<Option<i64>>,
    /// By connection: a server's thread that answered it.
    servers: HashMap<u32, u32>,
    /// By connection.
    pub of: HashMap<u32, Exchange>,
}

impl Exchanges {
    /// Starts with the round trip of each connection.
    pub(crate) fn new(round_trips: Vec<Option<i64>>) -> Exchanges {
        Exchanges { round_trips, servers: HashMap::new(), of: HashMap::new() }
    }

    /// The least round trip of a connection, in nanoseconds, if there is a path at all.
    pub(crate) fn round_trip_ns(&self, connection: u32) -> Option<i64> {
        self.round_trips.get(connection as usize).copied().flatten()
    }

    /// The thread that answered a connection, if recorded.
    pub(crate) fn server(&self, connection: u32) -> Option<u32> {
        self.servers.get(&connection).copied()
    }

    /// Adds a span; those of a client's threads come by descending end.
    #[inline]
    pub(crate) fn note(&mut self, tables: &Tables, span: &LiveSpan) {
        if span.bytes() == 0 || span.connection == NONE {
            return;
        }
        if tables.actors[span.track as usize].end != End::Client {
            // A server calls others, too.
            if span.side == End::Server && self.servers.len() < limits::MOST_CONNECTIONS {
                self.servers.entry(span.connection).or_insert(span.track);
            }
            return;
        }
        if self.of.len() >= limits::MOST_CONNECTIONS && !self.of.contains_key(&span.connection) {
            return;
        }
        let round_trip_ns = self.round_trip_ns(span.connection);
        let exchange = self.of.entry(span.connection).or_insert_with(Exchange::new);
        exchange.first = exchange.first.min(span.end);
        exchange.last = exchange.last.max(span.end);
        let receives = span.kind == SpanKind::NetReceive;
        exchange.bytes[usize::from(receives)] += span.bytes();
        if receives {
            exchange.answered = Some(span.end);
            round_trip_ns.into_iter().for_each(|ns| exchange.arriving.add(span.end, span.bytes(), ns));
        } else if let Some(answered) = exchange.answered.take() {
            exchange.turns += 1;
            let long = |ns: i64| (answered - span.end) as f64 >= ns as f64 * limits::LONG_TURN;
            exchange.long_turns += u64::from(round_trip_ns.is_some_and(long));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_within_a_round_trip_is_the_most_that_was_on_its_way() {
        let mut arriving = Arriving::default();
        // Four pieces of 16 KiB in each round trip of 100, seen backward; one round trip has only one.
        for trip in (0..50_i64).rev() {
            for piece in (0..if trip == 20 { 1 } else { 4 }).rev() {
                arriving.add(trip * 100 + piece * 10, 16 << 10, 100);
            }
        }
        assert_eq!(arriving.most, 64 << 10);
        let usual = arriving.sums.quantile_ns(0.9);
        assert!((60 << 10..=68 << 10).contains(&usual), "{usual}");
    }
}
