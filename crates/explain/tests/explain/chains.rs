//! Charges when several processes wait for each other: chains of more than two, threads that come and go, strangers.

use crate::common::*;
use thalweg_trace::{Role, SpanKind as K};

/// A client asks a proxy, the proxy asks a backend, and the backend does `work` from 2 to 8 ms; all waits as a kernel records them.
fn three_tiers(roles: [Role; 2], work: impl FnOnce(&mut Tale, thalweg_trace::TrackId)) -> Tale {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("curl");
    let proxy = tale.thread(roles[0], "proxy", 300, 301);
    let backend = tale.thread(roles[1], "backend", 400, 401);
    let (near, near_served) = tale.two_ends("127.0.0.1:1 > 127.0.0.1:80");
    let (far, far_served) = tale.two_ends("127.0.0.1:2 > 127.0.0.1:90");
    tale.span(client, K::NetSend, 1_000, 1_010).on(near).bytes(100).offset(0).end();
    tale.wait(client, K::NetReceive, 1_010, 9_000).on(near).offset(0).by_packet().end();
    tale.wait(proxy, K::WaitNetwork, 0, 1_020).on(near_served).by_packet().end();
    tale.span(proxy, K::NetReceive, 1_020, 1_030).on(near_served).bytes(100).offset(0).end();
    tale.span(proxy, K::NetSend, 1_900, 1_950).on(far).bytes(100).offset(0).end();
    tale.wait(proxy, K::WaitNetwork, 1_950, 8_500).on(far).by_packet().end();
    tale.span(proxy, K::NetReceive, 8_500, 8_510).on(far).bytes(100).offset(0).end();
    tale.span(proxy, K::NetSend, 8_980, 8_990).on(near_served).bytes(100).offset(0).end();
    tale.wait(backend, K::WaitNetwork, 0, 1_960).on(far_served).by_packet().end();
    tale.span(backend, K::NetReceive, 1_960, 2_000).on(far_served).bytes(100).offset(0).end();
    work(&mut tale, backend);
    tale.span(backend, K::NetSend, 8_400, 8_490).on(far_served).bytes(100).offset(0).end();
    tale
}

#[test]
fn a_proxy_is_server_on_one_side_and_client_on_the_other() {
    for roles in [[Role::Server, Role::Server], [Role::Client, Role::Server], [Role::Server, Role::Client], [Role::Client, Role::Client]] {
        let e = three_tiers(roles, |tale, backend| tale.wait(backend, K::WaitTimer, 2_000, 8_000).by_timer().end()).explain();
        let think = e
            .critical_path
            .iter()
            .find(|c| c.cause.name().ends_with(".think"))
            .unwrap_or_else(|| panic!("{roles:?}: {:?}", e.critical_path));
        assert!((think.seconds - 0.006).abs() < 1e-4, "{roles:?}: {think:?}");
        assert!(think.place.contains("backend"), "{roles:?}: {think:?}");
    }
}

#[test]
fn the_last_of_three_tiers_is_charged_with_its_disk() {
    let e = three_tiers([Role::Server, Role::Server], |tale, backend| tale.wait(backend, K::FileRead, 2_000, 8_000).end()).explain();
    assert_charged(&e, "server.read", 6.0);
}

#[test]
fn a_thread_for_every_request_is_charged_within_its_life_only() {
    let mut tale = Tale::new(100_000, 4);
    let client = tale.client("client");
    let server = tale.thread(Role::Server, "server", 300, 300);
    let (near, served) = tale.two_ends("127.0.0.1:1 > 127.0.0.1:80");
    for n in 0..100_u64 {
        let at = n * 1_000;
        tale.span(client, K::NetSend, at, at + 10).on(near).bytes(100).offset(n * 100).end();
        tale.wait(client, K::NetReceive, at + 10, at + 1_000).on(near).offset(n * 100).by_packet().end();
        // The server takes the request, and starts a thread that writes for 0.7 ms and answers.
        tale.wait(server, K::WaitNetwork, at, at + 20).on(served).by_packet().end();
        tale.span(server, K::NetReceive, at + 20, at + 30).on(served).bytes(100).offset(n * 100).end();
        let worker = tale.thread(Role::Server, "server/worker", 300, 301 + n as u32);
        tale.made(worker, at + 200, server);
        tale.wait(worker, K::FileWrite, at + 250, at + 950).end();
        tale.span(worker, K::NetSend, at + 960, at + 990).on(served).bytes(100).offset(n * 100).end();
        tale.ended(worker, at + 995);
    }
    let e = tale.explain();
    assert_charged(&e, "server.write", 70.0);
    let most = e.path.iter().map(|s| s.end_s - s.start_s).fold(0.0, f64::max);
    assert!(most <= 0.001, "one stretch is {most} s long, no thread lived for more than 0.8 ms");
}

#[test]
fn what_a_stranger_did_before_it_was_recorded_is_not_known() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let helper = tale.thread(Role::Client, "helper", 300, 301);
    tale.wait(client, K::WaitLock, 0, 5_000).woken_by(helper).end();
    tale.seen(helper, 5_000);
    tale.wait(client, K::WaitLock, 6_000, 10_000).woken_by(helper).end();
    tale.wait(helper, K::FileRead, 5_500, 9_900).end();
    let e = tale.explain();
    assert_charged(&e, "unknown", 5.0);
    assert_charged(&e, "client.read", 4.4);
    let unknown = e.critical_path.iter().find(|c| c.cause.name() == "unknown").unwrap();
    assert!(unknown.place.contains("helper"), "{unknown:?}");
}

#[test]
fn a_wait_that_a_program_outside_of_the_recording_ended_is_no_lock() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let outside = tale.thread(Role::None, "pacemaker", 77, 77);
    tale.wait(client, K::WaitLock, 0, 10_000).woken_by(outside).end();
    let e = tale.explain();
    assert_charged(&e, "unknown", 10.0);
    assert!(e.critical_path[0].place.contains("`pacemaker` (process 77)"), "{:?}", e.critical_path[0]);
}

#[test]
fn nothing_is_charged_to_a_thread_that_has_ended() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let child = tale.thread(Role::Client, "child", 300, 301);
    let (near, served) = tale.two_ends("127.0.0.1:1 > 127.0.0.1:80");
    tale.made(child, 500, client);
    tale.wait(child, K::FileRead, 500, 3_000).end();
    tale.span(child, K::NetSend, 3_000, 3_100).on(served).bytes(10).offset(0).end();
    tale.ended(child, 3_200);
    tale.span(client, K::NetReceive, 3_150, 3_160).on(near).bytes(10).offset(0).end();
    tale.wait(client, K::NetReceive, 3_500, 10_000).on(near).offset(10).end();
    let e = tale.explain();
    // Bytes in transit from it are the network's.
    let own = |cause: &str| cause != "unknown" && !cause.starts_with("network.");
    let on_child: f64 = e.critical_path.iter().filter(|c| own(c.cause.name()) && c.place.contains("child")).map(|c| c.seconds).sum();
    assert!(on_child <= 0.0028, "{:?}", e.critical_path);
}

#[test]
fn a_wait_with_a_time_limit_is_a_pause_where_the_thread_then_works() {
    for kind in [K::WaitLock, K::WaitNetwork] {
        let mut tale = Tale::new(10_000, 4);
        let client = tale.client("main");
        tale.wait(client, kind, 0, 5_000).by_timer().end();
        // It computes for 3 ms, and then waits in the same way again.
        tale.wait(client, kind, 8_000, 10_000).by_timer().end();
        let e = tale.explain();
        assert_charged(&e, "client.think", 7.0);
        assert_charged(&e, "client.cpu", 3.0);
    }
}

#[test]
fn looking_in_vain_at_intervals_is_waiting_for_what_is_looked_for() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let helper = tale.thread(Role::Client, "helper", 300, 301);
    for n in 0..4 {
        tale.wait(client, K::WaitLock, n * 2_000, n * 2_000 + 1_990).by_timer().end();
    }
    tale.wait(client, K::WaitLock, 8_000, 10_000).woken_by(helper).end();
    tale.wait(helper, K::FileRead, 0, 9_990).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 9.99);
}

#[test]
fn a_quota_and_the_work_that_it_limits_are_one_answer() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let group = tale.object(thalweg_trace::ObjectKind::Cgroup, "/slow", &[]);
    for n in 0..10 {
        tale.span(client, K::CpuRun, n * 1_000, n * 1_000 + 500).end();
        tale.wait(client, K::WaitRunqueue, n * 1_000 + 500, n * 1_000 + 1_000).runnable(500).on(group).end();
    }
    let e = tale.explain();
    assert_eq!(e.verdict.cause.name(), "client.runqueue");
    assert_eq!(e.verdict.place, "the CPU quota of cgroup /slow");
    assert!(e.critical_path.iter().all(|c| c.quota == (c.place == e.verdict.place)), "{:#?}", e.critical_path);
    assert_eq!(e.verdict.status, thalweg_explain::document::Status::Limited);
}

#[test]
fn what_was_not_recorded_makes_the_answer_unsure_and_the_sentence_names_it() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let outside = tale.thread(Role::None, "pacemaker", 77, 77);
    tale.wait(client, K::FileRead, 0, 4_000).end();
    tale.wait(client, K::WaitLock, 4_000, 9_000).woken_by(outside).end();
    let e = tale.explain();
    assert_eq!(e.verdict.status, thalweg_explain::document::Status::Unsure);
    assert!(e.verdict.sentence.contains("not sure") && e.verdict.sentence.contains("pacemaker"), "{}", e.verdict.sentence);
    assert_eq!(e.verdict.settle, ["what pacemaker did was not recorded; thalweg explain --also pacemaker -- COMMAND"]);
    // A little of it changes nothing.
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let outside = tale.thread(Role::None, "pacemaker", 77, 77);
    tale.wait(client, K::FileRead, 0, 8_000).end();
    tale.wait(client, K::WaitLock, 8_000, 9_000).woken_by(outside).end();
    assert_eq!(tale.explain().verdict.status, thalweg_explain::document::Status::Limited);
}

#[test]
fn a_terminal_is_somebody_who_does_not_type() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("main");
    let terminal = tale.object(thalweg_trace::ObjectKind::Terminal, "/dev/pts/3", &[]);
    tale.wait(client, K::WaitLock, 0, 9_000).on(terminal).woken_in(thalweg_trace::WakerContext::Softirq).end();
    let e = tale.explain();
    assert_charged(&e, "client.think", 9.0);
    assert!(e.critical_path[0].place.contains("/dev/pts/3"));
}
