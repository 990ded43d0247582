//! Shared by the tests of running and recording: the entry point as a program of its own (`examples/run.rs`), so that
//! signals, exit codes and kills are real.

#![allow(dead_code)]

use crate::bounded::Bounded;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use thalweg_trace::{Recording, Source, Span, SpanKind, TrackId};

/// The example `run`, which cargo builds with the tests.
pub fn runner() -> PathBuf {
    let test = std::env::current_exe().expect("the test is a file");
    test.parent().and_then(Path::parent).expect("in target/PROFILE/deps").join("examples/run")
}

/// One run.
pub struct Ran {
    pub output: Output,
    pub path: PathBuf,
}

impl Ran {
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
    pub fn recording(&self) -> Recording {
        Recording::open(&self.path).unwrap_or_else(|error| panic!("{error}\n{}", self.said()))
    }
}

/// Returns the runner with these options, and its recording's path.
pub fn command(directory: &Path, options: &[&str], words: &[&str]) -> (Command, PathBuf) {
    let path = directory.join("run.thw");
    let mut command = Command::new(runner());
    command.arg("-o").arg(&path).args(options).arg("--").args(words);
    (command, path)
}

/// Runs and records, with no input.
pub fn run(directory: &Path, options: &[&str], words: &[&str]) -> Ran {
    let (mut command, path) = command(directory, options, words);
    let output = command.stdin(Stdio::null()).output_in_time().expect("the example `run` is built");
    Ran { output, path }
}

/// Returns all spans, with the name of their track.
pub fn spans(recording: &Recording) -> Vec<(String, Span)> {
    let name =
        |track: TrackId| recording.tracks().iter().find(|row| row.track == track).map_or_else(|| "?".to_owned(), |row| row.name.clone());
    let mut all = Vec::new();
    for batch in recording.spans_backward() {
        let batch = batch.expect("read");
        all.extend((0..batch.len()).filter_map(|row| batch.row(row)).map(|span| (name(span.track), span)));
    }
    all
}

/// Sums the durations, and the bytes, of spans of a kind.
pub fn total(spans: &[(String, Span)], kind: SpanKind) -> (u64, u64) {
    let of_kind = || spans.iter().filter(|(_, span)| span.kind == kind).map(|(_, span)| span);
    (of_kind().map(|span| span.duration_ns).sum(), of_kind().filter_map(|span| span.size_bytes).sum())
}

/// Compiles a program of `programs/`; if that fails, prints why and returns `None`.
pub fn compile(directory: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let program = directory.join(name);
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).args(flags).output_in_time();
    match compiled {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            println!("SKIPPED: cc {flags:?} cannot make {name}: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            println!("SKIPPED: there is no C compiler ({error})");
            None
        }
    }
}

/// Waits for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 60, "{what} does not happen");
        std::thread::yield_now();
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Records a program with 20,000 open files: it runs as it would alone, and the recorder keeps up.
pub fn record_many_descriptors(directory: &Path, method: &str) {
    let Some(program) = compile(directory, "descriptors", &[]) else { return };
    let files = directory.join("files");
    std::fs::create_dir(&files).expect("a directory");
    let words = [program.to_string_lossy(), files.to_string_lossy()];
    let begun = std::time::Instant::now();
    let ran = run(directory, &["--method", method], &[&words[0], &words[1]]);
    assert_eq!(ran.code(), Some(0), "{method}: {}", ran.said());
    let many: usize = ran.out().trim().parse().expect("how many it had");
    if many < 19_000 {
        return println!("SKIPPED: a program may have {many} files open here");
    }
    // Alone it takes a second or two.
    assert!(begun.elapsed() < std::time::Duration::from_secs(90), "{method}: {:?}", begun.elapsed());
    let recording = ran.recording();
    assert_eq!((recording.meta().recorder.as_str(), recording.meta().exit_code), (method, Some(0)));
    assert!(recording.tracks().iter().any(|track| track.name == "descriptors"), "{method}: {}", ran.said());
    let size_bytes: u64 = std::process::Command::new("du")
        .args(["-sb"])
        .arg(&ran.path)
        .output()
        .map_or(0, |du| String::from_utf8_lossy(&du.stdout).split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0));
    assert!(size_bytes < 64 << 20, "{method}: a recording of {size_bytes} bytes");
}
