//! Turns of all connections together: sends that were followed by bytes from the other end.

use super::super::of::Of;
use super::words::number;
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use crate::observe::overlap::together_ns;

/// The turns of all connections whose round trip is known.
pub(super) struct Turns {
    /// Number of connections with turns.
    pub(super) connections: u64,
    /// Number of turns.
    pub(super) turns: u64,
    /// Turns that took a round trip.
    pub(super) long: u64,
    /// Bytes in the larger direction.
    pub(super) bytes: u64,
    /// Time in which connections were used, summed.
    pub(super) used_s: f64,
    /// Time in which any connection was used.
    pub(super) within_s: f64,
    /// Least round trip of all connections.
    pub(super) least_s: f64,
    /// Least round trip of the connection with most bytes.
    pub(super) round_trip_s: f64,
}

impl Turns {
    /// The turns of a run; `None` if they are few, or explain little of the connections' used time.
    pub(super) fn of(of: &Of<'_>) -> Option<Turns> {
        let exchanges = &of.parts.seen.exchanges;
        let known = || exchanges.of.iter().filter_map(|(&c, e)| Some((exchanges.round_trip_ns(c)?, e))).filter(|(_, e)| e.turns > 0);
        let used: Vec<(i64, i64)> = known().map(|(_, e)| (e.first, e.last)).collect();
        let sums = known()
            .fold([0; 4], |sum: [u64; 4], (_, e)| [sum[0] + e.turns, sum[1] + e.long_turns, sum[2] + e.bytes[0], sum[3] + e.bytes[1]]);
        let (round_trip_ns, _) = known().max_by_key(|(ns, e)| (e.bytes[0].max(e.bytes[1]), *ns))?;
        let least_ns = known().map(|(ns, _)| ns).min()?;
        let made = Turns {
            least_s: least_ns as f64 / 1e9,
            connections: used.len() as u64,
            turns: sums[0],
            long: sums[1],
            bytes: sums[2].max(sums[3]),
            used_s: used.iter().map(|(first, last)| last - first).sum::<i64>() as f64 / 1e9,
            within_s: together_ns(used) as f64 / 1e9,
            round_trip_s: round_trip_ns as f64 / 1e9,
        };
        let explain = made.long as f64 * made.round_trip_s >= made.used_s * limits::TURNS_EXPLAIN;
        (made.turns >= limits::LEAST_TURNS && explain).then_some(made)
    }

    /// Whether connections were used one after the other.
    pub(super) fn in_turn(&self) -> bool {
        self.used_s <= self.within_s * limits::IN_TURN
    }

    pub(super) fn each_s(&self) -> f64 {
        self.used_s / self.turns as f64
    }

    pub(super) fn number(&self, kind: NumberKind, sentence: String) -> Number {
        let (count, each_s, round_trip_s) = (Some(self.turns), Some(self.each_s()), Some(self.round_trip_s));
        Number { count, each_s, round_trip_s, ..number(kind, sentence) }
    }
}
