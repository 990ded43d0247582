//! Waits for a server that was not recorded, but whose TCP was read from outside: what it had given to the network is the network's.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_explain::document::Status;
use thalweg_trace::{CounterName as C, Event, Mark, MarkKind, ObjectId, SpanKind as K, Time, TrackId};

const ROUND_TRIP_US: i64 = 2_000;

/// A client that was recorded alone, without privilege, and both ends of its connection.
fn alone(end_us: u64) -> (Tale, TrackId, ObjectId, ObjectId) {
    let mut tale = Tale::new(end_us, 4);
    tale.meta.attributes.push(("wakers".to_owned(), "inferred".to_owned()));
    tale.meta.attributes.push(("switches".to_owned(), "recorded".to_owned()));
    let client = tale.client("main");
    let (near, far) = tale.two_ends("10.0.0.1:40000 > 10.0.0.2:80");
    (tale, client, near, far)
}

/// What is read of one end.
type Figures = Vec<(C, i64)>;

/// 80 pieces of 100 KiB come, one every 10 ms; what is read meanwhile at the client's end, and of the server's.
fn comes(at_near: &[(C, i64)], at_far: &dyn Fn(u64) -> Figures) -> Explanation {
    let (mut tale, client, near, far) = alone(810_000);
    tale.counter(near, C::TcpMinRttUs, 1, ROUND_TRIP_US);
    for turn in 0..80 {
        let at = turn * 10_000;
        for (end, figures) in [(near, at_near.to_vec()), (far, at_far(turn))] {
            figures.into_iter().for_each(|(name, value)| tale.counter(end, name, at + 4_000, value));
        }
        tale.wait(client, K::NetReceive, at + 10, at + 9_900).on(near).bytes(100 << 10).offset(turn * (100 << 10)).end();
    }
    tale.explain()
}

#[test]
fn what_a_server_has_given_to_tcp_is_the_networks() {
    let under_way = |_| vec![(C::TcpQueuedBytes, 1 << 20), (C::TcpCwndBytes, 400_000)];
    // A queue on the way: the bytes take much longer than the least round trip.
    let queue = [(C::TcpReceiveRttUs, 40_000), (C::TcpOfferedWindowBytes, 3 << 20)];
    let e = comes(&queue, &under_way);
    assert_eq!((e.verdict.status, e.verdict.cause.name()), (Status::Limited, "network.bandwidth"), "{:#?}", e.critical_path);
    assert!(e.verdict.settle.is_empty());
    // The window that the client offers is full.
    let window = [(C::TcpReceiveRttUs, ROUND_TRIP_US), (C::TcpOfferedWindowBytes, 64 << 10)];
    let e = comes(&window, &under_way);
    assert_eq!((e.verdict.status, e.verdict.cause.name()), (Status::Limited, "network.rwnd"), "{:#?}", e.critical_path);
    // The server has nothing under way: it has not sent.
    let idle = |_| vec![(C::TcpQueuedBytes, 0), (C::TcpCwndBytes, 400_000)];
    let e = comes(&queue, &idle);
    assert!(charged_ms(&e, "server.unknown") > 700.0, "{:#?}", e.critical_path);
    // Nothing was read of it.
    let e = comes(&queue, &|_| Vec::new());
    assert!(charged_ms(&e, "server.unknown") > 700.0, "{:#?}", e.critical_path);
}

#[test]
fn only_a_window_that_grows_and_was_never_reduced_is_surely_what_limits() {
    let near = [(C::TcpReceiveRttUs, ROUND_TRIP_US), (C::TcpOfferedWindowBytes, 3 << 20)];
    let stream = |cwnd: i64| vec![(C::TcpQueuedBytes, 1 << 20), (C::TcpCwndBytes, cwnd)];
    let e = comes(&near, &|turn| stream(10_000 + 3_000 * turn as i64));
    assert_eq!((e.verdict.status, e.verdict.cause.name()), (Status::Limited, "network.cwnd"), "{:#?}", e.critical_path);
    assert_eq!(comes(&near, &|_| stream(14_480)).verdict.status, Status::Unsure);
    let reduced = |turn| [stream(10_000 + 3_000 * turn as i64), vec![(C::TcpSsthreshBytes, 10_000)]].concat();
    assert_eq!(comes(&near, &reduced).verdict.status, Status::Unsure);
}

#[test]
fn a_segment_that_is_missing_while_later_ones_come_is_lost() {
    for at in [100_000, 450_000] {
        let (mut tale, client, near, _) = alone(500_000);
        tale.counter(near, C::TcpMinRttUs, 1, ROUND_TRIP_US);
        for (when, segments) in [(50_000, 3), (at, 5), (at + 20_000, 5)] {
            tale.counter(near, C::TcpOutOfOrder, when, segments);
        }
        tale.wait(client, K::NetReceive, 60_000, 400_000).on(near).bytes(1000).offset(0).end();
        tale.span(client, K::CpuRun, 400_000, 500_000).end();
        let e = tale.explain();
        let lost = if at < 400_000 { 300.0 } else { 0.0 };
        assert!((charged_ms(&e, "network.loss") - lost).abs() < 1.0, "{:#?}", e.critical_path);
        assert!((charged_ms(&e, "server.unknown") - (340.0 - lost)).abs() < 1.0, "{:#?}", e.critical_path);
    }
}

#[test]
fn a_request_for_a_connection_was_lost_if_its_listener_had_none_waiting() {
    for waiting in [Some(0), Some(1), None] {
        let (mut tale, client, near, far) = alone(1_100_000);
        for at in (10_000..1_000_000).step_by(100_000) {
            tale.counter(near, C::TcpSrttUs, at, 0);
            waiting.into_iter().for_each(|waiting| tale.counter(far, C::TcpAcceptQueued, at, waiting));
        }
        tale.counter(near, C::TcpSrttUs, 1_020_000, 300);
        let at = Time::from_monotonic_ns(1_020_000_000);
        tale.event(Event::Mark(Mark { track: client, kind: MarkKind::TcpRetransmit, at, object: Some(near), value: Some(1448) }));
        tale.wait(client, K::WaitNetwork, 5_000, 1_010_000).on(near).end();
        tale.span(client, K::NetSend, 1_011_000, 1_011_010).on(near).bytes(100).end();
        tale.span(client, K::CpuRun, 1_011_010, 1_100_000).end();
        let e = tale.explain();
        let lost = charged_ms(&e, "network.loss") > 1_000.0;
        assert_eq!(lost, waiting == Some(0), "{waiting:?}: {:#?}", e.critical_path);
    }
}

#[test]
fn an_answer_cannot_come_before_its_request_has_arrived() {
    for busy_part in [95, 20] {
        let (mut tale, client, near, _) = alone(800_000);
        tale.counter(near, C::TcpMinRttUs, 1, 4);
        for turn in 0..20 {
            let at = turn * 40_000;
            let figures = [
                (C::TcpUnsentBytes, 500_000),
                (C::TcpInFlightBytes, 400_000),
                (C::TcpSrttUs, 20_000),
                (C::TcpReceiveWindowBytes, 6 << 20),
                (C::TcpCwndBytes, 1 << 20),
                (C::TcpSendBufferBytes, 8 << 20),
                (C::TcpBusyUs, turn as i64 * 400 * busy_part),
            ];
            figures.into_iter().for_each(|(name, value)| tale.counter(near, name, at + 5, value));
            tale.span(client, K::NetSend, at, at + 10).on(near).bytes(1 << 20).end();
            tale.wait(client, K::NetReceive, at + 20, at + 39_900).on(near).bytes(100).offset(turn * 100).end();
        }
        let e = tale.explain();
        let cause = if busy_part > 50 { "network.bandwidth" } else { "server.unknown" };
        assert_eq!(e.verdict.cause.name(), cause, "{busy_part}: {:#?}", e.critical_path);
    }
}

#[test]
fn round_trips_that_replies_lengthen_are_no_path_within_a_machine() {
    for (least_us, is_path) in [(12, false), (7_000, true)] {
        let (mut tale, client, _, _) = alone(210_000);
        let server = tale.server("proxy");
        let (near, served) = tale.two_ends("127.0.0.1:40000 > 127.0.0.1:80");
        for (end, name, value) in [near, served].iter().flat_map(|&end| [(end, C::TcpMinRttUs, least_us), (end, C::TcpSrttUs, 7_000)]) {
            tale.counter(end, name, 1, value);
        }
        for turn in 0..30 {
            let at = turn * 7_000;
            tale.span(client, K::NetSend, at, at + 10).on(near).bytes(80).offset(turn * 80).end();
            tale.wait(client, K::NetReceive, at + 20, at + 6_900).on(near).bytes(40).offset(turn * 40).end();
            tale.wait(server, K::NetReceive, at + 30, at + 6_850).on(served).bytes(80).offset(turn * 80).end();
            tale.span(server, K::NetSend, at + 6_860, at + 6_870).on(served).bytes(40).offset(turn * 40).end();
        }
        let e = tale.explain();
        assert_eq!(charged_ms(&e, "network.latency") > 100.0, is_path, "{least_us}: {:#?}", e.critical_path);
    }
}
