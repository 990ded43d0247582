//! Calls in an accept queue wait for the thread that should accept them: its activity is the cause.

use crate::common::*;
use thalweg_trace::*;

const NAME: &str = "127.0.0.1:1 > 127.0.0.1:80";

/// A client that computes until 2 ms and then calls, and a server that is recorded from `seen_us` on.
fn called(seen_us: u64) -> (Tale, TrackId, TrackId, (ObjectId, ObjectId)) {
    let mut tale = Tale::new(10_000, 4);
    let (client, server) = (tale.client("curl"), tale.thread(Role::Server, "slowd", 300, 300));
    let ends = tale.two_ends(NAME);
    tale.span(client, SpanKind::NetSend, 2_000, 2_010).on(ends.0).bytes(100).offset(0).end();
    tale.seen(server, seen_us);
    let at = Time::from_monotonic_ns(((seen_us.max(2_000) + 10) * US) as i64);
    let value = Some(((seen_us.max(2_000) - 1_990) * US) as i64);
    tale.event(Event::Mark(Mark { track: server, kind: MarkKind::TcpNotAccepted, at, object: Some(ends.0), value }));
    (tale, client, server, ends)
}

#[test]
fn a_call_that_is_never_accepted_waits_for_what_the_listener_does() {
    // By a receive with a timeout, a poll with one (whose connection is unknown), or a call that is not even admitted to the queue.
    for wait in [SpanKind::NetReceive, SpanKind::WaitNetwork, SpanKind::NetConnect] {
        for (work, cause) in [(SpanKind::WaitTimer, "server.think"), (SpanKind::FileRead, "server.read")] {
            let (mut tale, client, server, ends) = called(3_000);
            let line = tale.wait(client, wait, 2_010, 10_000).by_timer();
            if wait == SpanKind::WaitNetwork {
                line.end()
            } else {
                line.on(ends.0).end()
            }
            tale.wait(server, work, 3_000, 9_990).by_timer().end();
            tale.wait(server, work, 9_995, 10_000).end();
            let e = tale.explain();
            let ms = charged_ms(&e, cause);
            assert!((ms - 7.0).abs() < 0.1, "{wait:?}: {cause} {ms}: {:#?}", e.critical_path);
            assert!(place_of(&e, cause).contains("slowd"));
            let charge = e.critical_path.iter().find(|c| c.cause.name() == cause).expect("charged");
            assert!(charge.evidence.contains("accept queue"), "{wait:?}: {}", charge.evidence);
            // What the server did before it was found is unknown; what the client did before it called is its own.
            assert!((charged_ms(&e, "server.unknown") - 0.99).abs() < 0.1, "{:#?}", e.critical_path);
            assert!((charged_ms(&e, "client.cpu") - 2.01).abs() < 0.1, "{wait:?}: {:#?}", e.critical_path);
        }
    }
}

#[test]
fn what_the_listener_did_before_the_call_delayed_nobody() {
    for accepted in [false, true] {
        let (mut tale, client, server, ends) = called(0);
        let line = tale.wait(client, SpanKind::NetReceive, 2_010, 9_000).on(ends.0).offset(0);
        if accepted {
            line.by_packet().end()
        } else {
            line.by_timer().end()
        }
        tale.wait(server, SpanKind::WaitTimer, 10, 8_900).by_timer().end();
        if accepted {
            tale.span(server, SpanKind::NetReceive, 8_900, 8_910).on(ends.1).bytes(100).offset(0).end();
            tale.span(server, SpanKind::NetSend, 8_980, 8_990).on(ends.1).bytes(100).offset(0).end();
        } else {
            tale.wait(server, SpanKind::WaitTimer, 8_910, 10_000).by_timer().end();
        }
        let e = tale.explain();
        let think = charged_ms(&e, "server.think");
        assert!((think - 6.9).abs() < 0.1, "accepted: {accepted}: {think}: {:#?}", e.critical_path);
        assert!((charged_ms(&e, "client.cpu") - 3.0).abs() < 0.1, "accepted: {accepted}: {:#?}", e.critical_path);
    }
}

#[test]
fn a_connection_that_was_served_before_waits_for_bytes_again() {
    let (mut tale, client, server, ends) = called(0);
    tale.wait(client, SpanKind::NetReceive, 2_010, 9_000).on(ends.0).offset(0).by_timer().end();
    tale.wait(server, SpanKind::WaitTimer, 10, 1_000).by_timer().end();
    tale.span(server, SpanKind::NetReceive, 2_500, 2_510).on(ends.1).bytes(100).offset(0).end();
    tale.wait(server, SpanKind::FileRead, 2_510, 9_990).end();
    let e = tale.explain();
    assert!((charged_ms(&e, "server.read") - 6.49).abs() < 0.1, "{:#?}", e.critical_path);
}

#[test]
fn a_call_that_was_dropped_is_sent_again_late_because_of_what_dropped_it() {
    for (work, cause) in [(SpanKind::WaitTimer, "server.think"), (SpanKind::FileRead, "server.read")] {
        let (mut tale, client, server, ends) = called(2_100);
        tale.wait(client, SpanKind::NetConnect, 2_010, 9_000).on(ends.0).by_packet().end();
        tale.wait(server, work, 2_100, 4_000).by_timer().end();
        tale.wait(server, SpanKind::WaitNetwork, 4_010, 9_000).on(ends.1).by_packet().end();
        let e = tale.explain();
        assert!((charged_ms(&e, cause) - 6.9).abs() < 0.1, "{:#?}", e.critical_path);
    }
    // If the listener was ready all the time, it was the network.
    let (mut tale, client, server, ends) = called(0);
    tale.wait(client, SpanKind::NetConnect, 2_010, 9_000).on(ends.0).by_packet().end();
    tale.wait(server, SpanKind::WaitNetwork, 10, 9_000).on(ends.1).by_packet().end();
    let e = tale.explain();
    assert!((charged_ms(&e, "network.loss") - 6.99).abs() < 0.1, "{:#?}", e.critical_path);
}
