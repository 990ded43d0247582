//! A limit on the number of requests in flight: a pool of threads or connections, a library's limit, or a daemon that forwards requests one
//! by one.
//!
//! It is the limit if the number in flight stays at it, and the time goes to waiting for answers rather than to a processor. A recording
//! does not show whether the server would accept more: the gain is a bound.

use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::{capital, number, times_each};
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::names::program;
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::questions::{Slow, UnderWay};
use crate::waits::place::{Place, What};
use std::collections::HashSet;
use thalweg_base::numbers::{count, duration, size};
use thalweg_trace::SpanKind;

const MORE_SERVED: &str = "let the server work on several requests at a time: a thread or process for each, or more of them";

/// Whether a cause is that of a server that neither computes nor waits for a device, and so would accept more requests.
fn waits(cause: Cause) -> bool {
    matches!(cause, Cause::ServerThink | Cause::ServerUnknown | Cause::NetworkLatency)
}

/// Requests of one end, if the run waited for them.
fn asked(run: &Run<'_>, group: &Group<'_>, by: End) -> Option<UnderWay> {
    let parts = run.of.parts;
    // A stopped program accepts no more requests.
    let takes_more = waits(group.cause) && !group.is_stopped();
    parts.seen.questions.waited_for(by, parts.tables, parts.end - parts.start).filter(|_| takes_more)
}

/// The command's requests in flight; or those of an intermediate server that forwards fewer at a time than it receives.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let of_client = asked(run, group, End::Client);
    let most = of_client.map_or(0, |own| own.usual);
    if let Some(within) = asked(run, group, End::Server).filter(|within| within.is_held() && within.usual < most) {
        let (_, server) = run.of.parts.tables.ends(within.connection)?;
        let at_a_time = if within.usual == 1 { "One request".to_owned() } else { format!("{} requests", count(within.usual)) };
        let sentence = format!("{at_a_time} at a time to {server}, never more, while {} wait: {}.", count(most), times(&within));
        return Some(made(NumberKind::OneAtATime, sentence, &within).raised_by(Raise::more_at_once(run, group)));
    }
    let under_way = of_client.filter(UnderWay::is_held)?;
    if let Some(serial) = by_one_thread(run, group, &under_way) {
        return Some(serial);
    }
    if let Some(several) = by_few_threads(run, group, &under_way) {
        return Some(several);
    }
    if let Some(number) = by_round_trip(run, &under_way) {
        return Some(number.raised_by(Raise::more_at_once(run, group)));
    }
    let times = times(&under_way);
    let sentence = match under_way.usual {
        1 if under_way.each_bytes >= limits::LARGE_REQUEST => {
            format!("One request of {} at a time: {times}.", size(under_way.each_bytes))
        }
        1 => format!("One request at a time: {times}."),
        n => format!("{} requests at a time, never more: {times}.", count(n)),
    };
    Some(made(NumberKind::OneAtATime, sentence, &under_way).raised_by(Raise::more_at_once(run, group)))
}

/// A server with one thread that sleeps, waits or works for each request while others wait: more requests in flight gain nothing.
fn by_one_thread(run: &Run<'_>, group: &Group<'_>, under_way: &UnderWay) -> Option<Behind> {
    let parts = run.of.parts;
    let thread = parts.seen.questions.answers_alone().filter(|_| under_way.usual > 1)?;
    // A thread that waits for its connections, or for a timer beside them, has other requests meanwhile.
    let Place::Thread { what: What::Blocked(kind), .. } = group.largest.place else { return None };
    let for_each = group.count as f64 >= under_way.count as f64 * limits::FOR_EACH;
    if group.cause.end() != Some(End::Server) || kind == SpanKind::WaitNetwork || !for_each {
        return None;
    }
    let each_s = under_way.busy_ns as f64 / 1e9 / under_way.count as f64;
    let (server, times) = (program(parts.tables, run.of.meta, thread), format!("{} × {}", count(under_way.count), duration(each_s)));
    let waiting = count(under_way.usual - 1);
    let sentence = format!("{server} serves one request at a time, while {waiting} more wait: {times}.");
    let raise =
        Raise::part(group, 1.0 - 1.0 / under_way.usual as f64, "server.parallel", "all waiting requests served in parallel", MORE_SERVED);
    let made = Number { count: Some(under_way.count), each_s: Some(each_s), ..number(NumberKind::OneAtATime, sentence) };
    Some(made.raised_by(raise))
}

/// A server behind others, few of whose threads sleep for one request each while many are in flight: more in flight gain nothing.
fn by_few_threads(run: &Run<'_>, group: &Group<'_>, under_way: &UnderWay) -> Option<Behind> {
    let parts = run.of.parts;
    let Place::Thread { what: What::Blocked(SpanKind::WaitTimer), label, .. } = group.largest.place else { return None };
    let path = parts.ledger.path.iter().filter(|on| group.has(on.entry));
    let threads = path.map(|on| on.track).collect::<HashSet<u32>>().len() as u64;
    let is_all = group.count >= threads * limits::SEEN_AT_WORK;
    if group.cause != Cause::ServerThink || threads < 2 || threads * 2 > under_way.usual || !is_all {
        return None;
    }
    let each_s = under_way.busy_ns as f64 / 1e9 * threads as f64 / under_way.count as f64;
    let server = program(parts.tables, run.of.meta, label);
    let (n, times) = (count(threads), format!("{} × {}", count(under_way.count), duration(each_s)));
    let sentence = format!("{server} serves {n} requests at a time, while {} more wait: {times}.", count(under_way.usual - threads));
    let part = 1.0 - threads as f64 / under_way.usual as f64;
    let raise = Raise::part(group, part, "server.parallel", "all waiting requests served in parallel", MORE_SERVED);
    let made = Number { count: Some(under_way.count), each_s: Some(each_s), ..number(NumberKind::OneAtATime, sentence) };
    Some(made.raised_by(raise))
}

/// Several requests in flight that look like one: an answer sooner after the last request than the round trip belongs to an earlier one, so
/// as many are in flight as arrive within a round trip (Little's law).
fn by_round_trip(run: &Run<'_>, under_way: &UnderWay) -> Option<Number> {
    let round_trip_ns = run.of.parts.seen.exchanges.round_trip_ns(under_way.connection)? as f64;
    if under_way.usual > 1 || under_way.each_ns >= round_trip_ns * limits::EXCEEDED {
        return None;
    }
    let at_once = (under_way.count as f64 * round_trip_ns / under_way.busy_ns as f64).round().max(2.0) as u64;
    let of = if under_way.each_bytes >= limits::LARGE_REQUEST { format!(" of {}", size(under_way.each_bytes)) } else { String::new() };
    let (n, round_trip_s, all_s) = (count(at_once), round_trip_ns / 1e9, under_way.busy_ns as f64 / 1e9);
    let (requests, trip) = (count(under_way.count), duration(round_trip_s));
    let sentence = format!("About {n} requests{of} at a time: {requests} in {}, at a round trip of {trip}.", duration(all_s));
    let made = number(NumberKind::OneAtATime, sentence);
    Some(Number { count: Some(under_way.count), each_s: Some(round_trip_s), round_trip_s: Some(round_trip_s), ..made })
}

/// Requests that a server made for each of the command's requests.
pub(super) fn behind(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let under_way = asked(run, group, End::Server)?;
    let questions = &run.of.parts.seen.questions;
    // A wait shorter than the server's own requests was for something else.
    let waits = || questions.waits_of(under_way.each_ns);
    let of_client = questions.under_way(End::Client, run.of.parts.tables).map_or_else(waits, |own| own.count);
    let on_each = under_way.count as f64 / of_client.max(1) as f64;
    if of_client < limits::LEAST_ITEMS || on_each < limits::ASKS_ON {
        return None;
    }
    let to = run.of.parts.tables.ends(under_way.connection).map_or_else(String::new, |(_, server)| format!(" to {server}"));
    let one_by_one = if under_way.is_held() && under_way.usual == 1 { ", one after the other" } else { "" };
    let requests = capital(&times_each(on_each, "request"));
    let sentence = format!("{requests}{to} for each of {} requests of the command{one_by_one}: {}.", count(of_client), times(&under_way));
    let made = Number { items: Some(of_client), ..made(NumberKind::RoundTripsPerItem, sentence, &under_way) };
    Some(made.raised_by(Raise::more_at_once(run, group)))
}

fn times(under_way: &UnderWay) -> String {
    if let Some(Slow { count: slow, each_ns, others_each_ns }) = under_way.slow {
        let [each, others_each] = [each_ns, others_each_ns].map(|ns| duration(ns / 1e9));
        return format!("{} × {others_each} and {} × {each}", count(under_way.count - slow), count(slow));
    }
    format!("{} × {}", count(under_way.count), duration(under_way.each_ns / 1e9))
}

fn made(kind: NumberKind, sentence: String, under_way: &UnderWay) -> Number {
    Number { count: Some(under_way.count), each_s: Some(under_way.each_ns / 1e9), ..number(kind, sentence) }
}
