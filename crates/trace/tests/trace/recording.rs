//! Promises of a recording: its rows come back, in order, whatever happens to the recorder.

use crate::bounded::{BoundedChild, LIMIT};
use crate::common::{events, everything, meta};
use proptest::prelude::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_trace::*;

fn write(path: &Path, events: &[Event], batch: usize) -> Arc<RecordingWriter> {
    let writer = RecordingWriter::create(path, meta()).unwrap();
    for chunk in events.chunks(batch) {
        writer.take(&mut chunk.to_vec());
    }
    writer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rows_come_back_as_they_were_finished_or_not(events in events(300), batch in 1_usize..64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.thw");
        let expected = everything(&MemorySource::from_events(meta(), events.clone())).unwrap();
        prop_assert!(expected.spans.windows(2).all(|w| (w[0].1, w[0].2.span) > (w[1].1, w[1].2.span)), "not backward");

        let writer = write(&path, &events, batch);
        let unfinished = Recording::open(&path).unwrap();
        prop_assert_eq!(&everything(&unfinished).unwrap(), &expected);
        prop_assert_eq!(unfinished.meta().end, None);
        prop_assert!(unfinished.meta().attributes.iter().all(|a| a.0 != "torn_bytes"));

        writer.finish(Ending { exit_code: Some(3), ..Ending::at(Time::from_monotonic_ns(9)) }).unwrap();
        let finished = Recording::open(&path).unwrap();
        prop_assert_eq!(&everything(&finished).unwrap(), &expected);
        prop_assert_eq!((finished.meta().end, finished.meta().exit_code), (Some(Time::from_monotonic_ns(9)), Some(3)));
        prop_assert!(!path.join("segments").exists());
    }

    #[test]
    fn what_is_read_once_says_what_tables_say(events in events(300), batch in 1_usize..64) {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["tables.thw", "once.thw"].map(|name| directory.path().join(name));
        let ending = || Ending { exit_code: Some(3), attributes: vec![("a".to_owned(), "b".to_owned())], ..Ending::at(Time::from_monotonic_ns(9)) };
        write(&paths[0], &events, batch).finish(ending()).unwrap();
        let writer = write(&paths[1], &events, batch);
        writer.finish_to_read_once(ending()).unwrap();
        prop_assert!(!paths[1].join("spans").exists(), "no tables");
        prop_assert!(writer.finish_to_read_once(ending()).is_err() && writer.finish(ending()).is_err(), "it is finished");
        let [tables, once] = paths.map(|path| Recording::open(&path).unwrap());
        prop_assert_eq!(once.meta(), tables.meta());
        prop_assert_eq!(everything(&once).unwrap(), everything(&tables).unwrap());
    }

    #[test]
    fn events_survive_the_wire(events in events(100)) {
        prop_assert_eq!(decode_events(&encode_events(&events)).unwrap(), events);
    }

    #[test]
    fn bytes_that_are_no_events_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), keep in any::<prop::sample::Index>(), events in events(20)) {
        let _ = decode_events(&bytes);
        let whole = encode_events(&events);
        let cut = keep.index(whole.len());
        prop_assert!(decode_events(&whole[..cut]).is_err());
        prop_assert!(decode_events(&[&whole[..], &[0]].concat()).is_err());
    }
}

/// In format 1, names were dictionaries by Arrow's schema, and members of lists and maps had other names.
#[test]
fn a_recording_of_format_1_is_read_as_it_was_written() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let events = decode_events(&std::fs::read(fixtures.join("format-1.events")).unwrap()).unwrap();
    let recording = Recording::open(&fixtures.join("format-1")).unwrap();
    assert_eq!(recording.meta().format, 1);
    let (expected, read) = (everything(&MemorySource::from_events(meta(), events)).unwrap(), everything(&recording).unwrap());
    assert!(read == expected, "some row is another one");
    assert!(!read.spans.is_empty(), "there is something in it");
}

fn plain_track(track: u64, host: u16) -> Track {
    let track = TrackId::new(track).unwrap();
    Track { track, host: HostId(host), kind: TrackKind::Thread, role: Role::Client, pid: Some(1), tid: Some(1), name: "main".into() }
}

fn plain_span(span: u64, track: u64, start_ns: i64, duration_ns: u64) -> Span {
    let (span, track) = (SpanId::new(span).unwrap(), TrackId::new(track).unwrap());
    let kind = SpanKind::NetSend;
    let start = Time::from_monotonic_ns(start_ns);
    let (object, offset_bytes, size_bytes, result) = (None, None, None, None);
    let (parent, request, waker_track, waker_context, cpu_ns, runqueue_ns) = (None, None, None, None, None, None);
    let count = 1;
    Span {
        span,
        track,
        kind,
        start,
        duration_ns,
        count,
        object,
        offset_bytes,
        size_bytes,
        result,
        parent,
        request,
        waker_track,
        waker_context,
        cpu_ns,
        runqueue_ns,
        stack: None,
    }
}

/// More rows than a row group or a run holds, over hosts whose clocks drift apart.
#[test]
fn many_spans_of_drifting_hosts_come_in_one_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.thw");
    let mut all: Vec<Event> = (1..=6).map(|n| Event::Track(plain_track(n, (n % 3) as u16))).collect();
    for host in 1..3 {
        let clock = |from_ns, offset_ns| Clock { host: HostId(host), from_ns, offset_ns, drift_ppb: -900_000_000, error_ns: 5 };
        all.extend([Event::Clock(clock(0, 100)), Event::Clock(clock(400_000, -90_000))]);
    }
    let mut state = 1_u64;
    for n in 1..=200_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all.push(Event::Span(plain_span(n, 1 + state % 6, (state >> 40) as i64 % 1_000_000, (state >> 20) % 3_000)));
    }
    let writer = write(&path, &all, 1_000);
    writer.finish(Ending::at(Time::from_monotonic_ns(1_000_000))).unwrap();
    let recording = Recording::open(&path).unwrap();
    let expected = everything(&MemorySource::from_events(meta(), all)).unwrap();
    let found = everything(&recording).unwrap();
    assert!(found.spans == expected.spans, "the merge's order differs from a sort's");
    assert!(recording.spans_backward().all(|batch| batch.unwrap().len() <= 200_000));
}

/// Counts the spans passing through: a thread preempted between two has more than it made.
struct Counting {
    sink: Arc<RecordingWriter>,
    spans: AtomicU64,
}

impl Sink for Counting {
    fn take(&self, batch: &mut Vec<Event>) {
        let spans = batch.iter().filter(|e| matches!(e, Event::Span(_))).count();
        self.spans.fetch_add(spans as u64, Ordering::Relaxed);
        self.sink.take(batch);
    }
}

#[test]
fn a_sink_that_is_full_counts_what_it_loses_and_says_so_on_the_track() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.thw");
    let writer = RecordingWriter::create_bounded(&path, meta(), 20_000).unwrap();
    let counting = Arc::new(Counting { sink: Arc::clone(&writer), spans: AtomicU64::new(0) });
    let trace = TraceHandle::on(Arc::clone(&counting) as Arc<dyn Sink>, HostId(0), Role::Client, IdSpace(1));
    let mut tracer = trace.thread("main");
    for _ in 0..5_000 {
        let begun = tracer.begin();
        tracer.end(begun, SpanKind::AppOther, SpanFields::default());
    }
    // A row that others refer to is retained although there is no room for it.
    trace.object(ObjectKind::File, "/data/late", &[]).unwrap();
    drop(tracer);
    let lost = writer.lost_events();
    assert!(lost > 0);
    writer.finish(Ending { dropped_events: 7, ..Ending::at(Time::now()) }).unwrap();
    let recording = Recording::open(&path).unwrap();
    let found = everything(&recording).unwrap();
    assert_eq!(recording.meta().dropped_events, lost + 7);
    assert_eq!(found.spans.len() as u64 + lost, counting.spans.load(Ordering::Relaxed));
    assert_eq!(recording.objects().iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["/data/late"]);
    let marks = recording.marks().unwrap();
    let marked: i64 = marks.iter().filter(|m| m.kind == MarkKind::Lost).filter_map(|m| m.value).sum();
    assert_eq!(marked as u64, lost, "each lost span is counted by a mark on its track");
}

/// The child process: writes batches of spans until it is killed, and prints how many it passed on.
#[test]
#[ignore = "run as a child process by a_killed_recorder_loses_nothing_it_was_handed"]
fn child_that_records_until_it_is_killed() {
    use std::io::Write;
    let path = std::env::var_os("THALWEG_TEST_RECORDING").expect("set by the parent");
    let writer = RecordingWriter::create(Path::new(&path), meta()).unwrap();
    writer.take(&mut vec![Event::Track(plain_track(1, 0))]);
    for n in 1_u64.. {
        writer.take(&mut vec![Event::Span(plain_span(n, 1, n as i64 * 10, 5))]);
        if n % 100 == 0 {
            println!("handed {n}");
            std::io::stdout().flush().unwrap();
        }
    }
}

#[test]
fn a_killed_recorder_loses_nothing_it_was_handed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.thw");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "recording::child_that_records_until_it_is_killed"])
        .env("THALWEG_TEST_RECORDING", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut handed = 0_u64;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while handed < 2_000 {
        let line = lines.next().expect("the child ended by itself").unwrap();
        handed = line.split("handed ").nth(1).and_then(|n| n.parse().ok()).unwrap_or(handed);
    }
    child.kill().unwrap();
    child.wait_in_time(LIMIT).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!((recording.meta().end, recording.meta().dropped_events), (None, 0));
    let mut numbers: Vec<u64> = everything(&recording).unwrap().spans.iter().map(|s| s.2.span.number()).collect();
    numbers.reverse();
    assert!(numbers.len() as u64 >= handed, "{} of {handed}", numbers.len());
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "a hole in what was handed over");
}
