//! Explanations of recordings made without privilege: nothing is stated with confidence that they do not show.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_explain::document::Status;
use thalweg_trace::{CounterName, MarkKind, ObjectId, ObjectKind, Role, SpanKind as K, TrackId, WakerContext};

/// An unprivileged recording; `looked_at`: threads were only sampled.
fn unprivileged(end_us: u64, looked_at: bool) -> (Tale, TrackId) {
    let mut tale = Tale::new(end_us, 4);
    tale.meta.attributes.push(("wakers".to_owned(), "inferred".to_owned()));
    if looked_at {
        tale.meta.attributes.push(("resolution_ns".to_owned(), "2000000".to_owned()));
    }
    let client = tale.client("main");
    (tale, client)
}

fn on_disk(tale: &mut Tale) -> ObjectId {
    tale.object(ObjectKind::File, "/data/big", &[("device", "vda"), ("filesystem", "ext4"), ("direct", "yes")])
}

#[track_caller]
fn is_unsure(e: &Explanation) {
    assert_eq!(e.verdict.status, Status::Unsure, "{}: {:#?}", e.verdict.sentence, e.critical_path);
}

#[track_caller]
fn is_limited_by(e: &Explanation, cause: &str) {
    assert_eq!((e.verdict.status, e.verdict.cause.name()), (Status::Limited, cause), "{}: {:#?}", e.verdict.sentence, e.critical_path);
}

#[test]
fn a_file_that_another_program_serves_is_no_disk() {
    for kind in [K::FileRead, K::FileWrite, K::FileSync, K::FileStat] {
        let (mut tale, client) = unprivileged(100_000, false);
        let file = tale.object(ObjectKind::File, "/mnt/far", &[("device", "me@host:/srv"), ("filesystem", "fuse.sshfs")]);
        tale.wait(client, kind, 5_000, 95_000).on(file).end();
        let e = tale.explain();
        is_unsure(&e);
        assert_charged(&e, "unknown", 90.0);
        let place = place_of(&e, "unknown");
        assert!(place.contains("fuse.sshfs") && place.contains("me@host:/srv"), "{place}");
    }
}

#[test]
fn a_call_on_a_file_waited_for_its_device_only_where_that_did_something() {
    for (kind, of_device, cause) in [(K::FileRead, K::DiskRead, "client.read"), (K::FileWrite, K::DiskWrite, "client.write")] {
        let (mut tale, client) = unprivileged(2_000_000, false);
        let file = on_disk(&mut tale);
        tale.device("vda");
        tale.wait(client, kind, 1_100_000, 1_900_000).on(file).end();
        let e = tale.explain();
        is_unsure(&e);
        assert_charged(&e, cause, 800.0);
        for (from, to) in [(1_500_000, 1_700_000), (1_840_000, 1_990_000)] {
            let (mut tale, client) = unprivileged(2_000_000, false);
            let file = on_disk(&mut tale);
            let device = tale.device("vda");
            tale.span(client, K::CpuRun, 0, 1_100_000).end();
            tale.wait(client, kind, 1_100_000, 2_000_000).on(file).end();
            tale.wait(client, K::FileRead, 0, 10).end();
            tale.span(device, of_device, from, to).observed().end();
            let e = tale.explain();
            let inferred: f64 = e.critical_path.iter().map(|c| c.inferred_s).sum();
            assert!(inferred < 0.001, "{from}: {:#?}", e.critical_path);
            assert_charged(&e, cause, if kind == K::FileRead { 900.01 } else { 900.0 });
        }
    }
}

/// A request, and an answer that comes `ms` later while both ends wait on the connection.
fn both_wait(name: &str, ms: u64, round_trip_us: i64) -> Explanation {
    let (mut tale, client) = unprivileged(ms * 1_000 + 200, false);
    let server = tale.server("server");
    let (near, served) = tale.two_ends(name);
    let end = ms * 1_000;
    for end in [near, served] {
        tale.counter(end, CounterName::TcpSrttUs, 5, round_trip_us);
    }
    tale.span(client, K::NetSend, 0, 10).on(near).bytes(1).end();
    tale.wait(client, K::NetReceive, 10, end).on(near).end();
    tale.wait(server, K::NetReceive, 0, end).on(served).end();
    tale.span(server, K::NetSend, end, end + 5).on(served).bytes(1).end();
    tale.explain()
}

#[test]
fn what_no_network_takes_is_not_the_networks() {
    let (here, away) = ("127.0.0.1:40000 > 127.0.0.1:80", "10.0.0.1:40000 > 10.0.0.2:80");
    let e = both_wait(here, 400, 40);
    is_unsure(&e);
    assert!(charged_ms(&e, "unknown") > 350.0, "{:#?}", e.critical_path);
    assert!(charged_ms(&both_wait(away, 400, 200), "unknown") > 350.0);
    // A long path takes its round trip, also within a machine, and an acknowledgement may be delayed.
    assert_eq!(charged_ms(&both_wait(away, 400, 200_000), "unknown"), 0.0);
    assert_eq!(charged_ms(&both_wait(here, 60, 30_000), "unknown"), 0.0);
    assert_eq!(charged_ms(&both_wait(here, 40, 40), "unknown"), 0.0);
}

/// A sender that waits for room all the time, with an unrecorded other end.
fn waits_for_room(least_us: i64, again: bool) -> Explanation {
    let (mut tale, client) = unprivileged(900_000, true);
    let (near, _) = tale.two_ends("127.0.0.1:40000 > 127.0.0.1:80");
    for at in (5..890_000).step_by(10_000) {
        let figures = [
            (CounterName::TcpMinRttUs, least_us),
            (CounterName::TcpSrttUs, 40_000),
            (CounterName::TcpUnsentBytes, 1 << 20),
            (CounterName::TcpInFlightBytes, 1 << 18),
        ];
        figures.into_iter().for_each(|(name, value)| tale.counter(near, name, at, value));
    }
    if again {
        let at = thalweg_trace::Time::from_monotonic_ns(400_000_000);
        let mark = thalweg_trace::Mark { track: client, kind: MarkKind::TcpRetransmit, at, object: Some(near), value: Some(1460) };
        tale.event(thalweg_trace::Event::Mark(mark));
    }
    tale.span(client, K::NetSend, 0, 10).on(near).bytes(1 << 20).end();
    tale.wait(client, K::NetSend, 10, 890_000).on(near).end();
    tale.explain()
}

#[test]
fn who_does_not_read_makes_no_path_of_a_machines_own_connection() {
    for again in [false, true] {
        let e = waits_for_room(4, again);
        assert!(charged_ms(&e, "server.unknown") > 880.0, "{again}: {:#?}", e.critical_path);
    }
    // A slow path takes its time, also within a machine.
    assert!(charged_ms(&waits_for_room(20_000, false), "network.bandwidth") > 880.0);
}

#[test]
fn a_poll_that_timed_out_may_have_waited_for_those_the_program_deals_with() {
    for deals in [false, true] {
        let (mut tale, client) = unprivileged(100_000, false);
        let pipe = tale.object(ObjectKind::Pipe, "pipe:[7]", &[]);
        tale.wait(client, K::WaitNetwork, 1_000, 90_000).by_timer().end();
        tale.span(client, K::CpuRun, 90_000, 99_000).end();
        if deals {
            tale.span(client, K::WaitLock, 99_000, 99_020).on(pipe).end();
        }
        let e = tale.explain();
        if deals {
            is_unsure(&e);
            assert_charged(&e, "unknown", 89.0);
        } else {
            is_limited_by(&e, "client.think");
        }
    }
}

#[test]
fn a_sleep_between_looks_for_bytes_is_no_pause() {
    for (had_unread, receives) in [(0, true), (100, true), (0, false)] {
        let (mut tale, client) = unprivileged(100_000, true);
        let (near, _) = tale.two_ends("127.0.0.1:40000 > 127.0.0.1:80");
        for at in [1_000, 30_000, 60_000] {
            tale.counter(near, CounterName::TcpUnreadBytes, at, had_unread);
        }
        tale.wait(client, K::WaitTimer, 2_000, 95_000).by_timer().end();
        if receives {
            tale.wait(client, K::NetReceive, 96_000, 96_000).on(near).bytes(100).offset(0).ran(0).end();
        }
        let e = tale.explain();
        match receives && had_unread == 0 {
            true => is_unsure(&e),
            false => is_limited_by(&e, "client.think"),
        }
    }
}

#[test]
fn two_that_seem_to_wait_for_each_other_do_not_keep_the_walk_from_what_they_did_before() {
    let (mut tale, reader) = unprivileged(100_000, false);
    let writer = tale.thread(Role::Client, "writer", 300, 301);
    let pipe = tale.object(ObjectKind::Pipe, "pipe:[7]", &[]);
    tale.span(writer, K::FileStat, 0, 10).end();
    tale.wait(writer, K::WaitTimer, 10, 90_000).by_timer().end();
    tale.wait(writer, K::WaitLock, 90_000, 90_200).on(pipe).woken_by(reader).end();
    tale.wait(reader, K::WaitLock, 20, 90_100).on(pipe).woken_by(writer).end();
    tale.span(reader, K::CpuRun, 90_100, 100_000).end();
    let e = tale.explain();
    assert!(charged_ms(&e, "client.think") > 89.0, "{:#?}", e.critical_path);
}

#[test]
fn a_long_stretch_without_calls_is_work_only_where_the_processor_time_says_so() {
    let (mut tale, client) = unprivileged(100_000, false);
    tale.span(client, K::FileStat, 0, 1_000).end();
    is_unsure(&tale.explain());
    tale.span(client, K::CpuRun, 1_000, 99_000).end();
    let e = tale.explain();
    is_limited_by(&e, "client.cpu");
    assert!(e.verdict.place.contains("its own work"), "{}", e.verdict.place);
}

#[test]
fn work_on_names_that_was_only_seen_from_outside_is_not_certain() {
    for looked_at in [false, true] {
        let (mut tale, client) = unprivileged(100_000, looked_at);
        tale.span(client, K::FileOther, 0, 100_000).end();
        let e = tale.explain();
        assert_eq!(e.verdict.cause.name(), "client.metadata");
        assert_eq!(e.verdict.status, if looked_at { Status::Unsure } else { Status::Limited });
    }
    // Blocked in a call on an unknown name: the file system is unknown, too.
    let (mut tale, client) = unprivileged(100_000, false);
    tale.wait(client, K::FileStat, 0, 100_000).end();
    is_unsure(&tale.explain());
}

#[test]
fn queueing_that_no_count_shows_is_not_certain() {
    let (mut tale, client) = unprivileged(100_000, false);
    let helper = tale.thread(Role::Client, "helper", 100, 1001);
    // It released the lock at 20 ms, and has waited for something else since.
    tale.wait(client, K::WaitLock, 1_000, 99_000).woken_in(WakerContext::Task).woken_by(helper).end();
    tale.span(helper, K::CpuRun, 0, 20_000).end();
    tale.wait(helper, K::WaitLock, 20_000, 100_000).end();
    is_unsure(&tale.explain());
}

#[test]
fn a_wait_that_ended_a_moment_later_than_the_one_that_it_led_to_is_what_was_waited_for() {
    for looked_at in [false, true] {
        let (mut tale, client) = unprivileged(900_000, looked_at);
        let child = tale.thread(Role::Client, "sleep", 300, 301);
        let any = tale.object(ObjectKind::Process, "any child", &[]);
        tale.made(child, 2_000, client);
        tale.span(client, K::FileStat, 0, 10).end();
        tale.wait(client, K::WaitLock, 1_000, 890_000).on(any).woken_by(child).end();
        tale.wait(child, K::WaitTimer, 3_000, 891_000).by_timer().end();
        tale.ended(child, 892_000);
        is_limited_by(&tale.explain(), "client.think");
    }
}

#[test]
fn children_one_after_another_are_each_followed() {
    let (mut tale, client) = unprivileged(400_000, true);
    let any = tale.object(ObjectKind::Process, "any child", &[]);
    for n in 0..4_u64 {
        let (from, to) = (n * 100_000, (n + 1) * 100_000);
        let child = tale.thread(Role::Client, "sleep", 300 + n as u32, 1300 + n as u32);
        // Known to ten milliseconds: the previous one still seems to be there.
        tale.event(thalweg_trace::Event::Mark(thalweg_trace::Mark {
            track: child,
            kind: thalweg_trace::MarkKind::ThreadStart,
            at: thalweg_trace::Time::from_monotonic_ns((from as i64 - 8_000) * 1_000),
            object: None,
            value: None,
        }));
        tale.wait(client, K::WaitLock, from, to).on(any).woken_by(child).end();
        tale.wait(child, K::WaitTimer, from, to).by_timer().end();
        tale.ended(child, to);
    }
    let e = tale.explain();
    is_limited_by(&e, "client.think");
    assert!(charged_ms(&e, "unknown") <= 1.0, "{:#?}", e.critical_path);
}

#[test]
fn a_lock_on_a_file_is_a_lock_whatever_has_it() {
    let (mut tale, client) = unprivileged(100_000, false);
    let lock = tale.object(ObjectKind::Lock, "flock /data/lock", &[]);
    tale.wait(client, K::WaitLock, 0, 99_000).on(lock).end();
    let e = tale.explain();
    is_limited_by(&e, "client.lock");
    assert!(e.verdict.place.contains("flock /data/lock"), "{}", e.verdict.place);
}

#[test]
fn a_child_that_ended_before_its_parent_was_seen_to_go_on_is_what_was_waited_for() {
    let (mut tale, client) = unprivileged(900_000, true);
    let child = tale.thread(Role::Client, "gzip", 300, 301);
    let any = tale.object(ObjectKind::Process, "any child", &[]);
    tale.made(child, 2_000, client);
    tale.wait(client, K::WaitLock, 1_000, 890_000).on(any).woken_by(child).end();
    tale.span(child, K::CpuRun, 3_000, 880_000).end();
    tale.ended(child, 880_000);
    is_limited_by(&tale.explain(), "client.cpu");
}

#[test]
fn queueing_before_a_wait_does_not_hide_who_ended_it() {
    let (mut tale, client) = unprivileged(900_000, false);
    let child = tale.thread(Role::Client, "sleep", 300, 301);
    tale.made(child, 2_000, client);
    tale.span(client, K::FileStat, 0, 10).end();
    // The queueing is known as a sum: it may have been at the wait's start.
    tale.wait(client, K::WaitLock, 1_000, 890_000).runnable(30_000).woken_by(child).end();
    tale.wait(child, K::WaitTimer, 3_000, 889_000).by_timer().end();
    is_limited_by(&tale.explain(), "client.think");
}

#[test]
fn who_posts_a_semaphore_held_no_lock() {
    for (name, cause) in [("mutex", "client.lock"), ("futex", "client.think")] {
        let (mut tale, client) = unprivileged(100_000, false);
        let worker = tale.thread(Role::Client, "main/worker", 100, 1001);
        let lock = tale.object(ObjectKind::Lock, name, &[]);
        tale.wait(client, K::WaitLock, 0, 90_000).on(lock).woken_by(worker).end();
        tale.wait(worker, K::WaitTimer, 0, 90_000).by_timer().end();
        tale.span(worker, K::FileStat, 90_500, 90_510).end();
        tale.span(client, K::CpuRun, 90_000, 100_000).end();
        is_limited_by(&tale.explain(), cause);
    }
}

#[test]
fn who_is_at_the_far_end_of_a_servers_connection_is_not_known_to_have_paused() {
    let (mut tale, server) = unprivileged(100_000, true);
    let (_, served) = tale.two_ends("10.0.0.1:40000 > 10.0.0.2:80");
    tale.wait(server, K::NetReceive, 5_000, 95_000).on(served).end();
    tale.span(server, K::NetReceive, 95_000, 95_000).on(served).bytes(100).offset(0).end();
    tale.span(server, K::CpuRun, 95_000, 100_000).end();
    is_unsure(&tale.explain());
}

#[test]
fn a_write_through_the_page_cache_may_have_waited_for_something_else_than_its_disk() {
    for (direct, certain) in [(&[][..], false), (&[("direct", "yes")][..], true)] {
        let (mut tale, client) = unprivileged(1_000_000, false);
        let attributes = [&[("device", "vda"), ("filesystem", "ext4")][..], direct].concat();
        let file = tale.object(ObjectKind::File, "/data/big", &attributes);
        let device = tale.device("vda");
        tale.wait(client, K::FileWrite, 100_000, 900_000).on(file).end();
        tale.span(device, K::DiskWrite, 500_000, 700_000).observed().end();
        tale.span(client, K::CpuRun, 0, 100_000).end();
        let e = tale.explain();
        assert_charged(&e, "client.write", 800.0);
        if certain { is_limited_by(&e, "client.write") } else { is_unsure(&e) }
    }
}

/// A program that sleeps for 10 ms repeatedly, with `between` after each; with `worker`, another thread computes all the time.
fn sleeps_again_and_again(worker: bool, between: impl Fn(&mut Tale, TrackId, u64)) -> Explanation {
    let (mut tale, client) = unprivileged(220_000, false);
    if worker {
        let other = tale.thread(Role::Client, "main/worker", 100, 1001);
        tale.span(other, K::CpuRun, 500, 219_000).end();
    }
    for n in 0..20 {
        let at = 1_000 + n * 10_000;
        tale.wait(client, K::WaitTimer, at, at + 9_800).by_timer().end();
        between(&mut tale, client, at + 9_800);
    }
    tale.explain()
}

#[test]
fn what_a_program_looks_for_again_and_again_is_not_its_pauses() {
    is_limited_by(&sleeps_again_and_again(false, |_, _, _| {}), "client.think");
    let e = sleeps_again_and_again(true, |_, _, _| {});
    is_unsure(&e);
    assert!(e.verdict.place.contains("polling in a sleep loop; target unknown"), "{}", e.verdict.place);
    // A request, and its answer: it may ask about a job elsewhere. Bytes that only come, or go, are paced.
    let asks = |question: u64, answer: u64| {
        let (mut tale, client) = unprivileged(220_000, false);
        let (near, _) = tale.two_ends("127.0.0.1:40000 > 127.0.0.1:80");
        for n in 0..20 {
            let at = 1_000 + n * 10_000;
            tale.wait(client, K::WaitTimer, at, at + 9_800).by_timer().end();
            if question > 0 {
                tale.span(client, K::NetSend, at + 9_800, at + 9_820).on(near).bytes(question).end();
            }
            if answer > 0 {
                tale.span(client, K::NetReceive, at + 9_900, at + 9_950).on(near).bytes(answer).end();
            }
        }
        tale.explain()
    };
    is_unsure(&asks(100, 500));
    is_limited_by(&asks(0, 16 << 10), "client.think");
    is_limited_by(&asks(16 << 10, 0), "client.think");
}

/// The first line on what would settle the answer.
fn settled_by(e: &Explanation) -> &str {
    e.verdict.settle.first().map_or("", String::as_str)
}

#[test]
fn an_unsure_answer_says_what_was_not_seen_and_how_to_see_it() {
    // A thread that made no call for long: only switches show that it ran.
    let computes = |switches: &[&str]| {
        let (mut tale, client) = unprivileged(100_000, false);
        tale.meta.attributes.extend(switches.iter().map(|value| ("switches".to_owned(), (*value).to_owned())));
        tale.wait(client, K::WaitTimer, 0, 10).end();
        tale.wait(client, K::WaitTimer, 99_990, 100_000).end();
        tale.explain()
    };
    for refused in [&[][..], &["refused"]] {
        let e = computes(refused);
        is_unsure(&e);
        assert_eq!(settled_by(&e), "when copy ran and waited was not seen exactly; ask for: sysctl kernel.perf_event_paranoid=2");
    }
    let e = computes(&["recorded"]);
    is_limited_by(&e, "client.cpu");
    assert!(e.verdict.settle.is_empty(), "{:?}", e.verdict.settle);
    // Who ended a wait, no switch shows.
    let (mut tale, client) = unprivileged(100_000, false);
    tale.meta.attributes.push(("switches".to_owned(), "recorded".to_owned()));
    let lock = tale.object(ObjectKind::Lock, "futex", &[]);
    tale.wait(client, K::WaitLock, 10, 99_000).on(lock).end();
    let e = tale.explain();
    is_unsure(&e);
    let said = settled_by(&e);
    assert!(said.starts_with("what ended waits of copy was not seen; ask for: setcap cap_bpf,"), "{said}");
    // Two things are lacking, and the larger comes first.
    let (mut tale, client) = unprivileged(100_000, false);
    let far = tale.object(ObjectKind::File, "/mnt/far", &[("device", "10.0.0.9:/srv"), ("filesystem", "nfs4")]);
    tale.wait(client, K::FileRead, 0, 70_000).on(far).end();
    tale.wait(client, K::WaitLock, 70_000, 99_000).on(lock).end();
    let e = tale.explain();
    assert_eq!(e.verdict.settle.len(), 2, "{:?}", e.verdict.settle);
    let said = settled_by(&e);
    assert!(said.contains("10.0.0.9:/srv (nfs4)") && said.ends_with("thalweg record --server --port 2049 -o s.thw"), "{said}");
}

#[test]
fn a_server_that_was_not_recorded_is_asked_for_by_its_port() {
    for (name, how) in [
        ("127.0.0.1:40000 > 127.0.0.1:80", "as its user or root: thalweg explain --also :80 -- COMMAND"),
        ("10.0.0.1:40000 > 10.0.0.2:2049", "ask whoever runs it for: thalweg record --server --port 2049 -o s.thw"),
    ] {
        let (mut tale, client) = unprivileged(100_000, false);
        let (near, _) = tale.two_ends(name);
        tale.span(client, K::NetSend, 0, 10).on(near).bytes(100).end();
        tale.wait(client, K::NetReceive, 10, 99_000).on(near).end();
        tale.span(client, K::NetReceive, 99_000, 99_010).on(near).bytes(100).end();
        let e = tale.explain();
        assert_eq!(e.verdict.cause.name(), "server.unknown");
        assert!(settled_by(&e).ends_with(how), "{:?}", e.verdict.settle);
        assert!(!e.summary.remarks.iter().any(|remark| remark.contains("--port") || remark.contains("--also")), "said twice");
    }
}

#[test]
fn a_queue_beside_idle_processors_names_a_binding_and_one_on_a_busy_machine_does_not() {
    for (busy, bound) in [("1.05", true), ("3.90", false)] {
        let (mut tale, client) = unprivileged(100_000, false);
        tale.meta.attributes.push(("cpus.busy".to_owned(), busy.to_owned()));
        tale.wait(client, K::WaitRunqueue, 0, 90_000).end();
        let e = tale.explain();
        is_limited_by(&e, "client.runqueue");
        assert_eq!(e.verdict.place.contains("only 1.1 of 4 were busy: bound to some of them (affinity)"), bound, "{}", e.verdict.place);
    }
}

/// A program reads so much of a file in 90 ms, while its disk works for so long and reads so much.
fn reads_beside(own_bytes: u64, busy_us: u64, disk_bytes: u64) -> Explanation {
    let (mut tale, client) = unprivileged(100_000, false);
    let (file, device) = (on_disk(&mut tale), tale.device("vda"));
    tale.wait(client, K::FileRead, 0, 90_000).on(file).bytes(own_bytes).end();
    tale.span(device, K::DiskRead, 0, busy_us).observed().bytes(disk_bytes).end();
    tale.explain()
}

#[test]
fn a_disk_that_rested_while_it_was_waited_for_is_not_simply_slow() {
    const MIB: u64 = 1 << 20;
    let works_for_others = |e: &Explanation| e.summary.remarks.iter().any(|remark| remark.contains("for other programs too"));
    let alone = reads_beside(20 * MIB, 80_000, 24 * MIB);
    is_limited_by(&alone, "client.read");
    // One that worked all the time is what was waited for, whosever requests it worked on.
    let shared = reads_beside(20 * MIB, 80_000, 70 * MIB);
    is_limited_by(&shared, "client.read");
    assert!(works_for_others(&shared) && !works_for_others(&alone), "{:?}", shared.summary.remarks);
    for e in [reads_beside(20 * MIB, 30_000, 70 * MIB), reads_beside(20 * MIB, 5_000, 20 * MIB)] {
        is_unsure(&e);
        assert_charged(&e, "client.read", 90.0);
        assert!(
            settled_by(&e).contains("which requests of the disk") || settled_by(&e).contains("perf_event_paranoid"),
            "{:?}",
            e.verdict.settle
        );
    }
    // Few bytes show nothing: names and programs are read too.
    is_limited_by(&reads_beside(MIB / 2, 80_000, 4 * MIB), "client.read");
}

/// A call on a name that waits while one of two disks works.
fn waits_on_a_name(filesystem: Option<&str>) -> Explanation {
    let (mut tale, client) = unprivileged(100_000, false);
    let mounted = filesystem.map(|kind| tale.object(ObjectKind::File, "/data", &[("filesystem", kind)]));
    let (busy, idle) = (tale.device("vda"), tale.device("vdb"));
    let wait = tale.wait(client, K::FileOpen, 0, 90_000);
    match mounted {
        Some(object) => wait.on(object).end(),
        None => wait.end(),
    }
    tale.span(busy, K::DiskRead, 0, 80_000).observed().bytes(1 << 20).end();
    tale.span(idle, K::DiskRead, 0, 5_000).observed().bytes(1 << 20).end();
    tale.explain()
}

#[test]
fn a_call_on_a_name_of_a_known_file_system_waited_for_it_and_for_the_disk_that_worked() {
    let (known, overlay, unknown) = (waits_on_a_name(Some("ext4")), waits_on_a_name(Some("overlay")), waits_on_a_name(None));
    is_limited_by(&known, "client.metadata");
    is_limited_by(&overlay, "client.metadata");
    is_unsure(&unknown);
    assert!(overlay.verdict.place.contains("vda") && unknown.verdict.place.contains("vda"), "{}", overlay.verdict.place);
}

#[test]
fn a_semaphore_and_what_a_program_calls_a_lock_are_locks_whoever_has_them() {
    for (name, cause) in [("semaphore 7", "client.lock"), ("lock of postgres", "client.lock"), ("futex", "unknown")] {
        let (mut tale, client) = unprivileged(100_000, false);
        let object = tale.object(ObjectKind::Lock, name, &[]);
        tale.wait(client, K::WaitLock, 0, 90_000).on(object).end();
        assert_charged(&tale.explain(), cause, 90.0);
    }
}

#[test]
fn a_write_through_the_page_cache_waits_for_what_it_copies_from_while_disks_only_read() {
    for (written, cause) in [(0, "client.read"), (4 << 10, "client.read"), (20 << 20, "client.write")] {
        let (mut tale, client) = unprivileged(100_000, false);
        let copy = tale.object(ObjectKind::File, "/data/copy", &[("device", "vda"), ("filesystem", "ext4")]);
        let device = tale.device("vda");
        tale.wait(client, K::FileWrite, 0, 90_000).on(copy).end();
        tale.span(device, K::DiskRead, 0, 80_000).observed().bytes(50 << 20).end();
        tale.span(device, K::DiskWrite, 80_000, 85_000).observed().bytes(written).end();
        let e = tale.explain();
        assert_charged(&e, cause, 90.0);
        if cause == "client.write" { is_unsure(&e) } else { is_limited_by(&e, cause) }
    }
}

#[test]
fn a_disk_that_wrote_far_more_than_was_synced_worked_for_others() {
    for (disk_bytes, busy_until, shared) in [(8 << 20, 20_000, false), (160 << 20, 20_000, true), (160 << 20, 95_000, false)] {
        let (mut tale, client) = unprivileged(100_000, false);
        let (file, device) = (on_disk(&mut tale), tale.device("vda"));
        tale.span(client, K::FileWrite, 0, 1_000).ran(1_000).on(file).bytes(1 << 20).end();
        tale.wait(client, K::FileSync, 1_000, 95_000).on(file).end();
        tale.span(device, K::DiskWrite, 1_000, busy_until).observed().bytes(disk_bytes).end();
        let e = tale.explain();
        if shared { is_unsure(&e) } else { is_limited_by(&e, "client.sync") }
    }
}
