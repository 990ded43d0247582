//! How a run ended, its number of rounds, and the device behind waits that name none.

use crate::common::*;
use thalweg_explain::document::Trip;
use thalweg_trace::{CounterName, CounterOf, Event, ObjectKind, Role, SpanKind as K, Time, TrackId};

fn attribute(tale: &mut Tale, name: &str, value: &str) {
    tale.meta.attributes.push((name.to_owned(), value.to_owned()));
}

/// A command that computes for all of a second.
fn computes(exit_code: i32) -> Tale {
    let mut tale = Tale::new(1_000_000, 2);
    let main = tale.thread(Role::Client, "copy", 100, 100);
    tale.span(main, K::CpuRun, 0, 1_000_000).end();
    tale.meta.exit_code = Some(exit_code);
    tale
}

#[test]
fn a_command_that_failed_says_so_before_any_cause() {
    let e = computes(3).explain();
    assert_eq!(e.summary.ended.as_deref(), Some("failed with exit code 3"));
    assert!(e.summary.sentence.starts_with("It failed with exit code 3. For "), "{}", e.summary.sentence);
    assert!(e.verdict.sentence.starts_with("It failed with exit code 3. "), "{}", e.verdict.sentence);
    let e = computes(137).explain();
    assert!(e.summary.sentence.starts_with("It was killed by SIGKILL. For "), "{}", e.summary.sentence);
    let e = computes(0).explain();
    assert!(e.summary.ended.is_none() && e.summary.sentence.starts_with("For "), "{}", e.summary.sentence);
}

#[test]
fn a_full_disk_is_named_with_the_failure_and_only_with_it() {
    let mut tale = computes(1);
    attribute(&mut tale, "filesystem.full", "/mnt/out");
    let e = tale.explain();
    assert_eq!(e.summary.ended.as_deref(), Some("failed with exit code 1: /mnt/out is full"));
    assert!(e.summary.sentence.starts_with("It failed with exit code 1: /mnt/out is full. For "), "{}", e.summary.sentence);
    tale.meta.exit_code = Some(0);
    assert!(tale.explain().summary.sentence.starts_with("For "));
}

#[test]
fn an_exit_code_that_is_an_answer_is_no_failure() {
    let mut tale = computes(1);
    tale.meta.command = vec!["grep".to_owned(), "x".to_owned()];
    let e = tale.explain();
    assert_eq!(e.summary.ended.as_deref(), Some("exit code 1"));
    assert!(e.summary.sentence.starts_with("For "), "{}", e.summary.sentence);
}

/// Threads that each ask an unrecorded server, `turns` times one after the other; `parts` is the number of sends per request.
fn asks(threads: u64, turns: u64, parts: u64) -> Tale {
    let mut tale = Tale::new(turns * 1_000, 4);
    for thread in 0..threads {
        let main = tale.thread(Role::Client, "client", 100, 100 + thread as u32);
        let connection = tale.object(ObjectKind::Connection, &format!("10.0.0.1:{} > 10.0.0.2:80", 5_000 + thread), &[("end", "client")]);
        for turn in 0..turns {
            let t = turn * 1_000;
            for part in 0..parts {
                tale.span(main, K::NetSend, t + part * 10, t + part * 10 + 5).on(connection).bytes(100).end();
            }
            tale.wait(main, K::WaitNetwork, t + 100, t + 900).on(connection).by_packet().end();
            tale.span(main, K::NetReceive, t + 900, t + 910).on(connection).bytes(100).end();
        }
    }
    tale
}

#[test]
fn a_program_that_asks_and_waits_has_as_many_rounds_as_answers() {
    for (threads, turns, parts) in [(1, 632, 1), (1, 100, 3), (4, 100, 1)] {
        let e = asks(threads, turns, parts).explain();
        let trips = e.round_trips.as_ref().expect("it asks and waits");
        assert_eq!(trips.of, Trip::Exchanges);
        assert_eq!(trips.count, threads * turns * parts);
        assert!(trips.in_a_row.abs_diff(turns) * 20 <= turns, "{threads} threads, {turns} turns: {}", trips.sentence);
        let at_once = trips.at_once.expect("counted");
        assert!((at_once / (threads * parts) as f64 - 1.0).abs() < 0.05, "{}", trips.sentence);
    }
}

#[test]
fn processes_that_ask_once_each_one_after_the_other_are_as_many_rounds() {
    let mut tale = Tale::new(100_000, 2);
    let shell = tale.thread(Role::Client, "sh", 100, 100);
    tale.span(shell, K::CpuRun, 0, 1).end();
    for n in 0..50_u32 {
        let t = u64::from(n) * 2_000;
        let curl = tale.thread(Role::Client, "curl", 200 + n, 200 + n);
        let connection = tale.object(ObjectKind::Connection, &format!("10.0.0.1:{} > 10.0.0.2:80", 5_000 + n), &[("end", "client")]);
        tale.made(curl, t, shell);
        tale.span(curl, K::NetSend, t, t + 100).on(connection).bytes(100).end();
        tale.wait(curl, K::WaitNetwork, t + 100, t + 1_800).on(connection).by_packet().end();
        tale.span(curl, K::NetReceive, t + 1_800, t + 1_900).on(connection).bytes(100).end();
        tale.ended(curl, t + 2_000);
        tale.wait(shell, K::WaitLock, t + 10, t + 2_000).woken_by(curl).end();
    }
    let e = tale.explain();
    let trips = e.round_trips.as_ref().expect("it asks and waits");
    assert!((48..=50).contains(&trips.in_a_row), "{}", trips.sentence);
}

#[test]
fn messages_that_nobody_answers_have_no_rounds() {
    let mut tale = Tale::new(700_000, 2);
    let main = tale.thread(Role::Client, "logger", 100, 100);
    let connection = tale.object(ObjectKind::Connection, "10.0.0.1:5000 > 10.0.0.2:514", &[("end", "client")]);
    for n in 0..632 {
        tale.span(main, K::NetSend, n * 1_000, n * 1_000 + 10).on(connection).bytes(100).end();
        tale.wait(main, K::WaitTimer, n * 1_000 + 10, n * 1_000 + 990).end();
    }
    tale.span(main, K::NetReceive, 690_000, 690_010).on(connection).bytes(10).end();
    let e = tale.explain();
    assert!(e.round_trips.is_none(), "{:?}", e.round_trips.map(|trips| trips.sentence));
}

/// A thread that waits for a whole second, of which a device works for four fifths: 80 MB; and as much again in the half second after it,
/// in which the thread computes.
fn behind(kind: K) -> Tale {
    let mut tale = Tale::new(1_500_000, 2);
    let main = tale.thread(Role::Client, "find", 100, 100);
    let (vda, idle) = (tale.device("vda"), tale.device("vdb"));
    tale.object(ObjectKind::File, "/data/x", &[("device", "vda"), ("filesystem", "ext4")]);
    for n in 0..10 {
        let t = n * 100_000;
        tale.wait(main, kind, t, t + 100_000).end();
        tale.span(vda, K::DiskRead, t + 10_000, t + 90_000).observed().bytes(8_000_000).end();
        tale.span(idle, K::DiskRead, t + 50_000, t + 51_000).observed().bytes(4_096).end();
    }
    tale.span(main, K::CpuRun, 1_000_000, 1_500_000).end();
    tale.span(vda, K::DiskRead, 1_100_000, 1_400_000).observed().bytes(80_000_000).end();
    tale
}

#[test]
fn waits_for_names_and_for_memory_name_the_device_that_worked_meanwhile() {
    for (kind, cause, said) in [
        (K::FileOpen, "client.metadata", "find waited for metadata from vda (ext4)"),
        (K::WaitMemory, "client.memory", "find waited for memory while vda (ext4) moved 76.3 MiB"),
    ] {
        let e = behind(kind).explain();
        let charge = e.critical_path.iter().find(|c| c.cause.name() == cause).expect("charged");
        assert!(charge.evidence.ends_with("; vda (ext4) busy 80 % of it, 76.3 MiB moved"), "{}", charge.evidence);
        assert!(e.summary.sentence.contains(said), "{}", e.summary.sentence);
        let row = e.summary.rows.iter().find(|row| row.cause.name() == cause).expect("a row");
        assert!(row.figures.ends_with(", vda (ext4) busy 80 % of it, 76.3 MiB moved"), "{}", row.figures);
    }
}

#[test]
fn a_device_that_was_idle_is_not_named() {
    let mut tale = Tale::new(1_000_000, 2);
    let main = tale.thread(Role::Client, "find", 100, 100);
    let device = tale.device("vda");
    tale.wait(main, K::FileOpen, 0, 1_000_000).end();
    tale.span(device, K::DiskRead, 10_000, 20_000).observed().bytes(4_096).end();
    let e = tale.explain();
    assert!(e.critical_path.iter().all(|charge| !charge.evidence.contains("vda")), "{:?}", e.critical_path);
}

#[test]
fn fewer_files_are_no_advice_where_one_was_dealt_with() {
    let opened = |tale: &mut Tale, track: TrackId, value: i64| {
        let at = Time::from_monotonic_ns(1_000);
        tale.event(Event::Counter(thalweg_trace::Counter { of: CounterOf::Track(track), name: CounterName::FileOpens, at, value }));
    };
    for (files, advised) in [(12, false), (5_000, true)] {
        let mut tale = Tale::new(1_000_000, 2);
        let main = tale.thread(Role::Client, "copy", 100, 100);
        let file = tale.object(ObjectKind::File, "/data/x", &[("device", "vda"), ("filesystem", "ext4")]);
        tale.wait(main, K::FileOpen, 0, 900_000).on(file).end();
        tale.span(main, K::CpuRun, 900_000, 1_000_000).end();
        opened(&mut tale, main, files);
        let e = tale.explain();
        let advice = e.what_if.iter().find(|what_if| what_if.id == "metadata.x2").expect("advised");
        assert_eq!(advice.how.contains("fewer files"), advised, "{}", advice.how);
    }
}

/// Reads and writes of `gzip`, with an output of a quarter of the input; and of a program whose two sides differ by headers.
#[test]
fn what_was_moved_is_the_larger_of_two_ends_that_differ_by_more_than_headers() {
    let moved = |read: u64, written: u64| {
        let mut tale = Tale::new(10_000, 2);
        let gzip = tale.thread(Role::Client, "gzip", 100, 100);
        let (log, packed) = (tale.file("/data/log"), tale.file("/data/log.gz"));
        tale.span(gzip, K::FileRead, 0, 4_000).on(log).bytes(read).end();
        tale.span(gzip, K::FileWrite, 4_000, 10_000).on(packed).bytes(written).end();
        tale.explain().size_bytes
    };
    assert_eq!(moved(64 << 20, 16 << 20), Some(64 << 20));
    assert_eq!(moved(16 << 20, 64 << 20), Some(64 << 20));
    assert_eq!(moved(100 << 20, 95 << 20), Some(95 << 20));
}

/// Thirty downloads over connections to one server, with the writes of five of them recorded.
#[test]
fn what_came_and_was_not_seen_to_be_handed_out_was_moved_too() {
    let mut tale = Tale::new(100_000, 2);
    let curl = tale.thread(Role::Client, "curl", 100, 100);
    for n in 0..30_u64 {
        let (near, _) = tale.two_ends(&format!("10.0.0.1:{} > 10.0.0.2:80", 40_000 + n));
        tale.span(curl, K::NetReceive, n * 3_000, n * 3_000 + 1_000).on(near).bytes(20 << 10).end();
        if n < 5 {
            let copy = tale.file(&format!("/data/copy-{n}"));
            tale.span(curl, K::FileWrite, n * 3_000 + 1_000, n * 3_000 + 1_100).on(copy).bytes(20 << 10).end();
        }
    }
    assert_eq!(tale.explain().size_bytes, Some(600 << 10));
}
