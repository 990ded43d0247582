//! Numbers behind the rates of real programs, and bounds on their changes.

use crate::common::Tale;
use crate::numbers::{fixture, is_counted};
use thalweg_explain::document::{Number, NumberKind};
use thalweg_trace::{ObjectKind, Role, SpanKind};

#[test]
fn a_file_that_is_replaced_for_each_change_is_changed_once() {
    let says = "zipadd.zip was replaced for each change: 57 processes wrote 1.79 GiB.";
    is_counted("each-change-rewrites", (NumberKind::TimesOver, 57, says), "write_once", 7.0..99.0);
}

/// A thread that does not wait for a sync is not woken after it either.
#[test]
fn what_is_waited_for_directly_after_each_sync_goes_with_the_syncs() {
    let says = "One sync after the other: 4,000 × 131 µs.";
    is_counted("syncs-under-a-lock", (NumberKind::SyncsPerItem, 4_000, says), "sync_once", 15.0..9_999.0);
}

/// No cause has a quarter of the time, and the few bytes of each connection do not justify its handshake.
#[test]
fn a_few_processes_that_each_log_in_are_the_number_behind_a_run_whose_time_is_spread() {
    let says = "6 processes, one after the other: 494 ms each, including startup and exit.";
    is_counted("few-log-ins", (NumberKind::ProcessPerItem, 6, says), "start_once", 5.6..8.0);
}

#[test]
fn one_request_at_a_time_to_a_disk_is_the_number_behind_waiting_for_it() {
    let says = "One request of 4.20 KiB at a time on vda: 31,982 × 202 µs.";
    is_counted("one-read-at-a-time", (NumberKind::DiskOneAtATime, 31_982, says), "disk.requests.x4", 2.0..4.1);
}

#[test]
fn a_file_that_was_seen_last_was_not_read_again_for_the_bytes_of_those_that_were_not_seen() {
    let e = fixture("files-read-once");
    let again = e.summary.numbers.iter().find(|number| number.kind == NumberKind::TimesOver);
    assert!(again.is_none(), "{again:?}");
    assert!(e.what_if.iter().all(|w| w.id != "read_once"), "{:?}", e.what_if);
}

#[test]
fn a_question_that_a_thread_of_the_same_command_answers_is_one_request() {
    let e = fixture("client-and-server");
    assert!(e.summary.about.contains("2,000 requests"), "{}", e.summary.about);
}

/// A program with every call recorded: it opens and closes one file `most` of 50,000 times, and others the other times.
fn opening(most: u64) -> Vec<Number> {
    let mut tale = Tale::new(1_000_000, 2);
    let program = tale.thread(Role::Client, "looks", 100, 100);
    let file = |tale: &mut Tale, name: &str| tale.object(ObjectKind::File, name, &[("file_bytes", "4096"), ("opened", "read")]);
    let (one, other) = (file(&mut tale, "/data/one"), file(&mut tale, "/data/other"));
    let closes = |tale: &mut Tale, (from, until), on, count| {
        tale.span(program, SpanKind::FileOpen, from, (from + until) / 2).ran((until - from) / 2).count(count).end();
        tale.span(program, SpanKind::FileClose, (from + until) / 2, until).ran((until - from) / 2).on(on).count(count).end();
    };
    closes(&mut tale, (0, 900_000), one, u32::try_from(most).expect("few"));
    closes(&mut tale, (900_000, 1_000_000), other, u32::try_from(50_001 - most).expect("few"));
    tale.explain().summary.numbers
}

#[test]
fn one_file_that_is_opened_again_and_again_is_counted_where_calls_were_recorded() {
    let numbers = opening(49_000);
    assert_eq!(numbers[0].sentence, "one was opened 49,000 times, 20.4 µs of metadata calls for each.");
    assert!(opening(25_000).is_empty());
}

#[test]
fn truncating_a_file_and_closing_it_are_said_and_what_avoids_both_is_offered() {
    let e = fixture("copied-over");
    assert!(e.summary.sentence.contains("from vda (mostly closing dst.bin)"), "{}", e.summary.sentence);
    let row = e.summary.rows.iter().find(|row| row.cause.name() == "client.metadata").expect("a row");
    assert_eq!(row.figures, "metadata calls: 58 % close, 42 % truncate");
    let command = e.advice.iter().find(|advice| advice.command.contains(&"--remove-destination".to_owned()));
    assert!(command.is_some(), "{:?}", e.advice);
}

/// Ten times as much was read as was seen at a file.
#[test]
fn no_volume_is_said_where_most_that_was_read_was_seen_at_no_file() {
    for name in ["reads-seen-at-no-file", "many-short-readers"] {
        let about = fixture(name).summary.about;
        assert!(!about.contains("iB"), "{name}: {about}");
    }
}

/// The kernel's `migration` threads are bound to a processor each.
#[test]
fn threads_that_the_kernel_binds_bind_no_command() {
    let sentence = fixture("kernel-binds-its-own").summary.sentence;
    assert!(sentence.contains("waited for a CPU") && !sentence.contains("bound to"), "{sentence}");
}

#[test]
fn who_syncs_and_queues_beside_a_compiler_does_not_wait_at_full_speed() {
    let remarks = fixture("commits-beside-a-compiler").summary.remarks;
    assert!(remarks.iter().all(|remark| !remark.contains("full speed")), "{remarks:?}");
}
