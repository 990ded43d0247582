//! Two machines' clocks, seconds apart and drifting, give the same explanation of a run as one clock.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use thalweg_explain::{Options, explain};
use thalweg_trace::merge::{Part, merge};
use thalweg_trace::*;

/// The server's clock: its offset, and its drift.
#[derive(Clone, Copy, Debug)]
struct Shown {
    offset_ns: i64,
    drift_ppb: i64,
    from_ns: i64,
}

impl Shown {
    fn at(self, time: Time) -> Time {
        let ns = time.ns();
        let drift_ns = i128::from(ns - self.from_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        Time::from_monotonic_ns(ns + self.offset_ns + drift_ns as i64)
    }
}

/// One end of a recording of both: the tracks of servers (with the devices, which are theirs here), or all others.
fn end(whole: &Recording, server: bool, shown: Shown) -> MemorySource {
    let is_servers = |t: &&Track| t.role == Role::Server || t.kind == TrackKind::Device;
    let tracks: Vec<&Track> = whole.tracks().iter().filter(|t| is_servers(t) == server).collect();
    let ours: HashSet<TrackId> = tracks.iter().map(|t| t.track).collect();
    let is_ours = |o: &&Object| {
        let end = o.attributes.iter().find(|(name, _)| name == "end").map(|(_, end)| end == "server");
        end.is_none_or(|end| end == server)
    };
    let objects: Vec<&Object> = whole.objects().iter().filter(is_ours).collect();
    let known: HashSet<ObjectId> = objects.iter().map(|o| o.object).collect();
    let mut events: Vec<Event> = Vec::new();
    let boot = if server { "monotonic:there" } else { "monotonic:here" };
    events.extend(whole.hosts().iter().map(|host| Event::Host(Host { clock: boot.into(), ..host.clone() })));
    events.extend(tracks.into_iter().cloned().map(Event::Track));
    events.extend(objects.into_iter().cloned().map(Event::Object));
    for batch in whole.spans_backward() {
        let batch = batch.expect("a fixture");
        let rows = (0..batch.len()).filter_map(|row| batch.row(row)).filter(|span| ours.contains(&span.track));
        events.extend(rows.map(|span| {
            let (start, end) = (shown.at(span.start), shown.at(span.start.plus_ns(span.duration_ns as i64)));
            let (waker_track, object) = (span.waker_track.filter(|w| ours.contains(w)), span.object.filter(|o| known.contains(o)));
            Event::Span(Span { start, duration_ns: end.since(start), waker_track, object, ..span })
        }));
    }
    let marks = whole.marks().expect("a fixture").into_iter().filter(|mark| ours.contains(&mark.track));
    events.extend(marks.map(|mark| Event::Mark(Mark { at: shown.at(mark.at), ..mark })));
    for &name in CounterName::ALL {
        let counters = whole.counters(name).expect("a fixture").into_iter().filter(|counter| match counter.of {
            CounterOf::Track(track) => ours.contains(&track),
            CounterOf::Object(object) => known.contains(&object),
        });
        events.extend(counters.map(|counter| Event::Counter(Counter { at: shown.at(counter.at), ..counter })));
    }
    let samples = whole.samples().expect("a fixture").into_iter().filter(|s| s.track.is_some_and(|track| ours.contains(&track)));
    events.extend(samples.map(|sample| Event::Sample(Sample { at: shown.at(sample.at), ..sample })));
    events.extend(whole.stacks().expect("a fixture").into_iter().map(Event::Stack));
    let meta = whole.meta();
    let attributes = meta.attributes.iter().filter(|(name, _)| name != "realtime_ns").cloned().collect();
    let meta = Meta { start: shown.at(meta.start), end: meta.end.map(|end| shown.at(end)), attributes, ..meta.clone() };
    MemorySource::from_events(meta, events)
}

/// The share of each cause at each place, with the server's clock like this.
fn shares(whole: &Recording, shown: Shown) -> BTreeMap<String, f64> {
    let (client, server) = (end(whole, false, Shown { offset_ns: 0, drift_ppb: 0, from_ns: 0 }), end(whole, true, shown));
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("merged.thw");
    let parts = [Part { name: "client".into(), source: &client }, Part { name: "server".into(), source: &server }];
    merge(&parts, &out).expect("the two ends of one run");
    let explanation = explain(&Recording::open(&out).expect("what was merged"), &Options::default()).expect("explains");
    let mut shares = BTreeMap::new();
    for charge in &explanation.critical_path {
        *shares.entry(charge.cause.name().to_owned()).or_insert(0.0) += charge.share;
    }
    shares
}

/// Whatever the offset, and for drifts up to 100 ppm.
#[test]
fn charges_do_not_depend_on_what_the_servers_clock_shows() {
    for name in ["nfs-write-server-disk", "nfs-write-server-stopped", "rsync-get-server-disk", "curl-get-server-pauses"] {
        let whole = Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs").join(name)).expect("a fixture");
        let from_ns = whole.meta().start.ns();
        let on_one_clock = shares(&whole, Shown { offset_ns: 0, drift_ppb: 0, from_ns });
        let of_server: f64 = on_one_clock.iter().filter(|(cause, _)| cause.starts_with("server.")).map(|(_, share)| share).sum();
        assert!(of_server > 0.2, "{name}: {on_one_clock:?}");
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(4) });
        let clocks = (-4_000_000_000_000_i64..4_000_000_000_000, -100_000_i64..100_000);
        let checked = runner.run(&clocks, |(offset_ns, drift_ppb)| {
            let shown = Shown { offset_ns: offset_ns.max(1_000_000_000 - from_ns), drift_ppb, from_ns };
            let found = shares(&whole, shown);
            for cause in on_one_clock.keys().chain(found.keys()) {
                let (one, other) = (on_one_clock.get(cause).unwrap_or(&0.0), found.get(cause).unwrap_or(&0.0));
                prop_assert!((one - other).abs() <= 0.01, "{} {}: {} and {} with {:?}", name, cause, one, other, shown);
            }
            Ok(())
        });
        checked.unwrap_or_else(|error| panic!("{error}"));
    }
}
