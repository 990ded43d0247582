//! Locks that are held across something else: how many wait at a time, and what the holder does meanwhile.

use crate::numbers::fixture;
use thalweg_explain::Cause;
use thalweg_explain::document::NumberKind;

/// Asserts the sentence about the lock behind a fixture.
#[track_caller]
fn is_held(name: &str, says: &str) {
    let e = fixture(name);
    let held: Vec<&str> = e.summary.numbers.iter().filter(|n| n.kind == NumberKind::LockHeld).map(|n| n.sentence.as_str()).collect();
    assert_eq!(held, [says], "{name}: {}", e.summary.sentence);
}

/// A lock on a file is certain, even if its holder works through another process.
#[test]
fn processes_that_wait_for_a_lock_on_a_file_are_counted_with_what_its_holder_does() {
    is_held("flock-across-a-sleep", "On average 5 of 6 processes waited for the flock on lk, held across each sleep: 30 × 50.1 ms.");
    let e = fixture("flock-across-a-sleep");
    let outside = e.what_if.iter().find(|w| w.id == "lock.outside").expect("a change");
    assert_eq!(outside.change, "the sleeps outside the lock, 6 at a time (gives this at most)");
}

/// Monitors, Python's locks and database rows are conditions or semaphores to the kernel, and so is a pool that hands out work.
#[test]
fn threads_that_wake_each_other_one_at_a_time_are_counted_and_not_said_to_have_a_lock_for_certain() {
    for (name, says) in [
        (
            "monitor-across-a-sleep",
            "On average 4 of 6 threads of java waited for another to wake them (for a lock held across each sleep, or for work): 60 × 30.1 ms.",
        ),
        (
            "lock-across-a-request",
            "On average 6 of 8 threads of python3 (p1.py) waited for another to wake them (for a lock held across each request, or for work): 48 × 40.1 ms.",
        ),
        (
            "row-across-a-sleep",
            "On average 3 of 4 threads of mariadbd waited for another to wake them (for a lock held across each request, or for work): 18 × 50.1 ms.",
        ),
    ] {
        is_held(name, says);
        assert!(fixture(name).what_if.iter().all(|w| w.id != "lock.outside"), "{name}");
    }
}

/// Forty tasks, each of which needs the one before, in a pool of six.
#[test]
fn no_lock_is_to_be_held_for_less_where_a_pool_hands_on_tasks() {
    assert!(fixture("work-handed-on").what_if.iter().all(|w| w.id != "lock.outside"));
}

/// Four threads of a C program, each of which computes for 12 ms under a mutex, twenty times.
#[test]
fn threads_that_wait_for_a_mutex_held_across_computing_are_counted_for_certain() {
    let e = fixture("mutex-across-computing");
    let said = "On average 3 of 4 threads of mutexc waited for a lock held across each stretch of computing: ";
    assert!(e.summary.numbers.iter().any(|n| n.kind == NumberKind::LockHeld && n.sentence.starts_with(said)), "{:#?}", e.summary.numbers);
}

/// A backend of PostgreSQL sleeps for another client, and wakes the one that waits for its row when it commits.
#[test]
fn a_row_that_another_session_holds_across_a_sleep_of_the_server_is_that_client_s_lock() {
    let e = fixture("row-held-by-a-sleeper");
    assert_eq!(e.verdict.cause, Cause::ClientLock, "{}", e.summary.sentence);
    assert!(e.summary.sentence.contains("psql held while its session slept"), "{}", e.summary.sentence);
}

/// Of 110 requests at one Redis, 70 are the command's.
#[test]
fn what_another_client_asks_of_the_same_server_is_not_counted_and_is_named_where_the_server_works_for_it() {
    let e = fixture("two-clients-of-one-server");
    assert!(e.summary.about.starts_with("70 requests"), "{}", e.summary.about);
    let others = e.summary.numbers.iter().find(|n| n.kind == NumberKind::OtherClients).expect("another client");
    assert!(others.sentence.contains("another client, redis-cli"), "{}", others.sentence);
}

/// Go parks goroutines by itself: the kernel sees no wait for a mutex, and the runtime's own functions do.
#[test]
fn goroutines_that_wait_for_a_mutex_are_counted_with_what_its_holder_does() {
    is_held("goroutines-sync-in-turn", "On average 6 of 8 goroutines of slow waited for a mutex held across each sync: 160 × 1.47 ms.");
    is_held("goroutines-ask-in-turn", "On average 7 of 8 goroutines of req waited for a mutex held across each sleep: 63 × 20.8 ms.");
}

/// Three goroutines hold a mutex across sleeps, and a fourth syncs: the syncs are not under the mutex.
#[test]
fn what_goes_on_beside_a_contended_mutex_is_not_under_it() {
    is_held(
        "contended-beside-the-syncs",
        "On average 2 of 3 goroutines of apart waited for a mutex held across each sleep: 115 × 2.41 ms.",
    );
    let e = fixture("contended-beside-the-syncs");
    assert!(e.what_if.iter().all(|change| !change.change.contains("the syncs outside")), "{:?}", e.what_if);
}
