//! Pauses and timeouts of programs, however their runtimes implement them: how many, how long, and whose answer they waited for.

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

fn largest(e: &Explanation) -> &str {
    &e.summary.rows[0].figures
}

#[test]
fn what_a_runtime_waits_for_in_pieces_is_one_pause_of_its_program() {
    for (name, figures) in [
        ("sleeps-in-pieces", "20 sleeps, 150 ms each"),
        ("pauses-in-pieces", "4 pauses, 600 ms each"),
        ("sleeps-by-slices", "4 sleeps, 751 ms each"),
        ("chunks-at-a-pace", "8 sleeps, 215 ms each"),
        ("sleeps-in-a-row", "8 sleeps, 250 ms each"),
        ("asks-by-an-event-loop", "one sleep of 2.00 s"),
    ] {
        let e = explained(name);
        assert_eq!(largest(&e), figures, "{name}: {}", e.summary.sentence);
    }
}

#[test]
fn a_time_limit_of_an_event_loop_names_the_peer_that_did_not_answer() {
    for (name, figures, peer) in [
        ("event-loop-aborts", "3 waits, 679 ms each", "127.0.0.1:47205"),
        ("waits-for-continue", "2 waits, 1.00 s each", "127.0.0.1:47203"),
        ("client-with-a-limit", "3 waits, 800 ms each", "127.0.0.1:48202"),
        ("asks-thrice-in-vain", "3 waits, 1.20 s each", "127.0.0.1:58811"),
    ] {
        let e = explained(name);
        assert_eq!(largest(&e), figures, "{name}: {}", e.summary.sentence);
        assert!(e.summary.sentence.contains(&format!("waited for {peer}, until its own timeout")), "{name}: {}", e.summary.sentence);
        assert!(e.what_if.iter().all(|change| change.id != "no_think"), "{name}: {:?}", e.what_if);
    }
}

/// A waiting thread checks in between, or the path goes to the holder and back: curl polls a second at a time, a server's event loop half a
/// second, a database checks for deadlocks after a second, and the session that holds a lock computes and queues for a processor.
#[test]
fn a_wait_for_what_another_does_at_last_is_one_wait_however_often_it_is_looked_at() {
    for (name, figures) in [
        ("one-limit-in-pieces", "one wait of 3.99 s"),
        ("long-poll", "one wait of 4.17 s"),
        ("row-of-an-idle-client", "one wait of 3.69 s"),
        ("advisory-lock", "one wait of 1.60 s"),
    ] {
        let e = explained(name);
        assert_eq!(largest(&e), figures, "{name}: {}", e.summary.sentence);
    }
    let limit = explained("one-limit-in-pieces");
    let said = "A timeout of 3.99 s expired with nothing received.";
    assert!(limit.summary.numbers.iter().any(|n| n.sentence == said), "{:#?}", limit.summary.numbers);
}

#[test]
fn a_wait_for_a_lock_until_its_time_limit_is_no_sleep() {
    let mut tale = Tale::new(3_000_000, 1);
    let flock = tale.thread(Role::Client, "flock", 100, 100);
    let lock = tale.object(ObjectKind::Lock, "flock /home/u/job.lock", &[]);
    tale.wait(flock, K::WaitLock, 1_000, 2_999_000).on(lock).by_timer().end();
    let e = tale.explain();
    assert!(e.summary.sentence.contains("flock waited on flock /home/u/job.lock until its own timeout"), "{}", e.summary.sentence);
    assert_eq!(largest(&e), "one wait of 3.00 s");
}

#[test]
fn a_program_that_was_stopped_waited_for_the_peer_that_did_not_answer() {
    for (name, figures, peer, by) in [
        ("timeout-stops-curl", "one wait of 1.4", "127.0.0.1:48204", "timeout"),
        ("caller-stops-curl", "one wait of 1.2", "127.0.0.1:48205", "python3"),
    ] {
        let e = explained(name);
        assert!(largest(&e).starts_with(figures), "{name}: {}", largest(&e));
        let said = format!("curl waited for {peer}, until `{by}` stopped it");
        assert!(e.summary.sentence.contains(&said), "{name}: {}", e.summary.sentence);
    }
    let e = explained("killed-by-a-time-limit");
    assert!(e.summary.sentence.contains("timeout slept"), "{}", e.summary.sentence);
}

/// What the programs of an unrecorded `timeout` did when it killed them.
#[test]
fn who_stops_a_program_from_outside_is_not_whom_it_waited_for() {
    for (name, said) in [
        ("sleeper-killed-from-outside", "python3 slept"),
        ("shell-killed-with-its-child", "sh ran sleep to pause"),
        ("follower-of-a-log", "tail waited for a file to change (inotify)"),
    ] {
        let e = explained(name);
        assert!(e.summary.sentence.contains(said), "{name}: {}", e.summary.sentence);
        assert_eq!(e.verdict.cause.name(), "client.think", "{name}: {:#?}", e.critical_path);
    }
}

#[test]
fn a_tunnel_that_has_no_time_left_is_what_holds_bytes_up() {
    let e = explained("busy-tunnel");
    assert_eq!(e.verdict.cause.name(), "server.cpu", "{:#?}", e.critical_path);
    assert!(e.summary.sentence.contains("the tunnel python3 (g6.tun.py) at the server was busy (94 % of a CPU)"), "{}", e.summary.sentence);
    let e = explained("window-through-a-tunnel");
    assert_eq!(e.verdict.cause.name(), "network.rwnd", "{:#?}", e.critical_path);
}

#[test]
fn what_a_server_did_before_it_was_recorded_is_no_peer_of_its() {
    let e = explained("server-met-late");
    assert!(e.summary.sentence.contains("python3 slept before it answered"), "{}", e.summary.sentence);
    assert_eq!(largest(&e), "6 sleeps, 300 ms each");
    assert!(!e.summary.sentence.contains("a peer"), "{}", e.summary.sentence);
}

/// A client that got an answer over a connection, sends a message of `bytes` and then waits in its event loop three times, 100, 300 and 200
/// ms; with `answered`, an answer arrives then.
fn sends_and_waits(bytes: u64, messages: u64, answered: bool) -> Explanation {
    let mut tale = Tale::new(messages * 610_000 + 10_000, 2);
    let main = tale.thread(Role::Client, "prog", 100, 100);
    let (near, _) = tale.two_ends("127.0.0.1:40000 > 127.0.0.1:7000");
    tale.span(main, K::NetSend, 100, 120).on(near).bytes(200).end();
    tale.span(main, K::NetReceive, 300, 320).on(near).bytes(300).end();
    for n in 0..messages {
        let t = n * 610_000 + 1_000;
        tale.span(main, K::NetSend, t, t + 20).on(near).bytes(bytes).end();
        for (from, to) in [(100, 100_000), (100_200, 400_000), (400_200, 600_000)] {
            tale.wait(main, K::WaitNetwork, t + from, t + to).by_timer().end();
        }
        if answered {
            tale.span(main, K::NetReceive, t + 600_100, t + 600_120).on(near).bytes(100).end();
        }
    }
    tale.explain()
}

#[test]
fn only_a_request_that_was_never_answered_makes_a_pause_a_time_limit() {
    let is_limit = |e: &Explanation| e.critical_path[0].place.contains("had sent nothing when its timeout expired");
    assert!(is_limit(&sends_and_waits(200, 1, false)));
    let answered = sends_and_waits(200, 1, true);
    assert!(!is_limit(&answered), "{:#?}", answered.critical_path);
    let farewell = sends_and_waits(6, 1, false);
    assert!(!is_limit(&farewell), "{:#?}", farewell.critical_path);
    let paces = sends_and_waits(200, 5, false);
    assert!(!is_limit(&paces), "{:#?}", paces.critical_path);
}
