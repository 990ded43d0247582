//! What the kernel recorder promises of Go programs: where goroutines wait for a mutex. Each test needs BPF and Go; without them, it is skipped and says so.

use crate::alone;
use crate::bounded::Bounded as _;
use crate::common::run;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_trace::{Mark, MarkKind, Source};

/// The program, stripped as released programs are; `None` where there is no Go.
fn build(directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/goroutines.go");
    let program = directory.join("goroutines");
    // (From an empty cache the runtime is compiled first, which takes half a minute.)
    let mut go = Command::new("go");
    go.args(["build", "-ldflags", "-s -w", "-o"]).arg(&program).arg(source);
    match go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go")).stderr(Stdio::null()).status_in_time() {
        Ok(status) if status.success() => Some(program),
        Ok(status) => {
            println!("SKIPPED: go cannot make {}: {status}", program.display());
            None
        }
        Err(error) => {
            println!("SKIPPED: there is no Go ({error})");
            None
        }
    }
}

/// The marks of mutexes, in order of time.
fn marks(directory: &Path, words: &[&str]) -> Vec<Mark> {
    let ran = run(directory, &["--method", "bpf"], words);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    let mut marks = recording.marks().expect("marks");
    use MarkKind::{TaskLockAwaited, TaskLockAwaitedAgain, TaskLockHandedOn};
    marks.retain(|mark| [TaskLockAwaited, TaskLockAwaitedAgain, TaskLockHandedOn].contains(&mark.kind));
    marks.sort_by_key(|mark| mark.at);
    marks
}

#[test]
fn goroutines_that_wait_for_a_mutex_are_recorded_from_the_first_on() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = build(directory.path()) else { return };
    let marks = marks(directory.path(), &[program.to_str().expect("text")]);
    let objects: HashSet<_> = marks.iter().map(|mark| mark.object).collect();
    assert_eq!(objects.len(), 1, "one mutex: {objects:?}");
    let handed_on = marks.iter().filter(|mark| mark.kind == MarkKind::TaskLockHandedOn).count();
    let tasks: HashSet<_> = marks.iter().map(|mark| mark.value).collect();
    // The last has nobody to hand the mutex to.
    assert!((30..=40).contains(&handed_on), "{handed_on}");
    assert_eq!(tasks.len(), 4, "{tasks:?}");
    let before_first = marks.iter().take_while(|mark| mark.kind != MarkKind::TaskLockHandedOn).count();
    assert_eq!(before_first, 3, "three wait while the first has the mutex");
}

#[test]
fn a_go_program_that_a_shell_starts_is_recorded_too() {
    let Some(_alone) = alone() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let Some(program) = build(directory.path()) else { return };
    let marks = marks(directory.path(), &["sh", "-c", &format!("{}; true", program.display())]);
    assert!(marks.len() > 40, "{}", marks.len());
}
