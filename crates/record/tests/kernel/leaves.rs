//! Samples without stacks show the function in which a program computed, in an ordinary recording. Each test needs
//! BPF; skipped, with a message, without it.

use crate::alone;
use crate::common::{compile, run};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use thalweg_trace::{Frame, Recording, Source, TrackId};

/// Returns the share of samples of each function, or of its file if it has no name, for a program of this name.
fn parts(recording: &Recording, name: &str) -> HashMap<String, f64> {
    let of: HashSet<TrackId> = recording.tracks().iter().filter(|t| t.name == name).map(|t| t.track).collect();
    let stacks: HashMap<u32, Frame> =
        recording.stacks().expect("read").into_iter().map(|stack| (stack.stack, Frame::parse(&stack.frames.concat()))).collect();
    let mut parts: HashMap<String, f64> = HashMap::new();
    let samples = recording.samples().expect("read");
    let samples: Vec<_> = samples.iter().filter(|sample| sample.track.is_some_and(|track| of.contains(&track))).collect();
    assert!(samples.len() >= 50, "{} samples", samples.len());
    for sample in &samples {
        assert_eq!(sample.profiled(), None, "it is no profile's");
        let frame = &stacks[&sample.stack.expect("a leaf")];
        let base = |path: &str| Path::new(path).file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        *parts.entry(frame.symbol.clone().unwrap_or_else(|| base(&frame.module))).or_default() += 1.0 / samples.len() as f64;
    }
    parts
}

/// Runs a program that computes at the end of a chain of calls for 300 ms, compiled with these flags.
fn computed(flags: &[&str]) -> Option<HashMap<String, f64>> {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile(directory.path(), "chain", flags)?;
    let ran = run(directory.path(), &["--method", "bpf"], &[program.to_str().expect("text"), "300", "calls"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    Some(parts(&ran.recording(), "chain"))
}

#[test]
fn an_ordinary_recording_says_in_which_function_a_program_computed() {
    let Some(_alone) = alone() else { return };
    let Some(parts) = computed(&["-O2"]) else { return };
    assert!(parts.get("third").is_some_and(|part| *part > 0.8), "{parts:?}");
}

#[test]
fn of_a_program_without_symbols_it_says_the_file() {
    let Some(_alone) = alone() else { return };
    let Some(parts) = computed(&["-O2", "-s"]) else { return };
    assert!(parts.get("chain").is_some_and(|part| *part > 0.8), "{parts:?}");
}
