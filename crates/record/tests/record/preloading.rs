//! The preload library: it changes nothing that a program can see, and it sees what the program waits for.

use crate::bounded::{Bounded, BoundedChild, LIMIT};
use crate::common::{self, compile, run, spans, total};
use std::collections::BTreeMap;
use thalweg_trace::{MarkKind, Recording, Source, Span, SpanKind, TrackId, WakerContext};

/// The library alone, and beside the switches of an ordinary user's threads.
const METHODS: [&str; 2] = ["preload", "user"];
const MS: u64 = 1_000_000;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_program_sees_no_difference() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "semantics", &[]) else { return };
        let alone = std::process::Command::new(&program).stdin(std::process::Stdio::null()).output_in_time().expect("run");
        assert_eq!(alone.status.code(), Some(17), "{}", String::from_utf8_lossy(&alone.stderr));
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy()]);
        assert_eq!(ran.code(), Some(17), "{}", ran.said());
        let (alone, recorded) = (String::from_utf8_lossy(&alone.stdout).into_owned(), ran.out());
        for (one, other) in alone.lines().zip(recorded.lines()) {
            assert_eq!(one, other);
        }
        assert_eq!(alone.lines().count(), recorded.lines().count());
        assert!(alone.lines().count() > 80);
    }
}

/// Spans of the thread of this name.
fn of<'a>(all: &'a [(String, Span)], name: &str) -> Vec<&'a Span> {
    all.iter().filter(|(track, _)| track == name).map(|(_, span)| span).collect()
}

fn name_of(recording: &Recording, track: Option<TrackId>) -> Option<String> {
    recording.tracks().iter().find(|row| Some(row.track) == track).map(|row| row.name.clone())
}

#[test]
fn what_threads_wait_for_is_recorded_with_who_ended_it() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "waits", &[]) else { return };
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy()]);
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
        let recording = ran.recording();
        let all = spans(&recording);
        let main = of(&all, "waits");
        let woken_by = |name: &str| {
            let of_it = main
                .iter()
                .filter(|span| span.kind == SpanKind::WaitLock && name_of(&recording, span.waker_track).as_deref() == Some(name));
            of_it.map(|span| span.duration_ns).max().unwrap_or(0)
        };
        // The lock's holder and the condition's signaller sleep 30 ms first; the waiter began a little later.
        for (who, least) in [("waits/holder", 5 * MS), ("waits/signaller", 5 * MS), ("waits", 0)] {
            assert!(woken_by(who) >= least, "{who}: {all:#?}");
        }
        let child_waits = main.iter().any(|span| {
            let waker = recording.tracks().iter().find(|row| Some(row.track) == span.waker_track);
            span.kind == SpanKind::WaitLock && span.duration_ns >= 5 * MS && waker.is_some_and(|row| row.pid != recording_pid(&recording))
        });
        assert!(child_waits, "the child ended a wait");
        let slept: u64 = of(&all, "waits/holder").iter().filter(|span| span.kind == SpanKind::WaitTimer).map(|span| span.duration_ns).sum();
        assert!(slept >= 30 * MS, "{slept}");
        let polled = of(&all, "waits/poller").into_iter().filter(|span| span.kind == SpanKind::WaitNetwork && span.object.is_some());
        let polled: Vec<_> = polled.filter(|span| span.waker_context == Some(WakerContext::Timer)).collect();
        assert!(polled.len() >= 2, "sleeps between fruitless receives are polling the connection: {:#?}", of(&all, "waits/poller"));
        // Where switches are recorded, the wait and what it brought are two spans.
        let received: Vec<_> = of(&all, "waits/client").into_iter().filter(|span| span.kind == SpanKind::NetReceive).collect();
        assert!(received.iter().any(|span| span.duration_ns >= 5 * MS), "{received:#?}");
        assert!(received.iter().any(|span| (span.offset_bytes, span.size_bytes) == (Some(0), Some(1))), "{received:#?}");
    }
}

fn recording_pid(recording: &Recording) -> Option<u32> {
    recording.tracks().iter().find(|row| row.name == "waits").and_then(|row| row.pid)
}

#[test]
fn bytes_of_a_connection_and_their_places_are_the_same_at_both_ends() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "waits", &[]) else { return };
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy()]);
        let recording = ran.recording();
        let mut streams: BTreeMap<(String, String, SpanKind), (u64, u64)> = BTreeMap::new();
        for (_, span) in spans(&recording) {
            let Some(object) = recording.objects().iter().find(|row| Some(row.object) == span.object) else { continue };
            let Some((_, end)) = object.attributes.iter().find(|(name, _)| name == "end") else { continue };
            if let (SpanKind::NetSend | SpanKind::NetReceive, Some(size)) = (span.kind, span.size_bytes) {
                let stream = streams.entry((object.name.clone(), end.clone(), span.kind)).or_default();
                stream.0 += size;
                stream.1 = stream.1.max(span.offset_bytes.expect("a place") + size);
            }
        }
        let big: Vec<_> = streams.iter().filter(|(_, (size, _))| *size == 3_000_000).collect();
        assert_eq!(big.len(), 2, "{streams:#?}");
        assert_eq!(big[0].0.0, big[1].0.0, "one name at both ends");
        assert_ne!(big[0].0.1, big[1].0.1, "distinguished by their ends");
        for (stream, (size, end)) in &streams {
            assert!(end >= size, "{stream:?}: merged calls have the place of their first");
        }
        let counters = recording.counters(thalweg_trace::CounterName::TcpCwndBytes).expect("read");
        assert!(!counters.is_empty(), "TCP's figures are there");
    }
}

#[test]
fn a_threads_spans_do_not_overlap() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "waits", &[]) else { return };
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy()]);
        let mut by_track: BTreeMap<TrackId, Vec<Span>> = BTreeMap::new();
        for (_, span) in spans(&ran.recording()) {
            by_track.entry(span.track).or_default().push(span);
        }
        for (_, mut spans) in by_track {
            spans.sort_by_key(|span| (span.start, span.end()));
            for pair in spans.windows(2) {
                assert!(pair[0].end() <= pair[1].start, "{pair:#?}");
            }
        }
    }
}

#[test]
fn merged_calls_have_all_the_bytes() {
    for method in METHODS {
        let directory = directory();
        let file = directory.path().join("file");
        std::fs::write(&file, vec![7; 64 << 20]).expect("written");
        let copy = directory.path().join("copy");
        let words = ["dd", &format!("if={}", file.display()), &format!("of={}", copy.display()), "bs=4k"];
        let ran = run(directory.path(), &["--method", method], &words);
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
        assert!(std::fs::read(&copy).expect("read") == vec![7; 64 << 20]);
        let recording = ran.recording();
        let spans = spans(&recording);
        let object =
            |path: &std::path::Path| recording.objects().iter().find(|row| row.name == path.to_string_lossy()).map(|row| row.object);
        let moved = |path, kind| {
            let of_it = spans.iter().filter(|(_, span)| span.object.is_some() && span.object == object(path) && span.kind == kind);
            of_it.filter_map(|(_, span)| span.size_bytes).sum::<u64>()
        };
        assert_eq!(moved(&file, SpanKind::FileRead), 64 << 20);
        assert_eq!(moved(&copy, SpanKind::FileWrite), 64 << 20);
        assert!(spans.len() < 4 * 16384, "16,384 reads and writes are merged: {} spans", spans.len());
        assert_eq!(recording.meta().dropped_events, 0);
    }
}

#[test]
fn ten_thousand_short_processes_are_recorded_and_leave_nothing_behind() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "children", &[]) else { return };
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy(), "10000"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
        let recording = ran.recording();
        assert!(recording.tracks().len() > 10_000, "{} tracks: {}", recording.tracks().len(), ran.said());
        assert_eq!(recording.meta().dropped_events, 0);
        let (waited, _) = total(&spans(&recording), SpanKind::WaitLock);
        assert!(waited > 0);
    }
}

#[test]
fn the_private_directory_is_gone_when_the_recording_is() {
    for method in METHODS {
        let ours = |pid: u32| {
            let bases = ["/dev/shm", "/tmp"].into_iter().filter_map(|base| std::fs::read_dir(base).ok());
            bases.flatten().flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("thalweg-preload-{pid}-")))
        };
        let directory = directory();
        let (mut command, _) = common::command(directory.path(), &["--method", method], &["true"]);
        let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("started");
        let pid = child.id();
        assert!(child.wait_in_time(LIMIT).expect("ended").success());
        assert!(!ours(pid));
    }
}

#[test]
fn waits_with_a_limit_locks_on_files_and_work_without_calls_are_recorded_as_what_they_are() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "limits", &[]) else { return };
        let locked = directory.path().join("locked");
        let ran = run(directory.path(), &["--method", method], &[&program.to_string_lossy(), &locked.to_string_lossy()]);
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
        let recording = ran.recording();
        let main = recording.tracks().iter().filter(|row| row.name == "limits").min_by_key(|row| row.track).expect("its thread");
        let (own, others): (Vec<_>, Vec<_>) =
            spans(&recording).into_iter().map(|(_, span)| span).partition(|span| span.track == main.track);
        let object =
            |span: &Span| recording.objects().iter().find(|row| Some(row.object) == span.object).map_or("", |row| row.name.as_str());
        let limited = |span: &&Span| span.waker_context == Some(WakerContext::Timer) && span.duration_ns >= 20 * MS;
        let lock = own.iter().find(|span| span.kind == SpanKind::WaitLock && object(span) == format!("flock {}", locked.display()));
        assert!(lock.is_some_and(|span| span.duration_ns >= 10 * MS), "the lock: {own:#?}");
        let asked = own.iter().filter(limited).find(|span| span.kind == SpanKind::WaitNetwork);
        assert!(asked.is_some_and(|span| object(span).starts_with("udp:")), "the question: {own:#?}");
        let of_kind = |kind| own.iter().filter(limited).filter(move |span| span.kind == kind).collect::<Vec<_>>();
        let (paused, shared) = (of_kind(SpanKind::WaitTimer), of_kind(SpanKind::WaitLock));
        assert!(matches!(paused.as_slice(), [span] if span.waker_track.is_none()), "the semaphore: {own:#?}");
        assert_eq!(shared.len(), 2, "what another process could have posted or signalled is no pause: {own:#?}");
        if method == "user" {
            // A thread runs where no span says otherwise.
            let queued = others.iter().all(|span| span.kind != SpanKind::CpuRun);
            assert!(queued, "{others:#?}");
            continue;
        }
        let worked: u64 = others.iter().filter(|span| span.kind == SpanKind::CpuRun).filter_map(|span| span.cpu_ns).sum();
        assert!(worked >= 40 * MS, "the child's work: {others:#?}");
    }
}

#[test]
fn a_program_under_a_filter_of_its_own_runs_as_it_would_alone() {
    for method in METHODS {
        let directory = directory();
        let (Some(confined), Some(limits)) = (compile(directory.path(), "confined", &["-ldl"]), compile(directory.path(), "limits", &[]))
        else {
            return;
        };
        let locked = directory.path().join("locked");
        let words = [&confined, &limits, &locked].map(|word| word.to_string_lossy().into_owned());
        let ran = run(directory.path(), &["--method", method], &words.each_ref().map(String::as_str));
        assert_eq!(ran.code(), Some(0), "{}", ran.said());
    }
}

#[test]
fn processes_are_recorded_with_when_they_began_and_who_made_them() {
    for method in METHODS {
        let directory = directory();
        let Some(program) = compile(directory.path(), "limits", &[]) else { return };
        let ran =
            run(directory.path(), &["--method", method], &[&program.to_string_lossy(), &directory.path().join("locked").to_string_lossy()]);
        let recording = ran.recording();
        let first = recording.tracks().iter().filter(|row| row.name == "limits").map(|row| row.track).min().expect("its thread");
        let all = spans(&recording);
        let children = recording.tracks().iter().filter(|row| row.name == "limits" && row.track != first);
        let mut seen = 0;
        for child in children {
            let born = recording
                .marks()
                .expect("read")
                .iter()
                .find(|mark| mark.kind == MarkKind::ThreadStart && mark.track == child.track)
                .cloned();
            let born = born.unwrap_or_else(|| panic!("{child:?} has no beginning"));
            assert_eq!(born.value, Some(first.number() as i64), "its maker");
            let began =
                all.iter().filter(|(_, span)| span.track == child.track).map(|(_, span)| span.start).min().expect("it did something");
            assert!(born.at <= began, "nothing comes before it");
            seen += 1;
        }
        assert_eq!(seen, 2);
    }
}
