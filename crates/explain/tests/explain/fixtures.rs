//! Fixtures are equivalent to the recordings they were made from.

use crate::bounded::Bounded;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_trace::*;

/// The example that makes them, which is built with the tests.
fn maker() -> PathBuf {
    let test = std::env::current_exe().expect("the test is a file");
    test.parent().and_then(Path::parent).expect("in target/PROFILE/deps").join("examples/fixture")
}

/// Two machines, the second with a clock a minute ahead that drifts: each sleeps once, at the same time.
fn merged(path: &Path) {
    const AHEAD_NS: i64 = 60_000_000_000;
    let meta = Meta {
        format: FORMAT_VERSION,
        command: vec!["copy".into()],
        recorder: "hand".into(),
        start: Time::from_monotonic_ns(0),
        end: None,
        exit_code: None,
        dropped_events: 0,
        attributes: Vec::new(),
    };
    let writer = RecordingWriter::create(path, meta).expect("created");
    let mut events = Vec::new();
    for n in [0_u16, 1] {
        let host = HostId(n);
        let (name, clock) = (format!("host {n}"), format!("monotonic:{n}"));
        events.push(Event::Host(Host { host, name: name.clone(), node: name, clock, kernel: "k".into(), cpus: 1 }));
        let track = TrackId::new(u64::from(n) + 1).expect("not 0");
        let role = if n == 0 { Role::Client } else { Role::Server };
        events.push(Event::Track(Track { track, host, kind: TrackKind::Thread, role, pid: Some(1), tid: Some(1), name: "t".into() }));
        events.push(Event::Span(Span {
            cpu_ns: Some(0),
            runqueue_ns: Some(0),
            ..Span::bare(
                SpanId::new(u64::from(n) + 1).expect("not 0"),
                track,
                SpanKind::WaitTimer,
                Time::from_monotonic_ns(1_000_000 + i64::from(n) * AHEAD_NS),
                5_000_000,
            )
        }));
    }
    events.push(Event::Clock(Clock { host: HostId(1), from_ns: AHEAD_NS, offset_ns: -AHEAD_NS, drift_ppb: 1_000, error_ns: 70 }));
    writer.take(&mut events);
    writer.finish(Ending { exit_code: Some(0), ..Ending::at(Time::from_monotonic_ns(10_000_000)) }).expect("finished");
}

/// Start and end of each host's span.
fn times(path: &Path) -> Vec<(u64, i64, u64)> {
    let recording = Recording::open(path).expect("opened");
    let mut all = Vec::new();
    for batch in recording.spans_backward() {
        let batch = batch.expect("read");
        all.extend((0..batch.len()).filter_map(|row| batch.row(row)).map(|span| (span.track.number(), span.start.ns(), span.duration_ns)));
    }
    all.sort_unstable();
    all
}

#[test]
fn the_fixture_of_a_merged_recording_has_its_clocks_shifted_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let (from, to) = (directory.path().join("from.thw"), directory.path().join("to.thw"));
    merged(&from);
    let made = Command::new(maker()).arg(&from).arg(&to).output_in_time().expect("the example `fixture` is built");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let before = times(&from);
    assert_eq!(before.iter().map(|t| t.1).collect::<Vec<_>>(), [1_000_000, 1_000_001]);
    assert_eq!(times(&to), before);
    let recording = Recording::open(&to).expect("opened");
    assert_eq!(recording.clocks().iter().map(|clock| clock.error_ns).collect::<Vec<_>>(), [70]);
}
