//! One request at a time: each is sent when the last was answered, and so each takes a round trip. From the turns of connections alone.

use super::super::groups::Group;
use super::super::of::Of;
use super::words::{capital, number, times_each, waits_for_answers};
use super::{in_flight, items};
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use thalweg_trace::numbers::{byte_rate, count, duration, size};

/// The turns of all connections whose round trip is known.
struct Turns {
    /// How many connections had any.
    connections: u64,
    /// How many turns.
    turns: u64,
    /// Those that took a round trip.
    long: u64,
    /// Bytes of the larger direction.
    bytes: u64,
    /// How long connections were used, all together.
    used_s: f64,
    /// How long any was.
    within_s: f64,
    /// The least round trip of the connection with most bytes.
    round_trip_s: f64,
}

impl Turns {
    /// Those of the run, where it waited for answers.
    fn of(of: &Of<'_>, group: &Group<'_>) -> Option<Turns> {
        if !waits_for_answers(group.cause) {
            return None;
        }
        let exchanges = &of.parts.seen.exchanges;
        let known = || exchanges.of.iter().filter_map(|(&c, e)| Some((exchanges.round_trip_ns(c)?, e))).filter(|(_, e)| e.turns > 0);
        let used: Vec<(i64, i64)> = known().map(|(_, e)| (e.first, e.last)).collect();
        let sums = known()
            .fold([0; 4], |sum: [u64; 4], (_, e)| [sum[0] + e.turns, sum[1] + e.long_turns, sum[2] + e.bytes[0], sum[3] + e.bytes[1]]);
        let (round_trip_ns, _) = known().max_by_key(|(ns, e)| (e.bytes[0].max(e.bytes[1]), *ns))?;
        let made = Turns {
            connections: used.len() as u64,
            turns: sums[0],
            long: sums[1],
            bytes: sums[2].max(sums[3]),
            used_s: used.iter().map(|(first, last)| last - first).sum::<i64>() as f64 / 1e9,
            within_s: items::within_ns(used) as f64 / 1e9,
            round_trip_s: round_trip_ns as f64 / 1e9,
        };
        let explain = made.long as f64 * made.round_trip_s >= made.used_s * limits::TURNS_EXPLAIN;
        (made.turns >= limits::LEAST_TURNS && explain).then_some(made)
    }

    /// The same where one request was under way at a time on each connection.
    fn one_by_one(of: &Of<'_>, group: &Group<'_>) -> Option<Turns> {
        Turns::of(of, group).filter(|turns| turns.long as f64 >= turns.turns as f64 * limits::ONE_AT_A_TIME)
    }

    /// Whether connections were used one after the other.
    fn in_turn(&self) -> bool {
        self.used_s <= self.within_s * limits::IN_TURN
    }

    fn each_s(&self) -> f64 {
        self.used_s / self.turns as f64
    }

    fn number(&self, kind: NumberKind, sentence: String) -> Number {
        let (count, each_s, round_trip_s) = (Some(self.turns), Some(self.each_s()), Some(self.round_trip_s));
        Number { count, each_s, round_trip_s, ..number(kind, sentence) }
    }
}

/// A connection for each of many, of which most was setting it up.
pub(super) fn connections(of: &Of<'_>, group: &Group<'_>) -> Option<Number> {
    let turns = Turns::of(of, group).filter(Turns::in_turn)?;
    // What comes without being asked for, as tickets and settings do, takes no round trip; connecting takes one.
    let on_each = turns.long as f64 / turns.connections as f64 + 1.0;
    if turns.connections < limits::MANY_CONNECTIONS || on_each > limits::TURNS_TO_SET_UP {
        return None;
    }
    let n = count(turns.connections);
    let each_s = turns.used_s / turns.connections as f64 + turns.round_trip_s;
    let trips = times_each(on_each, "round trip");
    let sentence = format!("A new connection {n} times, {trips} of {} on each: {n} × {}.", duration(turns.round_trip_s), duration(each_s));
    let (count, items) = (Some(turns.connections), Some(turns.connections));
    Some(Number { count, each_s: Some(each_s), items, ..turns.number(NumberKind::ConnectionPerItem, sentence) })
}

/// Round trips for each file, entry or transaction.
pub(super) fn for_each_item(of: &Of<'_>, group: &Group<'_>) -> Option<Number> {
    if let Some((trips, entry)) =
        of.round_trips.and_then(|trips| Some((trips, trips.per_entry.as_ref()?))).filter(|_| waits_for_answers(group.cause))
        && entry.round_trips >= limits::FOR_EACH
    {
        let each = capital(&times_each(entry.round_trips, "round trip"));
        let times = format!("{} × {}", count(trips.in_a_row), duration(trips.each_s));
        let made = number(NumberKind::RoundTripsPerItem, format!("{each} for each of {} entries: {times}.", count(entry.entries)));
        return Some(Number { count: Some(trips.in_a_row), each_s: Some(trips.each_s), items: Some(entry.entries), ..made });
    }
    let turns = Turns::one_by_one(of, group).filter(Turns::in_turn)?;
    let (items, what) = items::of_run(of)?;
    let on_each = turns.turns as f64 / items as f64;
    if on_each < limits::FOR_EACH {
        return None;
    }
    let trips = capital(&times_each(on_each, "round trip"));
    let times = format!("{} × {}", count(turns.turns), duration(turns.each_s()));
    let sentence = format!("{trips} for each of {} {what}, one after the other: {times}.", count(items));
    Some(Number { items: Some(items), ..turns.number(NumberKind::RoundTripsPerItem, sentence) })
}

/// One request at a time, with what each has and the rate that this allows.
pub(super) fn one_at_a_time(of: &Of<'_>, group: &Group<'_>) -> Option<Number> {
    let turns = Turns::one_by_one(of, group)?;
    let each_s = turns.each_s();
    let (at_once, on_each) = match turns.in_turn() {
        true => (1.0, String::new()),
        false => (turns.used_s / turns.within_s, format!(" on each of {} connections", count(turns.connections))),
    };
    let trip = duration(turns.round_trip_s);
    let times = format!("{} × {}", count(turns.turns), duration(each_s));
    let each = turns.bytes / turns.turns;
    if each < limits::LARGE_REQUEST {
        let sentence = format!("One request at a time{on_each}: {times}, of which {trip} are the round trip.");
        return Some(turns.number(NumberKind::OneAtATime, sentence));
    }
    // What is a request, and what a window that is opened again, looks alike: what is known is how much was on its way at the most.
    let most = in_flight::most(of).map_or(each, |(most, _)| most);
    let rate = turns.bytes as f64 / turns.used_s * at_once;
    let sentence = format!(
        "One request at a time{on_each}, never more than {} in flight: {times}, {} whatever the link.",
        size(most),
        byte_rate(rate)
    );
    let (bytes, rate_bytes_per_s) = (Some(most), Some(rate));
    Some(Number { bytes, rate_bytes_per_s, ..turns.number(NumberKind::OneAtATime, sentence) })
}
