//! Predictions for changes of any program's run, on recordings with a truth in closed form.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_explain::document::Grounds;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectId, ObjectKind, Role, SpanKind as K, Time, TrackId, WakerContext};

/// Milliseconds predicted for a change.
#[track_caller]
fn predicted_ms(e: &Explanation, id: &str) -> f64 {
    let what_if = e.what_if.iter().find(|w| w.id == id);
    1e3 * what_if.unwrap_or_else(|| panic!("no {id} in {:#?}, {:?}", e.what_if, e.model)).predicted_wall_s
}

/// Asserts a prediction, within a hundredth; and that the run without a change is replayed unchanged.
#[track_caller]
fn assert_predicted(e: &Explanation, id: &str, ms: f64) {
    let error = e.model.error.unwrap_or_else(|| panic!("{:?}", e.model));
    assert!(error <= 0.02, "replayed {error} off");
    let is = predicted_ms(e, id);
    assert!((is / ms - 1.0).abs() < 0.01, "{id}: {is} ms, expected {ms} ms");
}

fn ends(tale: &mut Tale, name: &str) -> (ObjectId, ObjectId) {
    let near = tale.object(ObjectKind::Connection, name, &[("end", "client")]);
    (near, tale.object(ObjectKind::Connection, name, &[("end", "server")]))
}

fn on_device(tale: &mut Tale, path: &str, device: &str) -> ObjectId {
    tale.object(ObjectKind::File, path, &[("device", device)])
}

/// Bytes moved while running, without length, at an instant.
fn moved(tale: &mut Tale, track: TrackId, kind: K, at_us: u64, object: ObjectId, from: u64, bytes: u64) {
    tale.span(track, kind, at_us, at_us).on(object).bytes(bytes).offset(from).end();
}

#[test]
fn a_reader_gains_half_of_what_it_waited_for_its_device() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("cp");
    let file = on_device(&mut tale, "/data/big", "vda");
    for n in 0..10 {
        // 2 ms of work, 8 ms of waiting; another wait between, so that nothing is read ahead.
        tale.span(main, K::FileRead, n * 10_000 + 1_000, n * 10_000 + 9_000).blocked().on(file).end();
        tale.span(main, K::WaitTimer, n * 10_000 + 9_500, n * 10_000 + 9_900).blocked().end();
    }
    assert_predicted(&tale.explain(), "device.read.x2", 60.0);
}

#[test]
fn a_thread_that_only_computes_at_its_end_ends_others_waits_until_then() {
    let mut tale = Tale::new(200_000, 2);
    let (tar, gzip) = (tale.thread(Role::Client, "tar", 100, 100), tale.thread(Role::Client, "gzip", 101, 101));
    let pipe = tale.object(ObjectKind::Pipe, "pipe", &[]);
    tale.span(gzip, K::WaitLock, 0, 1_000).blocked().on(pipe).woken_by(tar).end();
    // A pipe's capacity each 10 ms, and finally its exit. Nothing is recorded of gzip meanwhile: it runs.
    for n in 0..20 {
        tale.span(tar, K::WaitLock, n * 10_000 + 1_100, (n + 1) * 10_000).blocked().on(pipe).woken_by(gzip).end();
    }
    let e = tale.explain();
    let error = e.model.error.unwrap_or_else(|| panic!("{:?}", e.model));
    assert!(error <= 0.01, "replayed {error} off");
    assert!((predicted_ms(&e, "cpu.client.x2") - 100.0).abs() < 5.0, "{:?}", e.what_if);
}

#[test]
fn a_device_that_reads_on_while_the_thread_runs_gives_half_of_the_whole_time() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("cp");
    let file = on_device(&mut tale, "/data/big", "vda");
    for n in 0..10 {
        tale.span(main, K::FileRead, n * 10_000 + 3_000, (n + 1) * 10_000).blocked().on(file).end();
    }
    // The first is not read ahead (3 ms, then 3.5); then 5 ms each, of which the thread runs 3.
    assert_predicted(&tale.explain(), "device.read.x2", 6.5 + 9.0 * 5.0);
}

#[test]
fn without_sleeps_or_syncs_a_program_is_as_much_faster_as_they_were_long() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("dd");
    let file = on_device(&mut tale, "/data/big", "vda");
    for n in 0..10 {
        tale.span(main, K::WaitTimer, n * 10_000 + 1_000, n * 10_000 + 4_000).blocked().end();
        tale.span(main, K::FileSync, n * 10_000 + 5_000, n * 10_000 + 9_000).blocked().on(file).end();
    }
    let e = tale.explain();
    assert_predicted(&e, "no_think", 70.0);
    assert_predicted(&e, "no_sync", 60.0);
    assert_predicted(&e, "device.write.x2", 80.0);
}

/// A client that sends 1 MiB and waits for the answer, `count` times: 2 ms of its own, 1 ms of transit, 5 ms of the server's (3 of them in
/// a sync), 1 ms back.
fn serial(count: u64) -> Tale {
    let mut tale = Tale::new(count * 9_000, 2);
    let main = tale.client("nfs-cp");
    let server = tale.server("nfsd");
    let (near, far) = ends(&mut tale, "127.0.0.1:5 > 127.0.0.1:6");
    let file = on_device(&mut tale, "/srv/x", "vdb");
    for n in 0..count {
        let (t, mib) = (n * 9_000, 1 << 20);
        moved(&mut tale, main, K::NetSend, t + 2_000, near, n * mib, mib);
        tale.span(main, K::WaitNetwork, t + 2_000, t + 9_000).blocked().on(near).woken_in(WakerContext::Softirq).end();
        moved(&mut tale, main, K::NetReceive, t + 9_000, near, n * 100, 100);
        tale.span(server, K::WaitNetwork, if n == 0 { 0 } else { t - 1_000 }, t + 3_000).blocked().on(far).end();
        moved(&mut tale, server, K::NetReceive, t + 3_000, far, n * mib, mib);
        tale.span(server, K::FileSync, t + 4_000, t + 7_000).blocked().on(file).end();
        moved(&mut tale, server, K::NetSend, t + 8_000, far, n * 100, 100);
    }
    tale
}

#[test]
fn what_a_server_does_less_its_serial_client_waits_less() {
    let e = serial(20).explain();
    assert_predicted(&e, "no_sync", 20.0 * 6.0);
    assert_predicted(&e, "device.write.x2", 20.0 * 7.5);
    assert_predicted(&e, "rtt.half", 20.0 * 8.0);
}

#[test]
fn more_requests_in_flight_are_served_one_at_a_time_by_the_one_thread_that_served_them() {
    let e = serial(20).explain();
    // Of the 9 ms that each takes, the server's thread has it for 5; the first and the last are in flight for 2 each besides.
    let is = predicted_ms(&e, "requests.x4");
    assert!((100.0..106.0).contains(&is), "{is}");
}

/// 100 receives of 100 KB that a link delivers at 1 MB/ms; all was sent immediately into a large buffer.
fn download() -> Tale {
    let mut tale = Tale::new(10_020, 2);
    let main = tale.client("curl");
    let server = tale.server("nginx");
    let (near, far) = ends(&mut tale, "127.0.0.1:5 > 127.0.0.1:6");
    moved(&mut tale, main, K::NetSend, 0, near, 0, 100);
    tale.span(server, K::AppOther, 0, 10).end();
    moved(&mut tale, server, K::NetSend, 10, far, 0, 10_000_000);
    tale.span(server, K::WaitTimer, 10, 10_000).blocked().end();
    for n in 0..100 {
        tale.span(main, K::NetReceive, n * 100 + 10 * u64::from(n > 0), n * 100 + 100).blocked().on(near).end();
        moved(&mut tale, main, K::NetReceive, n * 100 + 110.min(100 + 10 * (n + 1)), near, n * 100_000, 100_000);
    }
    tale
}

#[test]
fn a_link_twice_as_fast_brings_bytes_in_half_the_time() {
    let e = download().explain();
    let is = predicted_ms(&e, "link.x2");
    assert!((4.9..5.3).contains(&is), "{is}");
}

#[test]
fn a_thread_that_waits_for_a_lock_gains_its_holders_time() {
    let mut tale = Tale::new(50_000, 2);
    let main = tale.client("main");
    let holder = tale.client("main/holder");
    for n in 0..5 {
        let t = n * 10_000;
        tale.span(main, K::WaitLock, t + 2_000, t + 9_000).blocked().woken_by(holder).end();
        tale.span(holder, K::WaitTimer, t + 1_000, t + 9_000).blocked().end();
    }
    let e = tale.explain();
    assert!(e.model.error.unwrap() < 0.02, "{:?}", e.model);
    assert!(e.what_if.iter().any(|w| w.id == "no_lock" || w.id == "no_think"), "{:?}", e.what_if);
}

#[test]
fn a_poll_that_times_out_waits_for_what_comes_in_the_end() {
    let mut tale = Tale::new(260_000, 2);
    let main = tale.client("nfs-cp");
    let server = tale.server("nfsd");
    let (near, far) = ends(&mut tale, "127.0.0.1:5 > 127.0.0.1:6");
    let file = on_device(&mut tale, "/srv/x", "vdb");
    moved(&mut tale, main, K::NetSend, 1_000, near, 0, 100);
    // Two polls of 100 ms, then the answer.
    for n in 0..2 {
        tale.span(main, K::WaitNetwork, 1_000 + n * 100_000, 1_000 + (n + 1) * 100_000).blocked().woken_in(WakerContext::Timer).end();
    }
    tale.span(main, K::WaitNetwork, 201_010, 250_000).blocked().on(near).end();
    moved(&mut tale, main, K::NetReceive, 250_000, near, 0, 100);
    tale.span(server, K::WaitNetwork, 0, 1_000).blocked().on(far).end();
    moved(&mut tale, server, K::NetReceive, 1_000, far, 0, 100);
    tale.span(server, K::FileSync, 2_000, 242_000).blocked().on(file).end();
    moved(&mut tale, server, K::NetSend, 250_000, far, 0, 100);
    assert_predicted(&tale.explain(), "no_sync", 20.0);
}

#[test]
fn queueing_for_processors_of_our_own_comes_out_anew() {
    // Two threads with 10 ms of work each on one processor, in turns of 1 ms.
    let mut tale = Tale::new(20_000, 1);
    let main = tale.client("main");
    let other = tale.client("main/other");
    for n in 0..10 {
        tale.span(main, K::WaitRunqueue, n * 2_000, n * 2_000 + 1_000).blocked().woken_by(other).end();
        tale.span(other, K::WaitRunqueue, n * 2_000 + 1_000, n * 2_000 + 2_000).blocked().woken_by(main).end();
    }
    // Beside each other, they slow each other down by a tenth, except for what the one has left when the other is done.
    assert_predicted(&tale.explain(), "processors.x2", 10.9);
}

#[test]
fn a_processor_quota_taken_away_gives_back_what_it_took() {
    let mut tale = Tale::new(100_000, 2);
    tale.meta.attributes.push(("cgroup.cpu_quota".into(), "0.5".into()));
    let main = tale.client("main");
    for n in 0..10 {
        tale.span(main, K::WaitRunqueue, n * 10_000 + 5_000, n * 10_000 + 10_000).blocked().end();
    }
    assert_predicted(&tale.explain(), "no_cpu_quota", 50.0);
}

/// A client that polls for the answer, sleeping 2 ms between polls; each answer comes 3 ms after the request.
#[test]
fn looking_now_and_then_costs_what_is_left_of_the_last_sleep() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("copy");
    let server = tale.server("server");
    let (near, far) = ends(&mut tale, "127.0.0.1:5 > 127.0.0.1:6");
    for n in 0..10 {
        let t = n * 10_000;
        moved(&mut tale, main, K::NetSend, t + 1_000, near, n * 100, 100);
        for look in 0..2 {
            let from = t + 1_000 + look * 4_000;
            tale.span(main, K::WaitNetwork, from, from + 4_000).blocked().on(near).woken_in(WakerContext::Timer).end();
        }
        moved(&mut tale, main, K::NetReceive, t + 9_000, near, n * 100, 100);
        tale.span(server, K::WaitNetwork, if n == 0 { 0 } else { t - 4_000 }, t + 1_000).blocked().on(far).end();
        moved(&mut tale, server, K::NetReceive, t + 1_000, far, n * 100, 100);
        moved(&mut tale, server, K::NetSend, t + 6_000, far, n * 100, 100);
    }
    // 8 ms of waiting become the server's 5.
    assert_predicted(&tale.explain(), "no_poll", 70.2);
}

#[test]
fn a_sleep_that_another_thread_ended_is_no_sleep() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("xrdcp");
    let helper = tale.client("xrdcp/helper");
    let file = on_device(&mut tale, "/data/big", "vda");
    tale.span(main, K::FileRead, 0, 80_000).blocked().on(file).end();
    tale.span(helper, K::WaitTimer, 0, 80_000).blocked().woken_by(main).end();
    tale.span(main, K::WaitLock, 80_000, 90_000).blocked().woken_by(helper).end();
    assert_predicted(&tale.explain(), "device.read.x2", 60.0);
}

#[test]
fn a_wait_that_timed_out_and_was_begun_again_waits_for_who_ended_it() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("thalweg");
    let worker = tale.client("thalweg/worker");
    let file = on_device(&mut tale, "/data/big", "vda");
    for n in 0..8 {
        tale.span(main, K::WaitLock, n * 10_000, n * 10_000 + 9_900).blocked().woken_in(WakerContext::Timer).end();
    }
    tale.span(main, K::WaitLock, 80_000, 90_000).blocked().woken_by(worker).end();
    tale.span(worker, K::FileRead, 0, 90_000).blocked().on(file).end();
    assert_predicted(&tale.explain(), "device.read.x2", 55.0);
}

#[test]
fn what_was_asked_for_before_the_wait_is_the_devices_time_too() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("cp");
    let file = on_device(&mut tale, "/data/big", "vda");
    let device = tale.device("vda");
    for n in 0..10 {
        // The device is busy all the time; the thread runs 4 ms of every 10, and waits in two other ways between.
        let t = n * 10_000;
        tale.span(device, K::DiskRead, t, t + 10_000).observed().end();
        tale.span(main, K::WaitRunqueue, t + 1_000, t + 2_000).blocked().end();
        tale.span(main, K::FileRead, t + 4_000, t + 10_000).blocked().on(file).end();
    }
    assert_predicted(&tale.explain(), "device.read.x2", 50.0);
}

/// A sender with a window of 100 KB in flight, on a path of 5 ms in each direction: 100 KB each 10 ms.
#[test]
fn a_window_four_times_as_large_carries_four_times_as_much() {
    let mut tale = Tale::new(410_000, 2);
    let main = tale.client("put");
    let server = tale.server("server");
    let (near, far) = ends(&mut tale, "10.0.0.1:5 > 10.0.0.2:6");
    for n in 0..40_u64 {
        let t = n * 10_000;
        moved(&mut tale, main, K::NetSend, t, near, n * 100_000, 100_000);
        tale.span(main, K::NetSend, t, t + 10_000).blocked().on(near).end();
        tale.span(server, K::NetReceive, if n == 0 { 0 } else { t - 5_000 }, t + 5_000).blocked().on(far).end();
        moved(&mut tale, server, K::NetReceive, t + 5_000, far, n * 100_000, 100_000);
    }
    use CounterName as C;
    let said = [(C::TcpInFlightBytes, 100_000), (C::TcpSendBufferBytes, 200_000), (C::TcpSrttUs, 10_000), (C::TcpMinRttUs, 10_000)];
    for (name, value) in said {
        tale.event(Event::Counter(Counter { of: CounterOf::Object(near), name, at: Time::from_monotonic_ns(0), value }));
    }
    let e = tale.explain();
    assert!(e.model.error.unwrap() < 0.02, "{:?}", e.model);
    // A window four times as large each round trip; the first and the last round trip stay as long.
    let is = predicted_ms(&e, "window.x4");
    assert!((100.0..130.0).contains(&is), "{is}");
}

/// Recordings of real programs, each with one fault: replayed unchanged, and the remedy is offered.
#[test]
fn what_mends_a_real_program_is_offered() {
    let mended_by = [
        ("copy-lock", "no_lock"),
        ("cp-cpu-quota", "no_hog"),
        ("cp-source-disk", "device.read.x2"),
        ("curl-get-client-pauses", "no_think"),
        ("curl-get-server-pauses", "no_think"),
        ("curl-get-loss", "no_loss"),
        ("curl-get-slow-start", "rtt.half"),
        ("gridftp-put-1-sndbuf", "window.x4"),
        ("nfs-read-server-unrecorded", "server.x2"),
        ("nfs-write-server-disk", "device.write.x2"),
        ("nfs-write-server-stopped", "no_stop"),
        ("rsync-get-server-disk", "device.read.x2"),
        ("store-lost-greetings", "no_loss"),
    ];
    for (name, id) in mended_by {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name);
        let recording = thalweg_trace::Recording::open(&path).expect("a fixture opens");
        let e = thalweg_explain::explain(&recording, &thalweg_explain::Options::default()).expect("explains");
        assert!(e.model.error.is_some_and(|error| error <= 0.10), "{name}: {:?}", e.model);
        assert!(e.what_if.iter().any(|w| w.id == id && w.speedup > 1.1), "{name}: no {id} in {:#?}", e.what_if);
    }
}

#[test]
#[ignore = "a measurement: run it with --release --nocapture"]
fn how_long_predicting_takes() {
    let tale = serial(60_000);
    let begun = std::time::Instant::now();
    let e = tale.explain();
    println!("{:?} for {} spans' worth, {:?}", begun.elapsed(), 60_000 * 7, e.model);
    let quiet = thalweg_explain::Options { what_if: false, ..thalweg_explain::Options::default() };
    let begun = std::time::Instant::now();
    thalweg_explain::explain(&tale.source(), &quiet).unwrap();
    println!("{:?} without", begun.elapsed());
}

/// A client that reads 1 MiB from its disk (6 ms) and sends it, and waits for the answer (4 ms), `count` times.
#[test]
fn reading_the_next_while_the_last_is_sent_takes_the_longer_of_the_two() {
    let mut tale = Tale::new(200_000, 2);
    let main = tale.client("put");
    let server = tale.server("server");
    let (near, far) = ends(&mut tale, "127.0.0.1:5 > 127.0.0.1:6");
    let file = on_device(&mut tale, "/data/big", "vda");
    for n in 0..20 {
        let (t, mib) = (n * 10_000, 1 << 20);
        tale.span(main, K::FileRead, t, t + 5_500).blocked().on(file).end();
        moved(&mut tale, main, K::NetSend, t + 6_000, near, n * mib, mib);
        tale.span(main, K::WaitNetwork, t + 6_000, t + 10_000).blocked().on(near).woken_in(WakerContext::Softirq).end();
        moved(&mut tale, main, K::NetReceive, t + 10_000, near, n * 100, 100);
        tale.span(server, K::WaitNetwork, if n == 0 { 0 } else { t }, t + 6_000).blocked().on(far).end();
        moved(&mut tale, server, K::NetReceive, t + 6_000, far, n * mib, mib);
        moved(&mut tale, server, K::NetSend, t + 10_000, far, n * 100, 100);
    }
    // Twenty reads one after the other, and the last is sent when it was read.
    assert_predicted(&tale.explain(), "overlap.read_send", 20.0 * 6.0 + 4.0);
}

#[test]
fn what_the_recording_does_not_support_is_not_proposed() {
    let e = serial(40).explain();
    let ids: Vec<&str> = e.what_if.iter().map(|w| w.id.as_str()).collect();
    assert!(ids.contains(&"requests.x4"), "{ids:?}");
    for id in ["no_loss", "no_lock", "no_think", "no_slow_start", "no_cpu_quota", "walk.readdirplus"] {
        assert!(!ids.contains(&id), "{id} in {ids:?}");
    }
    assert!(e.what_if.iter().all(|w| w.predicted_wall_s <= 0.99 * e.wall_s), "{:?}", e.what_if);
}

/// A client that asks for a few bytes and waits, `count` times, of a server whose threads have this name.
fn questions(count: u64, server_name: &str) -> Tale {
    let mut tale = Tale::new(count * 2_000, 2);
    let main = tale.client("ask");
    let server = tale.server(server_name);
    let (near, far) = ends(&mut tale, "10.0.0.1:5 > 10.0.0.2:6");
    for n in 0..count {
        let t = n * 2_000;
        moved(&mut tale, main, K::NetSend, t + 100, near, n * 100, 100);
        tale.span(main, K::WaitNetwork, t + 100, t + 2_000).blocked().on(near).woken_in(WakerContext::Softirq).end();
        moved(&mut tale, main, K::NetReceive, t + 2_000, near, n * 100, 100);
        tale.span(server, K::WaitNetwork, if n == 0 { 0 } else { t - 900 }, t + 1_000).blocked().on(far).end();
        moved(&mut tale, server, K::NetReceive, t + 1_000, far, n * 100, 100);
        moved(&mut tale, server, K::NetSend, t + 1_100, far, n * 100, 100);
    }
    tale
}

#[test]
fn attributes_with_names_are_for_who_may_have_listed_some() {
    let proposed = |name| questions(100, name).explain().what_if.iter().map(|w| w.id.clone()).collect::<Vec<String>>();
    let (files, rows) = (proposed("ganesha.nfsd"), proposed("postgres"));
    assert!(files.iter().any(|id| id == "walk.readdirplus"), "{files:?}");
    assert!(rows.iter().any(|id| id == "walk.window.8") && rows.iter().all(|id| id != "walk.readdirplus"), "{rows:?}");
}

#[test]
fn questions_under_way_together_take_an_nth_until_a_thread_has_no_pause_left() {
    // Of 2 ms, the transit takes 1.8; the client's thread works for 0.1, the server's for 0.1.
    let e = questions(512, "postgres").explain();
    let is = |id: &str, ms: f64| {
        let found = predicted_ms(&e, id);
        assert!((found / ms - 1.0).abs() < 0.1, "{id}: {found} ms, expected {ms} ms");
    };
    is("requests.x4", 512.0 * 2.0 / 4.0);
    is("walk.window.8", 512.0 * 2.0 / 8.0);
    // Both then work simultaneously, and slow each other down.
    is("walk.window.128", 512.0 * 0.1 * 1.1);
}

/// Two threads of a client that wake at one instant, with 2 and 4 ms of work, on one processor: the second queues for the first.
#[test]
fn queueing_after_a_wait_is_no_part_of_the_wait() {
    let mut tale = Tale::new(100_000, 1);
    let main = tale.client("main");
    let other = tale.client("main/other");
    for n in 0..10 {
        let t = n * 10_000;
        // Both sleep until 4 ms; the other has the processor first.
        tale.span(other, K::WaitTimer, t, t + 4_000).blocked().end();
        tale.span(main, K::WaitTimer, t, t + 6_000).blocked().runnable(2_000).end();
        tale.span(other, K::WaitLock, t + 6_000, t + 10_000).blocked().woken_by(main).end();
    }
    // Computing twice as fast, the two share the processor for 1 and 2 ms after the sleep of 4.
    assert_predicted(&tale.explain(), "cpu.client.x2", 70.0);
}

#[test]
fn a_thread_begins_when_the_one_that_made_it_has_come_so_far() {
    let mut tale = Tale::new(100_000, 4);
    let main = tale.client("main");
    let (pool, worker) = (tale.client("main/pool"), tale.client("main/worker"));
    let file = on_device(&mut tale, "/data/big", "vda");
    // Main reads for 40 ms and then makes a worker; a thread of a pool that runs all the time is unrelated.
    tale.span(main, K::FileRead, 0, 40_000).blocked().on(file).end();
    tale.span(pool, K::AppOther, 0, 99_000).end();
    tale.span(pool, K::WaitTimer, 99_000, 99_100).blocked().end();
    tale.made(worker, 41_000, main);
    tale.span(worker, K::WaitTimer, 42_000, 90_000).blocked().end();
    tale.span(main, K::WaitLock, 42_000, 90_000).blocked().woken_by(worker).end();
    assert_predicted(&tale.explain(), "device.read.x2", 80.0);
}

/// A client that computes for 4 ms, queues for 6 and is throttled by its group's quota for 10, five times.
fn held_back(tale: &mut Tale, recorded: bool) {
    let main = tale.client("main");
    let other = tale.track(thalweg_trace::Role::None, "somebody");
    let group = tale.object(ObjectKind::Cgroup, "/slow", &[]);
    tale.seen(main, 0);
    for n in 0..5 {
        let t = n * 20_000;
        tale.span(main, K::WaitRunqueue, t + 4_000, t + 10_000).blocked().held_by(other).end();
        let by = tale.span(main, K::WaitRunqueue, t + 10_000, t + 20_000).blocked();
        if recorded { by.on(group).end() } else { by.held_by(other).end() }
    }
}

#[test]
fn without_a_quota_what_the_recording_says_was_its_doing_is_gone_and_no_more() {
    let mut tale = Tale::new(100_000, 2);
    tale.meta.attributes.push(("cgroup.cpu_quota".into(), "0.5".into()));
    held_back(&mut tale, true);
    assert_predicted(&tale.explain(), "no_cpu_quota", 50.0);
}

#[test]
fn where_quotas_would_have_been_recorded_none_is_guessed() {
    let mut tale = Tale::new(100_000, 2);
    held_back(&mut tale, false);
    let e = tale.explain();
    assert!(e.what_if.iter().any(|w| w.id == "no_hog"), "{:?}", e.what_if);
    assert!(e.what_if.iter().all(|w| w.id != "no_cpu_quota"), "{:?}", e.what_if);
}

#[test]
fn what_other_programs_read_meanwhile_keeps_nobody_waiting() {
    let mut tale = Tale::new(100_000, 2);
    let main = tale.client("cp");
    let file = on_device(&mut tale, "/data/big", "vda");
    let device = tale.device("vda");
    for n in 0..5 {
        tale.span(device, K::DiskRead, n * 4_000, n * 4_000 + 3_000).observed().end();
        tale.span(main, K::FileRead, n * 4_000, n * 4_000 + 3_000).blocked().on(file).by_device(device).end();
    }
    // Another program reads while this one sleeps.
    tale.span(device, K::DiskRead, 21_000, 60_000).observed().end();
    tale.span(main, K::WaitTimer, 20_000, 60_000).blocked().end();
    tale.span(device, K::DiskRead, 61_000, 99_000).observed().end();
    tale.span(main, K::WaitTimer, 60_000, 100_000).blocked().end();
    assert_predicted(&tale.explain(), "no_think", 20.0);
}

#[test]
fn who_computes_half_as_long_is_stopped_half_as_long_by_a_quota() {
    let mut tale = Tale::new(100_000, 2);
    held_back(&mut tale, true);
    // Of 20 ms, 4 of computing, 6 behind others and 10 behind the quota.
    assert_predicted(&tale.explain(), "cpu.client.x2", 5.0 * (2.0 + 6.0 + 5.0));
}

#[test]
fn how_many_requests_an_unrecorded_server_serves_at_once_is_not_known() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs/nfs-read-server-unrecorded");
    let recording = thalweg_trace::Recording::open(&path).expect("a fixture opens");
    let e = thalweg_explain::explain(&recording, &thalweg_explain::Options::default()).expect("explains");
    let last = e.what_if.last().expect("changes are proposed");
    assert_eq!((last.id.as_str(), last.basis), ("requests.x4", Grounds::Bounded));
    assert!(last.change.ends_with("(gives this at most)"), "{last:?}");
}

/// Twenty bursts of 80 ms of work each: the reader processes seven eighths of a burst before the writer may continue, and then waits for
/// the next.
fn bursts(at_once: bool) -> Tale {
    let mut tale = Tale::new(20 * 140_000, 2);
    let writer = tale.thread(Role::Client, "python3 (burst.py)", 100, 100);
    let reader = tale.thread(Role::Client, "python3 (work.py)", 200, 200);
    let pipe = tale.object(ObjectKind::Pipe, "pipe:[7]", &[("written_by", "100")]);
    for n in 0..20 {
        let begin = n * 140_000;
        if at_once {
            tale.span(writer, K::WaitLock, begin + 139_000, begin + 140_000).blocked().on(pipe).woken_by(reader).end();
            continue;
        }
        tale.span(reader, K::WaitLock, begin + 10_000, begin + 80_000).blocked().on(pipe).woken_by(writer).end();
        tale.span(writer, K::WaitLock, begin + 80_100, begin + 139_900).blocked().on(pipe).woken_by(reader).end();
    }
    tale
}

#[test]
fn two_that_take_turns_through_a_pipe_are_said_to_and_a_buffer_lets_both_work() {
    let e = bursts(false).explain();
    let said = "python3 (burst.py) and python3 (work.py) took turns through a pipe, 20 times: with a larger buffer both would run at the same time.";
    assert_eq!(e.summary.numbers.first().map(|number| number.sentence.as_str()), Some(said));
    let buffered = e.what_if.iter().find(|what_if| what_if.id == "pipe.room").expect("a prediction");
    // The writer works for 80 ms of 140, the reader for 70: the writer remains, and the reader's last burst.
    assert!((1.6..1.75).contains(&buffered.predicted_wall_s), "{buffered:?}");
    let e = bursts(true).explain();
    assert!(e.summary.numbers.is_empty() && e.what_if.iter().all(|what_if| what_if.id != "pipe.room"), "{e:?}");
}
