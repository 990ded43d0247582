//! Every variant brings every byte over, whatever the file's size.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn raw(arguments: &[&str], source: &Path, directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg-raw")).args(arguments).arg(source).arg(directory).output().expect("it starts")
}

/// A directory of this test's own with a source of `bytes` bytes in it.
fn source(name: &str, bytes: usize) -> (PathBuf, PathBuf) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("source");
    let content: Vec<u8> = (0..bytes as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&file, content).unwrap();
    (file, directory)
}

/// The runs that were reported, after the check that nothing is left in the directory but the source.
fn runs(output: &Output, directory: &Path) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1, "targets are left");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_variant_streams_every_byte_between_two_processes_and_within_one() {
    let size = 5 * 65_536 + 123;
    let (file, directory) = source("every-variant", size);
    for process in [&["--sync"][..], &["--one-process"]] {
        let all = ["--all", "--unit", "65536", "--part", "4096", "--part", "100000", "--connections", "1", "--connections", "3"];
        let runs = runs(&raw(&[&all[..], process].concat(), &file, &directory), &directory);
        assert!(runs.len() >= 4 * 20, "{} runs", runs.len());
        for run in &runs {
            assert_eq!(run["size_bytes"], size, "{run}");
            assert!(run["seconds"].as_f64() > Some(0.0), "{run}");
        }
        assert!(runs.iter().any(|run| run["checksum"] == true) && runs.iter().any(|run| run["checksum"] == false));
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn an_empty_file_and_more_connections_than_units_are_streamed() {
    for (name, bytes) in [("empty", 0), ("one-byte", 1)] {
        let (file, directory) = source(name, bytes);
        let output = raw(&["--all", "--connections", "4"], &file, &directory);
        assert!(runs(&output, &directory).iter().all(|run| run["size_bytes"] == bytes));
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn errors_name_what_is_missing() {
    let (file, directory) = source("errors", 1);
    let missing = raw(&[], &directory.join("nowhere"), &directory);
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nowhere"));
    let unknown = raw(&["--variant", "pigeon"], &file, &directory);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("sendfile-splice"));
    fs::remove_dir_all(directory).unwrap();
}
