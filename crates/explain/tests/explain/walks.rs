//! Recorded walks of directories: their sequential round trips, the parts of an entry's time, and the predicted gain of asking ahead,
//! compared with the measured one.

use crate::common::*;
use std::path::Path;
use thalweg_explain::Cause;
use thalweg_explain::document::{Grounds, RoundTrips, Trip};
use thalweg_explain::{Explanation, Options, explain, rpcstat};
use thalweg_trace::{ObjectKind, Recording, SpanKind as K};

fn explained(name: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/walks").join(name);
    explain(&Recording::open(&path).expect("a fixture opens"), &Options::default()).expect("it is explained")
}

fn trips(e: &Explanation) -> &RoundTrips {
    e.round_trips.as_ref().expect("a walk asks and waits")
}

fn predicted(e: &Explanation, id: &str) -> f64 {
    e.what_if.iter().find(|w| w.id == id).unwrap_or_else(|| panic!("{id} in {:?}", e.what_if)).predicted_wall_s
}

#[test]
fn a_synchronous_walk_of_our_own_client_waits_for_two_round_trips_for_each_file() {
    let e = explained("store-sync");
    assert_eq!(e.verdict.cause, Cause::NetworkLatency);
    let trips = trips(&e);
    assert_eq!(trips.of, Trip::Calls);
    let entry = trips.per_entry.as_ref().unwrap();
    assert_eq!(entry.entries, 300);
    assert!((entry.round_trips - 2.0).abs() < 0.02, "{entry:?}");
    // One request for attributes, one to each of four servers for its size.
    assert!((entry.questions - 5.0).abs() < 0.02, "{entry:?}");
    assert_eq!(trips.most_at_once, Some(4));
    // An entry's time consists of the path's charges.
    assert_eq!(entry.parts[0].cause, Cause::NetworkLatency);
    assert!((entry.parts.iter().map(|p| p.seconds).sum::<f64>() / entry.seconds - 1.0).abs() < 0.001);
    assert!(entry.parts[0].seconds > 0.0019 && entry.parts[0].seconds < 0.0026, "two round trips of 1 ms: {entry:?}");
    assert!(trips.sentence.contains("For each of 300 entries: 5 requests in 2 round trips"), "{}", trips.sentence);
}

#[test]
fn windows_give_a_walk_what_was_predicted() {
    let e = explained("store-sync");
    // Medians of three runs in the same minutes as the recording, recorded too.
    for (id, achieved_s) in [("walk.window.8", 0.1308), ("walk.window.32", 0.0449), ("walk.window.128", 0.0235)] {
        let error = (predicted(&e, id) - achieved_s).abs() / achieved_s;
        assert!(error < 0.15, "{id}: predicted {}, achieved {achieved_s}", predicted(&e, id));
    }
    let best = &e.what_if[0];
    assert_eq!(best.id, "walk.window.128");
    assert_eq!(best.flags, [("--mode".to_owned(), "glimpse-ahead".to_owned()), ("--window".to_owned(), "128".to_owned())]);
    assert!(best.how.starts_with("thalweg ls --mode glimpse-ahead --window 128 -l"), "{}", best.how);
}

#[test]
fn a_walk_that_asks_ahead_is_work_and_not_round_trips() {
    let e = explained("store-ahead");
    assert!(!e.verdict.cause.name().starts_with("network."), "{:?}", e.verdict);
    let trips = trips(&e);
    let entry = trips.per_entry.as_ref().unwrap();
    assert_eq!(entry.entries, 2000);
    assert!(entry.round_trips < 0.02, "{entry:?}");
    assert!(e.what_if.iter().all(|w| !w.id.starts_with("walk.")), "what is asked ahead already is not proposed: {:?}", e.what_if);
}

#[test]
fn a_walk_over_nfs_names_its_pattern_and_what_other_ways_of_asking_would_give() {
    let e = explained("nfs");
    assert_eq!(e.verdict.cause, Cause::NetworkLatency);
    let trips = trips(&e);
    assert_eq!(trips.of, Trip::Exchanges);
    assert!((600..640).contains(&trips.in_a_row), "{trips:?}");
    assert!(trips.at_once.unwrap() < 1.1, "{trips:?}");
    assert!(trips.of_each[0].cause == Cause::NetworkLatency && trips.of_each[0].seconds > 0.0019, "{:?}", trips.of_each);
    // The same walk with --depth 32 took 0.083 s (median of three), with --depth 4 0.373 s.
    let windowed = predicted(&e, "walk.window.32");
    assert!((windowed - 0.083).abs() / 0.083 < 0.15, "{windowed}");
    assert!((predicted(&e, "requests.x4") - 0.373).abs() / 0.373 < 0.15);
    // Requests that were not recorded cannot be replayed: their gain is a bound, and comes last.
    let last = e.what_if.last().unwrap();
    assert_eq!((last.id.as_str(), last.basis), ("walk.readdirplus", Grounds::Bounded));
    assert!(last.change.ends_with("(gives this at most)") && last.predicted_wall_s < windowed, "{last:?}");
    assert!(e.what_if.iter().rev().skip(1).all(|w| w.basis == Grounds::Replayed), "{:?}", e.what_if);
}

/// A client that asks `width` servers simultaneously for each of `rounds` entries, and waits for all of them.
fn asked(rounds: u64, width: u64) -> Tale {
    let mut tale = Tale::new(rounds * 1_000, 2);
    let main = tale.client("main");
    let directory = tale.object(ObjectKind::File, "/d", &[("kind", "directory")]);
    let ends: Vec<_> = (0..width).map(|s| tale.connection(&format!("10.0.0.1:{} > 10.0.0.2:{}", 100 + s, 5000 + s))).collect();
    let servers: Vec<_> = (0..width).map(|s| tale.server(&format!("io{s} connection 10.0.0.1:{}", 100 + s))).collect();
    for round in 0..rounds {
        let t = round * 1_000;
        tale.span(main, K::AppRequest, t, t + 1_000).on(directory).end();
        for (s, ((near, far), server)) in ends.iter().zip(&servers).enumerate() {
            let (request, s) = (round * width + s as u64 + 1, s as u64);
            tale.span(main, K::NetSend, t + s, t + s + 1).ran(1).on(*near).request(request).bytes(70).end();
            tale.span(*server, K::NetReceive, t.saturating_sub(550) + s, t + 400 + s).on(*far).request(request).bytes(70).blocked().end();
            tale.span(*server, K::RpcServe, t + 400 + s, t + 450 + s).ran(50).on(*far).request(request).end();
            tale.span(*server, K::NetSend, t + 449 + s, t + 450 + s).ran(1).on(*far).request(request).bytes(70).end();
            let from = if s == 0 { t + width } else { t + 900 + s };
            tale.span(main, K::NetReceive, from, t + 901 + s).on(*near).request(request).bytes(70).blocked().end();
            tale.span(main, K::RpcCall, t + s, t + 901 + s).on(*near).request(request).observed().end();
        }
    }
    tale
}

#[test]
fn questions_at_once_are_one_round_and_those_after_each_other_are_as_many() {
    for (rounds, width) in [(40, 1), (40, 4), (100, 3)] {
        let e = asked(rounds, width).explain();
        let trips = trips(&e);
        assert_eq!(trips.count, rounds * width);
        assert_eq!(trips.in_a_row, rounds, "{width} at once: {}", trips.sentence);
        assert_eq!(trips.most_at_once, Some(width));
        assert_eq!(trips.per_entry.as_ref().map(|e| e.entries), Some(rounds));
        assert_eq!(trips.to.len(), width as usize);
    }
}

#[test]
fn a_recording_that_moves_data_says_nothing_of_round_trips() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/serial");
    let e = explain(&Recording::open(&path).expect("a fixture opens"), &Options::default()).expect("it is explained");
    assert_eq!(e.round_trips, None);
}

#[test]
fn calls_of_a_capture_are_put_one_after_the_other_by_their_times() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("main");
    let lookup = tale.object(ObjectKind::Server, "10.0.0.2:2049", &[("program", "nfs"), ("procedure", "LOOKUP")]);
    let getattr = tale.object(ObjectKind::Server, "10.0.0.2:2049", &[("program", "nfs"), ("procedure", "GETATTR")]);
    for n in 0..20 {
        let t = n * 4_000;
        tale.span(main, K::RpcCall, t, t + 1_900).on(lookup).request(2 * n + 1).bytes(200).end();
        tale.span(main, K::RpcCall, t + 2_000, t + 3_900).on(getattr).request(2 * n + 2).bytes(200).end();
    }
    let said = rpcstat::rpcstat(&tale.source()).expect("it has calls").round_trips.expect("they are a walk");
    assert_eq!((said.count, said.in_a_row, said.most_at_once), (40, 40, Some(1)));
    let entry = said.per_entry.expect("each was looked up");
    assert_eq!(entry.entries, 20);
    assert!((entry.round_trips - 2.0).abs() < 1e-9);
}

#[test]
fn connections_that_come_about_are_round_trips_and_not_the_work_of_threads_that_do_not_exist_yet() {
    for name in ["mount-connects", "mount-connects-polling"] {
        let e = explained(name);
        assert_eq!(e.verdict.cause, Cause::NetworkLatency, "{name}");
        let share = |cause: Cause| e.critical_path.iter().filter(|c| c.cause == cause).map(|c| c.share).sum::<f64>();
        assert!(share(Cause::NetworkLatency) > 0.7, "{name}: {}", share(Cause::NetworkLatency));
        assert!(share(Cause::ServerCpu) < 0.05, "{name}: {}", share(Cause::ServerCpu));
    }
}

/// One of the two I/O servers lost its greeting, and sent it again after TCP's timeout of 200 ms. Its thread was not recorded before.
#[test]
fn a_servers_lost_greeting_is_a_loss_and_no_standstill_of_who_greeted() {
    let e = explained("store-lost-greeting");
    assert_eq!(e.verdict.cause, Cause::NetworkLoss);
    assert_eq!(e.verdict.place, "server io0 > client");
    let of = |cause: Cause| e.critical_path.iter().filter(|c| c.cause == cause).map(|c| c.seconds).sum::<f64>();
    assert!((0.200..0.210).contains(&of(Cause::NetworkLoss)), "{:#?}", e.critical_path);
    assert!(of(Cause::ServerThink) < 0.001, "{:#?}", e.critical_path);
}
