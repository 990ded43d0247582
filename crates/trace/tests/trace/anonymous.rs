//! Anonymous recordings keep every number and none of the private texts of their originals.

use std::path::{Path, PathBuf};
use thalweg_trace::{
    Clock, CounterName, Ending, Event, FORMAT_VERSION, Host, HostId, Mark, MarkKind, Meta, MountDescription, Object, ObjectId, ObjectKind,
    Recording, RecordingWriter, Role, Sample, Sink, Source, Span, SpanId, SpanKind, Stack, Time, Track, TrackId, TrackKind, anonymous,
};

/// Private texts as they occur in names, paths, addresses and words.
const MARKERS: [&str; 5] = ["Zaphod", "zaphod_beeblebrox", "192.168.77.42", "fe80::dead:beef", "zaphöd"];

fn at(ns: i64) -> Time {
    Time::from_monotonic_ns(ns)
}

/// Returns every kind of text in a recording, with this marker in it.
fn events(marker: &str) -> Vec<Event> {
    let (track, object) = (TrackId::new(1).unwrap(), ObjectId::new(2).unwrap());
    let said =
        MountDescription { store: marker.into(), metadata: format!("{marker}:7"), node: marker.into(), ..MountDescription::default() };
    let attributes = [
        ("device", marker.to_owned()),
        ("to", format!("thal:/{marker}/{marker}.tar.gz")),
        (marker, marker.to_owned()),
        ("mount./a", serde_json::to_string(&said).unwrap()),
    ];
    let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    vec![
        Event::Host(Host {
            host: HostId(0),
            name: marker.into(),
            node: marker.into(),
            clock: format!("monotonic:{marker}"),
            kernel: format!("6.8.0-{marker}"),
            cpus: 2,
        }),
        Event::Clock(Clock { host: HostId(0), from_ns: 0, offset_ns: 5, drift_ppb: 1, error_ns: 2 }),
        Event::Track(Track {
            track,
            host: HostId(0),
            kind: TrackKind::Thread,
            role: Role::Client,
            pid: Some(1),
            tid: Some(1),
            name: format!("cp/{marker}"),
        }),
        Event::Object(Object {
            object,
            host: HostId(0),
            kind: ObjectKind::File,
            name: format!("/home/{marker}/x-{marker}.csv"),
            attributes,
        }),
        Event::Stack(Stack {
            stack: 1,
            frames: vec![
                format!("{marker}+0x7 [/home/{marker}/bin/{marker} 77ab02+0x10]"),
                format!("{marker} [jit]"),
                "read+0x4 [/opt/libc.so.6 5792+0x8]".into(),
                "vfs_read+0x2 [kernel]".into(),
            ],
        }),
        Event::Span(Span {
            object: Some(object),
            size_bytes: Some(10),
            stack: Some(1),
            ..Span::bare(SpanId::new(3).unwrap(), track, SpanKind::FileRead, at(100), 50)
        }),
        Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at: at(90), object: Some(object), value: Some(4) }),
        Event::Counter(thalweg_trace::Counter {
            of: thalweg_trace::CounterOf::Track(track),
            name: CounterName::ALL[0],
            at: at(120),
            value: 9,
        }),
        Event::Sample(Sample { at: at(130), host: HostId(0), cpu: 1, track: Some(track), class: 3, stack: Some(1), weight_ns: 1000 }),
    ]
}

fn recorded(directory: &Path, marker: &str, finished: bool) -> PathBuf {
    let path = directory.join(format!("from-{finished}.thw"));
    let pair = |key: &str, value: String| (key.to_owned(), value);
    let meta = Meta {
        format: FORMAT_VERSION,
        command: vec![
            "cp".into(),
            format!("--from={marker}"),
            format!("-u{marker}"),
            format!("/home/{marker}/x"),
            format!("{marker}@{marker}:/y"),
        ],
        recorder: "proc".into(),
        start: at(50),
        end: None,
        exit_code: Some(0),
        dropped_events: 0,
        attributes: vec![
            pair(&format!("cgroup.memory.limit./{marker}"), "100".into()),
            pair(marker, marker.into()),
            pair(&format!("knob.x.{marker}"), marker.into()),
            pair("notes", format!("Ask {marker}.")),
        ],
    };
    let writer = RecordingWriter::create(&path, meta).unwrap();
    writer.take(&mut events(marker));
    if finished {
        writer
            .finish(Ending {
                attributes: vec![pair("not_seen", marker.into()), pair(&format!("ceiling.device.{marker}.read"), "7".into())],
                ..Ending::at(at(200))
            })
            .unwrap();
    }
    path
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns all text of a recording, decompressed.
fn said(path: &Path) -> String {
    let recording = Recording::open(path).unwrap();
    let meta = serde_json::to_string(recording.meta()).unwrap();
    format!("{meta} {:?} {:?} {:?} {:?}", recording.hosts(), recording.tracks(), recording.objects(), recording.stacks().unwrap())
}

#[test]
fn no_text_of_a_recording_is_in_the_anonymous_one_and_every_number_is() {
    let directory = tempfile::tempdir().unwrap();
    for (n, marker) in MARKERS.iter().enumerate() {
        let here = directory.path().join(n.to_string());
        std::fs::create_dir(&here).unwrap();
        for finished in [true, false] {
            let (from, to) = (recorded(&here, marker, finished), here.join(format!("to-{finished}.thw")));
            assert!(said(&from).contains(marker));
            anonymous::export(&from, &to).unwrap();
            assert!(!said(&to).contains(marker), "{marker}: {}", said(&to));
            for file in files(&to) {
                let bytes = std::fs::read(&file).unwrap();
                assert!(!bytes.windows(marker.len()).any(|part| part == marker.as_bytes()), "{marker} in {}", file.display());
            }
            let (one, other) = (Recording::open(&from).unwrap(), Recording::open(&to).unwrap());
            let spans = |recording: &Recording| recording.spans_backward().map(Result::unwrap).collect::<Vec<_>>();
            assert_eq!(spans(&one), spans(&other));
            assert_eq!(
                (one.marks().unwrap(), one.samples().unwrap(), one.clocks()),
                (other.marks().unwrap(), other.samples().unwrap(), other.clocks())
            );
            assert_eq!(one.counters(CounterName::ALL[0]).unwrap(), other.counters(CounterName::ALL[0]).unwrap());
            let frames = &other.stacks().unwrap()[0].frames;
            assert!(frames[2].starts_with("read+0x4 [/usr/lib/libc.so.6") && frames[3] == "vfs_read+0x2 [kernel]", "{frames:?}");
        }
    }
}

#[test]
fn an_anonymous_recording_replaces_nothing_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let from = recorded(directory.path(), "x", true);
    let error = anonymous::export(&from, directory.path()).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert!(Recording::open(&from).is_ok());
}
