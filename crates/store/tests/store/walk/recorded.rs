//! A recorded walk shows which thread sent which request, and for whom.

use super::fixture::fixture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::Store;
use thalweg_client::copy::{Recorder, Recording as Wanted};
use thalweg_client::walk::{WalkMode, WalkOptions, Walker};
use thalweg_trace::{CounterName, CounterOf, Recording, Source as _, SpanKind, Time};
use thalweg_wire::protocol::metadata::FilePath;

#[test]
fn every_request_of_a_walk_is_part_of_a_batch_that_counts_its_entries_and_was_served() {
    let fixture = fixture(3);
    fixture.make_directory(b"/d");
    for i in 0..300 {
        fixture.make(format!("/d/{i}").as_bytes(), 10);
    }
    for mode in [WalkMode::GlimpseAhead, WalkMode::Synchronous] {
        let path = fixture.directory.path().join(format!("{}.thw", mode.name()));
        let store = Store { names: Arc::new(fixture.names.clone()), data: Arc::clone(&fixture.data) };
        let wanted = Wanted { path: path.clone(), command: vec!["thalweg".into(), "ls".into()], node: "here".into(), keep_command: false };
        let recorder = Recorder::start(&wanted, &[&store]).unwrap();
        let options = WalkOptions { mode, timeout: Some(Duration::from_secs(20)), ..WalkOptions::default() };
        let walker = Walker::new(fixture.names.clone(), Arc::clone(&fixture.data), options);
        let counters = {
            let mut tracer = recorder.trace.thread("main");
            let mut walk = walker.directory(&FilePath::at("/d"));
            assert_eq!(std::iter::from_fn(|| walk.next(&mut tracer)).filter(Result::is_ok).count(), 300);
            walker.counters()
        };
        recorder.finish(Time::now(), 0, Vec::new()).unwrap();

        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.meta().dropped_events, 0);
        let mut spans: Vec<(SpanKind, u64, u64, u64, u64, u64)> = Vec::new();
        for batch in recording.spans_backward() {
            let b = batch.unwrap();
            spans.extend((0..b.kind.len()).map(|i| (b.kind[i], b.span[i], b.parent[i], b.request[i], b.count[i].into(), b.object[i])));
        }
        let of = |kind: SpanKind| spans.iter().filter(move |span| span.0 == kind);
        let requests = |kind| of(kind).map(|span| span.3).collect::<HashSet<u64>>();
        let calls = requests(SpanKind::RpcCall);
        assert_eq!(calls.len() as u64, counters.requests);
        assert_eq!(calls, requests(SpanKind::RpcServe), "both ends of every request are there");
        assert!(!calls.contains(&0));
        let counted = recording.counters(CounterName::TcpCwndBytes).unwrap();
        let has_counters = |object: u64| counted.iter().any(|c| matches!(c.of, CounterOf::Object(of) if of.number() == object));
        assert!(of(SpanKind::RpcCall).all(|span| has_counters(span.5)), "TCP's counters of every connection");
        let batches: HashMap<u64, u64> = of(SpanKind::AppRequest).map(|span| (span.1, span.4)).collect();
        assert!(of(SpanKind::RpcCall).all(|span| batches.contains_key(&span.2)), "each is part of a batch");
        let objects: HashSet<u64> = of(SpanKind::AppRequest).map(|span| span.5).collect();
        let directories = recording.objects().iter().filter(|o| objects.contains(&o.object.number()));
        let found: Vec<_> =
            directories.map(|o| (o.name.as_str(), o.attributes.iter().any(|(k, v)| k == "kind" && v == "directory"))).collect();
        assert_eq!(found, [("/d", true)]);
        let delivered = of(SpanKind::AppRequest).map(|span| span.4).sum::<u64>();
        assert_eq!(delivered, 300, "{mode:?}");
        if mode == WalkMode::Synchronous {
            assert_eq!(batches.len(), 300);
            assert!(of(SpanKind::NetReceive).filter(|span| calls.contains(&span.3)).count() as u64 >= counters.requests);
        }
    }
    fixture.store.stop().unwrap();
}
