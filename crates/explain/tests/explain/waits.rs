//! Targets of waits: pauses between looks, failed connections, bytes carried by others, locks released by others.

use crate::common::*;
use thalweg_trace::{ObjectId, ObjectKind, Role, SpanKind as K, TrackId, WakerContext};

/// A client that sleeps 10 ms nine times, looks between, and succeeds the last time. `look` writes the look that ended by an instant.
fn looking(look: impl Fn(&mut Tale, TrackId, u64, bool)) -> Tale {
    let mut tale = Tale::new(100_000, 4);
    let client = tale.client("client");
    for n in 0..9 {
        tale.wait(client, K::WaitTimer, 1_000 + n * 11_000, 11_000 + n * 11_000).by_timer().end();
        look(&mut tale, client, 11_500 + n * 11_000, n == 8);
    }
    tale
}

fn of_file(tale: &mut Tale, client: TrackId, file: ObjectId, at: u64, error: i64) {
    tale.span(client, K::FileStat, at, at).observed().on(file).result(-error).end();
}

#[test]
fn a_pause_between_looks_is_for_what_was_looked_for() {
    let mut files = Vec::new();
    let mut tale = looking(|_, _, _, _| ());
    files.push(tale.file("/srv/result"));
    let client = TrackId::new(1).unwrap();
    for n in 0..9 {
        of_file(&mut tale, client, files[0], 11_500 + n * 11_000, if n == 8 { 0 } else { 2 });
    }
    let e = tale.explain();
    assert!(charged_ms(&e, "client.lock") > 85.0, "{:#?}", e.critical_path);
    assert!(place_of(&e, "client.lock").contains("/srv/result to appear"), "{:?}", e.critical_path[0]);
    assert!(e.what_if.iter().all(|w| w.id != "no_think" || w.speedup < 1.2), "{:?}", e.what_if);
}

#[test]
fn a_pause_without_looks_is_one() {
    let e = looking(|_, _, _, _| ()).explain();
    assert!(charged_ms(&e, "client.think") > 85.0, "{:#?}", e.critical_path);
    assert!(e.what_if.iter().any(|w| w.id == "no_think"), "{:?}", e.what_if);
}

#[test]
fn who_waits_at_an_end_of_its_own_pair_of_sockets_until_a_time_limit_pauses() {
    let waiting_at = |name: &str| {
        let mut tale = Tale::new(100_000, 4);
        let client = tale.client("curl");
        let (socket, (near, far)) = (tale.object(ObjectKind::Socket, name, &[]), tale.two_ends("10.0.0.1:5000 > 10.0.0.2:80"));
        let server = tale.server("nginx");
        for n in 0..9_u64 {
            tale.span(server, K::NetSend, n * 11_000, n * 11_000 + 100).on(far).bytes(1_000).offset(n * 1_000).end();
            tale.wait(client, K::WaitNetwork, 1_000 + n * 11_000, 11_000 + n * 11_000).on(socket).by_timer().end();
            tale.span(client, K::NetReceive, 11_000 + n * 11_000, 11_200 + n * 11_000).on(near).bytes(1_000).offset(n * 1_000).end();
        }
        tale.explain()
    };
    // An event loop with a rate limit leaves the connection out of its wait set: arrived bytes stay unread.
    let e = waiting_at("unix:[1406395]");
    assert!(charged_ms(&e, "client.think") > 85.0, "{:#?}", e.critical_path);
    assert!(e.summary.sentence.contains("curl slept"), "{}", e.summary.sentence);
    // A process with an address was asked, and did not answer.
    let e = waiting_at("unix:/run/log");
    assert!(charged_ms(&e, "server.unknown") > 85.0, "{:#?}", e.critical_path);
}

#[test]
fn what_fails_each_time_is_not_what_was_looked_for() {
    let mut tale = looking(|_, _, _, _| ());
    let (settings, lock) = (tale.file("/root/.settings"), tale.file("/srv/lock"));
    let client = TrackId::new(1).unwrap();
    for n in 0..9 {
        of_file(&mut tale, client, lock, 11_400 + n * 11_000, if n == 8 { 0 } else { 17 });
        of_file(&mut tale, client, settings, 11_500 + n * 11_000, 2);
    }
    let e = tale.explain();
    assert!(place_of(&e, "client.lock").contains("/srv/lock to go away"), "{:?}", e.critical_path[0]);
}

#[test]
fn who_does_not_listen_yet_is_waited_for_and_not_the_sleep() {
    let mut tale = looking(|_, _, _, _| ());
    let client = TrackId::new(1).unwrap();
    for n in 0..8_u64 {
        let (refused, _) = tale.two_ends(&format!("127.0.0.1:{} > 127.0.0.1:80", 5_000 + n));
        tale.span(client, K::NetConnect, 11_500 + n * 11_000, 11_500 + n * 11_000).observed().on(refused).result(-111).end();
    }
    let (taken, _) = tale.two_ends("127.0.0.1:5008 > 127.0.0.1:80");
    tale.span(client, K::NetSend, 99_500, 99_600).on(taken).bytes(100).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "server.unknown") > 70.0, "{:#?}", e.critical_path);
    assert!(place_of(&e, "server.unknown").contains("127.0.0.1:80"), "{:?}", e.critical_path[0]);
}

#[test]
fn a_connection_that_is_given_up_is_what_its_polls_were_for() {
    let mut tale = Tale::new(50_000, 4);
    let client = tale.client("client");
    let (wanted, _) = tale.two_ends("10.0.0.1:5000 > 10.9.9.9:80");
    for n in 0..4 {
        tale.wait(client, K::WaitNetwork, 1_000 + n * 10_000, 10_900 + n * 10_000).by_timer().end();
    }
    tale.span(client, K::NetConnect, 41_000, 41_000).observed().on(wanted).result(-125).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "server.unknown") > 35.0, "{:#?}", e.critical_path);
    assert!(place_of(&e, "server.unknown").contains("10.9.9.9:80"), "{:?}", e.critical_path[0]);
}

/// A request and its answer, with bytes sent long before: the server's answer comes at 9 ms, sent by another thread of its process.
#[test]
fn bytes_are_not_under_way_for_longer_than_a_machines_own_wire_has_them() {
    let mut tale = Tale::new(100_000, 4);
    let client = tale.client("client");
    let other = tale.thread(Role::Client, "server", 200, 201);
    let worker = tale.thread(Role::Client, "server/worker", 200, 202);
    let (near, served) = tale.two_ends("127.0.0.1:1 > 127.0.0.1:80");
    tale.span(other, K::NetSend, 500, 510).on(served).bytes(10).end();
    tale.span(client, K::NetReceive, 520, 530).on(near).bytes(10).end();
    tale.span(client, K::NetSend, 1_000, 1_010).on(near).bytes(100).end();
    tale.wait(client, K::WaitNetwork, 1_010, 95_000).on(near).by_packet().end();
    tale.wait(other, K::WaitNetwork, 520, 1_020).on(served).by_packet().end();
    tale.span(other, K::NetReceive, 1_020, 1_030).on(served).bytes(100).end();
    // Its worker syncs, and wakes no recorded thread until the answer is sent.
    tale.wait(other, K::WaitNetwork, 1_050, 94_900).on(served).by_packet().end();
    tale.wait(worker, K::FileSync, 2_000, 94_000).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "network.latency") < 5.0, "{:#?}", e.critical_path);
}

#[test]
fn a_process_that_carries_a_connection_is_not_who_is_waited_for() {
    let mut tale = Tale::new(20_000, 4);
    let client = tale.client("client");
    let server = tale.server("server");
    let carrier = tale.thread(Role::Client, "vpn", 300, 301);
    let (near, served) = tale.two_ends("10.8.0.1:1 > 10.8.0.2:80");
    tale.span(client, K::NetSend, 900, 1_000).on(near).bytes(100).offset(0).end();
    // The packets arrive by the carrier's write to its device, in its own context.
    tale.wait(server, K::WaitLock, 0, 6_000).woken_by(carrier).end();
    tale.span(server, K::NetReceive, 6_000, 6_010).on(served).bytes(100).offset(0).end();
    tale.span(server, K::NetSend, 6_900, 7_000).on(served).bytes(100).offset(0).end();
    tale.wait(carrier, K::WaitNetwork, 0, 5_990).by_packet().end();
    tale.wait(carrier, K::WaitNetwork, 6_100, 11_990).by_packet().end();
    tale.wait(client, K::WaitLock, 1_000, 12_000).woken_by(carrier).end();
    tale.span(client, K::NetReceive, 12_000, 12_010).on(near).bytes(100).offset(0).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "network.latency") > 9.5, "{:#?}", e.critical_path);
    assert!(e.critical_path.iter().all(|c| !c.place.contains("vpn") || c.share < 0.05), "{:#?}", e.critical_path);
}

#[test]
fn a_semaphore_that_a_stranger_gave_is_what_was_waited_for() {
    let mut tale = Tale::new(10_000, 4);
    let client = tale.client("client");
    let other = tale.thread(Role::Client, "client", 300, 301);
    let semaphore = tale.object(ObjectKind::Lock, "semaphore", &[]);
    tale.wait(client, K::WaitLock, 0, 9_000).on(semaphore).woken_by(other).end();
    tale.seen(other, 9_000);
    let e = tale.explain();
    assert_charged(&e, "client.lock", 9.0);
    assert!(place_of(&e, "client.lock").contains("semaphore from another client (process 300)"), "{:?}", e.critical_path[0]);
}

#[test]
fn threads_that_take_turns_are_counted() {
    let mut tale = Tale::new(100_000, 4);
    let main = tale.client("client");
    let threads: Vec<TrackId> = (0..4).map(|n| tale.thread(Role::Client, "client/worker", 100, 101 + n)).collect();
    let lock = tale.object(ObjectKind::Lock, "mutex", &[]);
    for turn in 0..96_u64 {
        let (own, next) = ((turn % 4) as usize, ((turn + 1) % 4) as usize);
        tale.span(threads[own], K::CpuRun, turn * 1_000, turn * 1_000 + 1_000).end();
        let since = (turn * 1_000).saturating_sub(2_000);
        tale.wait(threads[next], K::WaitLock, since, turn * 1_000 + 1_000).on(lock).woken_by(threads[own]).end();
    }
    tale.wait(main, K::WaitLock, 0, 97_000).woken_by(threads[3]).woken_in(WakerContext::Task).end();
    let e = tale.explain();
    let said: Vec<&str> = e.critical_path.iter().map(|c| c.evidence.as_str()).collect();
    assert!(said.iter().any(|evidence| evidence.contains("at most one of its 4 threads at a time")), "{said:?}");
}

#[test]
fn a_receiver_queues_for_a_processor_only_from_when_its_bytes_were_sent() {
    let mut tale = Tale::new(420_000, 2);
    let (client, server) = (tale.client("request"), tale.server("io1"));
    let (near, far) = tale.connection("10.0.0.1:1 > 10.0.0.2:2");
    // The client has nothing to send for 400 ms. By the kernel, the server queued for all that time.
    let file = tale.file("big");
    tale.span(client, K::FileRead, 0, 400_000).blocked().on(file).end();
    tale.span(client, K::NetSend, 400_000, 400_500).on(near).request(1).bytes(1000).end();
    tale.span(server, K::NetReceive, 10_000, 402_000).ran(200).runnable(391_000).on(far).request(1).bytes(1000).end();
    tale.span(server, K::NetSend, 409_000, 409_500).on(far).request(1).bytes(10).end();
    tale.span(client, K::NetReceive, 401_000, 410_000).blocked().on(near).request(1).bytes(10).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 400.0);
    assert!(charged_ms(&e, "server.runqueue") < 2.0, "{:?}", e.critical_path);
}

/// A client that gets no answer twice, pauses, and asks again over a new connection; it looks for the file that it will make before it
/// asks, and when it has the answer.
fn asked_again(answers: bool) -> Tale {
    let mut tale = Tale::new(3_100_000, 2);
    let (wget, python) = (tale.thread(Role::Client, "wget", 100, 100), tale.thread(Role::Server, "python3", 200, 200));
    let file = tale.file("/w/page.html");
    tale.span(wget, K::FileStat, 5_000, 5_000).on(file).result(-2).end();
    for (n, at) in [10_000, 1_020_000, 3_030_000].into_iter().enumerate() {
        let (near, far) = tale.two_ends(&format!("127.0.0.1:{} > 127.0.0.1:80", 5_000 + n));
        tale.span(wget, K::NetSend, at, at).on(near).bytes(187).offset(0).end();
        tale.wait(python, K::WaitNetwork, at - 5_000, at + 100).on(far).by_packet().end();
        tale.span(python, K::NetReceive, at + 200, at + 200).on(far).bytes(187).offset(0).end();
        if n == 2 && answers {
            tale.span(python, K::NetSend, at + 1_000, at + 1_000).on(far).bytes(400).offset(0).end();
            tale.wait(wget, K::WaitNetwork, at + 100, at + 1_100).on(near).by_packet().end();
            tale.span(wget, K::NetReceive, at + 1_200, at + 1_200).on(near).bytes(400).offset(0).end();
        }
    }
    for (from, until) in [(11_000, 1_011_000), (1_021_000, 3_021_000)] {
        tale.wait(wget, K::WaitTimer, from, until).by_timer().end();
    }
    tale.span(wget, K::FileStat, 3_032_000, 3_032_000).on(file).result(-2).end();
    tale.span(wget, K::FileOpen, 3_032_500, 3_032_500).on(file).result(0).end();
    tale
}

#[test]
fn a_pause_after_no_answer_is_a_try_and_a_file_that_the_client_makes_itself_is_not_waited_for() {
    let e = asked_again(true).explain();
    assert_charged(&e, "server.lock", 3_000.0);
    assert!(place_of(&e, "server.lock").contains("python3"), "{:?}", e.critical_path);
    // A thread that is never answered paces itself.
    let e = asked_again(false).explain();
    assert_charged(&e, "client.think", 3_000.0);
}

/// A client that asks the same at intervals over new connections, and waits for each answer as it pauses, in a poll: a pause is one that no
/// answer ended.
#[test]
fn a_wait_for_an_answer_is_no_pause_between_two_that_are() {
    let mut tale = Tale::new(3_020_000, 2);
    let (curl, python) = (tale.thread(Role::Client, "curl", 100, 100), tale.thread(Role::Server, "python3", 200, 200));
    for n in 0..4_u64 {
        let (near, far) = tale.two_ends(&format!("127.0.0.1:{} > 127.0.0.1:80", 5_000 + n));
        let (at, bytes) = (10_000 + 1_000_000 * n, if n < 3 { 144 } else { 116 });
        tale.wait(python, K::WaitNetwork, at - 5_000, at + 100).on(far).by_packet().end();
        tale.span(curl, K::NetSend, at, at).on(near).bytes(79).offset(0).end();
        tale.wait(curl, K::WaitNetwork, at + 10, at + 600).on(near).by_packet().end();
        tale.span(python, K::NetReceive, at + 200, at + 200).on(far).bytes(79).offset(0).end();
        tale.span(python, K::NetSend, at + 590, at + 590).on(far).bytes(bytes).offset(0).end();
        tale.span(curl, K::NetReceive, at + 610, at + 610).on(near).bytes(bytes).offset(0).end();
        if n < 3 {
            tale.wait(curl, K::WaitNetwork, at + 700, at + 999_800).by_timer().end();
        }
    }
    let e = tale.explain();
    assert_charged(&e, "server.lock", 2_997.3);
}

/// A server first seen when it takes its first connection, and that hands it to a thread that it makes: the time before is its caller's.
#[test]
fn of_a_server_that_is_met_late_its_own_thread_is_not_who_it_was_started_for() {
    let mut tale = Tale::new(1_010_000, 2);
    let client = tale.thread(Role::Client, "client", 100, 100);
    let (server, worker) = (tale.thread(Role::Server, "python3", 200, 200), tale.thread(Role::Server, "python3/python3", 200, 201));
    let (near, far) = tale.two_ends("127.0.0.1:5000 > 127.0.0.1:80");
    tale.wait(client, K::WaitTimer, 1_000, 1_000_000).by_timer().end();
    tale.seen(server, 1_000_300);
    tale.wait(server, K::WaitNetwork, 1_000_300, 1_000_301).on(far).by_packet().end();
    tale.span(client, K::NetSend, 1_000_350, 1_000_350).on(near).bytes(18).end();
    tale.wait(client, K::NetReceive, 1_000_360, 1_002_000).on(near).by_packet().end();
    tale.made(worker, 1_000_800, server);
    tale.wait(server, K::WaitLock, 1_000_850, 1_000_950).woken_by(worker).end();
    tale.span(worker, K::NetReceive, 1_001_100, 1_001_100).on(far).bytes(18).end();
    tale.span(worker, K::NetSend, 1_001_900, 1_001_900).on(far).bytes(533).end();
    tale.span(client, K::NetReceive, 1_002_000, 1_002_000).on(near).bytes(533).end();
    let e = tale.explain();
    assert_charged(&e, "client.think", 999.0);
}
