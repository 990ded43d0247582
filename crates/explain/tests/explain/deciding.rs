//! The decisive facts in the short answer: whose segments were delayed, where the server is, how regular the pauses are, and one round
//! trip.

use crate::common::Tale;
use crate::numbers::fixture;
use thalweg_explain::Explanation;
use thalweg_trace::{CounterName, Role, SpanKind as K};

/// A client that asks and a server that answers, each message in two pieces: the second waits for an acknowledgement.
#[test]
fn whose_small_segments_were_held_back_is_said_with_the_cure_at_that_end() {
    for (name, who) in [("questions-in-two-pieces", "the client python3"), ("answers-in-two-pieces", "the server python3")] {
        let e = fixture(name);
        let said = format!("small segments of {who} waited for delayed acknowledgements (Nagle: ");
        assert!(e.summary.sentence.contains(&said), "{name}: {}", e.summary.sentence);
        let change = &e.what_if[0];
        assert!(change.id == "no_nagle" && change.change.starts_with(&format!("TCP_NODELAY at {who}: ")), "{name}: {change:?}");
        assert!(change.how.contains("one write") && change.how.contains("TCP_CORK") && change.speedup > 5.0, "{name}: {change:?}");
    }
}

/// Twelve runs of ssh over a path of 20 ms: half of the time in transit is due to the path alone.
#[test]
fn segments_that_were_held_back_for_a_part_of_the_time_in_transit_are_that_part() {
    let e = fixture("log-ins-beside-nagle");
    let said = "messages were in transit between ssh and sshd (round trip 20.1 ms), 52 % of it because small segments of sshd waited";
    assert!(e.summary.sentence.contains(said), "{}", e.summary.sentence);
}

/// Every length that an answer calls a round trip.
fn round_trips(e: &Explanation) -> Vec<String> {
    let s = &e.summary;
    let texts = s.rows.iter().map(|row| &row.figures).chain(s.numbers.iter().map(|number| &number.sentence)).chain([&s.sentence]);
    let of_text = |text: &String| {
        let behind = |words| text.match_indices(words).map(move |(at, words)| &text[at + words.len()..]).collect::<Vec<_>>();
        let mut found = behind("round trip ");
        found.extend(behind("round trip of "));
        found.extend(behind("round trips of "));
        found.into_iter().filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).map(first_two).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = texts.flat_map(of_text).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `12.5 ms`.
fn first_two(text: &str) -> String {
    let words: Vec<&str> = text.split([' ', ')', ',', ';', ':']).take(2).collect();
    words.join(" ").trim_end_matches('.').to_owned()
}

#[test]
fn an_answer_has_one_round_trip_of_a_path() {
    for (name, one) in
        [("connects-for-each", true), ("two-in-flight", true), ("window-through-a-tunnel", true), ("curl-get-slow-start", true)]
    {
        let e = fixture(name);
        assert_eq!(round_trips(&e).len(), usize::from(one), "{name}: {:?} {:#?}", round_trips(&e), e.summary);
    }
}

/// Half a second in which answers of 40 ms are in transit over a machine's own connection, with these round trips by TCP.
fn own_connection(least_us: Option<i64>, smoothed_us: i64) -> Explanation {
    let mut tale = Tale::new(500_000, 2);
    let (client, server) = (tale.thread(Role::Client, "asks", 100, 100), tale.thread(Role::Server, "answers", 200, 200));
    let (near, far) = tale.two_ends("127.0.0.1:5000 > 127.0.0.1:7000");
    for n in 0..10_u64 {
        let t = n * 50_000;
        for end in [near, far] {
            least_us.into_iter().for_each(|us| tale.counter(end, CounterName::TcpMinRttUs, t, us));
            tale.counter(end, CounterName::TcpSrttUs, t, smoothed_us);
            tale.counter(end, CounterName::TcpInFlightBytes, t, 100);
        }
        tale.span(client, K::NetSend, t, t + 5_000).ran(5_000).on(near).bytes(100).end();
        tale.wait(server, K::NetReceive, t, t + 25_000).on(far).by_packet().end();
        tale.span(server, K::NetSend, t + 25_000, t + 26_000).ran(1_000).on(far).bytes(100).end();
        tale.wait(client, K::NetReceive, t + 5_000, t + 46_000).on(near).by_packet().end();
        tale.span(client, K::NetReceive, t + 46_000, t + 50_000).ran(4_000).on(near).bytes(100).end();
    }
    tale.explain()
}

#[test]
fn what_delays_acknowledgements_is_no_round_trip_of_a_machines_own_connection() {
    assert_eq!(round_trips(&own_connection(None, 40_000)), Vec::<String>::new());
    assert!(round_trips(&own_connection(Some(30), 40_000)).iter().all(|one| one == "30.0 µs"));
}

#[test]
fn a_server_that_was_not_recorded_has_its_port_and_what_that_is_for() {
    let mut tale = Tale::new(900_000, 2);
    let client = tale.thread(Role::Client, "psql", 100, 100);
    let near = tale.connection("10.0.0.1:5000 > 10.0.0.2:5432").0;
    tale.span(client, K::NetSend, 0, 1_000).ran(1_000).on(near).bytes(100).end();
    tale.wait(client, K::NetReceive, 1_000, 890_000).on(near).by_packet().end();
    tale.span(client, K::NetReceive, 890_000, 900_000).ran(10_000).on(near).bytes(100).end();
    let sentence = tale.explain().summary.sentence;
    assert!(sentence.contains("psql waited for the server at 10.0.0.2:5432 (PostgreSQL), which was not recorded"), "{sentence}");
}

#[test]
fn a_server_that_was_recorded_has_its_address_where_the_command_does_not_say_it() {
    let at = |name: &str| fixture(name).summary.sentence;
    let sentence = at("connects-for-each");
    assert!(sentence.contains("between python3 and nginx at 10.0.0.2:"), "{sentence}");
    // The command contains it.
    let sentence = at("curl-get-server-pauses");
    assert!(sentence.contains("nginx slept"), "{sentence}");
}

#[test]
fn pauses_that_come_after_as_many_bytes_each_time_are_said_with_these() {
    for (name, said) in [
        ("curl-get-client-pauses", "A gap of 290 ms every 9.74 MiB, 4 times."),
        ("armed-timer", "A gap of 701 ms every 2.00 MiB, 7 times."),
    ] {
        let sentence = fixture(name).summary.sentence;
        assert!(sentence.ends_with(said), "{name}: {sentence}");
    }
    // Each request of a mebibyte waits for a disk: that is the number behind it.
    assert!(!fixture("mount-read-one-slow-server").summary.sentence.contains("A gap of"));
}
