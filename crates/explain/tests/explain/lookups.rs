//! Name resolution: the names, the servers, and the answers.

use crate::common::*;
use crate::numbers::fixture;
use thalweg_explain::document::NumberKind;
use thalweg_trace::{Event, Mark, MarkKind, ObjectId, ObjectKind, Role, SpanKind as K, Time, TrackId};

fn mark(tale: &mut Tale, track: TrackId, kind: MarkKind, at_us: u64, object: ObjectId, value: i64) {
    let at = Time::from_monotonic_ns(at_us as i64 * 1_000);
    tale.event(Event::Mark(Mark { track, kind, at, object: Some(object), value: Some(value) }));
}

/// A command that asks a name server for two seconds, for one name, twice; `outcome` is the answer at the end of each second.
fn asks(name: &str, kind: i64, outcome: Option<i64>) -> Tale {
    let mut tale = Tale::new(2_100_000, 2);
    let main = tale.thread(Role::Client, "copy", 100, 100);
    let socket = tale.object(ObjectKind::Socket, "udp:10.0.0.9:53", &[]);
    let asked = tale.object(ObjectKind::Name, name, &[("server", "10.0.0.9:53")]);
    for second in 0..2 {
        let from = second * 1_000_000 + 20;
        mark(&mut tale, main, MarkKind::NameAsked, from - 10, asked, kind);
        let wait = tale.wait(main, K::WaitNetwork, from, from + 999_900).on(socket);
        if outcome.is_some() { wait.by_packet() } else { wait.by_timer() }.end();
        if let Some(outcome) = outcome {
            mark(&mut tale, main, MarkKind::NameAnswered, from + 999_950, asked, outcome);
        }
    }
    tale.span(main, K::CpuRun, 2_000_000, 2_100_000).end();
    tale
}

#[test]
fn a_name_server_that_does_not_answer_is_named_with_what_it_was_asked() {
    let e = asks("db.example", 1, None).explain();
    let number = e.summary.numbers.first().expect("a number");
    assert_eq!(number.kind, NumberKind::NameLookups);
    assert_eq!(number.sentence, "Name resolution: 10.0.0.9 did not answer, asked twice for db.example (A).");
    assert!(e.summary.sentence.contains("copy waited for the name server 10.0.0.9"), "{}", e.summary.sentence);
    let ids: Vec<&str> = e.what_if.iter().map(|w| w.id.as_str()).collect();
    assert_eq!(ids.first(), Some(&"names_at_once"), "{ids:?}");
    assert!(!ids.iter().any(|id| ["server.x2", "rtt.half", "no_think", "requests.x4"].contains(id)), "{ids:?}");
    // 1 s is the shortest timeout that can be set.
    assert_eq!(e.what_if[0].how, "a name server that answers first in /etc/resolv.conf");
}

#[test]
fn what_came_back_says_what_helps() {
    for (name, kind, outcome, says, helps) in [
        ("db.a.example", 28, 3, "says db.a.example (AAAA) does not exist (NXDOMAIN), 1.00 s each", "`search` domains"),
        ("db.example", 1, 2, "failed (SERVFAIL), asked twice for db.example (A), 1.00 s each", "can answer first"),
        ("db.example", 1, 0, "answered for db.example (A), 1.00 s each", "a cache"),
        ("2.0.0.10.in-addr.arpa", 12, 3, "says the name of 10.0.0.2 does not exist (NXDOMAIN)", "`UseDNS no`"),
    ] {
        let e = asks(name, kind, Some(outcome)).explain();
        let number = &e.summary.numbers.first().unwrap_or_else(|| panic!("{name}: {}", e.summary.sentence)).sentence;
        assert!(number.starts_with("Name resolution: 10.0.0.9 ") && number.contains(says), "{number}");
        let how = &e.what_if.iter().find(|w| w.id == "names_at_once").expect("a change").how;
        assert!(how.contains(helps), "{how}");
    }
}

#[test]
fn names_that_are_asked_for_beside_the_work_are_no_matter() {
    let mut tale = Tale::new(1_000_000, 2);
    let main = tale.thread(Role::Client, "copy", 100, 100);
    let beside = tale.thread(Role::Client, "copy/names", 100, 101);
    let asked = tale.object(ObjectKind::Name, "db.example", &[("server", "10.0.0.9:53")]);
    mark(&mut tale, beside, MarkKind::NameAsked, 100, asked, 1);
    tale.wait(main, K::WaitTimer, 0, 900_000).by_timer().end();
    tale.span(main, K::CpuRun, 900_000, 1_000_000).end();
    let e = tale.explain();
    assert!(e.summary.numbers.iter().all(|number| number.kind != NumberKind::NameLookups), "{:?}", e.summary.numbers);
}

#[test]
fn search_domains_and_event_loops_are_name_resolution_too() {
    let e = fixture("asks-search-domains");
    let said = "Name resolution: 127.7.0.2 says api.corp.test.a.corp.test, api.corp.test.b.corp.test and api.corp.test.c.corp.test (A, AAAA) do not exist (NXDOMAIN)";
    assert!(e.summary.numbers[0].sentence.starts_with(said), "{}", e.summary.numbers[0].sentence);
    // The asking thread polls until its timeout, and wakes the command's own thread only then.
    let e = fixture("asks-by-an-event-loop");
    assert!(e.summary.sentence.contains("dig waited for the name server 127.7.0.1"), "{}", e.summary.sentence);
    assert_eq!(e.summary.numbers[0].sentence, "Name resolution: 127.7.0.1 did not answer, asked once for www.test (A).");
}
