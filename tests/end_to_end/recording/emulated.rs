//! Copies of a store with emulated devices: their recorded times match such devices, and every output names them.

use crate::bounded::Bounded;
use crate::common::{Up, content, file, run, scratch, text, thalweg};
use std::path::Path;
use thalweg_trace::{Recording, Source, Span, SpanKind};

const MIB: usize = 1 << 20;

/// Tolerance of a device's recorded seconds against bytes / rate.
const TOLERANCE: f64 = 0.02;

/// Returns all spans of a recording.
fn spans(recording: &Recording) -> Vec<Span> {
    let batches: Vec<_> = recording.spans_backward().map(|batch| batch.expect("readable")).collect();
    batches.iter().flat_map(|batch| (0..batch.len()).filter_map(|row| batch.row(row))).collect()
}

/// Returns each emulated device's bytes and busy seconds in a recording, in order of names.
fn devices(recording: &Path, kind: SpanKind) -> Vec<(u64, f64)> {
    let source = Recording::open(recording).expect("a recording");
    let mut tracks: Vec<_> = source.tracks().iter().filter(|track| track.name.starts_with("emulated ")).collect();
    tracks.sort_by(|a, b| a.name.cmp(&b.name));
    let spans = spans(&source);
    let of = |track| spans.iter().filter(move |span| span.track == track && span.kind == kind);
    let sums = tracks.iter().map(|track| {
        let bytes: u64 = of(track.track).filter_map(|span| span.size_bytes).sum();
        (bytes, of(track.track).map(|span| span.duration_ns as f64 / 1e9).sum())
    });
    sums.filter(|(bytes, _)| *bytes > 0).collect()
}

fn assert_at_rate(devices: &[(u64, f64)], bytes_per_s: f64) {
    for (bytes, busy_s) in devices {
        let off = busy_s / (*bytes as f64 / bytes_per_s) - 1.0;
        assert!(off.abs() <= TOLERANCE, "{bytes} bytes in {busy_s} s: {off} off");
    }
}

#[test]
fn an_emulated_disk_is_busy_for_its_bytes_over_its_rate_and_is_named_as_the_cause() {
    let store = Up::start_with(2, 1, &["--emulate", "disk=20MiB/s"]);
    let here = scratch();
    let source = file(here.path(), "source", &content(3, 16 * MIB));
    let recording = here.path().join("copy.thw");
    let said = run(["cp", "--json", "--quiet", "--record", text(&recording), text(&source), &store.path("/f")]).done().json();
    assert_eq!(said["emulated"], "disk 20 MiB/s");
    let disks = devices(&recording, SpanKind::DiskWrite);
    assert_eq!((disks.len(), disks.iter().map(|disk| disk.0).sum::<u64>()), (2, 16 * MIB as u64), "{disks:?}");
    assert_at_rate(&disks, (20 * MIB) as f64);

    let document = run(["explain", "--json", text(&recording)]).done().json();
    assert_eq!(document["emulated"], "disk 20 MiB/s");
    let sentence = document["summary"]["sentence"].as_str().expect("a sentence");
    assert!(document["verdict"]["cause"] == "server.write" && sentence.contains("emulated disk"), "{sentence}");
    let plain = run(["explain", text(&recording)]).done().out;
    assert!(plain.contains("emulated, not this machine's own: disk 20 MiB/s"), "{plain}");

    assert_eq!(run(["df", "--json", &store.address]).done().json()["emulated"], "disk 20 MiB/s");
    let df = run(["df", &store.address]).done().out;
    assert!(df.contains("the store's devices are emulated: disk 20 MiB/s"), "{df}");
}

#[test]
fn one_disk_that_is_slower_than_the_others_is_named_and_every_output_says_so() {
    let store = Up::start_with(2, 1, &["--emulate", "disk=80MiB/s,disk.1=20MiB/s"]);
    let here = scratch();
    let source = file(here.path(), "source", &content(5, 16 * MIB));
    let recording = here.path().join("copy.thw");
    let said = run(["cp", "--json", "--quiet", "--record", text(&recording), text(&source), &store.path("/f")]).done().json();
    assert_eq!(said["emulated"], "disk 80 MiB/s (disk 1: 20 MiB/s)");
    let disks = devices(&recording, SpanKind::DiskWrite);
    assert_at_rate(&disks[..1], (80 * MIB) as f64);
    assert_at_rate(&disks[1..], (20 * MIB) as f64);
    let document = run(["explain", "--json", text(&recording)]).done().json();
    let place = document["verdict"]["where"].as_str().expect("a place");
    assert!(document["verdict"]["cause"] == "server.write" && place.contains("emulated disk 1"), "{place}");
}

#[test]
fn an_emulated_source_is_read_at_its_rate() {
    let store = Up::start(2);
    let here = scratch();
    let source = file(here.path(), "source", &content(4, 8 * MIB));
    let recording = here.path().join("copy.thw");
    let emulate = ["--emulate", "source=20MiB/s", "--record", text(&recording)];
    let said = run([&["cp", "--json", "--quiet"], &emulate[..], &[text(&source), &store.path("/f")]].concat()).done().json();
    assert_eq!(said["emulated"], "source 20 MiB/s");
    let disks = devices(&recording, SpanKind::DiskRead);
    assert_eq!((disks.len(), disks.iter().map(|disk| disk.0).sum::<u64>()), (1, 8 * MIB as u64), "{disks:?}");
    assert_at_rate(&disks, (20 * MIB) as f64);
    assert!(thalweg(["cat", &store.path("/f")]).output_in_time().unwrap().stdout == content(4, 8 * MIB));
}

#[test]
fn what_is_not_emulated_is_not_called_so() {
    let store = Up::start(1);
    let said = run(["cp", "--json", "--quiet", "--source", "memory:1Mi", &store.path("/f")]).done().json();
    assert!(said.get("emulated").is_none(), "{said}");
    assert!(run(["df", "--json", &store.address]).done().json().get("emulated").is_none());
}

#[test]
fn a_device_that_cannot_be_is_refused_by_name() {
    let here = scratch();
    let at = here.path().join("store");
    for (emulate, says) in [("disc=3", "`disc`"), ("disk=fast", "disk: `fast`"), ("seek=1ms", "give disk=RATE too")] {
        run(["up", "--emulate", emulate, text(&at)]).failed(2, &[says]);
    }
    run(["cp", "--emulate", "disk=1Gi", "a", "thal://127.0.0.1:1/f"]).failed(2, &["expected source=RATE", "thalweg up --emulate"]);
    assert!(!at.exists(), "nothing is made of what is refused");
}

#[test]
fn a_connection_sends_the_next_request_while_it_waits_for_an_answer() {
    // Each request is one message; its answer is delayed, and the next is read from the source meanwhile.
    let store = Up::start_with(1, 1, &["--emulate", "rtt=200ms"]);
    let here = scratch();
    let source = file(here.path(), "source", &content(5, 4 * MIB));
    let recording = here.path().join("copy.thw");
    let flow = ["--request", "1Mi", "--requests", "2", "--buffer", "1Mi", "--depth", "2", "--streams", "1", "--emulate", "source=20MiB/s"];
    run([&["cp", "--quiet", "--record", text(&recording)], &flow[..], &[text(&source), &store.path("/f")]].concat()).done();
    let recording = Recording::open(&recording).expect("a recording");
    let connection = recording.tracks().iter().find(|track| track.name.starts_with("connection io0")).expect("it is recorded").track;
    let mut calls: Vec<_> = spans(&recording)
        .into_iter()
        .filter(|span| span.track == connection && span.kind == SpanKind::RpcCall && span.size_bytes.is_some())
        .collect();
    calls.sort_by_key(|call| call.start);
    assert_eq!(calls.len(), 4, "{calls:?}");
    let ended = |i: usize| calls[i].start.ns() + calls[i].duration_ns as i64;
    for i in [0, 2] {
        assert!(calls[i + 1].start.ns() < ended(i), "call {} waits for the answer to the one before: {calls:?}", i + 1);
    }
}
