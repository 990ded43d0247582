//! Each rule for programs with waits recorded by a kernel: synthetic recordings with a known truth.

use crate::common::*;
use thalweg_explain::{Explanation, document::Status};
use thalweg_trace::{CounterName, Event, ObjectKind, Role, SpanKind as K, Time, TrackId};

const CONNECTION: &str = "10.0.0.1:5000 > 10.0.0.2:2049";

fn evidence_of<'a>(e: &'a Explanation, cause: &str) -> &'a str {
    &e.critical_path.iter().find(|c| c.cause.name() == cause).unwrap_or_else(|| panic!("no {cause} in {:#?}", e.critical_path)).evidence
}

#[test]
fn a_cold_copy_waits_for_its_source_on_its_device() {
    let mut tale = Tale::new(20_000, 2);
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    let vda = tale.device("vda");
    let source = tale.object(thalweg_trace::ObjectKind::File, "/data/big", &[("device", "vda"), ("opened", "read")]);
    let sink = tale.object(thalweg_trace::ObjectKind::File, "/scratch/big", &[("device", "vdb"), ("opened", "write")]);
    for n in 0..10_u64 {
        let t = n * 2_000;
        tale.wait(cp, K::FileRead, t, t + 1_400).on(source).by_device(vda).end();
        tale.span(vda, K::DiskRead, t, t + 1_390).observed().bytes(1 << 20).end();
        tale.span(cp, K::FileRead, t + 1_400, t + 1_600).on(source).bytes(1 << 20).count(8).end();
        tale.span(cp, K::FileWrite, t + 1_600, t + 2_000).on(sink).bytes(1 << 20).count(8).end();
    }
    let e = tale.explain();
    assert_charged(&e, "client.read", 14.0);
    assert_charged(&e, "client.cpu", 6.0);
    assert_eq!(place_of(&e, "client.read"), "client cp: file.read /data/big on vda");
    assert!(evidence_of(&e, "client.read").contains("10 blocking reads"), "{}", evidence_of(&e, "client.read"));
    assert!(evidence_of(&e, "client.read").contains("vda busy 70 %"), "{}", evidence_of(&e, "client.read"));
    let [transfer] = e.transfers.as_slice() else { panic!("{:?}", e.transfers) };
    assert_eq!((transfer.from.as_str(), transfer.to.as_deref(), transfer.size_bytes), ("/data/big", Some("/scratch/big"), 10 << 20));
}

#[test]
fn a_device_at_its_measured_best_is_healthy_and_a_slow_one_is_not() {
    let explained = |ceiling: &str| {
        let mut tale = Tale::new(20_000, 2);
        tale.meta.attributes.push(("ceiling.device.vda.read".into(), ceiling.into()));
        let cp = tale.thread(Role::Client, "cp", 100, 100);
        let vda = tale.device("vda");
        let source = tale.object(thalweg_trace::ObjectKind::File, "/data/big", &[("device", "vda")]);
        for n in 0..10_u64 {
            tale.wait(cp, K::FileRead, n * 2_000, n * 2_000 + 1_900).on(source).by_device(vda).end();
            tale.span(vda, K::DiskRead, n * 2_000, n * 2_000 + 1_900).observed().bytes(1 << 20).end();
        }
        tale.explain()
    };
    let best = explained("530000000");
    assert_eq!(best.verdict.status, Status::Healthy);
    assert!(best.verdict.sentence.contains("vda was read at 503 MiB/s, of the 505 MiB/s"), "{}", best.verdict.sentence);
    assert_eq!(explained("800000000").verdict.status, Status::Limited);
}

#[test]
fn a_call_runs_in_what_its_waits_leave_over() {
    let mut tale = Tale::new(10_000, 2);
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    let vda = tale.device("vda");
    let source = tale.file("/data/big");
    let call = tale.span(cp, K::FileRead, 0, 10_000).ran(6_000).on(source).bytes(1 << 20);
    let id = call.id();
    call.end();
    tale.wait(cp, K::FileRead, 2_000, 5_000).on(source).by_device(vda).within(id).end();
    tale.wait(cp, K::WaitRunqueue, 5_000, 6_000).within(id).end();
    let e = tale.explain();
    assert_charged(&e, "client.cpu", 6.0);
    assert_charged(&e, "client.read", 3.0);
    assert_charged(&e, "client.runqueue", 1.0);
    let main = e.tracks.iter().find(|t| t.name == "cp").unwrap();
    assert!((main.cpu_s - 0.006).abs() < 1e-9, "{main:?}");
}

#[test]
fn a_receiving_call_runs_in_what_its_waits_leave_over() {
    let mut tale = Tale::new(10_000, 2);
    let curl = tale.thread(Role::Client, "curl", 100, 100);
    let nginx = tale.thread(Role::Server, "nginx", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    let call = tale.span(curl, K::NetReceive, 0, 10_000).ran(3_000).on(near).bytes(4096);
    let id = call.id();
    call.end();
    tale.wait(curl, K::NetReceive, 1_000, 8_000).on(near).by_packet().within(id).end();
    tale.wait(nginx, K::FileRead, 0, 7_900).end();
    tale.span(nginx, K::NetSend, 7_900, 8_000).on(far).bytes(4096).end();
    let e = tale.explain();
    assert_charged(&e, "client.cpu", 2.0);
    assert_charged(&e, "server.read", 7.9);
}

#[test]
fn who_held_the_processor_is_named_and_the_recorder_is_charged() {
    let mut tale = Tale::new(10_000, 2);
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    let stress = tale.thread(Role::None, "stress", 900, 900);
    let drain = tale.thread(Role::Recorder, "thalweg/drain", 901, 901);
    tale.span(cp, K::WaitRunqueue, 1_000, 5_000).blocked().held_by(stress).end();
    tale.span(cp, K::WaitRunqueue, 6_000, 9_000).blocked().held_by(drain).end();
    let e = tale.explain();
    assert_charged(&e, "client.runqueue", 4.0);
    assert_charged(&e, "recorder", 3.0);
    assert_charged(&e, "client.cpu", 3.0);
    assert!(evidence_of(&e, "client.runqueue").contains("held by `stress` in 100 %"), "{}", evidence_of(&e, "client.runqueue"));
}

#[test]
fn queueing_while_the_recorder_holds_another_processor_is_the_recorders() {
    let mut tale = Tale::new(10_000, 2);
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    let other = tale.thread(Role::Client, "cp", 101, 101);
    let drain = tale.thread(Role::Recorder, "thalweg/drain", 901, 901);
    // The recorder sleeps for the first 3 ms of the queueing, and spins for the rest.
    tale.wait(drain, K::WaitTimer, 0, 4_000).by_timer().end();
    tale.wait(drain, K::WaitTimer, 9_500, 10_000).by_timer().end();
    tale.wait(other, K::WaitTimer, 0, 100).by_timer().end();
    tale.span(cp, K::WaitRunqueue, 1_000, 9_000).blocked().held_by(other).end();
    let e = tale.explain();
    assert_charged(&e, "client.runqueue", 3.0);
    assert_charged(&e, "recorder", 5.0);
}

#[test]
fn the_recorder_is_charged_for_being_in_the_way_and_no_longer() {
    let mut tale = Tale::new(10_000, 2);
    let sh = tale.thread(Role::Client, "sh", 100, 100);
    let drain = tale.thread(Role::Recorder, "thalweg/drain", 901, 901);
    tale.wait(sh, K::FileRead, 0, 4_000).end();
    // It read something of the process while the process wanted to change it.
    tale.wait(sh, K::FileOther, 6_000, 8_000).woken_by(drain).end();
    let e = tale.explain();
    assert_charged(&e, "recorder", 2.0);
    assert_charged(&e, "client.read", 4.0);
    assert_charged(&e, "client.cpu", 4.0);
}

#[test]
fn a_quota_is_said_where_it_stopped_somebody() {
    let mut tale = Tale::new(100_000, 2);
    tale.meta.attributes.push(("cgroup.cpu_quota".into(), "0.5".into()));
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    for n in 0..2_u64 {
        tale.span(cp, K::WaitRunqueue, n * 50_000 + 20_000, n * 50_000 + 50_000).blocked().end();
    }
    for (at, value) in [(0, 0), (100_000, 60_000_000)] {
        let at = Time::from_monotonic_ns(at * 1000);
        let of = thalweg_trace::CounterOf::Track(cp);
        tale.event(Event::Counter(thalweg_trace::Counter { of, name: CounterName::CpuThrottledNs, at, value }));
    }
    let e = tale.explain();
    assert_charged(&e, "client.runqueue", 60.0);
    assert!(evidence_of(&e, "client.runqueue").contains("a quota of 0.5 CPUs throttled it for 60.0 ms"));
}

/// A client that asks over `CONNECTION` and waits as `waiting` describes; the server has the request at 1 ms, syncs until 8 ms and replies.
fn asks(waiting: impl FnOnce(&mut Tale, TrackId, thalweg_trace::ObjectId)) -> Explanation {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let server = tale.thread(Role::Server, "ganesha.nfsd/svc_1", 200, 201);
    let vdb = tale.device("vdb");
    let sink = tale.object(thalweg_trace::ObjectKind::File, "/srv/x/DST", &[("device", "vdb")]);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(client, K::NetSend, 900, 1_000).on(near).offset(0).bytes(1 << 20).end();
    waiting(&mut tale, client, near);
    tale.span(client, K::NetReceive, 8_030, 8_040).on(near).offset(0).bytes(100).end();
    tale.wait(server, K::WaitNetwork, 0, 1_000).on(far).by_packet().end();
    tale.span(server, K::NetReceive, 1_000, 1_100).on(far).offset(0).bytes(1 << 20).end();
    tale.wait(server, K::FileSync, 1_500, 7_900).on(sink).by_device(vdb).end();
    tale.span(server, K::NetSend, 7_980, 8_000).on(far).offset(0).bytes(100).end();
    tale.wait(server, K::WaitNetwork, 8_100, 10_000).on(far).by_packet().end();
    tale.explain()
}

#[test]
fn a_blocked_receive_is_charged_to_what_the_server_did() {
    let e = asks(|tale, client, near| tale.wait(client, K::NetReceive, 1_000, 8_010).on(near).offset(0).by_packet().end());
    assert_charged(&e, "server.sync", 6.4);
    assert_eq!(place_of(&e, "server.sync"), "server ganesha.nfsd/svc: file.sync /srv/x/DST on vdb");
    assert_charged(&e, "network.latency", 0.01);
    assert_charged(&e, "server.cpu", 0.6);
}

#[test]
fn a_poll_that_timed_out_looked_for_what_ended_the_next() {
    let e = asks(|tale, client, near| {
        tale.wait(client, K::WaitNetwork, 1_000, 4_000).by_timer().end();
        tale.wait(client, K::WaitNetwork, 4_010, 6_000).by_timer().end();
        tale.wait(client, K::WaitNetwork, 6_010, 8_010).on(near).by_packet().end();
    });
    assert_charged(&e, "server.sync", 6.4);
    assert!(charged_ms(&e, "client.think") < 1e-6, "{:#?}", e.critical_path);
}

#[test]
fn spinning_on_a_connection_is_waiting_for_it() {
    let e = asks(|tale, client, near| tale.span(client, K::NetReceive, 1_000, 8_010).on(near).count(5_000).result(-11).end());
    assert_charged(&e, "server.sync", 6.4);
}

#[test]
fn sleeping_between_looks_at_a_connection_is_waiting_for_it() {
    let e = asks(|tale, client, near| {
        for n in 0..7_u64 {
            tale.wait(client, K::WaitNetwork, 1_000 + n * 1_000, 1_990 + n * 1_000).on(near).by_timer().end();
            tale.span(client, K::NetReceive, 1_990 + n * 1_000, 2_000 + n * 1_000).on(near).result(-11).end();
        }
    });
    assert_charged(&e, "server.sync", 6.4);
}

#[test]
fn a_poll_that_nothing_ever_answered_is_thinking() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "daemon", 100, 100);
    tale.wait(client, K::WaitNetwork, 0, 8_000).by_timer().end();
    assert_charged(&tale.explain(), "client.think", 8.0);
}

#[test]
fn a_poll_used_as_a_pause_is_thinking_at_either_end() {
    // The client takes bytes sent long before, at its own pace.
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let server = tale.thread(Role::Server, "nginx", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(server, K::NetSend, 0, 900).on(far).offset(0).bytes(1 << 20).end();
    tale.wait(server, K::WaitNetwork, 900, 10_000).on(far).by_packet().end();
    tale.wait(client, K::WaitNetwork, 1_000, 8_000).by_timer().end();
    tale.wait(client, K::WaitNetwork, 8_000, 9_000).by_timer().end();
    tale.span(client, K::NetReceive, 9_000, 9_500).on(near).offset(4096).bytes(1 << 19).end();
    assert_charged(&tale.explain(), "client.think", 8.0);
    // The server sends at its own pace.
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let server = tale.thread(Role::Server, "nginx", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.wait(client, K::WaitNetwork, 100, 9_000).on(near).by_packet().end();
    tale.span(client, K::NetReceive, 9_000, 9_500).on(near).offset(0).bytes(1 << 20).end();
    tale.wait(server, K::WaitNetwork, 500, 8_900).by_timer().end();
    tale.span(server, K::NetSend, 8_900, 9_000).on(far).offset(0).bytes(1 << 20).end();
    let e = tale.explain();
    assert_charged(&e, "server.think", 8.4);
}

#[test]
fn bytes_brought_by_a_relay_are_waited_for_at_their_sender() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let server = tale.thread(Role::Server, "nginx", 200, 200);
    let relay = tale.thread(Role::None, "relay", 300, 300);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.wait(client, K::WaitLock, 100, 9_000).woken_by(relay).end();
    tale.span(client, K::NetReceive, 9_000, 9_500).on(near).offset(0).bytes(1 << 20).end();
    tale.wait(server, K::FileRead, 500, 3_900).end();
    tale.span(server, K::NetSend, 3_900, 4_000).on(far).offset(0).bytes(1 << 20).end();
    tale.wait(server, K::WaitLock, 4_050, 10_000).woken_by(relay).end();
    let e = tale.explain();
    assert_charged(&e, "server.read", 3.4);
    assert_charged(&e, "client.lock", 0.0);
    assert_charged(&e, "network.bandwidth", 5.0);
}

#[test]
fn a_write_that_had_to_read_its_source_first_is_reading() {
    let mut tale = Tale::new(10_000, 2);
    let copy = tale.thread(Role::Client, "copy", 100, 100);
    let (sda, sdb) = (tale.device("sda"), tale.device("sdb"));
    let sink = tale.object(thalweg_trace::ObjectKind::File, "/b/out", &[("device", "sdb")]);
    tale.wait(copy, K::FileWrite, 0, 6_000).on(sink).by_device(sda).end();
    tale.span(sda, K::DiskRead, 10, 5_990).observed().bytes(1 << 20).end();
    tale.wait(copy, K::FileWrite, 6_000, 9_000).on(sink).by_device(sdb).end();
    tale.span(sdb, K::DiskWrite, 6_010, 8_990).observed().bytes(1 << 20).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 6.0);
    assert_charged(&e, "client.write", 3.0);
    assert_eq!(place_of(&e, "client.read"), "client copy: file.read on sda");
}

#[test]
fn the_send_that_carried_the_byte_waited_for_counts_even_if_it_was_stamped_late() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let server = tale.thread(Role::Server, "ganesha.nfsd", 200, 201);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.wait(client, K::NetReceive, 2_000, 8_000).on(near).offset(100).by_packet().end();
    // An earlier reply, then the awaited one, stamped when its thread blocked.
    tale.span(server, K::NetSend, 1_900, 1_950).on(far).offset(0).bytes(100).end();
    tale.span(server, K::NetSend, 8_500, 8_500).on(far).offset(100).bytes(100).end();
    tale.wait(server, K::FileRead, 2_500, 7_900).end();
    tale.wait(server, K::WaitNetwork, 8_500, 10_000).by_packet().end();
    let e = tale.explain();
    assert_charged(&e, "server.read", 5.4);
    assert!(charged_ms(&e, "network.latency") < 0.2, "{:#?}", e.critical_path);
}

#[test]
fn a_poll_waited_for_the_bytes_that_were_taken_next() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let server = tale.thread(Role::Server, "ganesha.nfsd", 200, 201);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(server, K::NetSend, 1_000, 1_010).on(far).offset(0).bytes(100).end();
    tale.wait(client, K::WaitNetwork, 2_000, 8_000).on(near).by_packet().end();
    tale.span(client, K::NetReceive, 8_100, 8_101).on(near).offset(100).bytes(100).end();
    // The reply is stamped when the call ends, after the client woke.
    tale.wait(server, K::FileWrite, 2_500, 7_900).end();
    tale.span(server, K::NetSend, 8_002, 8_002).on(far).offset(100).bytes(100).end();
    tale.wait(server, K::WaitNetwork, 8_050, 10_000).by_packet().end();
    let e = tale.explain();
    assert_charged(&e, "server.write", 5.4);
    assert!(charged_ms(&e, "network.latency") < 1e-6, "{:#?}", e.critical_path);
}

#[test]
fn work_handed_from_thread_to_thread_is_followed_to_the_device() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let poller = tale.thread(Role::Server, "ganesha.nfsd/svc_1", 200, 201);
    let worker = tale.thread(Role::Server, "ganesha.nfsd/work_3", 200, 203);
    let kworker = tale.thread(Role::None, "kworker/1:2", 30, 30);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(client, K::NetSend, 900, 1_000).on(near).bytes(100).end();
    tale.wait(client, K::WaitNetwork, 1_000, 9_010).on(near).by_packet().end();
    tale.span(client, K::NetReceive, 9_010, 9_020).on(near).bytes(100).end();
    tale.wait(poller, K::WaitNetwork, 0, 1_010).on(far).by_packet().end();
    tale.span(poller, K::NetReceive, 1_010, 1_020).on(far).bytes(100).end();
    tale.wait(poller, K::WaitNetwork, 1_100, 10_000).by_packet().end();
    tale.wait(worker, K::WaitLock, 0, 1_050).woken_by(poller).end();
    tale.wait(worker, K::FileSync, 2_000, 8_000).woken_by(kworker).end();
    tale.span(worker, K::NetSend, 8_990, 9_000).on(far).bytes(100).end();
    tale.wait(worker, K::WaitLock, 9_100, 10_000).woken_by(poller).end();
    let e = tale.explain();
    // An unknown kernel worker ended it: the call is charged.
    assert_charged(&e, "server.sync", 6.0);
    assert_charged(&e, "server.cpu", 0.04 + 0.95 + 1.0);
    assert_charged(&e, "unknown", 0.0);
}

#[test]
fn a_kernel_thread_works_for_the_end_that_waits_for_it() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "nfs-cp", 100, 100);
    let server = tale.thread(Role::Server, "ganesha.nfsd", 200, 201);
    let journal = tale.thread(Role::Kernel, "jbd2/vdb-8", 40, 40);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.wait(client, K::NetReceive, 0, 9_000).on(near).by_packet().end();
    tale.span(server, K::NetSend, 8_990, 9_000).on(far).bytes(100).end();
    tale.wait(server, K::WaitLock, 1_000, 8_000).woken_by(journal).end();
    tale.wait(journal, K::WaitDisk, 0, 7_900).end();
    let e = tale.explain();
    assert_charged(&e, "server.read", 6.9);
    // Its earlier activity is unrelated to the server, which ran.
    assert_charged(&e, "server.cpu", 0.1 + 1.0 + 1.0);
    assert!(charged_ms(&e, "client.read") < 1e-9);
}

/// The command's thread waits for a lock that another of its threads holds while it does `what`.
fn locked(hold: impl Fn(&mut Tale, TrackId, u64)) -> Explanation {
    let mut tale = Tale::new(100_000, 2);
    let copier = tale.thread(Role::Client, "copy", 100, 100);
    let holder = tale.thread(Role::Client, "copy/holder", 100, 101);
    let sink = tale.file("/scratch/out");
    let mutex = tale.object(ObjectKind::Lock, "futex", &[]);
    for n in 0..10_u64 {
        let t = n * 10_000;
        tale.span(copier, K::FileWrite, t, t + 2_000).on(sink).bytes(1 << 20).end();
        tale.wait(copier, K::WaitLock, t + 2_000, t + 10_000).on(mutex).woken_by(holder).end();
        hold(&mut tale, holder, t);
    }
    tale.wait(holder, K::WaitTimer, 100_000, 120_000).by_timer().end();
    tale.explain()
}

#[test]
fn a_lock_whose_holder_sleeps_is_the_lock() {
    let e = locked(|tale, holder, t| {
        if t == 0 {
            // A page of its program comes from a file; that moves no data.
            tale.wait(holder, K::FileRead, 1_002, 1_008).end();
        }
        tale.wait(holder, K::WaitTimer, t, t + 1_000).by_timer().end();
        tale.wait(holder, K::WaitTimer, t + 1_010, t + 9_990).by_timer().end();
    });
    assert_charged(&e, "client.lock", 80.0);
    assert_eq!(place_of(&e, "client.lock"), "client copy: a lock that client copy/holder holds while it sleeps");
    assert!(evidence_of(&e, "client.lock").contains("waits for a lock"));
}

#[test]
fn a_lock_whose_holder_computes_for_itself_is_the_lock() {
    let e = locked(|tale, holder, t| tale.wait(holder, K::WaitTimer, t, t + 1_000).by_timer().end());
    assert_charged(&e, "client.lock", 80.0);
}

#[test]
fn a_lock_whose_holder_waits_for_a_device_is_the_device() {
    let e = locked(|tale, holder, t| tale.wait(holder, K::FileSync, t + 1_000, t + 9_990).end());
    assert_charged(&e, "client.sync", 89.9);
}

#[test]
fn a_thread_that_computes_what_it_was_handed_is_computing() {
    let e = locked(|tale, holder, t| {
        let copier = TrackId::new(1).unwrap();
        tale.wait(holder, K::WaitLock, t, t + 1_990).woken_by(copier).end();
    });
    assert_charged(&e, "client.lock", 0.0);
    assert!(charged_ms(&e, "client.cpu") > 99.0, "{:#?}", e.critical_path);
}

#[test]
fn waiting_for_a_thread_or_a_child_to_end_is_what_it_did() {
    for (pid, tid) in [(100, 101), (150, 150)] {
        let mut tale = Tale::new(10_000, 2);
        let main = tale.thread(Role::Client, "sh", 100, 100);
        let child = tale.thread(Role::Client, "sleep", pid, tid);
        tale.wait(main, K::WaitLock, 1_000, 9_000).woken_by(child).end();
        tale.wait(child, K::WaitTimer, 2_000, 8_500).by_timer().end();
        let e = tale.explain();
        assert_charged(&e, "client.think", 6.5);
        assert_charged(&e, "client.cpu", 3.5);
    }
}

#[test]
fn a_thread_started_while_another_waits_long_did_not_run_all_that_time() {
    let mut tale = Tale::new(300_000, 2);
    let main = tale.thread(Role::Client, "xrdcp", 100, 100);
    let poller = tale.thread(Role::Client, "xrdcp/poller", 100, 101);
    let fresh = tale.thread(Role::Client, "xrdcp/fresh", 100, 102);
    let server = tale.thread(Role::Server, "xrootd", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.wait(main, K::WaitLock, 1_000, 290_000).woken_by(fresh).end();
    // The poller receives what the server read, and starts a thread for it.
    tale.wait(poller, K::WaitNetwork, 1_000, 289_000).on(near).by_packet().end();
    tale.span(poller, K::NetReceive, 289_100, 289_200).on(near).offset(0).bytes(1 << 20).end();
    tale.wait(poller, K::WaitNetwork, 289_990, 300_000).by_packet().end();
    tale.wait(fresh, K::WaitRunqueue, 289_900, 289_950).end();
    tale.wait(fresh, K::WaitLock, 295_000, 300_000).end();
    tale.wait(server, K::FileRead, 0, 288_900).end();
    tale.span(server, K::NetSend, 288_900, 288_990).on(far).offset(0).bytes(1 << 20).end();
    let e = tale.explain();
    assert_charged(&e, "server.read", 288.9);
    assert!(charged_ms(&e, "client.lock") < 0.1, "{:#?}", e.critical_path);
}

#[test]
fn a_server_stopped_by_a_signal_stands_still() {
    let mut tale = Tale::new(3_000_000, 2);
    let client = tale.thread(Role::Client, "curl", 100, 100);
    let server = tale.thread(Role::Server, "nginx", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    tale.span(client, K::NetSend, 900, 1_000).on(near).bytes(100).end();
    tale.wait(client, K::NetReceive, 1_000, 2_900_000).on(near).by_packet().end();
    tale.wait(server, K::WaitNetwork, 0, 1_010).on(far).by_packet().end();
    tale.span(server, K::NetReceive, 1_010, 1_020).on(far).bytes(100).end();
    tale.wait(server, K::WaitOther, 2_000, 2_800_000).result(-19).woken_by(client).end();
    tale.span(server, K::NetSend, 2_899_900, 2_899_990).on(far).bytes(100).end();
    let e = tale.explain();
    assert_charged(&e, "server.think", 2_798.0);
    assert_eq!(place_of(&e, "server.think"), "server nginx: stopped");
}

#[test]
fn a_peer_that_reads_slowly_is_what_a_sender_waits_for() {
    let mut tale = Tale::new(100_000, 2);
    let client = tale.thread(Role::Client, "transfer", 100, 100);
    let server = tale.thread(Role::Server, "transfer", 200, 200);
    let (near, far) = tale.two_ends(CONNECTION);
    for n in 0..10_u64 {
        let t = n * 10_000;
        tale.span(client, K::NetSend, t, t + 100).on(near).bytes(1 << 20).end();
        tale.wait(client, K::NetSend, t + 100, t + 10_000).on(near).by_packet().end();
        tale.wait(server, K::WaitTimer, t, t + 9_500).by_timer().end();
        tale.span(server, K::NetReceive, t + 9_500, t + 9_900).on(far).bytes(1 << 20).end();
    }
    let e = tale.explain();
    assert!(charged_ms(&e, "server.think") > 90.0, "{:#?}", e.critical_path);
    assert_eq!(e.verdict.cause.name(), "server.think");
}

#[test]
fn a_copy_to_a_server_goes_from_the_file_to_the_servers_file() {
    let mut tale = Tale::new(10_000, 2);
    let client = tale.thread(Role::Client, "globus-url-copy", 100, 100);
    let server = tale.thread(Role::Server, "globus-gridftp-server", 200, 200);
    let source = tale.file("/data/big");
    let sink = tale.file("/srv/big");
    for n in 0..4_u64 {
        let (near, far) = tale.two_ends(&format!("10.0.0.1:{} > 10.0.0.2:5000", 40_000 + n));
        let t = n * 2_000;
        tale.span(client, K::FileRead, t, t + 400).on(source).bytes(1 << 20).end();
        tale.span(client, K::NetSend, t + 400, t + 800).on(near).bytes(1 << 20).end();
        tale.span(server, K::NetReceive, t + 800, t + 1_200).on(far).bytes(1 << 20).end();
        tale.span(server, K::FileWrite, t + 1_200, t + 1_600).on(sink).bytes(1 << 20).end();
    }
    let e = tale.explain();
    let [transfer] = e.transfers.as_slice() else { panic!("{:#?}", e.transfers) };
    assert_eq!((transfer.from.as_str(), transfer.to.as_deref()), ("/data/big", Some("10.0.0.2:5000: /srv/big")));
    assert_eq!(e.size_bytes, Some(4 << 20));
}

/// A thousand files of 40 KiB, compressed into one of a quarter of their size; a program's own reading beside a large file does not count.
#[test]
fn small_files_are_what_was_transferred_where_nothing_is_larger() {
    let transferred = |each_bytes: u64, sink_bytes: u64| {
        let mut tale = Tale::new(10_000, 2);
        let tar = tale.thread(Role::Client, "tar", 100, 100);
        let sink = tale.file("/data/all.tar.xz");
        for n in 0..1_000_u64 {
            let source = tale.file(&format!("/data/small/{n}"));
            tale.span(tar, K::FileRead, n * 8, n * 8 + 8).on(source).bytes(each_bytes).end();
        }
        for n in 0..10_u64 {
            tale.span(tar, K::FileWrite, 8_000 + n * 200, 8_200 + n * 200).on(sink).bytes(sink_bytes / 10).end();
        }
        let e = tale.explain();
        let [transfer] = e.transfers.as_slice() else { panic!("{:#?}", e.transfers) };
        (transfer.from.clone(), transfer.to.clone(), e.size_bytes)
    };
    assert_eq!(transferred(40 << 10, 10 << 20), ("1,000 files".to_owned(), Some("/data/all.tar.xz".to_owned()), Some(40_000 << 10)));
    assert_eq!(transferred(4 << 10, 10 << 20), ("an unnamed source".to_owned(), Some("/data/all.tar.xz".to_owned()), Some(10 << 20)));
}

#[test]
fn what_samples_say_of_running_is_evidence() {
    let mut tale = Tale::new(100_000, 2);
    for (class, name) in [("class.0", "user"), ("class.1", "read")] {
        tale.meta.attributes.push((class.into(), name.into()));
    }
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    tale.wait(cp, K::FileRead, 0, 10).end();
    for n in 0..90_u64 {
        let at = Time::from_monotonic_ns((n * 1_000 + 500) as i64 * 1_000);
        let (track, host) = (Some(cp), thalweg_trace::HostId(0));
        tale.event(Event::Sample(thalweg_trace::Sample {
            at,
            host,
            cpu: 0,
            track,
            class: u16::from(n % 10 < 7),
            stack: None,
            weight_ns: 1_000_000,
        }));
    }
    let e = tale.explain();
    assert!(evidence_of(&e, "client.cpu").contains("70 % of it copying in read(2)"), "{}", evidence_of(&e, "client.cpu"));
}

#[test]
fn what_is_unknown_says_why() {
    let mut tale = Tale::new(10_000, 2);
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    tale.wait(cp, K::WaitOther, 0, 8_000).woken_by(cp).end();
    let e = tale.explain();
    assert_charged(&e, "unknown", 8.0);
    assert!(evidence_of(&e, "unknown").contains("for a reason that the recorder could not see"), "{}", evidence_of(&e, "unknown"));
}

#[test]
fn a_sleep_that_another_thread_cut_short_is_what_that_thread_did() {
    let mut tale = Tale::new(20_000, 2);
    let main = tale.thread(Role::Client, "xrdcp", 100, 100);
    let timer = tale.thread(Role::Client, "xrdcp", 100, 101);
    let vda = tale.device("vda");
    let source = tale.object(thalweg_trace::ObjectKind::File, "/data/big", &[("device", "vda"), ("opened", "read")]);
    tale.wait(main, K::FileRead, 1_000, 18_000).on(source).by_device(vda).end();
    tale.wait(timer, K::WaitTimer, 500, 19_000).woken_by(main).end();
    tale.wait(main, K::WaitLock, 19_010, 19_100).woken_by(timer).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 17.0);
}

#[test]
fn what_was_only_looked_at_is_not_taken_for_a_lock() {
    let explained = |looked_at: bool| {
        let mut tale = Tale::new(10_000, 2);
        let main = tale.thread(Role::Client, "tool", 100, 100);
        tale.wait(main, K::WaitLock, 1_000, 9_000).end();
        if looked_at {
            tale.meta.attributes.push(("resolution_ns".into(), "50000000".into()));
        }
        tale.explain()
    };
    assert_charged(&explained(false), "client.lock", 8.0);
    let e = explained(true);
    assert_charged(&e, "unknown", 8.0);
    assert!(evidence_of(&e, "unknown").contains("which one ended it"), "{}", evidence_of(&e, "unknown"));
}
