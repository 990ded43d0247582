//! Proposed changes can be made, and gain what is predicted.

use crate::numbers::fixture;
use thalweg_explain::document::{Explanation, NumberKind};

fn proposes(e: &Explanation, id: &str) -> bool {
    e.what_if.iter().any(|w| w.id == id)
}

/// A queue's client asks 25 times for the next task, over one connection; the server takes 200 ms for each small answer.
#[test]
fn who_asks_for_the_next_task_fetches_nothing_again() {
    let e = fixture("next-task-again");
    assert!(!proposes(&e, "fetch_once"), "{:?}", e.what_if);
    assert!(e.summary.numbers.iter().all(|n| n.kind != NumberKind::TimesOver), "{:#?}", e.summary.numbers);
    assert!(e.summary.numbers.iter().any(|n| n.kind == NumberKind::OneAtATime && n.count == Some(25)), "{:#?}", e.summary.numbers);
}

/// Bash reads from a server that never answers, until timeout(1) stops it; ssh calls a missing host, until its ConnectTimeout.
#[test]
fn no_server_is_to_be_faster_that_had_not_answered_when_a_time_limit_ended_the_wait() {
    for (name, says, limit) in [
        ("stopped-before-any-answer", "bash waited for 127.0.0.1:18602, until `timeout` stopped it", true),
        ("connects-to-nobody", "ssh waited for the server at 10.88.7.9:2222, which did not answer", false),
    ] {
        let e = fixture(name);
        assert!(e.summary.sentence.contains(says), "{name}: {}", e.summary.sentence);
        assert!(!proposes(&e, "server.x2") && proposes(&e, "time_limit") == limit, "{name}: {:?}", e.what_if);
    }
}

/// A shell's child sleeps in a loop until `kill -9` from elsewhere.
#[test]
fn who_is_killed_from_elsewhere_would_have_been_without_its_sleeps_too() {
    let e = fixture("worker-killed-by-another");
    assert!(!proposes(&e, "no_think"), "{:?}", e.what_if);
}

/// A shell starts a Python program that has a transaction open and computes for 4.5 s, and 0.7 s later sqlite3, and waits for both: Python alone takes 4.56 of the 4.78 s.
#[test]
fn no_waiting_for_a_lock_leaves_what_its_holder_does_for_the_same_command() {
    let e = fixture("holder-computes-beside");
    for w in e.what_if.iter().filter(|w| w.id == "no_lock" || w.id == "no_think") {
        assert!(w.predicted_wall_s > 4.4, "{}: {}", w.id, w.predicted_wall_s);
    }
}

/// A client asks once, and the server sleeps 5 s before it answers.
#[test]
fn one_sleep_before_an_answer_is_between_no_steps() {
    let e = fixture("sleeps-before-one-answer");
    assert!(!proposes(&e, "no_think"), "{:?}", e.what_if);
}
