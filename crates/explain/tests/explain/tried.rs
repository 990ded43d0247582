//! Pauses between attempts: what was tried, how often, and the result. If nothing that failed succeeded after the last pause, they are a
//! pace.

use crate::common::*;
use std::path::Path;
use thalweg_explain::{Explanation, Options, explain};
use thalweg_trace::SpanKind as K;
use thalweg_trace::*;

fn explained(name: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    let explanation = explain(&recording, &Options::default()).expect("explains");
    check(&explanation);
    explanation
}

/// A program that sleeps ten times and, before and after each sleep, looks for files, with these results.
fn paces(paths: &[&str], result: impl Fn(&str, u64) -> i64) -> Explanation {
    let mut tale = Tale::new(110_000, 2);
    let main = tale.thread(Role::Client, "prog", 100, 100);
    let files: Vec<(&str, ObjectId)> = paths.iter().map(|&path| (path, tale.file(path))).collect();
    for n in 0..11_u64 {
        let at = 1_000 + n * 10_000;
        for (i, &(path, file)) in (0..).zip(&files) {
            tale.span(main, K::FileStat, at + i * 10, at + i * 10).on(file).result(result(path, n)).end();
        }
        if n < 10 {
            tale.wait(main, K::WaitTimer, at + 100, at + 9_900).by_timer().end();
        }
    }
    tale.explain()
}

#[test]
fn what_fails_each_time_and_never_comes_about_was_not_waited_for() {
    for name in ["paces-beside-a-queue", "makes-its-folder", "nobody-takes-metrics"] {
        let e = explained(name);
        assert_eq!(e.verdict.cause.name(), "client.think", "{name}: {:#?}", e.critical_path);
        assert!(e.summary.sentence.contains("slept between its steps"), "{name}: {}", e.summary.sentence);
    }
    let e = explained("every-other-fails");
    assert!(e.summary.sentence.contains("ran sleep to pause"), "{}", e.summary.sentence);
}

#[test]
fn a_folder_that_is_there_already_is_no_attempt_at_it_before_a_sleep() {
    let e = explained("sleeps-beyond-ssh");
    assert_eq!(e.verdict.cause.name(), "server.think", "{:#?}", e.critical_path);
    assert!(e.summary.sentence.contains("ran sleep to pause"), "{}", e.summary.sentence);
    // Once requested immediately, and once found missing without another pause before: neither was tried repeatedly.
    for found_at_once in [true, false] {
        let mut tale = Tale::new(110_000, 2);
        let main = tale.thread(Role::Client, "prog", 100, 100);
        let folder = tale.file("/w/folder");
        for at in [1_000, 2_000] {
            tale.span(main, K::FileOther, at, at).on(folder).result(-17).end();
            if found_at_once {
                tale.span(main, K::FileStat, at + 10, at + 10).on(folder).result(0).end();
            }
        }
        tale.wait(main, K::WaitTimer, 3_000, 100_000).by_timer().end();
        let e = tale.explain();
        assert!(charged_ms(&e, "client.think") > 90.0, "{found_at_once}: {:#?}", e.critical_path);
    }
}

#[test]
fn a_search_in_one_folder_after_the_other_is_no_attempt_at_each() {
    let e = paces(&["/a/date", "/b/date", "/usr/bin/date"], |path, _| if path.starts_with("/usr") { 0 } else { -2 });
    assert!(charged_ms(&e, "client.think") > 90.0, "{:#?}", e.critical_path);
}

#[test]
fn a_file_that_a_program_makes_itself_after_a_pause_was_not_waited_for() {
    let paths: Vec<String> = (0..11).map(|n| format!("/w/out-{n}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    // Each is missing before its pause, and made after it.
    let e = paces(&paths, |path, n| if path.ends_with(&format!("-{n}")) { -2 } else { 0 });
    assert!(charged_ms(&e, "client.think") > 90.0, "{:#?}", e.critical_path);
}

#[test]
fn what_is_there_after_the_last_pause_was_waited_for() {
    let e = paces(&["/w/ready", "/w/settings"], |path, n| if path == "/w/ready" && n == 10 { 0 } else { -2 });
    assert!(charged_ms(&e, "client.lock") > 90.0, "{:#?}", e.critical_path);
    assert!(e.summary.sentence.contains("looked for ready every 9.80 ms: about 10 lookups failed (ENOENT)"), "{}", e.summary.sentence);
}

#[test]
fn attempts_are_named_with_how_often_they_failed_and_how() {
    for (name, said) in [
        ("refused-until-given-up", "curl paused between attempts to connect to 127.0.0.1:8199: 4 were refused (ECONNREFUSED)"),
        ("connect-before-listener", "paused between attempts to connect to 127.0.0.1:8766: 12 were refused (ECONNREFUSED)"),
        ("tries-to-lock", "golock tried to take the lock on go.lock every 79.1 ms: about 21 attempts failed (EAGAIN)"),
        ("task-moves-between-threads", "x1 tried to create x1.pid every 109 ms: about 14 attempts failed (EEXIST)"),
        ("perl-busy-database", "perl tried to take the lock on j.db every 50.1 ms:"),
        ("answers-503", "python3 answered HTTP 503 3 times, and was asked again every 1.00 s"),
        ("listens-late", "slept before it listened; of the attempts to connect to it 10 were refused (ECONNREFUSED)"),
    ] {
        let e = explained(name);
        assert!(e.summary.sentence.contains(said), "{name}: {}", e.summary.sentence);
    }
}

#[test]
fn nothing_is_promised_of_a_server_that_does_not_listen_yet() {
    for name in ["refused-until-given-up", "connect-before-listener", "listens-late"] {
        let e = explained(name);
        let promised = e.what_if.iter().find(|w| w.id == "server.x2" || w.id == "no_think");
        assert!(promised.is_none(), "{name}: {promised:#?}");
    }
}

#[test]
fn who_is_answered_alike_each_time_paces_itself_or_polls_and_nothing_is_promised() {
    for name in ["pages-at-a-pace", "polls-a-job"] {
        let e = explained(name);
        assert_eq!(e.verdict.cause.name(), "client.think", "{:#?}", e.critical_path);
        assert!(e.summary.sentence.contains("slept between requests of equal size to 127.0.0.1:"), "{}", e.summary.sentence);
        assert!(e.what_if.iter().all(|change| change.id != "no_think"), "{name}: {:#?}", e.what_if);
    }
}

#[test]
fn sleeps_between_questions_for_names_are_for_these() {
    let e = explained("names-refused-each-second");
    assert!(e.summary.sentence.contains("perl slept between attempts to resolve names"), "{}", e.summary.sentence);
    assert!(e.what_if.iter().all(|change| change.id != "no_think"), "{:#?}", e.what_if);
}

/// Python's `subprocess.run(timeout=4)` checks every 50 ms whether its child has ended.
#[test]
fn a_child_that_is_stopped_after_its_makers_time_limit_is_what_was_waited_for() {
    let e = explained("looks-at-a-child-until-its-limit");
    assert!(e.summary.sentence.contains("cat waited for /tmp/fifo"), "{}", e.summary.sentence);
    assert!(e.what_if.iter().all(|change| change.speedup < 1.1), "{:#?}", e.what_if);
}
