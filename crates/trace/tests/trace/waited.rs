//! Stacks of waits and the waits themselves come from two recorders and are matched in the recording.

use crate::common::{everything, meta};
use std::path::Path;
use thalweg_trace::*;

const TRACK: u64 = 3;

fn events(stack: u32) -> Vec<Event> {
    let track = TrackId::new(TRACK).unwrap();
    let at = Time::from_monotonic_ns;
    let host = Host {
        host: HostId(0),
        name: "here".into(),
        node: "here".into(),
        clock: "monotonic:one-0000-0000".into(),
        kernel: "6.18".into(),
        cpus: 1,
    };
    let wait = |n: u64, kind, start: i64, duration_ns| {
        Event::Span(Span {
            cpu_ns: Some(0),
            runqueue_ns: Some(0),
            ..Span::bare(SpanId::new(1 << 40 | n).unwrap(), track, kind, at(start), duration_ns)
        })
    };
    let (kind, role, name) = (TrackKind::Thread, Role::Client, "main".to_owned());
    vec![
        Event::Host(host),
        Event::Track(Track { track, host: HostId(0), kind, role, pid: Some(7), tid: Some(7), name }),
        wait(1, SpanKind::WaitTimer, 1_000, 500),
        wait(2, SpanKind::FileSync, 2_000, 500),
        wait(3, SpanKind::WaitRunqueue, 2_500, 50),
        wait(4, SpanKind::WaitTimer, 4_000, 500),
        Event::Stack(Stack { stack, frames: vec!["schedule [kernel]".into(), "a, b [/bin/x]".into(), "main [/bin/x]".into()] }),
        // One whose wait was recorded, and one whose wait was not.
        Event::Waited(Waited { track, from: at(2_000), until: at(2_550), stack }),
        Event::Waited(Waited { track, from: at(3_999), until: at(4_500), stack }),
    ]
}

fn stacks(source: &dyn Source) -> Vec<(u64, Option<u32>)> {
    let spans = everything(source).unwrap().spans;
    let mut stacks: Vec<_> = spans.iter().map(|(_, _, span)| (span.span.number() & 0xff, span.stack)).collect();
    stacks.sort_unstable();
    stacks
}

/// Writes each event in a batch of its own, those of stacks first or last: rings are drained in any order.
fn written(path: &Path, mut events: Vec<Event>, stacks_first: bool) -> Recording {
    if stacks_first {
        events.reverse();
    }
    let writer = RecordingWriter::create(path, meta()).unwrap();
    for event in events {
        writer.take(&mut vec![event]);
    }
    let unfinished = stacks(&Recording::open(path).unwrap());
    writer.finish(Ending::at(Time::from_monotonic_ns(5_000))).unwrap();
    let finished = Recording::open(path).unwrap();
    assert_eq!(stacks(&finished), unfinished, "finished and not");
    finished
}

#[test]
fn a_wait_has_its_stack_whoever_came_first_and_no_other_span_has_one() {
    let directory = tempfile::tempdir().unwrap();
    let expected = [(1, None), (2, Some(9)), (3, None), (4, None)];
    for first in [true, false] {
        let recording = written(&directory.path().join(format!("{first}.thw")), events(9), first);
        assert_eq!(stacks(&recording), expected);
    }
    assert_eq!(stacks(&MemorySource::from_events(meta(), events(9))), expected);
}

#[test]
fn what_reads_spans_and_writes_them_again_keeps_their_stacks() {
    let directory = tempfile::tempdir().unwrap();
    let first = written(&directory.path().join("first.thw"), events(9), true);
    // As a fixture is made: spans with stacks, and the stacks.
    let mut again: Vec<Event> = events(9).into_iter().filter(|event| !matches!(event, Event::Span(_) | Event::Waited(_))).collect();
    again.extend(everything(&first).unwrap().spans.into_iter().map(|(_, _, span)| Event::Span(span)));
    let second = written(&directory.path().join("second.thw"), again, false);
    assert_eq!(stacks(&second), stacks(&first));

    export::csv::export(&first, directory.path()).unwrap();
    let spans = std::fs::read_to_string(directory.path().join("spans.csv")).unwrap();
    let of = |kind: &str| spans.lines().find(|line| line.contains(kind)).and_then(|line| line.rsplit(',').next()).unwrap().to_owned();
    assert_eq!((of("file.sync"), of("wait.runqueue")), ("9".to_owned(), String::new()));
}

#[test]
fn merged_recordings_keep_the_stacks_of_both() {
    let directory = tempfile::tempdir().unwrap();
    let other_thread = |event| match event {
        Event::Track(track) => Event::Track(Track { pid: Some(8), tid: Some(8), name: "other".into(), ..track }),
        Event::Stack(stack) => Event::Stack(Stack { frames: vec!["[unknown]".into()], ..stack }),
        event => event,
    };
    let one = written(&directory.path().join("one.thw"), events(9), true);
    let two = written(&directory.path().join("two.thw"), events(4).into_iter().map(other_thread).collect(), true);
    let out = directory.path().join("merged.thw");
    let part = |name: &str, source| merge::Part { name: name.to_owned(), source };
    merge::merge(&[part("one", &one as &dyn Source), part("two", &two)], &out).unwrap();
    let merged = Recording::open(&out).unwrap();
    let frames: std::collections::HashMap<u32, Vec<String>> =
        merged.stacks().unwrap().into_iter().map(|stack| (stack.stack, stack.frames)).collect();
    let mut found: Vec<(String, usize)> = Vec::new();
    for (_, _, span) in everything(&merged).unwrap().spans {
        let Some(stack) = span.stack else { continue };
        let name = merged.tracks().iter().find(|track| track.track == span.track).map(|track| track.name.clone()).unwrap();
        found.push((name, frames[&stack].len()));
    }
    found.sort();
    assert_eq!(found, [("main".to_owned(), 3), ("other".to_owned(), 1)]);
}
