//! One request at a time: each is sent when the previous one was answered, so each takes a round trip. Derived from the turns of
//! connections alone.

use super::super::groups::Group;
use super::super::held_back;
use super::in_flight;
use super::raise::Behind;
use super::run::Run;
use super::turns::Turns;
use super::words::{capital, number, times_each, waits_for_answers};
use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::exchanges::Exchange;
use crate::observe::overlap::together_ns;
use thalweg_base::numbers::{byte_rate, count, duration, size};

const ONE_CONNECTION: &str = "one connection for all of them";
const KEEP_IT: &str = "keep the connection for the next: keep-alive, a session or a pool of connections, one command for all";

/// A new connection for each of many items, mostly spent on its setup.
pub(super) fn connections(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let turns = run.turns_of(group).filter(|turns| turns.in_turn())?;
    // Unsolicited messages, such as tickets and settings, take no round trip; connecting takes one.
    let on_each = turns.long as f64 / turns.connections as f64 + 1.0;
    if turns.connections < limits::MANY_CONNECTIONS || on_each > limits::TURNS_TO_SET_UP {
        return None;
    }
    let n = count(turns.connections);
    let each_s = turns.used_s / turns.connections as f64 + turns.round_trip_s;
    let trips = times_each(on_each, "round trip");
    let named_s = on_each * turns.round_trip_s;
    // Data beyond the first window takes further round trips, so the named ones are not all.
    let at_least = if each_s > limits::MORE_TRIPS * named_s { "at least " } else { "" };
    let sentence =
        format!("A new connection {n} times, each with {at_least}{trips} of {}: {n} × {}.", duration(turns.round_trip_s), duration(each_s));
    let (count, items) = (Some(turns.connections), Some(turns.connections));
    let made = Number { count, each_s: Some(each_s), items, ..turns.number(NumberKind::ConnectionPerItem, sentence) };
    // A request on an existing connection takes one of the round trips, and no longer than the least. (The time of each connection includes
    // work before and after: a program may be started for each.)
    let answers_ns = Raise::answers_ns(run, group);
    let least_ns = turns.least_s * 1e9 * turns.connections as f64;
    let left = (least_ns / answers_ns).min(1.0 / on_each);
    let gained_ns = answers_ns * (1.0 - left) * (1.0 - 1.0 / turns.connections as f64);
    Some(made.raised_by(Raise { id: "connect_once", change: ONE_CONNECTION.to_owned(), how: KEEP_IT, gained_ns }))
}

/// A new connection for each of many items, mostly spent computing: key exchange, and all other setup at both ends.
pub(super) fn short_connections(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    use Cause as C;
    if !matches!(group.cause, C::ClientCpu | C::ServerCpu | C::ClientRunqueue | C::ServerRunqueue | C::ServerUnknown | C::NetworkLatency) {
        return None;
    }
    let parts = run.of.parts;
    let is_short = |e: &&Exchange| e.turns <= limits::FEW_TURNS && e.larger() <= limits::FEW_BYTES;
    let short: Vec<&Exchange> = parts.seen.exchanges.of.values().filter(is_short).collect();
    let n = short.len() as u64;
    let used: Vec<(i64, i64)> = short.iter().map(|e| (e.first, e.last)).collect();
    let sum_ns: i64 = used.iter().map(|(first, last)| last - first).sum();
    let within_ns = together_ns(used);
    let is_most = within_ns as f64 >= (parts.end - parts.start) as f64 * limits::CONNECTIONS_EXPLAIN;
    if n < limits::MANY_CONNECTIONS || !is_most || short.len() * 2 < parts.seen.exchanges.of.len() {
        return None;
    }
    let each_s = sum_ns as f64 / 1e9 / n as f64;
    let one_by_one = if sum_ns as f64 <= within_ns as f64 * limits::IN_TURN { ", one after the other" } else { "" };
    let sentence = format!("A new connection {} times{one_by_one}: {} each, including its setup.", count(n), duration(each_s));
    let made = Number { count: Some(n), each_s: Some(each_s), items: Some(n), ..number(NumberKind::ConnectionPerItem, sentence) };
    // The part spent on the connection is unknown.
    Some(made.raised_by(Raise::all("connect_once", ONE_CONNECTION, KEEP_IT)))
}

/// Small segments sent immediately, if their delay was most of the time in transit: Nagle's algorithm waits for an acknowledgement that the
/// far end delays.
pub(super) fn no_delay(run: &Run<'_>, groups: &[Group<'_>]) -> Option<Raise> {
    let large = groups.iter().filter(|group| group.share >= limits::LEAST_SHARE);
    let (group, held) = large.filter_map(|group| Some((group, held_back::most_of(run.of, group)?))).next()?;
    let how = "or one write for each message instead of two, or TCP_CORK around them";
    let change =
        format!("TCP_NODELAY at {}: no small segment waits for an acknowledgement (Nagle)", held_back::sender(run.of, group, held));
    Some(Raise { id: "no_nagle", change, how, gained_ns: (held.ns as f64).min(group.ns as f64) })
}

/// Round trips for each file, entry or transaction.
pub(super) fn for_each_item(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    if let Some((trips, entry)) =
        run.of.round_trips.and_then(|trips| Some((trips, trips.per_entry.as_ref()?))).filter(|_| waits_for_answers(group.cause))
        && entry.round_trips >= limits::FOR_EACH
    {
        let each = capital(&times_each(entry.round_trips, "round trip"));
        let times = format!("{} × {}", count(trips.in_a_row), duration(trips.each_s));
        let made = number(NumberKind::RoundTripsPerItem, format!("{each} for each of {} entries: {times}.", count(entry.entries)));
        let made = Number { count: Some(trips.in_a_row), each_s: Some(trips.each_s), items: Some(entry.entries), ..made };
        return Some(made.raised_by(Raise::more_at_once(run, group)));
    }
    let turns = one_by_one(run, group).filter(|turns| turns.in_turn())?;
    let (items, what) = run.items?;
    let on_each = turns.turns as f64 / items as f64;
    if on_each < limits::FOR_EACH {
        return None;
    }
    let trips = capital(&times_each(on_each, "round trip"));
    let times = format!("{} × {}", count(turns.turns), duration(turns.each_s()));
    let sentence = format!("{trips} for each of {} {what}, one after the other: {times}.", count(items));
    let made = Number { items: Some(items), ..turns.number(NumberKind::RoundTripsPerItem, sentence) };
    Some(made.raised_by(Raise::more_at_once(run, group)))
}

/// One request at a time, with the time of each and the rate this allows.
pub(super) fn one_at_a_time(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let turns = one_by_one(run, group)?;
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
        return Some(turns.number(NumberKind::OneAtATime, sentence).raised_by(Raise::more_at_once(run, group)));
    }
    // A request and a reopened window look alike; only the most bytes in flight are known.
    let most = in_flight::of_busiest(run.of).map_or(each, |in_flight| in_flight.most);
    let rate = turns.bytes as f64 / turns.used_s * at_once;
    let sentence = format!(
        "One request at a time{on_each}, never more than {} in flight: {times}, {} whatever the link.",
        size(most),
        byte_rate(rate)
    );
    let (bytes, rate_bytes_per_s) = (Some(most), Some(rate));
    let made = Number { bytes, rate_bytes_per_s, ..turns.number(NumberKind::OneAtATime, sentence) };
    Some(made.raised_by(Raise::more_at_once(run, group)))
}

/// The run's turns, if one request was in flight at a time on each connection.
fn one_by_one<'r>(run: &'r Run<'_>, group: &Group<'_>) -> Option<&'r Turns> {
    run.turns_of(group).filter(|turns| turns.long as f64 >= turns.turns as f64 * limits::ONE_AT_A_TIME)
}
