//! A recorded copy contains what SCHEMA.md specifies.

use crate::loopback;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;
use thalweg_client::copy::{CopyJob, DataPath, Quiet, Recording as Wanted, Sink, Source, Tuning, run};
use thalweg_trace::{Object, Recording, Role, Source as _, SpanBatch, SpanKind};
use thalweg_wire::protocol::metadata::LayoutChoice;

fn recorded(dir: &Path, tuning: Tuning, out: bool) -> (Recording, SpanBatch) {
    let servers = loopback::servers(dir, 3, 1);
    let (store, _) = loopback::store(&servers.map, Duration::from_secs(20));
    let path = dir.join("copy.thw");
    let recording =
        Some(Wanted { path: path.clone(), command: vec!["thalweg".into(), "cp".into()], node: "here".into(), keep_command: false });
    let sink = Sink::Store(store.clone(), "/f".into(), LayoutChoice::default());
    let source_path = dir.join("source");
    std::fs::write(&source_path, loopback::noise(9_000_000, 4)).unwrap();
    let in_job = CopyJob::new(Source::Local(source_path), sink);
    let job = if out {
        run(&in_job, &Quiet).unwrap();
        CopyJob { tuning, recording, ..CopyJob::new(Source::Store(store, "/f".into()), Sink::Local(dir.join("out"))) }
    } else {
        CopyJob { tuning, recording, sync: true, ..in_job }
    };
    assert_eq!(run(&job, &Quiet).unwrap().recording.as_ref(), Some(&path));
    let opened = Recording::open(&path).unwrap();
    let mut all = SpanBatch::default();
    for batch in opened.spans_backward() {
        let b = batch.unwrap();
        all.span.extend(b.span);
        all.track.extend(b.track);
        all.kind.extend(b.kind);
        all.start_ns.extend(b.start_ns);
        all.end_ns.extend(b.end_ns);
        all.size_bytes.extend(b.size_bytes);
        all.parent.extend(b.parent);
        all.request.extend(b.request);
        all.object.extend(b.object);
    }
    (opened, all)
}

fn tunings() -> [Tuning; 2] {
    let serial = Tuning { request_bytes: Some(4 << 20), requests: Some(1), ..Tuning::default() };
    [serial, Tuning { data_path: DataPath::Direct, ..Tuning::default() }]
}

#[test]
fn both_ends_of_every_request_are_there_and_nothing_is_lost() {
    for out in [false, true] {
        for tuning in tunings() {
            let dir = tempfile::tempdir().unwrap();
            let (recording, all) = recorded(dir.path(), tuning, out);
            let spans = &all;
            assert_eq!(recording.meta().dropped_events, 0);
            let end = recording.meta().end.unwrap();
            let of = |kind: SpanKind| (0..spans.kind.len()).filter(move |&i| spans.kind[i] == kind);
            let requests = |kind| of(kind).map(|i| spans.request[i]).collect::<HashSet<u64>>();
            assert!(requests(SpanKind::RpcCall).len() >= 9);
            assert_eq!(requests(SpanKind::RpcCall), requests(SpanKind::RpcServe));
            assert!(!requests(SpanKind::RpcCall).contains(&0));
            let moved: u64 = of(SpanKind::RpcServe).map(|i| spans.size_bytes[i]).filter(|s| *s != u64::MAX).sum();
            assert!(out || moved == 9_000_000, "{moved}");
            let asked: u64 = of(SpanKind::AppRequest).map(|i| spans.size_bytes[i]).sum();
            assert_eq!(asked, 9_000_000);
            // A server continues briefly after the copy, until it is notified.
            let start = recording.meta().start.ns();
            for kind in [SpanKind::AppRequest, SpanKind::RpcCall, SpanKind::RpcServe] {
                assert!(of(kind).all(|i| (start..=end.ns()).contains(&spans.start_ns[i])), "{}", kind.name());
            }
            assert_eq!(of(SpanKind::FileSync).count(), if out { 0 } else { 3 });
            let attributes: HashMap<_, _> = recording.meta().attributes.iter().cloned().collect();
            assert_eq!(attributes["direction"], if out { "out" } else { "in" });
            assert_eq!((attributes["servers"].as_str(), attributes["size_bytes"].as_str()), ("3", "9000000"));
        }
    }
}

#[test]
fn every_connection_that_a_copy_makes_is_recorded_as_it_comes_about() {
    for (out, tuning) in [(false, &tunings()[0]), (true, &tunings()[0]), (true, &tunings()[1])] {
        let dir = tempfile::tempdir().unwrap();
        let (recording, all) = recorded(dir.path(), tuning.clone(), out);
        let spans = &all;
        let of_kind = |kind| (0..spans.kind.len()).filter(move |&i| spans.kind[i] == kind);
        let made: HashSet<u64> = of_kind(SpanKind::NetConnect).map(|i| spans.object[i]).collect();
        let used: HashSet<u64> = of_kind(SpanKind::RpcCall).map(|i| spans.object[i]).collect();
        // (Names use the connection that already existed.)
        let to_data = recording.objects().iter().filter(|o| used.contains(&o.object.number()) && server_of(o).starts_with("io"));
        let unmade: Vec<&str> = to_data.filter(|o| !made.contains(&o.object.number())).map(|o| o.name.as_str()).collect();
        assert!(made.len() >= 3 && unmade.is_empty(), "out: {out}, {made:?}, {unmade:?}");
    }
}

/// Before the first byte, the thread that copies asks the files' servers for their free space.
#[test]
fn what_a_copy_asks_before_its_first_byte_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, spans) = recorded(dir.path(), tunings()[0].clone(), false);
    let main = recording.tracks().iter().find(|t| t.name == "main").expect("a thread that copies").track.number();
    let first = (0..spans.kind.len()).filter(|&i| spans.kind[i] == SpanKind::AppRequest).map(|i| spans.start_ns[i]).min().unwrap();
    let asked = (0..spans.kind.len()).filter(|&i| spans.track[i] == main && spans.kind[i] == SpanKind::RpcCall && spans.end_ns[i] <= first);
    let asked: HashSet<u64> = asked.map(|i| spans.object[i]).collect();
    let of_data = recording.objects().iter().filter(|o| asked.contains(&o.object.number()) && server_of(o).starts_with("io"));
    assert_eq!(of_data.count(), 3);
}

fn server_of(object: &Object) -> &str {
    object.attributes.iter().find(|(name, _)| name == "server").map_or("", |(_, server)| server)
}

#[test]
fn a_threads_spans_do_not_overlap_apart_from_parents_and_what_was_only_observed() {
    for tuning in tunings() {
        let dir = tempfile::tempdir().unwrap();
        let (recording, spans) = recorded(dir.path(), tuning, false);
        let parents: HashSet<u64> = spans.parent.iter().copied().collect();
        for track in recording.tracks() {
            let leaf = |i: &usize| {
                let kind = spans.kind[*i];
                spans.track[*i] == track.track.number() && !parents.contains(&spans.span[*i]) && kind != SpanKind::RpcCall
            };
            let mut leaves: Vec<(i64, i64)> = (0..spans.kind.len()).filter(leaf).map(|i| (spans.start_ns[i], spans.end_ns[i])).collect();
            leaves.sort_unstable();
            for pair in leaves.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "{} has overlapping spans: {pair:?}", track.name);
            }
        }
        let names: Vec<&str> = recording.tracks().iter().map(|t| t.name.as_str()).collect();
        for wanted in ["main", "request 0", "connection io0#0", "connection io2#0"] {
            assert!(names.contains(&wanted), "{names:?}");
        }
        // Each server has a thread for that question, and one that receives the bytes.
        assert_eq!(recording.tracks().iter().filter(|t| t.role == Role::Server).count(), 6, "{names:?}");
    }
}

#[test]
fn a_copy_that_is_not_recorded_asks_nobody_to_record() {
    let dir = tempfile::tempdir().unwrap();
    let servers = loopback::servers(dir.path(), 1, 1);
    let (store, _) = loopback::store(&servers.map, Duration::from_secs(20));
    let sink = Sink::Store(store.clone(), "/f".into(), LayoutChoice::default());
    let outcome = run(&CopyJob::new(Source::Memory(3 << 20), sink), &Quiet).unwrap();
    assert!(outcome.recording.is_none());
    assert_eq!(servers.recordings(), 0);
}
