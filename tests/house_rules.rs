//! The rules of the house that a machine can check: who may know whom, and how long a file may be.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who may know whom. Who is not listed may know none of ours.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("thalweg-explain", &["thalweg-trace"]),
    ("thalweg-record", &["thalweg-trace"]),
    ("thalweg-store", &["thalweg-layout", "thalweg-trace"]),
    ("thalweg-mount", &["thalweg-store", "thalweg-trace", "thalweg-layout"]),
    ("thalweg-tune", &["thalweg-measure", "thalweg-trace", "thalweg-explain"]),
    ("thalweg-report", &["thalweg-trace", "thalweg-explain", "thalweg-measure"]),
    ("thalweg-study", &["thalweg-layout", "thalweg-store", "thalweg-measure", "thalweg-trace", "thalweg-explain"]),
    ("thalweg-fuzz", &["thalweg-trace", "thalweg-record", "thalweg-explain"]),
];

/// Only the command knows everybody.
const KNOWS_EVERYBODY: &str = "thalweg";

/// A file longer than this, its unit tests aside, says why in its first lines ("Long because ...").
const MOST_LINES: usize = 640;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source tree is there")
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

fn packages() -> Vec<Value> {
    metadata()["packages"].as_array().expect("packages").clone()
}

#[test]
fn nobody_knows_whom_they_may_not_know() {
    let packages = packages();
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    let mut broken = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().expect("a package has a name");
        if name == KNOWS_EVERYBODY {
            continue;
        }
        let may_know = allowed.get(name).copied().unwrap_or(&[]);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let dependency = dependency["name"].as_str().expect("a dependency has a name");
            // Knowing oneself (a library's own examples and tests) is no knowledge.
            if ours.contains(&dependency) && dependency != name && !may_know.contains(&dependency) {
                broken.push(format!("{name} knows {dependency}"));
            }
        }
    }
    assert!(ours.contains(&KNOWS_EVERYBODY), "the command is a package");
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_crate_is_linted_alike() {
    let lacking: Vec<String> = packages()
        .iter()
        .filter_map(|p| p["manifest_path"].as_str().map(PathBuf::from))
        .filter(|manifest| !std::fs::read_to_string(manifest).is_ok_and(|text| text.contains("[lints]\nworkspace = true")))
        .map(|manifest| manifest.display().to_string())
        .collect();
    assert_eq!(lacking, Vec::<String>::new(), "these manifests lack `[lints] workspace = true`");
}

#[test]
fn no_file_is_long_without_a_reason() {
    let mut long = Vec::new();
    for directory in ["crates", "tests", "bench", "lab"] {
        visit(&root().join(directory), &mut |path| {
            if path.extension().is_none_or(|e| e != "rs" && e != "py") {
                return;
            }
            let text = std::fs::read_to_string(path).expect("a source file is text");
            // A file's own unit tests come last, and are not what makes it hard to read.
            let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
            let says_why = text.lines().take(40).any(|line| line.contains("Long because"));
            if lines > MOST_LINES && !says_why {
                long.push(format!("{} has {lines} lines", path.strip_prefix(root()).unwrap_or(path).display()));
            }
        });
    }
    assert_eq!(long, Vec::<String>::new(), "split them, or say in the first comment: Long because ...");
}

fn visit(directory: &Path, seen: &mut dyn FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                visit(&path, seen);
            }
        } else {
            seen(&path);
        }
    }
}

/// The summary that `make test` ends with, on the output of test programs that passed, failed, skipped and died.
#[test]
fn the_summary_counts_what_passed_failed_skipped_and_died() {
    let output = "\
     Running unittests src/lib.rs (target/debug/deps/thalweg_layout-0123456789abcdef)

running 3 tests
test a ... ok
test b ... ignored, takes an hour
test c - should panic ... ok

successes:

---- a stdout ----
a line that says nothing

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.60s

     Running ../../tests/end_to_end/main.rs (target/debug/deps/end_to_end-0123456789abcdef)

running 3 tests
test copies::one ... ok
test namespaces::two ... ok
test namespaces::three ... FAILED

successes:

---- namespaces::two stdout ----
SKIPPED: it needs root

failures:

---- namespaces::three stdout ----
this is why

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

error: test failed, to rerun pass `-p thalweg --test end-to-end`
     Running tests/dies.rs (target/debug/deps/dies-0123456789abcdef)

running 2 tests
error: test failed, to rerun pass `-p thalweg --test dies`
Caused by:
  process didn't exit successfully: `/x/dies-0123456789abcdef` (signal: 9, SIGKILL: kill)
";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (log, counts) = (directory.path().join("log"), directory.path().join("counts"));
    std::fs::write(&log, output).expect("a file can be written");
    let run = Command::new("awk")
        .arg("-v")
        .arg(format!("counts={}", counts.display()))
        .args(["-f", "tools/summary.awk"])
        .arg(&log)
        .current_dir(root())
        .output()
        .expect("awk runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(said.contains("SKIPPED: namespaces::two: it needs root") && said.contains("this is why"), "{said}");
    let mut lines: Vec<String> = std::fs::read_to_string(&counts).expect("counts were written").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["dies 0 1 0 0", "end-to-end::copies 1 0 0 0", "end-to-end::namespaces 0 1 1 0", "layout 2 0 1 2"]);
}
