//! Other users of an awaited resource, and programs that only answer for the one asked.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_trace::{Counter, CounterName as N, CounterOf, Event, HostId, Role, SpanKind as K, Time, Track, TrackId, TrackKind};

/// cp queues in every other stretch of 10 ms, each time behind one of these, in turn.
fn queues_behind(tale: &mut Tale, holders: &[TrackId]) -> Explanation {
    let cp = tale.thread(Role::Client, "cp", 100, 100);
    for n in 0..20_u64 {
        let t = n * 20_000;
        tale.span(cp, K::CpuRun, t, t + 10_000).end();
        let wait = tale.wait(cp, K::WaitRunqueue, t + 10_000, t + 20_000);
        match holders.get(n as usize % (holders.len() + 1)) {
            Some(holder) => wait.held_by(*holder).end(),
            None => wait.end(),
        }
    }
    tale.explain()
}

#[test]
fn programs_that_had_the_processors_are_named_with_their_part_of_just_those_waits() {
    let mut tale = Tale::new(400_000, 2);
    let names = [("gcc", 501, 501), ("ld", 502, 502), ("as", 503, 503)];
    let holders: Vec<TrackId> = names.into_iter().map(|(name, pid, tid)| tale.thread(Role::None, name, pid, tid)).collect();
    let e = queues_behind(&mut tale, &holders);
    let sentence = &e.summary.sentence;
    assert!(sentence.contains("cp waited for a CPU, 75 % of it behind `as` and 2 others"), "{sentence}");
    let charge = e.critical_path.iter().find(|charge| charge.cause.name() == "client.runqueue").expect("queueing");
    assert!(charge.evidence.contains("other programs had the CPU meanwhile: `as` 25 %, `gcc` 25 %, `ld` 25 %"), "{}", charge.evidence);
}

#[test]
fn processes_and_threads_of_one_program_are_one_neighbour_by_their_programs_name() {
    let mut tale = Tale::new(400_000, 2);
    let names = [("rustc", 501, 501), ("opt cgu.0", 501, 511), ("rustc", 502, 502)];
    let holders: Vec<TrackId> = names.into_iter().map(|(name, pid, tid)| tale.thread(Role::None, name, pid, tid)).collect();
    let sentence = queues_behind(&mut tale, &holders).summary.sentence;
    assert!(sentence.contains(", 75 % of it behind `rustc`"), "{sentence}");
    // A process of which only threads with names of their own were seen has one name for all.
    let mut tale = Tale::new(400_000, 2);
    let holders = [("lto cgu.1", 511), ("lto cgu.2", 512)].map(|(name, tid)| tale.thread(Role::None, name, 501, tid));
    let sentence = queues_behind(&mut tale, &holders).summary.sentence;
    assert!(sentence.contains("% of it behind `lto cgu.1`") && !sentence.contains("cgu.2"), "{sentence}");
}

#[test]
fn neither_the_commands_own_nor_its_server_nor_a_thread_of_either_is_a_neighbour() {
    let mut tale = Tale::new(400_000, 2);
    let child = tale.thread(Role::Client, "sort", 101, 101);
    let holders = [
        // Not yet recorded when it had the processor.
        tale.thread(Role::None, "cp/worker", 100, 109),
        child,
        tale.thread(Role::Server, "nginx", 200, 200),
        tale.thread(Role::Kernel, "kworker/0:1", 7, 7),
    ];
    tale.span(child, K::CpuRun, 10_000, 20_000).end();
    let e = queues_behind(&mut tale, &holders);
    assert!(!e.summary.sentence.contains("behind"), "{}", e.summary.sentence);
    assert!(e.critical_path.iter().all(|charge| !charge.evidence.contains("other programs had it")), "{:#?}", e.critical_path);
}

#[test]
fn a_neighbour_of_the_commands_name_is_no_part_of_the_command() {
    let mut tale = Tale::new(400_000, 2);
    let other = tale.thread(Role::None, "cp", 501, 501);
    let sentence = queues_behind(&mut tale, &[other]).summary.sentence;
    assert!(sentence.contains("cp waited for a CPU, 50 % of it behind `cp`"), "{sentence}");
}

/// curl takes ten times as many bytes over a link, beside others.
fn over_a_link(neighbours: &[(&str, N, i64)], bytes: u64, is_recorded: bool) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let curl = tale.thread(Role::Client, "curl", 100, 100);
    let nginx = is_recorded.then(|| tale.thread(Role::Server, "nginx", 200, 200));
    let name = "10.0.0.1:5000 > 10.0.0.2:80";
    let near = tale.object(thalweg_trace::ObjectKind::Connection, name, &[("end", "client"), ("link", "veth0")]);
    let far = tale.object(thalweg_trace::ObjectKind::Connection, name, &[("end", "server"), ("link", "veth1")]);
    for n in 0..10_u64 {
        let (t, at) = (n * 100_000, n * bytes);
        if let Some(nginx) = nginx {
            tale.span(nginx, K::NetSend, t, t + 1_000).on(far).bytes(bytes).offset(at).end();
            tale.wait(nginx, K::WaitNetwork, t + 1_000, t + 100_000).on(far).by_packet().end();
        }
        tale.wait(curl, K::NetReceive, t, t + 99_000).on(near).offset(at).by_packet().end();
        tale.span(curl, K::NetReceive, t + 99_000, t + 100_000).on(near).bytes(bytes).offset(at).end();
    }
    for (number, (who, counter, bytes)) in neighbours.iter().enumerate() {
        let track = TrackId::new(9_000 + number as u64).expect("a number");
        let row = Track { track, host: HostId(0), kind: TrackKind::Link, role: Role::None, pid: None, tid: None, name: (*who).to_owned() };
        tale.event(Event::Track(row));
        for (at_ms, value) in [(100, *bytes / 2), (900, *bytes), (1_100, *bytes * 9)] {
            let at = Time::from_monotonic_ns(at_ms * 1_000_000);
            tale.event(Event::Counter(Counter { of: CounterOf::Track(track), name: *counter, at, value }));
        }
    }
    tale.explain()
}

#[test]
fn who_else_takes_bytes_over_the_link_is_named_with_its_part_of_what_came() {
    let others = [("veth0: rsync (812)", N::LinkReceivedBytes, 20 << 20), ("veth0: apt (813)", N::LinkReceivedBytes, 10 << 20)];
    let e = over_a_link(&others, 1 << 20, true);
    assert_eq!(e.verdict.cause.name(), "network.bandwidth", "{:#?}", e.critical_path);
    let sentence = &e.summary.sentence;
    assert!(
        sentence.contains("from nginx at 10.0.0.2:80 to curl")
            && sentence.contains(", while `rsync` and `apt` had 75 % of what came by veth0"),
        "{sentence}"
    );
}

#[test]
fn beside_a_server_that_was_not_recorded_others_on_the_link_are_named_where_data_came() {
    let other = [("veth0: rsync (812)", N::LinkReceivedBytes, 30 << 20)];
    let e = over_a_link(&other, 1 << 20, false);
    assert_eq!(e.verdict.cause.name(), "server.unknown", "{:#?}", e.critical_path);
    let sentence = &e.summary.sentence;
    assert!(sentence.contains("which was not recorded, while `rsync` had 75 % of what came by veth0"), "{sentence}");
    // Answers of 100 bytes wait for no link.
    let sentence = over_a_link(&other, 100, false).summary.sentence;
    assert!(!sentence.contains("rsync"), "{sentence}");
}

#[test]
fn bytes_of_another_link_or_another_way_are_no_part_of_it() {
    for who in [("veth0: rsync (812)", N::LinkSentBytes, 20 << 20), ("veth7: rsync (812)", N::LinkReceivedBytes, 20 << 20)] {
        let sentence = over_a_link(&[who], 1 << 20, true).summary.sentence;
        assert!(!sentence.contains("rsync"), "{sentence}");
    }
    // The command's own process, recorded later, and little beside it.
    for who in [("veth0: curl (100)", N::LinkReceivedBytes, 20 << 20), ("veth0: ntpd (9)", N::LinkReceivedBytes, 1 << 20)] {
        let sentence = over_a_link(&[who], 1 << 20, true).summary.sentence;
        assert!(!sentence.contains("of what came"), "{sentence}");
    }
}

/// A client in a user-space network asks a server, 40 ms away, through a program that terminates its connections and makes its own. `asked`
/// is the server that this program asks.
fn through_a_stand_in(asked: &str) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let client = tale.thread(Role::Client, "redis-cli", 100, 100);
    let stand_in = tale.thread(Role::Client, "slirp", 300, 300);
    let server = tale.thread(Role::Server, "redis", 200, 200);
    let (inner, _) = tale.two_ends("10.0.2.100:5000 > 10.86.0.2:6379");
    let (near, far) = tale.two_ends(asked);
    for n in 0..20_u64 {
        let (t, at) = (n * 50_000, n * 100);
        tale.span(client, K::NetSend, t, t + 10).on(inner).bytes(100).offset(at).end();
        tale.wait(client, K::NetReceive, t + 10, t + 49_900).on(inner).offset(at).woken_by(stand_in).end();
        tale.span(client, K::NetReceive, t + 49_900, t + 50_000).on(inner).bytes(100).offset(at).end();
        tale.span(stand_in, K::NetSend, t + 100, t + 110).on(near).bytes(100).offset(at).end();
        tale.wait(stand_in, K::WaitNetwork, t + 110, t + 49_800).on(near).offset(at).by_packet().end();
        tale.span(stand_in, K::NetReceive, t + 49_800, t + 49_810).on(near).bytes(100).offset(at).end();
        tale.wait(server, K::WaitNetwork, t, t + 25_000).on(far).offset(at).by_packet().end();
        tale.span(server, K::NetReceive, t + 25_000, t + 25_010).on(far).bytes(100).offset(at).end();
        tale.span(server, K::NetSend, t + 25_100, t + 25_110).on(far).bytes(100).offset(at).end();
        for object in [near, far] {
            tale.counter(object, N::TcpMinRttUs, t, 49_000);
            tale.counter(object, N::TcpSrttUs, t, 49_500);
        }
    }
    tale.explain()
}

#[test]
fn who_answers_in_the_far_ends_name_is_a_part_of_the_path_and_the_cause_is_behind_it() {
    let e = through_a_stand_in("10.86.0.1:7000 > 10.86.0.2:6379");
    assert_eq!(e.verdict.cause.name(), "network.latency", "{:#?}", e.critical_path);
    assert!(charged_ms(&e, "network.latency") > 900.0, "{:#?}", e.critical_path);
}

#[test]
fn who_ends_waits_and_asks_somebody_else_answers_for_nobody() {
    let e = through_a_stand_in("10.86.0.1:7000 > 10.86.0.3:6379");
    assert_eq!(e.verdict.cause.name(), "server.unknown", "{:#?}", e.critical_path);
}
