//! Waits for a server that was not recorded: what the client's end alone shows of the network's part.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_trace::{CounterName, ObjectId, SpanKind as K, TrackId};

const ROUND_TRIP_US: u64 = 20_000;

/// A client that was recorded alone, without privilege, and its connection over a path of [`ROUND_TRIP_US`], which TCP has measured
/// at `measured_us`.
fn alone(end_us: u64, measured_us: u64) -> (Tale, TrackId, ObjectId) {
    let mut tale = Tale::new(end_us, 4);
    tale.meta.attributes.push(("wakers".to_owned(), "inferred".to_owned()));
    tale.meta.attributes.push(("switches".to_owned(), "recorded".to_owned()));
    let client = tale.client("main");
    let (near, _) = tale.two_ends("10.0.0.1:40000 > 10.0.0.2:80");
    tale.counter(near, CounterName::TcpMinRttUs, measured_us, ROUND_TRIP_US as i64);
    tale.counter(near, CounterName::TcpSrttUs, measured_us, ROUND_TRIP_US as i64);
    (tale, client, near)
}

/// Ten requests, one after the other, each answered after so long; the wait for an answer in so many pieces.
fn asks(answer_us: u64, pieces: u64) -> Explanation {
    let (mut tale, client, near) = alone(10 * (answer_us + 100), 5);
    for turn in 0..10 {
        let at = turn * (answer_us + 100);
        tale.span(client, K::NetSend, at, at + 10).on(near).bytes(100).end();
        let piece = answer_us / pieces;
        for n in 0..pieces {
            let wait = tale.wait(client, K::WaitNetwork, at + 10 + n * piece, at + 10 + (n + 1) * piece).on(near);
            if n + 1 < pieces {
                wait.by_timer().end()
            } else {
                wait.end()
            };
        }
        let came = at + 10 + pieces * piece;
        tale.span(client, K::NetReceive, came, came + 10).on(near).bytes(100).end();
    }
    tale.explain()
}

#[test]
fn an_answer_that_comes_a_round_trip_after_its_request_was_in_transit() {
    for (answer_us, pieces) in [(20_000, 1), (20_300, 1), (24_000, 1), (19_500, 1)] {
        let e = asks(answer_us, pieces);
        let latency = charged_ms(&e, "network.latency");
        assert!((latency - answer_us as f64 / 100.0).abs() < 1.0, "{answer_us}: {:#?}", e.critical_path);
        assert_eq!(e.verdict.cause.name(), "network.latency");
        assert!(e.verdict.settle.is_empty());
    }
    // Later than that, only a round trip of it was.
    let e = asks(50_000, 1);
    assert_charged(&e, "network.latency", 200.0);
    assert_charged(&e, "server.unknown", 300.0);
    // In pieces, an event loop's: the round trip is one all the same.
    assert_charged(&asks(50_000, 5), "network.latency", 200.0);
    // Sooner, it answers something else.
    assert_eq!(charged_ms(&asks(5_000, 1), "network.latency"), 0.0);
}

#[test]
fn what_comes_unasked_or_with_many_requests_under_way_shows_no_round_trip() {
    // One request, and then a stream whose parts are 50 ms apart.
    let (mut tale, client, near) = alone(1_000_000, 5);
    tale.span(client, K::NetSend, 0, 10).on(near).bytes(100).end();
    for part in 0..19 {
        let at = 10 + part * 50_000;
        tale.wait(client, K::NetReceive, at, at + 49_990).on(near).bytes(1 << 20).end();
    }
    let latency = charged_ms(&tale.explain(), "network.latency");
    assert!((19.0..21.0).contains(&latency), "only the first: {latency}");
    // A request and an answer each 2 ms: which answers which, nobody can tell.
    let (mut tale, client, near) = alone(200_000, 5);
    for turn in 0..90 {
        let at = turn * 2_000;
        tale.span(client, K::NetSend, at, at + 10).on(near).bytes(100).end();
        tale.wait(client, K::NetReceive, at + 20, at + 1_980).on(near).bytes(32 << 10).end();
    }
    let e = tale.explain();
    assert_eq!(charged_ms(&e, "network.latency"), 0.0, "{:#?}", e.critical_path);
}

#[test]
fn a_connection_that_is_set_up_while_the_program_polls_takes_its_round_trip() {
    let (mut tale, client, near) = alone(41_000, 20_105);
    let setup = (10, 20_100);
    tale.wait(client, K::WaitNetwork, setup.0, setup.1).on(near).end();
    tale.span(client, K::NetSend, 20_110, 20_120).on(near).bytes(100).end();
    tale.wait(client, K::NetReceive, 20_120, 40_200).on(near).bytes(100).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "network.latency") > 39.0, "{:#?}", e.critical_path);
}
