//! The most bytes ever in flight: a window of the protocol over a connection, or one of TCP's. No more can move per round trip.

use super::super::groups::Group;
use super::super::of::Of;
use super::raise::Behind;
use super::run::Run;
use super::words::{number, waits_for_answers};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::exchanges::Exchange;
use crate::observe::wire::InFlight;
use thalweg_base::numbers::{byte_rate, count, duration, size};

/// Bytes in flight on the busiest connection, as its sender's TCP counted them, or else as they arrived.
pub(super) fn of_busiest(of: &Of<'_>) -> Option<InFlight> {
    let (connection, exchange) = busiest(of)?;
    let received = exchange.bytes[1] >= exchange.bytes[0];
    let sender = if received { End::Server } else { End::Client };
    let counted = of.parts.facts.wire.in_flight(connection, sender, limits::CONSTANT_PART);
    let arrived = || exchange.arrived(limits::CONSTANT_PART).map(|(most, usual)| InFlight { most, settled: most, usual });
    counted.or_else(|| arrived().filter(|_| received))
}

fn busiest<'a>(of: &'a Of<'_>) -> Option<(u32, &'a Exchange)> {
    let all = of.parts.seen.exchanges.of.iter().map(|(&connection, exchange)| (connection, exchange));
    all.max_by_key(|(connection, exchange)| (exchange.larger(), std::cmp::Reverse(*connection)))
}

/// The limit of the busiest connection, and of similar ones.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let whose = match group.cause {
        Cause::NetworkRwnd => ", the receive window",
        Cause::NetworkSndbuf => ", the send buffer",
        cause if waits_for_answers(cause) => "",
        _ => return None,
    };
    let of = run.of;
    let exchanges = &of.parts.seen.exchanges;
    let (connection, exchange) = busiest(of)?;
    let round_trip_s = exchanges.round_trip_ns(connection)? as f64 / 1e9;
    let InFlight { most, settled: limit, usual } = of_busiest(of)?;
    if limit < limits::LEAST_IN_FLIGHT || (usual as f64) < limit as f64 * limits::CONSTANT {
        return None;
    }
    let (allowed, seen) = (limit as f64 / round_trip_s, exchange.larger() as f64 / (exchange.used_ns() as f64 / 1e9));
    if allowed > seen * limits::ALLOWS || allowed < seen * limits::EXCEEDED {
        return None;
    }
    let alike = exchanges.of.values().filter(|other| other.larger() * 2 >= exchange.larger()).count() as u64;
    let on_each = if alike > 1 { format!(" on each of {} connections", count(alike)) } else { String::new() };
    // A limit that was seldom reached says less than the average in flight.
    let seldom = allowed > seen * limits::SELDOM;
    if seldom && whose.is_empty() {
        return None;
    }
    let (limit, each) = if seldom { ((seen * round_trip_s) as u64, seen) } else { (limit, allowed) };
    let rate = each * alike as f64;
    // A receiver's first offer can exceed what its buffer then holds.
    let at_most = if seldom {
        "On average"
    } else if most > limit {
        "After its start never more than"
    } else {
        "Never more than"
    };
    let sentence = format!(
        "{at_most} {} in flight{whose}{on_each}: {} at a round trip of {}, whatever the link.",
        size(limit),
        byte_rate(rate),
        duration(round_trip_s)
    );
    let (bytes, rate_bytes_per_s) = (Some(limit), Some(rate));
    let made = Number { bytes, rate_bytes_per_s, round_trip_s: Some(round_trip_s), ..number(NumberKind::InFlight, sentence) };
    // TCP's own windows have a replayed change; if that gains little (a relay carries the bytes), the number's own figures stand.
    Some(made.raised_by(if whose.is_empty() { Raise::more_at_once(run, group) } else { wider(run) }))
}

/// Windows four times as large: waits for them, and transits meanwhile, take a quarter as long.
fn wider(run: &Run<'_>) -> Raise {
    let waits = |cause: Cause| matches!(cause, Cause::NetworkRwnd | Cause::NetworkSndbuf | Cause::NetworkLatency);
    let gained_ns = run.of.parts.wall_s() * 1e9 * run.of.share(waits) * (1.0 - 1.0 / limits::MORE_AT_ONCE as f64);
    let how = "larger socket buffers at both ends, or none set, so that the kernel sizes them";
    Raise { id: "window.x4", change: "send and receive buffers x 4".to_owned(), how, gained_ns }
}
