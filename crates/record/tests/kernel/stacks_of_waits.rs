//! Promises of a profile beside a recording: exactly the long waits have the stack that waited. Each test needs BPF;
//! skipped, with a message, without it.

use crate::alone;
use crate::common::{compile, run, spans};
use std::collections::HashMap;
use std::path::Path;
use thalweg_trace::{Frame, Recording, Source, Span, SpanKind, TrackId};

const FRAMES: &[&str] = &["-fno-omit-frame-pointer", "-fno-shrink-wrap", "-Wl,--build-id"];

/// Minimum wait that has a stack.
const LEAST_NS: u64 = 1_000_000;

/// Returns the waits of the program's main thread with their user functions; `None` for a wait without a stack.
fn waits(recording: &Recording) -> Vec<(Span, Option<Vec<String>>)> {
    let stacks: HashMap<u32, Vec<String>> = recording
        .stacks()
        .expect("read")
        .into_iter()
        .map(|stack| {
            let frames = stack.frames.iter().map(|frame| Frame::parse(frame));
            (stack.stack, frames.filter(Frame::is_user).map(|frame| frame.function()).collect())
        })
        .collect();
    // Its child, which fills the pipe, waits elsewhere.
    let pid = attribute(recording, "command.pid").and_then(|pid| u32::try_from(pid).ok());
    let main: Vec<TrackId> = recording.tracks().iter().filter(|t| t.pid == pid && t.tid == pid).map(|t| t.track).collect();
    // Before its release it waits for that.
    let is_own = |span: &Span| main.contains(&span.track) && span.start >= recording.meta().start;
    let own = spans(recording).into_iter().filter(|(_, span)| is_own(span) && span.cpu_ns == Some(0) && span.duration_ns > 0);
    own.map(|(_, span)| (span, span.stack.map(|stack| stacks[&stack].clone()))).collect()
}

fn record(directory: &Path, options: &[&str]) -> Option<Recording> {
    let program = compile(directory, "waiter", FRAMES)?;
    let file = directory.join("synced");
    let ran = run(directory, options, &[program.to_str().expect("text"), file.to_str().expect("text")]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    Some(ran.recording())
}

/// Returns a directory on a disk, so that a sync waits.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn attribute(recording: &Recording, name: &str) -> Option<u64> {
    recording.meta().attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.parse().expect("a number"))
}

/// Returns the callers, innermost first, in waits of each kind.
fn expected(kind: SpanKind) -> Option<[&'static str; 3]> {
    match kind {
        SpanKind::WaitTimer => Some(["rest_inner", "rest_outer", "main"]),
        SpanKind::FileSync => Some(["sync_inner", "sync_outer", "main"]),
        _ => None,
    }
}

fn holds(recording: &Recording) {
    assert_eq!((attribute(recording, "profile.lost"), recording.meta().dropped_events), (Some(0), 0));
    let waits = waits(recording);
    let mut taken = 0;
    for (span, stack) in &waits {
        let is_pipe = recording.objects().iter().any(|object| Some(object.object) == span.object && object.name.starts_with("pipe:"));
        let chain = if is_pipe { Some(["take_inner", "take_outer", "main"]) } else { expected(span.kind) };
        match (stack, chain) {
            // Never another wait's.
            (Some(functions), Some(chain)) => assert!(functions.iter().take(3).eq(&chain), "{functions:?}: {span:?}"),
            (None, Some(_)) => assert!(span.duration_ns < 10 * LEAST_NS, "{span:?} has no stack"),
            _ => {}
        }
        if stack.is_some() {
            assert!(span.duration_ns >= LEAST_NS && span.kind != SpanKind::WaitRunqueue, "{span:?}");
            taken += u64::from(chain.is_some());
        }
    }
    let of = |chain: &str| waits.iter().filter(|(_, stack)| stack.as_ref().is_some_and(|f| f[0] == chain)).count();
    assert!(of("rest_inner") >= 5 && of("rest_inner") < 20, "{} of rest: {waits:?}", of("rest_inner"));
    assert_eq!(of("take_inner"), 5, "{waits:?}");
    if waits.iter().any(|(span, _)| span.kind == SpanKind::FileSync && span.duration_ns >= 2 * LEAST_NS) {
        assert!(of("sync_inner") >= 1, "{waits:?}");
    } else {
        println!("SKIPPED: no sync takes 2 ms here");
    }
    assert!(attribute(recording, "profile.waits").is_some_and(|all| all >= taken), "{taken} and more");
}

#[test]
fn a_long_wait_has_the_stack_that_waited_and_no_other_has_one() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    if let Some(recording) = record(directory.path(), &["--method", "bpf", "--profile"]) {
        holds(&recording);
    }
}

#[test]
fn waits_in_calls_that_are_traced_have_their_stacks_too() {
    let Some(_alone) = alone() else { return };
    let directory = on_disk();
    if let Some(recording) = record(directory.path(), &["--method", "bpf", "--profile", "--tier", "syscall"]) {
        holds(&recording);
    }
}

#[test]
fn without_a_profile_beside_a_recorder_no_wait_has_a_stack() {
    let Some(_alone) = alone() else { return };
    for options in [&["--method", "bpf"][..], &["--method", "proc", "--profile"]] {
        let directory = on_disk();
        let Some(recording) = record(directory.path(), options) else { return };
        assert!(spans(&recording).iter().all(|(_, span)| span.stack.is_none()), "{options:?}");
        assert_eq!(attribute(&recording, "profile.waits"), None);
        assert!(!waits(&recording).is_empty(), "{options:?}");
    }
}
