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
];

/// Only the command knows everybody.
const KNOWS_EVERYBODY: &str = "thalweg";

/// A file longer than this says why in its first lines ("Long because ...").
const MOST_LINES: usize = 600;

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
            let lines = text.lines().count();
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
