//! The number behind the rate: what a program does so often, or has so little of, that it can go no faster.

use crate::common::Tale;
use std::path::Path;
use thalweg_explain::document::{Grounds, Number, NumberKind, Status, WhatIf};
use thalweg_explain::{Cause, Explanation, Options, explain};
use thalweg_trace::{CounterName, ObjectKind, Recording, Role, SpanKind};

fn numbers(name: &str) -> Vec<Number> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    explain(&recording, &Options { what_if: false, ..Options::default() }).expect("explains").summary.numbers
}

fn only(e: &Explanation) -> &Number {
    let [number] = e.summary.numbers.as_slice() else { panic!("{:?}: {}", e.summary.numbers, e.summary.sentence) };
    number
}

/// A program that fetches data over a path of 20 ms: it makes `ask` requests in each of 50 round trips, and each time gets a part of 64
/// KiB.
fn fetching(ask: u64) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let get = tale.thread(Role::Client, "get", 100, 100);
    let (near, _) = tale.connection("10.0.0.1:4000 > 10.0.0.2:80");
    tale.counter(near, CounterName::TcpMinRttUs, 0, 20_000);
    tale.counter(near, CounterName::TcpSrttUs, 0, 20_100);
    let each = 20_000 / ask;
    for n in 0..50 * ask {
        let at = n * each;
        tale.span(get, SpanKind::NetSend, at, at + 50).ran(50).on(near).bytes(80).end();
        tale.wait(get, SpanKind::WaitNetwork, at + 50, at + each - 100).on(near).by_packet().end();
        tale.span(get, SpanKind::NetReceive, at + each - 100, at + each).ran(100).on(near).bytes((64 << 10) / ask).end();
    }
    tale.explain()
}

#[test]
fn a_request_that_is_sent_when_the_last_was_answered_is_one_at_a_time() {
    let e = fetching(1);
    let number = only(&e);
    assert_eq!((number.kind, number.count, number.bytes), (NumberKind::OneAtATime, Some(50), Some(64 << 10)), "{number:?}");
    assert_eq!(number.sentence, "One request at a time, never more than 64 KiB in flight: 50 × 20.0 ms, 3.13 MiB/s whatever the link.");
}

#[test]
fn what_arrives_in_a_round_trip_and_never_more_is_in_flight() {
    // Four are in flight at any time: each is answered a quarter of a round trip after the next was sent.
    let e = fetching(4);
    let number = only(&e);
    assert_eq!((number.kind, number.bytes), (NumberKind::InFlight, Some(64 << 10)), "{number:?}");
    assert_eq!(number.sentence, "Never more than 64 KiB in flight: 3.12 MiB/s at a round trip of 20.0 ms, whatever the link.");
}

#[test]
fn the_size_of_calls_is_that_of_the_file_that_had_most_of_them() {
    let mut tale = Tale::new(100_000, 2);
    for (class, name) in [("class.0", "user"), ("class.1", "write")] {
        tale.meta.attributes.push((class.into(), name.into()));
    }
    let dd = tale.thread(Role::Client, "dd", 100, 100);
    let (copy, terminal) = (tale.file("/data/copy"), tale.file("/dev/pts/0"));
    tale.span(dd, SpanKind::FileWrite, 0, 90_000).ran(90_000).on(copy).bytes(512 * 100_000 + 60).count(100_003).end();
    // Its final output is no call of that size.
    tale.span(dd, SpanKind::FileWrite, 90_000, 90_010).ran(10).on(terminal).bytes(60).count(3).end();
    for n in 0..90_u64 {
        let at = thalweg_trace::Time::from_monotonic_ns((n * 1_000 + 500) as i64 * 1_000);
        let (track, host) = (Some(dd), thalweg_trace::HostId(0));
        let sample = thalweg_trace::Sample { at, host, cpu: 0, track, class: 1, stack: None, weight_ns: 1_000_000 };
        tale.event(thalweg_trace::Event::Sample(sample));
    }
    let e = tale.explain();
    let number = only(&e);
    assert!(number.sentence.starts_with("Writes of 512 bytes: 100,003 calls"), "{number:?}");
    let larger = raised(&e, "calls.larger");
    // Copying 48.8 MiB takes at least 1.6 ms.
    assert!((larger.predicted_wall_s - 0.0016).abs() < 0.0001, "{larger:?}");
}

/// The change that raises a limit: its gain is a bound.
fn raised<'e>(e: &'e Explanation, id: &str) -> &'e WhatIf {
    let found = e.what_if.iter().find(|w| w.id == id).unwrap_or_else(|| panic!("{id} is not among {:?}", e.what_if));
    assert_eq!(found.basis, Grounds::Bounded);
    found
}

#[test]
fn a_process_for_each_file_is_counted_with_what_it_takes() {
    let mut tale = Tale::new(400_000, 2);
    let sh = tale.thread(Role::Client, "sh", 100, 100);
    for n in 0..100_u64 {
        let pid = 200 + n as u32;
        let gzip = tale.thread(Role::Client, "gzip", pid, pid);
        let (from, until) = (n * 4_000, n * 4_000 + 3_900);
        tale.made(gzip, from, sh);
        tale.span(gzip, SpanKind::CpuRun, from, until).ran(3_900).end();
        tale.wait(sh, SpanKind::WaitLock, from, until).woken_by(gzip).end();
        tale.ended(gzip, until);
        tale.span(sh, SpanKind::CpuRun, until, from + 4_000).ran(100).end();
    }
    let e = tale.explain();
    let number = only(&e);
    assert_eq!((number.kind, number.count), (NumberKind::ProcessPerItem, Some(100)), "{number:?}");
    assert_eq!(number.sentence, "100 processes, one after the other: 3.90 ms each, including startup and exit.");
    // No process was seen to do anything for itself.
    assert!(raised(&e, "start_once").predicted_wall_s < e.wall_s * 0.05);
}

/// Processes of one program that compute for 60 ms each, and read 20 kB of a file of their own before and after.
fn stretching(processes: u64) -> Explanation {
    let mut tale = Tale::new(processes * 60_000, 2);
    let sh = tale.thread(Role::Client, "sh", 100, 100);
    for n in 0..processes {
        let pid = 200 + n as u32;
        let (gpg, own) = (tale.thread(Role::Client, "gpg", pid, pid), tale.file(&format!("/data/file.{n}")));
        let from = n * 60_000;
        tale.made(gpg, from, sh);
        tale.span(gpg, SpanKind::FileRead, from + 1_000, from + 1_100).ran(100).on(own).bytes(10_000).end();
        tale.span(gpg, SpanKind::FileRead, from + 59_000, from + 59_100).ran(100).on(own).bytes(10_000).end();
        tale.wait(sh, SpanKind::WaitLock, from, from + 60_000).woken_by(gpg).end();
        tale.ended(gpg, from + 60_000);
    }
    tale.explain()
}

#[test]
fn a_few_processes_of_one_program_are_one_for_each_and_what_takes_long_for_few_bytes_goes_with_them() {
    let e = stretching(8);
    let number = only(&e);
    assert_eq!((number.kind, number.count), (NumberKind::ProcessPerItem, Some(8)), "{number:?}");
    // 20 ms of each for 20 kB, and one of eight.
    assert!(raised(&e, "start_once").predicted_wall_s < e.wall_s * 0.5, "{:?}", e.what_if);
    assert!(stretching(4).summary.numbers.iter().all(|number| number.kind != NumberKind::ProcessPerItem));
}

#[test]
fn a_process_that_reads_what_another_has_written_could_read_it_meanwhile() {
    let mut tale = Tale::new(1_000_000, 2);
    let sh = tale.thread(Role::Client, "sh", 100, 100);
    let (first, second, between) =
        (tale.thread(Role::Client, "sort", 200, 200), tale.thread(Role::Client, "bzip2", 300, 300), tale.file("/data/sorted"));
    for (thread, kind, from, until) in [(first, SpanKind::FileWrite, 0, 600_000), (second, SpanKind::FileRead, 600_000, 1_000_000)] {
        tale.made(thread, from, sh);
        for n in 0..100 {
            let at = from + (until - from) / 100 * n;
            tale.span(thread, kind, at + 100, at + 200).ran(100).on(between).bytes(100_000).end();
        }
        tale.wait(sh, SpanKind::WaitLock, from, until).woken_by(thread).end();
        tale.ended(thread, until);
    }
    let e = tale.explain();
    let said: Vec<&str> = e.summary.numbers.iter().map(|number| number.sentence.as_str()).collect();
    assert!(said.contains(&"Bzip2 reads sorted only when sort has written all of it: 600 ms and 400 ms, one after the other."), "{said:?}");
    let left = raised(&e, "overlap.stages").predicted_wall_s;
    assert!((left - 0.6).abs() < 0.02, "{left}");
}

#[test]
fn what_a_process_does_with_a_file_of_its_own_is_not_its_starting() {
    let mut tale = Tale::new(400_000, 2);
    let (sh, library) = (tale.thread(Role::Client, "sh", 100, 100), tale.file("/lib/libz.so.1"));
    for n in 0..100_u64 {
        let pid = 200 + n as u32;
        let (gzip, own) = (tale.thread(Role::Client, "gzip", pid, pid), tale.file(&format!("/data/log.{n}")));
        let from = n * 4_000;
        tale.made(gzip, from, sh);
        tale.span(gzip, SpanKind::FileRead, from + 100, from + 200).ran(100).on(library).bytes(832).end();
        tale.span(gzip, SpanKind::FileRead, from + 1_000, from + 1_100).ran(100).on(own).bytes(9_000).end();
        tale.span(gzip, SpanKind::FileRead, from + 3_500, from + 3_600).ran(100).on(own).bytes(1_000).end();
        tale.wait(sh, SpanKind::WaitLock, from, from + 4_000).woken_by(gzip).end();
        tale.ended(gzip, from + 4_000);
    }
    let e = tale.explain();
    // From its start to its own file a millisecond (0.9 to 1.1), and 0.4 after it.
    let left = raised(&e, "start_once").predicted_wall_s / e.wall_s;
    assert!((left - 0.65).abs() < 0.05, "{left}");
}

#[test]
fn connections_of_a_question_each_are_counted_where_computing_takes_the_time() {
    let mut tale = Tale::new(400_000, 2);
    let node = tale.thread(Role::Client, "node", 100, 100);
    for n in 0..100_u64 {
        let (near, _) = tale.connection(&format!("127.0.0.1:{} > 127.0.0.1:443", 4_000 + n));
        let from = n * 4_000;
        for turn in [0, 1_900] {
            tale.span(node, SpanKind::NetSend, from + turn, from + turn + 50).ran(50).on(near).bytes(300).end();
            tale.span(node, SpanKind::NetReceive, from + turn + 100, from + turn + 150).ran(50).on(near).bytes(2_000).end();
            tale.span(node, SpanKind::CpuRun, from + turn + 150, from + turn + 1_900).ran(1_750).end();
        }
    }
    let e = tale.explain();
    let number = only(&e);
    assert_eq!((number.kind, number.count), (NumberKind::ConnectionPerItem, Some(100)), "{number:?}");
    assert_eq!(number.sentence, "A new connection 100 times, one after the other: 2.00 ms each, including its setup.");
    raised(&e, "connect_once");
}

#[test]
fn questions_to_a_name_server_are_requests() {
    let mut tale = Tale::new(400_000, 2);
    let node = tale.thread(Role::Client, "node", 100, 100);
    let server = tale.thread(Role::Server, "named", 200, 200);
    let socket = tale.object(ObjectKind::Socket, "udp:127.0.0.53:53", &[]);
    let pool = [tale.thread(Role::Client, "node/worker", 100, 101), tale.thread(Role::Client, "node/worker", 100, 102)];
    for n in 0..40_u64 {
        for worker in pool {
            tale.wait(worker, SpanKind::WaitLock, n * 10_000, n * 10_000 + 9_900).on(socket).woken_by(server).end();
        }
        tale.wait(node, SpanKind::WaitLock, n * 10_000, n * 10_000 + 9_950).woken_by(pool[0]).end();
        tale.wait(server, SpanKind::WaitTimer, n * 10_000 + 50, n * 10_000 + 9_850).end();
    }
    let number = tale.explain().summary.numbers.first().cloned().expect("there is one");
    assert_eq!(number.sentence, "2 requests at a time, never more: 80 × 9.90 ms.");
}

#[test]
fn a_server_that_serves_one_at_a_time_is_not_asked_for_more() {
    let mut tale = Tale::new(400_000, 2);
    let (client, server) = (tale.thread(Role::Client, "ask", 100, 100), tale.thread(Role::Server, "serial", 200, 200));
    let pool: Vec<_> = (0..4).map(|n| tale.thread(Role::Client, "ask/worker", 100, 101 + n)).collect();
    let ends: Vec<_> = (0..4).map(|n| tale.two_ends(&format!("127.0.0.1:{} > 127.0.0.1:80", 4_000 + n))).collect();
    tale.wait(client, SpanKind::WaitLock, 0, 400_000).woken_by(pool[3]).end();
    // Each is served for 10 ms, one after the other; an answered client asks again immediately.
    for n in 0..40_u64 {
        let (worker, (near, far)) = (pool[n as usize % 4], ends[n as usize % 4]);
        let (asked, answered) = ((n * 10_000).saturating_sub(30_000), (n + 1) * 10_000);
        tale.span(worker, SpanKind::NetSend, asked, asked + 20).ran(20).on(near).bytes(50).end();
        tale.wait(worker, SpanKind::WaitNetwork, asked + 20, answered - 40).on(near).by_packet().end();
        tale.span(server, SpanKind::NetReceive, n * 10_000 + 20, n * 10_000 + 30).ran(10).on(far).bytes(50).end();
        tale.wait(server, SpanKind::WaitTimer, n * 10_000 + 30, answered - 60).end();
        tale.span(server, SpanKind::NetSend, answered - 60, answered - 40).ran(20).on(far).bytes(50).end();
        tale.span(worker, SpanKind::NetReceive, answered - 40, answered - 20).ran(20).on(near).bytes(50).end();
    }
    let e = tale.explain();
    let number = e.summary.numbers.first().expect("there is one");
    assert_eq!(number.sentence, "serial serves one request at a time, while 3 more wait: 40 × 10.0 ms.");
    raised(&e, "server.parallel");
}

#[test]
fn syncs_are_one_after_the_other() {
    let found = numbers("programs/dd-dsync");
    assert_eq!(found.first().map(|number| (number.kind, number.count)), Some((NumberKind::SyncsPerItem, Some(200))), "{found:?}");
    assert!(numbers("programs/sqlite-wal").is_empty(), "most of it is queueing for a processor");
}

#[test]
fn waiting_for_a_connection_to_come_about_is_a_round_trip_and_no_data_on_its_way() {
    let mut tale = Tale::new(100_000, 2);
    let (curl, nginx) = (tale.thread(Role::Client, "curl", 100, 100), tale.thread(Role::Server, "nginx", 200, 200));
    let (near, far) = tale.two_ends("10.0.0.1:4000 > 10.0.0.2:443");
    for (at, end) in [(25_000, near), (26_000, far)] {
        tale.counter(end, CounterName::TcpMinRttUs, at, 24_000);
        tale.counter(end, CounterName::TcpSrttUs, at, 24_000);
    }
    // It polls until it may write, as after a non-blocking connect, while the server waits for any client.
    tale.wait(nginx, SpanKind::WaitNetwork, 0, 37_000).on(far).by_packet().end();
    tale.wait(curl, SpanKind::WaitNetwork, 1_000, 25_000).on(near).by_packet().end();
    tale.span(curl, SpanKind::NetSend, 25_000, 25_100).ran(100).on(near).bytes(500).offset(0).end();
    tale.wait(curl, SpanKind::WaitNetwork, 25_100, 50_000).on(near).by_packet().end();
    tale.span(nginx, SpanKind::NetReceive, 37_000, 37_100).ran(100).on(far).bytes(500).end();
    tale.span(nginx, SpanKind::NetSend, 37_100, 37_200).ran(100).on(far).bytes(200).end();
    tale.wait(nginx, SpanKind::WaitNetwork, 37_200, 100_000).on(far).by_packet().end();
    tale.span(curl, SpanKind::NetReceive, 50_000, 50_100).ran(100).on(near).bytes(200).end();
    tale.span(curl, SpanKind::CpuRun, 50_100, 100_000).ran(49_900).end();
    let e = tale.explain();
    let charged: Vec<&str> = e.critical_path.iter().map(|c| c.cause.name()).collect();
    assert!(charged.contains(&"network.latency") && !charged.contains(&"network.bandwidth"), "{charged:?}");
}

/// Two programs that keep both processors busy: neither alone limits.
#[test]
fn programs_that_keep_all_processors_busy_are_named_with_their_parts() {
    let mut tale = Tale::new(1_000_000, 2);
    let reads = tale.thread(Role::Client, "rsync", 100, 100);
    let sends = tale.thread(Role::Client, "ssh", 101, 101);
    tale.made(sends, 1_000, reads);
    tale.span(reads, SpanKind::CpuRun, 0, 990_000).end();
    tale.span(sends, SpanKind::CpuRun, 2_000, 940_000).end();
    let e = tale.explain();
    let said: Vec<&str> = e.summary.numbers.iter().map(|number| number.sentence.as_str()).collect();
    assert_eq!(said, ["Both CPUs are 96 % busy with it: rsync 51 %, ssh 49 %."]);
}

/// 60 names are opened, one after the other, for 10 ms each; the disk has one small request in each of them, of this many ms.
fn opening(request_ms: u64) -> Vec<NumberKind> {
    let mut tale = Tale::new(600_000, 2);
    let opens = tale.thread(Role::Client, "cp", 100, 100);
    let disk = tale.device("vda");
    let file = tale.object(ObjectKind::File, "/project/name", &[("device", "vda")]);
    for n in 0..60 {
        let at = n * 10_000;
        tale.span(disk, SpanKind::DiskRead, at, at + request_ms * 1_000).bytes(4096).observed().end();
        tale.wait(opens, SpanKind::FileOpen, at, at + 9_900).on(file).end();
    }
    tale.explain().summary.numbers.iter().map(|number| number.kind).collect()
}

#[test]
fn a_disk_that_is_used_by_the_way_is_no_number() {
    assert_eq!(opening(9), [NumberKind::DiskOneAtATime]);
    assert_eq!(opening(1), []);
}

/// Programs that do the same work many times, or ask for one thing at a time: the number behind each, and its change.
#[test]
fn the_same_again_and_one_at_a_time_are_counted_and_a_change_follows() {
    for (name, kind, count, says, change, factor) in [
        ("written-twice", NumberKind::TimesOver, 2, "was written twice: 240 MiB written to a file of 120 MiB.", "write_once", 1.6..2.2),
        (
            "state-replaced",
            NumberKind::TimesOver,
            400,
            "state.json.tmp was written 400 times over: 130 MiB written to a file of 333 KiB.",
            "write_once",
            50.0..999.0,
        ),
        (
            "asks-through-pipes",
            NumberKind::InSeries,
            1_494,
            "1,494 requests to awk through a pipe, one at a time: 1,494 × 838 µs",
            "overlap.stages",
            1.7..2.1,
        ),
        (
            "computes-in-turn",
            NumberKind::InSeries,
            400,
            "400 requests to sockturn through a socket, one at a time: 400 × 1.44 ms",
            "overlap.stages",
            1.7..2.2,
        ),
        ("few-are-slow", NumberKind::OneAtATime, 130, "One request at a time: 120 × 2.83 ms and 10 × 181 ms.", "requests.x4", 1.5..2.5),
        (
            "same-range-again",
            NumberKind::TimesOver,
            150,
            "fetched 150 times over: 1.76 GiB in 300 requests for 2 ranges of 12 MiB.",
            "fetch_once",
            1.5..99.0,
        ),
        ("pool-of-three", NumberKind::OneAtATime, 180, "3 requests at a time, never more: 180 × 1", "requests.x4", 2.0..4.1),
        (
            "daemon-asks",
            NumberKind::RoundTripsPerItem,
            560,
            "7 requests to 127.0.0.1:7415 for each of 80 requests of the command, one after the other: 560 × 4.",
            "requests.x4",
            2.0..4.1,
        ),
        ("spins-for-credit", NumberKind::OneAtATime, 250, "One request of 46.9 KiB at a time: 250 × 12.", "requests.x4", 1.0..4.1),
        ("polls-nothing", NumberKind::OneAtATime, 150, "One request at a time: 150 × 23.3 ms.", "requests.x4", 3.0..4.1),
        ("spins-on-memory", NumberKind::OneAtATime, 90, "One request at a time: 90 × 25.5 ms.", "requests.x4", 3.0..4.1),
        ("spins-on-completions", NumberKind::DiskOneAtATime, 6_001, "One request of 4 KiB at a time on vda", "disk.requests.x4", 2.0..4.1),
        ("two-in-flight", NumberKind::OneAtATime, 327, "About 2 requests of 31.3 KiB at a time: 327 in ", "requests.x4", 3.0..4.1),
        (
            "few-children-serve",
            NumberKind::OneAtATime,
            100,
            "php-fpm8.2 serves 2 requests at a time, while 22 more wait: 100 × 46",
            "server.parallel",
            8.0..13.0,
        ),
        ("asks-a-name-server", NumberKind::OneAtATime, 240, "2 requests at a time, never more: 240 × 40.2 ms.", "requests.x4", 2.5..4.1),
    ] {
        is_counted(name, (kind, count, says), change, factor);
    }
}

/// A file that is opened for each small write, and waits that ended at the waiter's own timeout.
#[test]
fn what_is_opened_for_each_call_and_what_waits_in_vain_are_counted() {
    let says = "Writes of 34 bytes, the file opened for each: 400,000 calls × 3.25 µs.";
    is_counted("opens-for-each", (NumberKind::CallSize, 400_000, says), "calls.larger", 10.0..25.0);
    let says = "8 timeouts expired with nothing received, 701 ms each.";
    let limits_of_receive = "4 timeouts expired with nothing received, 577 ms each.";
    is_counted("receives-with-a-limit", (NumberKind::TimeLimit, 4, limits_of_receive), "time_limit", 10.0..1000.0);
    is_counted("armed-timer", (NumberKind::TimeLimit, 8, says), "time_limit", 10.0..15.0);
}

/// Asserts the first number behind a fixture, and the gain of its change.
#[track_caller]
pub(crate) fn is_counted(name: &str, (kind, count, says): (NumberKind, u64, &str), change: &str, factor: std::ops::Range<f64>) {
    let e = fixture(name);
    let number = e.summary.numbers.first().unwrap_or_else(|| panic!("{name}: {}", e.summary.sentence));
    assert_eq!((number.kind, number.count), (kind, Some(count)), "{name}: {number:?}");
    assert!(number.sentence.contains(says), "{name}: {}", number.sentence);
    let found = e.what_if.iter().find(|w| w.id == change);
    let speedup = found.map(|w| w.speedup).unwrap_or_else(|| panic!("{name}: {:?}", e.what_if));
    assert!(factor.contains(&speedup), "{name}: {speedup}");
}

/// Part of the time that a full link makes eight connections wait is charged to latency.
#[test]
fn twice_the_rate_halves_the_time_that_all_bytes_of_a_full_link_take() {
    let e = fixture("eight-connections-fill-a-link");
    let twice = e.what_if.iter().find(|w| w.id == "link.x2").expect("a prediction");
    assert!((1.3..1.45).contains(&twice.predicted_wall_s), "{twice:?}");
}

#[test]
fn turns_through_a_fifo_are_found_and_no_buffer_is_promised_where_it_is_not_known_who_writes() {
    let e = fixture("through-a-fifo");
    let said = "php and perl took turns through a pipe, 25 times: with a larger buffer both would run at the same time.";
    assert_eq!(only(&e).sentence, said);
    assert!(e.what_if.iter().all(|w| w.id != "pipe.room"), "{:?}", e.what_if);
}

/// A thread that has answered, and queues while the asking thread has its processor, has nothing to do.
#[test]
fn two_programs_that_compute_in_turn_lack_no_processor() {
    let e = fixture("computes-in-turn");
    assert_eq!(e.verdict.cause.name(), "client.cpu", "{}", e.summary.sentence);
    assert!(e.verdict.share > 0.9, "{}", e.verdict.share);
    let more = e.what_if.iter().find(|w| (w.id == "processors.x2" || w.id == "no_hog") && w.speedup > 1.1);
    assert!(more.is_none(), "{more:?}");
}

pub(crate) fn fixture(name: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name);
    explain(&Recording::open(&path).expect("a fixture opens"), &Options::default()).expect("explains")
}

#[test]
fn requests_that_wait_at_a_server_are_not_answered_sooner_for_more_of_them() {
    let e = fixture("few-children-serve");
    assert!(e.what_if.iter().all(|w| w.id != "requests.x4"), "{:?}", e.what_if);
}

#[test]
fn a_window_that_is_named_comes_with_a_larger_one_also_where_a_tunnel_carries_the_bytes() {
    let e = fixture("window-through-a-tunnel");
    assert_eq!(e.verdict.cause, Cause::NetworkRwnd, "{}", e.verdict.sentence);
    let speedup = raised(&e, "window.x4").speedup;
    assert!((2.5..4.1).contains(&speedup), "{speedup}");
}

#[test]
fn a_link_that_is_full_for_a_part_of_the_run_is_not_all_that_there_is() {
    let e = fixture("fetched-then-packed");
    assert_ne!(e.verdict.status, Status::Healthy, "{}", e.verdict.sentence);
    let speedup = raised(&e, "overlap.stages").speedup;
    assert!((1.5..1.8).contains(&speedup), "{speedup}");
}

/// A processor that polls at full speed is no reason for anything.
#[test]
fn a_program_that_waits_at_full_speed_waits_for_its_peer_and_no_faster_processor_is_proposed() {
    // In fruitless receives, in poll(2) with other programs on its processors, by reading memory, at a ring of completions, and for a
    // child.
    for (name, cause) in [
        ("spins-for-credit", "server.think"),
        ("polls-nothing", "server.think"),
        ("spins-on-memory", "server.think"),
        ("spins-on-completions", "client.read"),
        ("spins-for-a-child", "network.bandwidth"),
    ] {
        let e = fixture(name);
        assert_eq!(e.verdict.cause.name(), cause, "{name}: {}", e.summary.sentence);
        assert!(e.verdict.share > 0.8, "{name}: {}", e.verdict.share);
        assert!(!e.what_if.iter().any(|w| w.id == "cpu.client.x2" && w.speedup > 1.05), "{name}: {:?}", e.what_if);
        if name == "spins-for-credit" {
            assert_eq!(e.size_bytes, Some(12_000_000), "what was sent and received, and no modules of the interpreter");
        }
    }
}

#[test]
fn threads_that_wait_by_running_for_a_lock_wait_for_what_its_holder_does() {
    let e = fixture("spins-for-a-lock");
    let share = |name: &str| e.critical_path.iter().filter(|charge| charge.cause.name() == name).map(|charge| charge.share).sum::<f64>();
    assert!(share("client.sync") > 0.5 && share("client.think") > 0.2, "{}", e.summary.sentence);
    assert!(share("client.cpu") < 0.05, "{}", e.summary.sentence);
    assert!(e.what_if.iter().all(|w| w.id != "cpu.client.x2"), "{:?}", e.what_if);
    let remarks = e.summary.remarks.join("\n");
    assert!(remarks.contains("4 threads of spinner spin on a lock that one of them holds"), "{remarks}");
    assert!(!remarks.contains("CPUs were "), "{remarks}");
}

/// Two programs joined by a pipe in each direction: one asks 60 times for `ms[0]`, and works for `ms[1]` on each answer; if it asks ahead,
/// both work simultaneously.
fn asking_through_pipes(ms: [u64; 2], ahead: bool) -> Vec<NumberKind> {
    let each = (ms[0] + ms[1]) * 1_000;
    let mut tale = Tale::new(each * 60, 2);
    let (asks, answers) = (tale.thread(Role::Client, "ask", 100, 100), tale.thread(Role::Client, "bc", 200, 200));
    let [to, back] = ["pipe:[1]", "pipe:[2]"].map(|name| tale.object(ObjectKind::Pipe, name, &[]));
    tale.made(answers, 0, asks);
    for n in 0..60 {
        let (at, answered, next) = (n * each, n * each + ms[0] * 1_000, (n + 1) * each);
        let until = if ahead { at + 10 } else { answered };
        tale.wait(asks, SpanKind::WaitLock, at, until).on(back).woken_by(answers).end();
        tale.span(asks, SpanKind::CpuRun, until, next).end();
        tale.span(answers, SpanKind::CpuRun, at, if ahead { next - 10 } else { answered }).end();
        tale.wait(answers, SpanKind::WaitLock, if ahead { next - 10 } else { answered }, next).on(to).woken_by(asks).end();
    }
    tale.explain().summary.numbers.iter().map(|number| number.kind).collect()
}

#[test]
fn questions_through_pipes_are_one_at_a_time_unless_the_next_is_asked_meanwhile() {
    assert!(asking_through_pipes([3, 2], false).contains(&NumberKind::InSeries));
    assert!(!asking_through_pipes([3, 2], true).contains(&NumberKind::InSeries));
}

/// A program that reads a file of 20 MB `times` times over, in calls that never wait, and `others` files beside it.
fn reading_again(times: u64, others: u64) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let program = tale.thread(Role::Client, "join", 100, 100);
    let file = tale.object(ObjectKind::File, "/data/big", &[("file_bytes", "20000000"), ("opened", "read")]);
    let at = thalweg_trace::Time::from_monotonic_ns(999_000_000);
    let opened =
        thalweg_trace::Counter { of: thalweg_trace::CounterOf::Track(program), name: CounterName::FileOpens, at, value: others as i64 + 1 };
    tale.event(thalweg_trace::Event::Counter(opened));
    for n in 0..times {
        let at = n * 1_000_000 / times;
        tale.span(program, SpanKind::FileRead, at, at + 1_000).ran(1_000).on(file).bytes(20_000_000).count(20).end();
    }
    tale.span(program, SpanKind::CpuRun, 999_000, 1_000_000).ran(1_000).end();
    tale.explain()
}

#[test]
fn a_file_that_is_read_again_and_again_is_said_with_how_often() {
    let e = reading_again(26, 3);
    let number = only(&e);
    assert_eq!((number.kind, number.count, number.bytes), (NumberKind::TimesOver, Some(26), Some(520_000_000)), "{number:?}");
    assert_eq!(number.sentence, "big was read 26 times over: 496 MiB read from a file of 19.1 MiB.");
    let over = |e: &Explanation| e.summary.numbers.iter().any(|number| number.kind == NumberKind::TimesOver);
    assert!(!over(&reading_again(1, 3)), "once");
    // Bytes read in one go may have been of any of them.
    assert!(!over(&reading_again(3, 400)));
}

#[test]
fn what_an_interpreter_reads_as_it_starts_is_not_what_went_through_a_pipe() {
    let e = fixture("through-a-pipe");
    assert_eq!(e.size_bytes.unwrap_or(0), 0, "{}", e.summary.about);
}

/// Forty requests of 10 ms at a server behind a proxy. The command has `wide` of them in flight; the proxy passes on `narrow` at a time.
fn through_a_proxy(wide: u64, narrow: u64) -> Explanation {
    let mut tale = Tale::new(40 / narrow * 10_000 + 1_000, 2);
    let server = tale.thread(Role::Server, "python3", 300, 300);
    let lanes: Vec<_> = (0..wide as u32).map(|lane| tale.thread(Role::Client, "curl", 100, 100 + lane)).collect();
    let proxies: Vec<_> = (0..narrow as u32).map(|lane| tale.thread(Role::Server, "haproxy", 200, 200 + lane)).collect();
    let own: Vec<_> = (0..wide).map(|lane| tale.two_ends(&format!("10.0.0.1:{} > 10.0.0.2:80", 4000 + lane))).collect();
    let on: Vec<_> = (0..narrow).map(|lane| tale.two_ends(&format!("10.0.0.2:{} > 10.0.0.3:81", 5000 + lane))).collect();
    for n in 0..40 {
        let (lane, inner) = ((n % wide) as usize, (n % narrow) as usize);
        let (asked, from) = (n.saturating_sub(wide - narrow) / narrow * 10_000, n / narrow * 10_000);
        let until = from + 10_000;
        tale.span(lanes[lane], SpanKind::NetSend, asked, asked + 10).ran(10).on(own[lane].0).bytes(80).end();
        tale.wait(lanes[lane], SpanKind::NetReceive, asked + 10, until - 10).on(own[lane].0).by_packet().end();
        tale.span(lanes[lane], SpanKind::NetReceive, until - 10, until).ran(10).on(own[lane].0).bytes(200).end();
        tale.span(proxies[inner], SpanKind::NetSend, from + 20, from + 30).ran(10).on(on[inner].0).bytes(80).end();
        tale.wait(proxies[inner], SpanKind::NetReceive, from + 30, until - 40).on(on[inner].0).by_packet().end();
        tale.span(proxies[inner], SpanKind::NetReceive, until - 40, until - 30).ran(10).on(on[inner].0).bytes(200).end();
        tale.span(proxies[inner], SpanKind::NetSend, until - 25, until - 15).ran(10).on(own[lane].1).bytes(200).end();
        if inner == 0 {
            tale.wait(server, SpanKind::WaitTimer, from + 40, until - 60).end();
            tale.span(server, SpanKind::NetSend, until - 60, until - 50).ran(10).on(on[0].1).bytes(200).end();
        }
    }
    tale.explain()
}

#[test]
fn a_proxy_that_passes_on_fewer_requests_than_it_is_sent_is_the_limit_and_one_that_passes_on_each_once_is_none() {
    let said = |e: &Explanation| e.summary.numbers.iter().map(|number| number.sentence.clone()).collect::<Vec<_>>();
    let narrow = through_a_proxy(4, 1);
    assert!(
        said(&narrow).iter().any(|said| said.starts_with("One request at a time to 10.0.0.3:81, never more, while 4 wait: 40 × ")),
        "{:?}",
        said(&narrow)
    );
    // Each request of the command is one of the proxy's: that is not two for each.
    let chain = through_a_proxy(1, 1);
    assert!(said(&chain).iter().all(|said| !said.contains(" for each of ")), "{:?}", said(&chain));
}
