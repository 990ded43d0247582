//! Ranks of an MPI job that poll for each other: synthetic, with a known truth, and recorded.

use crate::common::*;
use std::path::Path;
use thalweg_explain::{Explanation, Options, explain};
use thalweg_trace::{ObjectId, ObjectKind, Recording, RequestId, Role, SpanKind as K, TrackId};

const ONE: u64 = RequestId::COMMON | 1;

fn rank(tale: &mut Tale, number: u32) -> TrackId {
    tale.thread(Role::Client, &format!("rank {number}"), 100 + number, 100 + number)
}

fn message(tale: &mut Tale, from: u32, to: u32) -> ObjectId {
    let (from, to) = (format!("rank {from}"), format!("rank {to}"));
    tale.object(ObjectKind::Communicator, &format!("{from} > {to}"), &[("call", "MPI_Recv"), ("from", &from), ("to", &to), ("size", "2")])
}

fn collective(tale: &mut Tale, call: &str, size: &str, root: Option<&str>) -> ObjectId {
    let mut attributes = vec![("call", call), ("communicator", "world"), ("size", size)];
    attributes.extend(root.map(|root| ("root", root)));
    tale.object(ObjectKind::Communicator, &format!("{call} on world"), &attributes)
}

#[test]
fn a_rank_that_receives_waits_for_the_sender_and_is_charged_with_what_comes_after() {
    let mut tale = Tale::new(10_000, 2);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let object = message(&mut tale, 1, 0);
    tale.wait(one, K::WaitTimer, 0, 8_000).by_timer().end();
    tale.span(one, K::MpiSend, 8_500, 8_600).observed().on(object).request(ONE).end();
    tale.span(zero, K::MpiReceive, 100, 9_000).observed().on(object).request(ONE).end();
    // The spinning rank queues for its processor now and then: that delays nothing.
    tale.wait(zero, K::WaitRunqueue, 3_000, 5_000).held_by(one).end();
    let e = tale.explain();
    assert_charged(&e, "client.think", 8.0);
    assert_charged(&e, "client.cpu", 2.0);
    assert!(e.critical_path.iter().any(|c| c.evidence.contains("rank 1 in 100 %")), "{:#?}", e.critical_path);
}

#[test]
fn a_message_that_had_been_sent_before_is_nobodys_delay() {
    let mut tale = Tale::new(10_000, 2);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let object = message(&mut tale, 1, 0);
    tale.span(one, K::MpiSend, 100, 200).observed().on(object).request(ONE).end();
    tale.wait(one, K::WaitTimer, 200, 10_000).by_timer().end();
    tale.span(zero, K::MpiReceive, 1_000, 9_000).observed().on(object).request(ONE).end();
    let e = tale.explain();
    assert_charged(&e, "client.cpu", 10.0);
}

#[test]
fn what_a_rank_waits_for_that_was_not_recorded_is_unknown_and_it_is_said_who() {
    let mut tale = Tale::new(10_000, 2);
    let zero = rank(&mut tale, 0);
    let object = message(&mut tale, 7, 0);
    tale.span(zero, K::MpiReceive, 1_000, 9_000).observed().on(object).request(ONE).end();
    let e = tale.explain();
    assert_charged(&e, "unknown", 8.0);
    assert!(e.notes.iter().any(|n| n.contains("rank 7") && n.contains("thalweg merge")), "{:?}", e.notes);
}

#[test]
fn a_sender_of_much_waits_until_it_is_received() {
    let mut tale = Tale::new(10_000, 2);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let object = message(&mut tale, 0, 1);
    tale.span(zero, K::MpiSend, 1_000, 9_500).observed().on(object).request(ONE).end();
    tale.wait(one, K::FileRead, 0, 9_000).end();
    tale.span(one, K::MpiReceive, 9_000, 9_500).observed().on(object).request(ONE).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 9.0);
    assert_charged(&e, "client.cpu", 1.0);
}

#[test]
fn the_last_to_come_to_a_barrier_is_who_was_waited_for() {
    let mut tale = Tale::new(10_000, 4);
    let ranks: Vec<TrackId> = (0..4).map(|n| rank(&mut tale, n)).collect();
    let object = collective(&mut tale, "MPI_Barrier", "4", None);
    for (n, &track) in ranks.iter().enumerate() {
        let came = [1_000, 2_000, 8_000, 3_000][n];
        tale.wait(track, if n == 2 { K::FileRead } else { K::WaitTimer }, 0, came).end();
        tale.span(track, K::MpiCollective, came, 9_000).observed().on(object).request(ONE).end();
    }
    let e = tale.explain();
    assert_charged(&e, "client.read", 8.0);
    assert_charged(&e, "client.cpu", 2.0);
}

#[test]
fn a_broadcast_waits_for_its_root_only() {
    let mut tale = Tale::new(10_000, 4);
    let (zero, one, two) = (rank(&mut tale, 0), rank(&mut tale, 1), rank(&mut tale, 2));
    let object = collective(&mut tale, "MPI_Bcast", "3", Some("rank 1"));
    tale.span(zero, K::MpiCollective, 1_000, 9_000).observed().on(object).request(ONE).end();
    tale.wait(one, K::FileRead, 0, 4_000).end();
    tale.span(one, K::MpiCollective, 4_000, 4_100).observed().on(object).request(ONE).end();
    tale.wait(two, K::WaitTimer, 0, 8_000).by_timer().end();
    tale.span(two, K::MpiCollective, 8_000, 8_100).observed().on(object).request(ONE).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 4.0);
    assert_charged(&e, "client.cpu", 6.0);
}

#[test]
fn ranks_that_write_together_wait_for_the_one_that_writes() {
    let mut tale = Tale::new(10_000, 4);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let file = tale.file("/scratch/out");
    for track in [zero, one] {
        tale.span(track, K::MpiWrite, 1_000, 9_000).observed().on(file).request(ONE).end();
    }
    tale.wait(one, K::FileWrite, 2_000, 8_000).on(file).end();
    let e = tale.explain();
    assert_charged(&e, "client.write", 6.0);
    assert_charged(&e, "client.cpu", 4.0);
}

#[test]
fn looks_in_vain_are_for_what_came_at_last() {
    let mut tale = Tale::new(10_000, 2);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let object = message(&mut tale, 1, 0);
    tale.wait(one, K::FileRead, 0, 8_000).end();
    tale.span(one, K::MpiSend, 8_000, 8_100).observed().on(object).request(ONE).end();
    tale.span(zero, K::MpiWait, 1_000, 8_900).observed().count(500).result(-11).end();
    let wait = tale.span(zero, K::MpiWait, 8_900, 9_000).observed();
    let id = wait.id();
    wait.end();
    tale.span(zero, K::MpiReceive, 8_900, 9_000).observed().on(object).request(ONE).within(id).end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 8.0);
    assert_charged(&e, "client.cpu", 2.0);
}

#[test]
fn a_late_rank_that_comes_in_time_makes_the_job_shorter_in_a_replay() {
    let mut tale = Tale::new(10_000, 4);
    let (zero, one) = (rank(&mut tale, 0), rank(&mut tale, 1));
    let object = collective(&mut tale, "MPI_Barrier", "2", None);
    tale.span(zero, K::MpiCollective, 2_000, 9_000).observed().on(object).request(ONE).end();
    tale.wait(one, K::WaitTimer, 0, 4_000).by_timer().end();
    tale.wait(one, K::WaitTimer, 4_000, 8_900).by_timer().end();
    tale.span(one, K::MpiCollective, 8_900, 9_000).observed().on(object).request(ONE).end();
    let e = tale.explain();
    let change = e.what_if.iter().find(|w| w.id == "no_think").unwrap_or_else(|| panic!("{:#?}", e.what_if));
    // Rank 0 runs for 2 ms before the barrier, and 1.1 ms from when rank 1 came.
    assert!((change.predicted_wall_s - 0.0031).abs() < 0.0003, "{change:?}");
    let faster = e.what_if.iter().find(|w| w.id == "cpu.client.x2");
    assert!(faster.is_none_or(|w| w.predicted_wall_s > 0.009), "spinning is no work: {faster:?}");
}

fn recorded(name: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    let explanation = explain(&recording, &Options { what_if: true, ..Options::default() }).expect("explains");
    check(&explanation);
    explanation
}

#[test]
fn of_recorded_jobs_the_rank_that_was_waited_for_is_named_with_what_it_did() {
    for (name, cause, ms, rank, change) in [
        // The last of four ranks sleeps for 300 ms before each of six barriers.
        ("mpi-late-rank", "client.think", 1_800.0, "rank 3 in 100 %", Some("no_think")),
        // Rank 0 reads 24 MiB from a disk of 8 MiB/s, and sends to each of the others in turn.
        ("mpi-slow-reader", "client.read", 2_810.0, "rank 0 in 100 %", Some("device.read.x2")),
        // All write 32 MiB together to such a disk, and sync it.
        ("mpi-collective-write", "client.sync", 3_989.0, "", Some("no_sync")),
    ] {
        let e = recorded(name);
        let charge = &e.critical_path[0];
        assert_eq!(charge.cause.name(), cause, "{name}: {:#?}", e.critical_path);
        assert!((charged_ms(&e, cause) / ms - 1.0).abs() < 0.02, "{name}: {} ms", charged_ms(&e, cause));
        assert!(charge.evidence.contains(rank), "{name}: {}", charge.evidence);
        // One was not waiting, and not found running, for 34 ms.
        assert!(charged_ms(&e, "unknown") < 10.0 * e.wall_s, "{name}: {:#?}", e.critical_path);
        assert!(change.is_none_or(|change| e.what_if.iter().any(|w| w.id == change)), "{name}: {:#?}", e.what_if);
    }
}
