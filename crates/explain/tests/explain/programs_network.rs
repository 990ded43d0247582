//! Network causes, for programs with waits recorded by a kernel: synthetic recordings with a known truth.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_trace::{CounterName, Event, Mark, MarkKind, Role, SpanKind as K, Time, TrackId};

const CONNECTION: &str = "10.0.0.1:5000 > 10.0.0.2:2049";

fn mark(tale: &mut Tale, track: TrackId, kind: MarkKind, at_us: u64, object: thalweg_trace::ObjectId) {
    let at = Time::from_monotonic_ns((at_us * US) as i64);
    tale.event(Event::Mark(Mark { track, kind, at, object: Some(object), value: Some(1448) }));
}

/// A client with more to send than fits, and a server that only receives; `said` describes TCP at the client's end.
fn streams(said: impl FnOnce(&mut Tale, TrackId, thalweg_trace::ObjectId)) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let server = tale.thread(Role::Server, "nginx", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    for n in 0..10_u64 {
        let t = n * 100_000;
        tale.span(client, K::NetSend, t, t + 1_000).on(near).bytes(1 << 20).end();
        tale.wait(client, K::WaitNetwork, t + 1_000, t + 100_000).on(near).by_packet().end();
        tale.wait(server, K::NetReceive, t, t + 99_000).on(far).by_packet().end();
        tale.span(server, K::NetReceive, t + 99_000, t + 100_000).on(far).bytes(1 << 20).end();
    }
    // The other end's record of its own sending must not be taken for the client's.
    for t in 0..100_u64 {
        tale.counter(far, CounterName::TcpCwndBytes, t * 10_000, 14_480);
        tale.counter(far, CounterName::TcpInFlightBytes, t * 10_000, 14_480);
        tale.counter(far, CounterName::TcpMinRttUs, t * 10_000, 40_000);
        tale.counter(far, CounterName::TcpSrttUs, t * 10_000, 40_000);
    }
    said(&mut tale, client, near);
    tale.explain()
}

fn tcp(tale: &mut Tale, near: thalweg_trace::ObjectId, values: &[(CounterName, i64)]) {
    for t in 0..100_u64 {
        values.iter().for_each(|&(name, value)| tale.counter(near, name, t * 10_000, value));
    }
}

#[test]
fn the_networks_causes_are_distinguished() {
    use CounterName as N;
    let path = |rtt: i64, srtt: i64, in_flight: i64, cwnd: i64| {
        [(N::TcpMinRttUs, rtt), (N::TcpSrttUs, srtt), (N::TcpInFlightBytes, in_flight), (N::TcpCwndBytes, cwnd)]
    };
    let cause = |e: &Explanation| {
        assert!(charged_ms(e, e.verdict.cause.name()) > 900.0, "{:#?}", e.critical_path);
        e.verdict.cause.name()
    };
    // Nothing is known.
    assert_eq!(cause(&streams(|_, _, _| {})), "network.bandwidth");
    // Everything that the window allows is in flight, and no queue grows.
    assert_eq!(cause(&streams(|tale, _, near| tcp(tale, near, &path(40_000, 41_000, 140_000, 145_000)))), "network.cwnd");
    // With a queue, the link is full, whatever it drops.
    let full = streams(|tale, client, near| {
        tcp(tale, near, &path(1_000, 41_000, 140_000, 145_000));
        (1..20).for_each(|n| mark(tale, client, MarkKind::TcpRetransmit, n * 50_000, near));
    });
    assert_eq!(cause(&full), "network.bandwidth");
    // Below its window for lack of a wider one at the other end.
    let rwnd = streams(|tale, _, near| {
        tcp(tale, near, &path(40_000, 41_000, 65_000, 145_000));
        tcp(tale, near, &[(N::TcpReceiveWindowBytes, 65_536)]);
    });
    assert_eq!(cause(&rwnd), "network.rwnd");
    let sndbuf = streams(|tale, _, near| {
        tcp(tale, near, &path(40_000, 41_000, 65_000, 145_000));
        tcp(tale, near, &[(N::TcpSendBufferBytes, 131_072)]);
    });
    assert_eq!(cause(&sndbuf), "network.sndbuf");
}

#[test]
fn a_window_that_was_offered_wider_before_it_shrank_is_the_receivers_limit() {
    use CounterName as N;
    let e = streams(|tale, _, near| {
        tcp(tale, near, &[(N::TcpMinRttUs, 40_000), (N::TcpSrttUs, 41_000), (N::TcpCwndBytes, 1 << 21)]);
        for t in 0..100_u64 {
            let window = if t < 8 { 650_000 } else { 420_000 };
            tale.counter(near, N::TcpReceiveWindowBytes, t * 10_000, window);
            tale.counter(near, N::TcpInFlightBytes, t * 10_000, window);
            tale.counter(near, N::TcpBusyUs, t * 10_000, t as i64 * 10_000);
            tale.counter(near, N::TcpReceiveWindowLimitedUs, t * 10_000, t as i64 * 9_000);
        }
    });
    assert_eq!(e.verdict.cause.name(), "network.rwnd", "{:#?}", e.critical_path);
    let number = e.summary.numbers.first().map(|number| number.sentence.as_str()).unwrap_or_default();
    assert!(number.starts_with("After its start never more than 410 KiB in flight, the receive window: 10.0 MiB/s"), "{number}");
}

#[test]
fn what_tcp_says_it_was_stopped_by_counts_on_short_paths_too() {
    use CounterName as N;
    for (limited, cause) in [(N::TcpReceiveWindowLimitedUs, "network.rwnd"), (N::TcpSendBufferLimitedUs, "network.sndbuf")] {
        let e = streams(|tale, _, near| {
            tcp(tale, near, &[(N::TcpMinRttUs, 60), (N::TcpSrttUs, 90), (N::TcpReceiveWindowBytes, 16_384)]);
            for t in 0..100_u64 {
                tale.counter(near, N::TcpBusyUs, t * 10_000, t as i64 * 10_000);
                tale.counter(near, limited, t * 10_000, t as i64 * 8_000);
            }
        });
        assert_eq!(e.verdict.cause.name(), cause, "{:#?}", e.critical_path);
    }
}

#[test]
fn a_window_that_losses_have_narrowed_is_loss_until_it_is_wide_again() {
    use CounterName as N;
    let e = streams(|tale, client, near| {
        mark(tale, client, MarkKind::TcpRetransmit, 305_000, near);
        for t in 0..100_u64 {
            // Wide until the loss at 305 ms, wide again from 700 ms on.
            let cwnd = if (31..70).contains(&t) { 100_000 } else { 400_000 };
            tale.counter(near, N::TcpCwndBytes, t * 10_000, cwnd);
            tale.counter(near, N::TcpInFlightBytes, t * 10_000, cwnd - 1_000);
            tale.counter(near, N::TcpMinRttUs, t * 10_000, 40_000);
            tale.counter(near, N::TcpSrttUs, t * 10_000, 40_500);
        }
    });
    let (loss, cwnd) = (charged_ms(&e, "network.loss"), charged_ms(&e, "network.cwnd"));
    assert!((380.0..=500.0).contains(&loss) && (450.0..=620.0).contains(&cwnd), "{loss} {cwnd}");
}

#[test]
fn a_timeout_is_loss_even_on_a_full_link() {
    let e = streams(|tale, client, near| {
        tcp(tale, near, &[(CounterName::TcpMinRttUs, 1_000), (CounterName::TcpSrttUs, 50_000)]);
        mark(tale, client, MarkKind::TcpTimeout, 350_000, near);
    });
    assert!((90.0..=110.0).contains(&charged_ms(&e, "network.loss")), "{:#?}", e.critical_path);
}

/// A MiB at a time over a path of 50 ms, each after the previous answer, with this round trip.
fn one_request_at_a_time(round_trip_us: i64) -> Explanation {
    let mut tale = Tale::new(600_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let server = tale.thread(Role::Server, "ganesha.nfsd", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    for n in 0..10_u64 {
        let t = n * 60_000;
        tale.span(client, K::NetSend, t, t + 1_000).on(near).offset(n << 20).bytes(1 << 20).end();
        tale.wait(client, K::NetReceive, t + 1_000, t + 59_000).on(near).offset(n * 100).by_packet().end();
        tale.span(client, K::NetReceive, t + 59_000, t + 59_010).on(near).offset(n * 100).bytes(100).end();
        tale.wait(server, K::NetReceive, t, t + 27_000).on(far).offset(n << 20).bytes(1 << 20).by_packet().end();
        tale.span(server, K::NetSend, t + 33_000, t + 33_100).on(far).offset(n * 100).bytes(100).end();
        tale.wait(server, K::NetReceive, t + 33_100, t + 60_000).on(far).by_packet().end();
        tale.counter(near, CounterName::TcpMinRttUs, t, 50_000);
        tale.counter(near, CounterName::TcpSrttUs, t, round_trip_us);
        tale.counter(near, CounterName::TcpCwndBytes, t, 4 << 20);
        tale.counter(near, CounterName::TcpInFlightBytes, t, 1 << 20);
    }
    tale.explain()
}

#[test]
fn one_request_at_a_time_over_a_long_path_is_latency_even_with_much_data() {
    let e = one_request_at_a_time(50_100);
    assert_eq!(e.verdict.cause.name(), "network.latency", "{:#?}", e.critical_path);
    assert!(charged_ms(&e, "network.latency") > 500.0, "{:#?}", e.critical_path);
}

#[test]
fn bytes_behind_a_queue_wait_for_the_link_however_short_their_transit() {
    // Others fill the link: the transits are within one and a half round trips of the path, the round trips are twice as long.
    let e = one_request_at_a_time(100_000);
    assert_eq!(e.verdict.cause.name(), "network.bandwidth", "{:#?}", e.critical_path);
}

#[test]
fn a_message_held_back_by_a_slow_path_within_one_machine_is_no_stop() {
    let mut tale = Tale::new(2_000_000, 2);
    let client = tale.thread(Role::Client, "transfer", 100, 100);
    let server = tale.thread(Role::Server, "transfer", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(client, K::NetSend, 900, 1_000).on(near).bytes(100).end();
    tale.span(client, K::NetReceive, 1_000, 2_000_000).ran(0).on(near).end();
    tale.span(server, K::NetReceive, 0, 1_001_000).ran(0).on(far).bytes(100).end();
    tale.span(server, K::NetSend, 1_001_000, 1_001_100).on(far).bytes(100).end();
    tale.counter(near, CounterName::TcpMinRttUs, 0, 1_900_000);
    let e = tale.explain();
    assert_eq!(e.verdict.cause.name(), "network.latency", "{:#?}", e.critical_path);
}

#[test]
fn a_server_that_was_not_recorded_is_unknown_but_for_what_tcp_says() {
    let mut tale = Tale::new(1_000_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let near = tale.object(thalweg_trace::ObjectKind::Connection, CONNECTION, &[("end", "client")]);
    tale.span(client, K::NetSend, 0, 1_000).on(near).bytes(100).end();
    tale.wait(client, K::NetReceive, 1_000, 901_000).on(near).by_packet().end();
    tale.counter(near, CounterName::TcpMinRttUs, 0, 50_000);
    let e = tale.explain();
    assert_charged(&e, "network.latency", 50.0);
    assert_charged(&e, "server.unknown", 850.0);
    assert_eq!(place_of(&e, "server.unknown"), "the server at 10.0.0.2:2049");
    assert!(e.notes.iter().any(|n| n.contains("thalweg record --server --port 2049")), "{:?}", e.notes);
}

#[test]
fn a_sender_alone_knows_its_window_but_not_its_peer() {
    let alone = |closed: bool| {
        let mut tale = Tale::new(1_000_000, 2);
        let client = tale.thread(Role::Client, "curl", 100, 100);
        let near = tale.object(thalweg_trace::ObjectKind::Connection, CONNECTION, &[("end", "client")]);
        for n in 0..10_u64 {
            tale.span(client, K::NetSend, n * 100_000, n * 100_000 + 1_000).on(near).bytes(1 << 20).end();
            tale.wait(client, K::NetSend, n * 100_000 + 1_000, n * 100_000 + 100_000).on(near).by_packet().end();
        }
        let wide = if closed { 2_000 } else { 1_000_000 };
        tale.counter(near, CounterName::TcpReceiveWindowBytes, 0, 1_000_000);
        tcp(&mut tale, near, &[(CounterName::TcpReceiveWindowBytes, wide), (CounterName::TcpMinRttUs, 40_000)]);
        let in_flight = if closed { 2_000 } else { 140_000 };
        tcp(&mut tale, near, &[(CounterName::TcpInFlightBytes, in_flight), (CounterName::TcpCwndBytes, 145_000)]);
        tale.explain()
    };
    assert_eq!(alone(false).verdict.cause.name(), "network.cwnd");
    assert_eq!(alone(true).verdict.cause.name(), "server.unknown");
}

#[test]
fn a_server_recorded_alone_waits_for_its_client() {
    let mut tale = Tale::new(10_000, 2);
    let server = tale.thread(Role::Server, "ganesha.nfsd", 200, 200);
    let far = tale.object(thalweg_trace::ObjectKind::Connection, CONNECTION, &[("end", "server")]);
    for n in 0..5_u64 {
        let t = n * 2_000;
        tale.wait(server, K::NetReceive, t, t + 1_500).on(far).by_packet().end();
        tale.span(server, K::NetReceive, t + 1_500, t + 1_600).on(far).bytes(4096).end();
        tale.wait(server, K::FileSync, t + 1_600, t + 1_900).end();
        tale.span(server, K::NetSend, t + 1_950, t + 2_000).on(far).bytes(100).end();
    }
    // At the end the thread is idle and is not woken any more.
    tale.meta.end = Some(Time::from_monotonic_ns(15_000_000));
    tale.wait(server, K::WaitLock, 10_000, 15_000).end();
    let e = tale.explain();
    assert_charged(&e, "client.think", 7.5 + 5.0);
    assert_charged(&e, "server.sync", 1.5);
    assert_charged(&e, "server.cpu", 1.0);
    assert!(e.notes.iter().any(|n| n.contains("client was not recorded")), "{:?}", e.notes);
}
