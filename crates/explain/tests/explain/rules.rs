//! Each charging rule, on a recording with a known truth.

use crate::common::*;
use thalweg_trace::{CounterName, Event, Mark, MarkKind, ObjectKind, SpanKind as K, Time};

#[test]
fn a_thread_is_charged_for_running_queueing_and_blocking_in_proportion() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let file = tale.file("/data/big");
    tale.span(main, K::FileRead, 1_000, 9_000).ran(2_000).runnable(1_000).on(file).end();
    let e = tale.explain();
    assert_charged(&e, "client.cpu", 4.0);
    assert_charged(&e, "client.runqueue", 1.0);
    assert_charged(&e, "client.read", 5.0);
    let read = e.critical_path.iter().find(|c| c.cause.name() == "client.read").unwrap();
    assert_eq!(read.place, "client main: file.read big");
    assert_eq!(e.verdict.cause.name(), "client.read");
}

#[test]
fn a_connection_that_came_about_late_since_something_was_sent_again_is_a_loss() {
    // At 800 µs and 900 µs: of an earlier connection between the same two ports.
    for (by_server, again_us, before, loss_ms, latency_ms) in
        [(true, 1_500, false, 9.0, 0.0), (false, 1_500, false, 9.0, 0.0), (true, 900, true, 0.0, 9.0), (true, 900, false, 9.0, 0.0)]
    {
        let mut tale = Tale::new(10_000, 2);
        let main = tale.client("main");
        let server = tale.server("io0 connection 127.0.0.1:5");
        let [near, far] = ["client", "server"].map(|end| tale.object(ObjectKind::Connection, "127.0.0.1:5 > 127.0.0.1:6", &[("end", end)]));
        tale.span(main, K::NetConnect, 1_000, 10_000).blocked().on(near).result(0).end();
        // By the server, whose greeting it was, or by the client, whose answer to it.
        let (track, object) = if by_server { (server, far) } else { (main, near) };
        let at = Time::from_monotonic_ns(again_us * 1000);
        tale.event(Event::Mark(Mark { track, kind: MarkKind::TcpRetransmit, at, object: Some(object), value: Some(100) }));
        if before {
            tale.counter(far, CounterName::TcpCwndBytes, 800, 20_000);
        }
        let e = tale.explain();
        assert_charged(&e, "network.loss", loss_ms);
        assert_charged(&e, "network.latency", latency_ms);
        if loss_ms > 0.0 {
            let way = if by_server { "> client" } else { "client >" };
            assert!(e.verdict.place.contains(way), "{by_server}: {}", e.verdict.place);
        }
    }
}

#[test]
fn a_send_or_receive_that_only_waited_for_a_cpu_is_charged_to_the_run_queue() {
    for kind in [K::NetSend, K::NetReceive] {
        let mut tale = Tale::new(10_000, 2);
        let main = tale.client("main");
        tale.span(main, kind, 0, 10_000).ran(500).runnable(9_500).end();
        let e = tale.explain();
        assert_charged(&e, "client.runqueue", 9.5);
        assert_charged(&e, "client.cpu", 0.5);
    }
}

#[test]
fn writing_and_syncing_are_distinguished() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    tale.span(main, K::FileWrite, 0, 4_000).blocked().end();
    tale.span(main, K::FileSync, 4_000, 10_000).blocked().end();
    let e = tale.explain();
    assert_charged(&e, "client.write", 4.0);
    assert_charged(&e, "client.sync", 6.0);
}

#[test]
fn a_wait_for_a_thread_continues_on_the_thread_that_ended_it() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let reader = tale.client("reader");
    tale.span(main, K::AppOther, 0, 1_000).end();
    tale.span(main, K::WaitLock, 1_000, 9_000).blocked().woken_by(reader).end();
    tale.span(reader, K::FileRead, 1_000, 9_000).blocked().end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 8.0);
    assert_charged(&e, "client.cpu", 2.0);
}

#[test]
fn a_waker_that_went_on_to_wait_is_followed_to_what_it_did_before() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let reader = tale.client("reader");
    tale.span(main, K::WaitLock, 1_000, 9_000).blocked().woken_by(reader).end();
    tale.span(reader, K::FileRead, 1_000, 8_950).blocked().end();
    // Idle again 50 µs before the woken thread was on a CPU.
    tale.span(reader, K::WaitLock, 8_950, 10_000).blocked().woken_by(main).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 7.95);
    assert_charged(&e, "client.runqueue", 0.05);
}

#[test]
fn queueing_before_a_wait_is_not_taken_for_queueing_after_it() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let request = tale.client("request");
    let reader = tale.client("reader");
    // Its 2 ms in the run queue lie before it blocked: the awaited work ended 100 µs before it ran again.
    tale.span(main, K::WaitLock, 0, 9_000).ran(50).runnable(2_000).woken_by(request).end();
    tale.span(request, K::WaitLock, 1_000, 8_900).blocked().woken_by(reader).end();
    tale.span(reader, K::FileRead, 0, 8_900).blocked().end();
    tale.span(main, K::AppOther, 9_000, 10_000).ran(1_000).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 8.9);
    assert_charged(&e, "client.cpu", 1.05);
    assert_charged(&e, "client.runqueue", 0.05);
}

#[test]
fn at_a_join_the_last_arriver_is_charged() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let (quick, slow) = (tale.client("quick"), tale.client("slow"));
    tale.span(quick, K::FileRead, 0, 3_000).blocked().end();
    tale.span(slow, K::FileWrite, 0, 10_000).blocked().end();
    tale.span(main, K::WaitLock, 0, 3_000).blocked().woken_by(quick).end();
    tale.span(main, K::WaitLock, 3_000, 10_000).blocked().woken_by(slow).end();
    let e = tale.explain();
    assert_charged(&e, "client.write", 10.0);
}

#[test]
fn a_lock_nobody_is_known_to_hold_is_the_lock() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    tale.span(main, K::WaitLock, 0, 10_000).blocked().end();
    assert_charged(&tale.explain(), "client.lock", 10.0);
}

#[test]
fn threads_that_wait_for_each_other_for_ever_do_not_hold_the_walk() {
    let mut tale = Tale::new(10_000, 2);
    let (a, b) = (tale.client("a"), tale.client("b"));
    tale.span(a, K::WaitLock, 0, 10_000).blocked().woken_by(b).end();
    tale.span(b, K::WaitLock, 0, 10_000).blocked().woken_by(a).end();
    assert_charged(&tale.explain(), "client.lock", 10.0);
}

/// A client that sends 1 MiB and waits for the reply; the server receives, works, replies.
fn exchange(server_work: impl FnOnce(&mut Tale, thalweg_trace::TrackId), bytes: u64) -> Tale {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    let sized = |line: Line<'_>| if bytes > 0 { line.bytes(bytes).end() } else { line.end() };
    sized(tale.span(main, K::RpcCall, 1_000, 9_000).observed().request(7));
    sized(tale.span(main, K::NetSend, 1_000, 2_000).on(near).request(7));
    tale.span(main, K::NetReceive, 2_000, 9_000).ran(100).on(near).request(7).bytes(64).end();
    tale.span(server, K::NetReceive, 0, 2_100).ran(50).on(far).request(7).bytes(64).end();
    sized(tale.span(server, K::RpcServe, 2_100, 8_800).request(7));
    server_work(&mut tale, server);
    tale.span(server, K::NetSend, 8_700, 8_800).on(far).request(7).bytes(64).end();
    tale.span(server, K::NetReceive, 8_800, 10_000).blocked().on(far).bytes(64).end();
    tale
}

#[test]
fn waiting_for_a_reply_is_charged_to_what_the_server_did() {
    let e = exchange(
        |tale, server| {
            tale.span(server, K::AppChecksum, 2_100, 3_100).end();
            tale.span(server, K::FileWrite, 3_100, 5_100).blocked().end();
            tale.span(server, K::FileSync, 5_100, 8_700).blocked().end();
        },
        1 << 20,
    )
    .explain();
    assert_charged(&e, "server.sync", 3.6);
    assert_charged(&e, "server.write", 2.0);
    assert_charged(&e, "server.cpu", 1.0 + 0.1 + 0.05);
    // The reply's transit (100 µs) and the part of the request's that was not the server's running.
    assert_charged(&e, "network.latency", 0.1 + 0.05);
    assert_charged(&e, "client.cpu", 1.0 + 1.0 + 1.0 + 0.1);
    assert_eq!(e.verdict.cause.name(), "server.sync");
    assert!(e.verdict.place.contains("io0"), "{}", e.verdict.place);
}

#[test]
fn an_rpc_without_data_is_metadata_at_both_ends_but_media_stay_media() {
    let e = exchange(
        |tale, server| {
            tale.span(server, K::FileWrite, 2_100, 5_100).blocked().end();
            tale.span(server, K::FileSync, 5_100, 8_700).blocked().end();
        },
        0,
    )
    .explain();
    assert_charged(&e, "server.metadata", 3.1);
    assert_charged(&e, "server.sync", 3.6);
    assert_charged(&e, "client.metadata", 1.0 + 0.1);
}

#[test]
fn a_server_that_was_not_recorded_is_not_guessed_at() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let (near, _) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(main, K::NetSend, 0, 1_000).on(near).request(7).bytes(1 << 20).end();
    tale.span(main, K::NetReceive, 1_000, 9_000).blocked().on(near).request(7).end();
    let e = tale.explain();
    assert_charged(&e, "server.unknown", 8.0);
    assert!(e.notes.iter().any(|n| n.contains("Record it")), "{:?}", e.notes);
}

#[test]
fn a_sender_blocked_by_a_server_that_works_elsewhere_is_charged_to_that_work() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(main, K::NetSend, 0, 10_000).ran(1_000).on(near).bytes(8 << 20).end();
    tale.span(server, K::FileWrite, 0, 9_000).blocked().end();
    tale.span(server, K::NetReceive, 9_000, 10_000).on(far).bytes(8 << 20).end();
    let e = tale.explain();
    assert_charged(&e, "server.write", 9.0);
    assert_charged(&e, "client.cpu", 1.0);
}

#[test]
fn bytes_under_way_while_both_ends_wait_are_the_wires() {
    let mut tale = Tale::new(80_000, 2);
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(main, K::NetSend, 0, 80_000).ran(1_000).on(near).bytes(8 << 20).end();
    tale.span(server, K::NetReceive, 0, 80_000).ran(4_000).on(far).bytes(8 << 20).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "network.bandwidth") >= 75.0, "{:#?}", e.critical_path);
    assert_eq!(e.critical_path.iter().find(|c| c.cause.name() == "network.bandwidth").unwrap().place, "client > server io0");
}

#[test]
fn a_retransmission_while_both_ends_wait_is_loss() {
    let mut tale = Tale::new(80_000, 2);
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(main, K::NetSend, 0, 80_000).ran(0).on(near).bytes(8 << 20).end();
    tale.span(server, K::NetReceive, 0, 80_000).ran(0).on(far).bytes(8 << 20).end();
    tale.event(thalweg_trace::Event::Mark(thalweg_trace::Mark {
        track: main,
        kind: thalweg_trace::MarkKind::TcpTimeout,
        at: thalweg_trace::Time::from_monotonic_ns(40_000_000),
        object: Some(near),
        value: None,
    }));
    assert_charged(&tale.explain(), "network.loss", 80.0);
}

#[test]
fn a_server_stopped_while_a_request_waits_for_it_is_named() {
    let mut tale = Tale::new(6_000_000, 2);
    let main = tale.client("main");
    let server = tale.server("io2 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(main, K::NetSend, 0, 1_000).on(near).request(7).bytes(4096).end();
    tale.span(main, K::NetReceive, 1_000, 5_900_000).blocked().on(near).request(7).end();
    tale.span(server, K::NetReceive, 0, 5_899_000).blocked().on(far).request(7).bytes(64).end();
    tale.span(server, K::RpcServe, 5_899_000, 5_899_900).request(7).bytes(4096).end();
    tale.span(server, K::NetSend, 5_899_800, 5_899_900).on(far).request(7).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "server.think") > 5_800.0, "{:#?}", e.critical_path);
    assert!(e.verdict.place.contains("io2"), "{:?}", e.verdict);
    let charge = &e.critical_path[0];
    assert!(charge.evidence.contains("neither ran"), "{}", charge.evidence);
}

#[test]
fn a_server_stopped_in_the_middle_of_computing_is_named() {
    let e = {
        let mut tale = Tale::new(6_000_000, 2);
        let main = tale.client("main");
        let server = tale.server("io2 connection 127.0.0.1:5");
        let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
        tale.span(main, K::NetSend, 0, 1_000).on(near).request(7).bytes(4096).end();
        tale.span(main, K::NetReceive, 1_000, 5_900_000).blocked().on(near).request(7).end();
        tale.span(server, K::NetReceive, 0, 1_050).blocked().on(far).request(7).bytes(64).end();
        tale.span(server, K::AppChecksum, 1_050, 5_899_800).ran(300).request(7).end();
        tale.span(server, K::NetSend, 5_899_800, 5_899_900).on(far).request(7).end();
        tale.explain()
    };
    assert!(charged_ms(&e, "server.think") > 5_800.0, "{:#?}", e.critical_path);
}

#[test]
fn a_timer_is_thinking_and_memory_is_memory() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    tale.span(main, K::WaitTimer, 0, 6_000).blocked().end();
    tale.span(main, K::WaitMemory, 6_000, 10_000).blocked().end();
    let e = tale.explain();
    assert_charged(&e, "client.think", 6.0);
    assert_charged(&e, "client.memory", 4.0);
}

#[test]
fn what_the_recorder_took_is_the_recorders() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let recorder = tale.track(thalweg_trace::Role::Recorder, "drain");
    tale.span(main, K::WaitLock, 0, 8_000).blocked().woken_by(recorder).end();
    tale.span(recorder, K::AppOther, 0, 8_000).end();
    assert_charged(&tale.explain(), "recorder", 8.0);
}

#[test]
fn a_thread_born_during_the_run_leads_back_to_the_command() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let worker = tale.client("worker");
    tale.span(main, K::FileOpen, 0, 3_000).blocked().end();
    tale.span(main, K::WaitLock, 3_000, 10_000).blocked().woken_by(worker).end();
    tale.span(worker, K::FileRead, 3_500, 10_000).blocked().end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 6.5);
    assert_charged(&e, "client.metadata", 3.0);
}

#[test]
fn observed_spans_do_not_hide_what_the_thread_did() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    tale.span(main, K::FileRead, 0, 10_000).blocked().end();
    tale.span(main, K::RpcCall, 2_000, 10_000).observed().bytes(10).end();
    assert_charged(&tale.explain(), "client.read", 10.0);
}

#[test]
fn merged_calls_that_never_blocked_are_running() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    tale.span(main, K::FileRead, 0, 10_000).observed().count(300).end();
    assert_charged(&tale.explain(), "client.cpu", 10.0);
}

#[test]
fn a_transfer_is_what_its_requests_asked_for() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let source = tale.object(ObjectKind::File, "/data/big", &[("to", "thal:/big"), ("size_bytes", "30")]);
    for n in 0..3 {
        tale.span(main, K::AppRequest, 1_000 + n * 2_000, 3_000 + n * 2_000).on(source).bytes(10).end();
    }
    let e = tale.explain();
    assert_eq!(e.transfers.len(), 1);
    let t = &e.transfers[0];
    assert_eq!((t.from.as_str(), t.to.as_deref(), t.size_bytes, t.requests), ("/data/big", Some("thal:/big"), 30, 3));
    assert!((t.wall_s - 0.006).abs() < 1e-9);
}

#[test]
fn a_server_whose_first_wait_was_not_recorded_is_not_charged_for_it() {
    let mut tale = Tale::new(10_000, 2);
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    tale.span(server, K::NetSend, 0, 100).on(far).bytes(64).end();
    tale.span(main, K::FileRead, 200, 7_000).blocked().end();
    tale.span(main, K::NetSend, 7_000, 8_000).on(near).request(7).bytes(1 << 20).end();
    tale.span(main, K::NetReceive, 8_000, 9_900).ran(10).on(near).request(7).end();
    tale.span(server, K::RpcServe, 8_010, 9_850).request(7).bytes(1 << 20).end();
    tale.span(server, K::NetReceive, 8_010, 9_000).on(far).request(7).bytes(1 << 20).end();
    tale.span(server, K::NetSend, 9_800, 9_850).on(far).request(7).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 6.8);
    assert_charged(&e, "server.cpu", 1.84);
}
