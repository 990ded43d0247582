//! The first line of a summary: what a run was about.

use crate::common::Tale;
use std::path::Path;
use thalweg_explain::{Options, explain};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectKind, Recording, Role, SpanKind, Time, TrackId};

fn about(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    explain(&recording, &Options { what_if: false, ..Options::default() }).expect("explains").summary.about
}

#[test]
fn syncs_are_counted_by_call_and_not_by_wait() {
    let begins = |name: &str, with: &str| assert!(about(name).starts_with(with), "{name}: {}", about(name));
    begins("programs/dd-dsync", "200 syncs in ");
    // 100 transactions, one that made the log, and one that ended it.
    begins("programs/sqlite-wal", "102 log syncs in ");
}

#[test]
fn answers_of_few_bytes_are_requests_and_a_walk_of_our_own_is_entries() {
    let begins = |name: &str, with: &str| assert!(about(name).starts_with(with), "{name}: {}", about(name));
    begins("walks/nfs", "618 requests in ");
    begins("walks/store-sync", "300 entries in ");
    begins("programs/rsync-get-server-disk", "95.5 MiB in ");
    // Of three turns on each, two are for keys.
    begins("programs/connects-for-each", "60 connections in ");
}

#[test]
fn requests_have_no_time_for_each_where_a_few_are_far_slower_or_several_are_under_way() {
    for (name, said) in [("programs/few-are-slow", "130 requests in 3.40 s, 38 a second"), ("programs/pool-of-three", " a second")] {
        assert!(about(name).ends_with(said), "{name}: {}", about(name));
    }
}

fn counted(tale: &mut Tale, track: TrackId, name: CounterName, values: &[i64]) {
    let at = Time::from_monotonic_ns(50_000_000);
    values.iter().for_each(|&value| tale.event(Event::Counter(Counter { of: CounterOf::Track(track), name, at, value })));
}

#[test]
fn a_copy_of_a_tree_is_about_its_files_and_their_bytes() {
    let mut tale = Tale::new(200_000, 2);
    let (cp, of_server) = (tale.thread(Role::Client, "cp", 100, 100), tale.thread(Role::Server, "nfsd", 200, 200));
    tale.span(cp, SpanKind::CpuRun, 0, 200_000).ran(200_000).end();
    for n in 0..8 {
        let (from, to) = (tale.file(&format!("/data/a/{n}")), tale.file(&format!("/data/b/{n}")));
        tale.span(cp, SpanKind::FileRead, n * 20_000, n * 20_000 + 5_000).ran(5_000).on(from).bytes(500_000).end();
        tale.span(cp, SpanKind::FileWrite, n * 20_000 + 5_000, n * 20_000 + 9_000).ran(4_000).on(to).bytes(500_000).end();
    }
    // Totals: the last value holds.
    counted(&mut tale, cp, CounterName::FileCreates, &[400, 1_000]);
    counted(&mut tale, cp, CounterName::FileOpens, &[2_030]);
    counted(&mut tale, cp, CounterName::FileStats, &[4_000]);
    counted(&mut tale, of_server, CounterName::FileRemoves, &[5_000]);
    assert_eq!(tale.explain().summary.about, "1,000 files created, 3.81 MiB in 200 ms, 200 µs each");
}

#[test]
fn what_was_removed_by_all_processes_of_the_command_is_one_count() {
    let mut tale = Tale::new(100_000, 2);
    let all: Vec<TrackId> = (100..104).map(|pid| tale.thread(Role::Client, "rm", pid, pid)).collect();
    tale.span(all[0], SpanKind::CpuRun, 0, 100_000).ran(100_000).end();
    all.iter().for_each(|&rm| counted(&mut tale, rm, CounterName::FileRemoves, &[500]));
    assert_eq!(tale.explain().summary.about, "2,000 files removed in 100 ms, 50.0 µs each");
}

#[test]
fn what_was_read_counts_where_opens_do_not_unless_it_was_counted_in_part() {
    for (in_part, said) in [(false, "1,012 files read in 100 ms, 98.8 µs each"), (true, "100 ms")] {
        let mut tale = Tale::new(100_000, 2);
        let tar = tale.thread(Role::Client, "tar", 100, 100);
        tale.span(tar, SpanKind::CpuRun, 0, 100_000).ran(100_000).end();
        counted(&mut tale, tar, CounterName::FileReads, &[1_012]);
        if in_part {
            tale.meta.attributes.push(("file.reads".to_owned(), "in part".to_owned()));
        }
        assert_eq!(tale.explain().summary.about, said);
    }
}

#[test]
fn what_a_server_settles_in_its_own_time_is_not_what_a_command_was_about() {
    for (waits, said) in [(false, "100 ms"), (true, "400 syncs in 100 ms, 250 µs each")] {
        let mut tale = Tale::new(100_000, 2);
        let (python, server) = (tale.thread(Role::Client, "python3", 100, 100), tale.thread(Role::Server, "nfsd", 200, 200));
        for n in 0..400 {
            let (from, file) = (n * 250, tale.file(&format!("/data/{n}")));
            tale.span(server, SpanKind::FileSync, from, from + 200).blocked().on(file).end();
            if waits {
                tale.wait(python, SpanKind::WaitLock, from, from + 210).woken_by(server).end();
            }
        }
        if !waits {
            tale.span(python, SpanKind::CpuRun, 0, 100_000).ran(100_000).end();
        }
        let e = tale.explain();
        assert_eq!(e.summary.about, said, "waited for: {waits}: {:?}", e.verdict);
    }
}

#[test]
fn a_pausing_program_beside_a_store_that_settles_is_not_about_syncs() {
    assert_eq!(about("programs/settles-beside"), "1.03 s");
}

#[test]
fn a_large_file_that_is_copied_is_about_its_bytes_whatever_was_opened() {
    let mut tale = Tale::new(100_000, 2);
    let python = tale.thread(Role::Client, "python3", 100, 100);
    let big = tale.file("/data/big");
    tale.span(python, SpanKind::FileRead, 0, 100_000).ran(100_000).on(big).bytes(64 << 20).end();
    counted(&mut tale, python, CounterName::FileOpens, &[1_900]);
    counted(&mut tale, python, CounterName::FileStats, &[3_500]);
    assert!(tale.explain().summary.about.starts_with("64 MiB in 100 ms, "), "{}", tale.explain().summary.about);
}

#[test]
fn programs_that_are_distinguished_by_what_they_run_are_named_so_everywhere() {
    let mut tale = Tale::new(1_000_000, 2);
    let first = tale.thread(Role::Client, "python3 (first.py)", 100, 100);
    let worker = tale.thread(Role::Client, "python3 (second 2.py)/worker", 200, 201);
    tale.span(worker, SpanKind::CpuRun, 0, 400_000).ran(400_000).end();
    tale.wait(first, SpanKind::WaitLock, 0, 400_000).woken_by(worker).end();
    tale.span(first, SpanKind::CpuRun, 400_000, 1_000_000).ran(600_000).end();
    let e = tale.explain();
    let expected = "For 60 % of the time python3 (first.py) computed and for 40 % thread worker of python3 (second 2.py) computed.";
    assert_eq!(e.summary.sentence, expected);
    assert_eq!(e.summary.rows.iter().map(|row| row.subject.as_str()).collect::<Vec<_>>(), ["python3 (first.py)", "python3 (second 2.py)"]);
    let text = serde_json::to_string(&e).expect("JSON");
    assert!(text.contains("python3 (first.py): its own work"), "{text}");
}

/// A program that sleeps for these numbers of milliseconds, a millisecond apart.
fn sleeps(lengths_ms: &[u64]) -> thalweg_explain::Explanation {
    let mut tale = Tale::new(lengths_ms.iter().map(|ms| (ms + 1) * 1_000).sum(), 2);
    let sleep = tale.thread(Role::Client, "sleep", 100, 100);
    let mut at = 0;
    for ms in lengths_ms {
        tale.wait(sleep, SpanKind::WaitTimer, at, at + ms * 1_000).by_timer().end();
        at += (ms + 1) * 1_000;
    }
    tale.explain()
}

#[test]
fn of_several_lengths_of_which_one_is_nearly_all_or_of_few_that_are_unequal_the_longest_is_said_and_no_mean() {
    let figures = |lengths_ms: &[u64]| sleeps(lengths_ms).summary.rows[0].figures.clone();
    assert_eq!(figures(&[10, 10, 10, 10, 10, 1_300, 10]), "7 sleeps, the longest 1.30 s");
    assert_eq!(figures(&[300, 300, 700, 300]), "4 sleeps, the longest 700 ms");
    assert_eq!(figures(&[300, 300, 500, 300]), "4 sleeps, 350 ms each");
    assert_eq!(figures(&[300, 300, 700, 300, 300, 300, 300, 300, 400]), "9 sleeps, 356 ms each");
    assert_eq!(figures(&[1_300]), "one sleep of 1.30 s");
}

#[test]
fn what_the_text_withholds_is_marked_in_the_document() {
    let said = |lengths_ms: &[u64]| {
        let e = sleeps(lengths_ms);
        assert_eq!(e.reliable, e.unreliable_because.is_none());
        assert_eq!(e.reliable, !e.summary.sentence.is_empty());
        serde_json::to_value(&e).expect("JSON")["unreliable_because"].as_str().map(str::to_owned)
    };
    assert_eq!(said(&[20, 20]).as_deref(), Some("too short to advise on: below 50 ms, most of a run is startup and exit"));
    assert_eq!(said(&[50, 20]), None);
}

#[test]
fn what_went_through_a_pipe_is_what_a_run_was_about_where_no_files_were_moved() {
    let about = |written: &[&str], file_bytes: u64| {
        let mut tale = Tale::new(1_000_000, 2);
        let main = tale.thread(Role::Client, "sort", 100, 100);
        for (n, bytes) in written.iter().enumerate() {
            tale.object(ObjectKind::Pipe, &format!("pipe:[{n}]"), &[("written_by", "100"), ("written_bytes", bytes)]);
        }
        let file = tale.file("/data/big");
        tale.span(main, SpanKind::FileRead, 0, 1_000_000).ran(500_000).on(file).bytes(file_bytes).end();
        tale.explain().summary.about
    };
    assert_eq!(about(&["10485760", "8388608"], 4_096), "10 MiB through a pipe in 1.00 s, 10 MiB/s");
    assert_eq!(about(&["65536"], 4_096), "1.00 s");
    assert_eq!(about(&["10485760"], 4 << 20), "4 MiB in 1.00 s, 4 MiB/s");
}
