//! Recordings, explanations, pictures and exports of real copies, and damaged recordings.

use crate::common::{Up, content, file, run, scratch, text};
use std::path::{Path, PathBuf};

/// Records a copy of 26 requests, as `pvfs2-cp` performs it.
fn recorded(store: &Up, here: &Path) -> PathBuf {
    let source = file(here, "source", &content(5, 26 << 20));
    let recording = here.join("copy.thw");
    let target = store.path("/recorded");
    let record = ["--record", text(&recording)];
    run([&["cp", "--quiet", "--force", "--request", "1Mi", "--requests", "1"], &record[..], &[text(&source), &target]].concat()).done();
    recording
}

#[test]
fn an_explanation_sums_to_the_wall_time_and_knows_nearly_all_of_it() {
    let store = Up::start(4);
    let here = scratch();
    let recording = recorded(&store, here.path());
    let document = run(["explain", "--json", text(&recording)]).done().json();
    assert_eq!(document["schema"], "thalweg.explain/1");
    let charges = document["critical_path"].as_array().expect("charges");
    let shares: f64 = charges.iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() <= 0.001, "shares sum to {shares}");
    let unknown: f64 =
        charges.iter().filter(|c| c["cause"].as_str().is_some_and(|c| c.ends_with("unknown"))).filter_map(|c| c["share"].as_f64()).sum();
    assert!(unknown <= 0.02, "unknown: {unknown}");
    assert_eq!(document["dropped_events"], 0);
    assert_eq!(document["size_bytes"], 26 << 20);
    let plain = run(["explain", text(&recording)]).done().out;
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    assert!(!plain.contains('\u{1b}'), "no colour where there is no terminal");
    assert!(plain.lines().count() <= 15 && plain.contains("26 MiB in"), "{plain}");
    let full = run(["explain", "-v", text(&recording)]).done().out;
    assert!(full.lines().all(|line| line.chars().count() <= 80) && full.contains("Where the time went"), "{full}");
}

#[test]
fn a_copy_explains_itself() {
    let store = Up::start(4);
    let said = run(["cp", "--quiet", "--explain", "--source", "memory:16Mi", &store.path("/m")]).done();
    assert!((3..=15).contains(&said.out.lines().count()) && said.out.contains("16 MiB in"), "{}", said.out);
}

#[test]
fn reading_out_is_recorded_at_both_ends_too() {
    let store = Up::start(4);
    let here = scratch();
    run(["cp", "--quiet", "--source", "memory:16Mi", &store.path("/m")]).done();
    let recording = here.path().join("out.thw");
    run(["cp", "--quiet", "--record", text(&recording), "--sink", "null", &store.path("/m")]).done();
    let document = run(["explain", "--json", text(&recording)]).done().json();
    let roles: Vec<&str> = document["tracks"].as_array().unwrap().iter().filter_map(|t| t["role"].as_str()).collect();
    assert!(roles.contains(&"client") && roles.contains(&"server"), "{roles:?}");
}

#[test]
fn pictures_and_exports_are_made() {
    let store = Up::start(2);
    let here = scratch();
    let recording = recorded(&store, here.path());
    let out = |name: &str| here.path().join(name);
    run(["report", text(&recording), "-o", text(&out("a.svg"))]).done();
    assert!(std::fs::read_to_string(out("a.svg")).unwrap().contains("<svg"));
    run(["report", text(&recording), "-o", text(&out("a.html"))]).done();
    assert!(std::fs::read_to_string(out("a.html")).unwrap().contains("<html"));
    run(["report", text(&recording), "-o", text(&out("a.gif"))]).failed(2, &["a.gif", ".svg"]);
    run(["export", text(&recording), "--to", "perfetto", "-o", text(&out("a.pftrace"))]).done();
    assert!(std::fs::metadata(out("a.pftrace")).unwrap().len() > 10_000);
    run(["export", text(&recording), "--to", "csv", "-o", text(&out("csv"))]).done();
    assert!(std::fs::read_to_string(out("csv").join("spans.csv")).unwrap().lines().count() > 100);
    run(["export", text(&recording), "--to", "parquet", "-o", text(&out("b"))]).failed(2, &["parquet"]);
}

/// Returns a recording's files, largest first.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() { open.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort_by_key(|path| std::cmp::Reverse(std::fs::metadata(path).unwrap().len()));
    found
}

#[test]
fn a_recording_cut_short_or_emptied_is_a_clear_error() {
    let store = Up::start(2);
    let here = scratch();
    let recording = recorded(&store, here.path());
    for (what, keep) in [("emptied", 0.0), ("cut short", 0.5), ("cut by one byte", 0.9999)] {
        for victim in files(&recording) {
            let whole = std::fs::read(&victim).unwrap();
            std::fs::write(&victim, &whole[..(whole.len() as f64 * keep) as usize]).unwrap();
            let said = run(["explain", text(&recording)]);
            assert!(!said.err.contains("panicked"), "{what} {}: {}", victim.display(), said.err);
            assert!(matches!(said.code, Some(0 | 1)), "{what} {}: {:?}", victim.display(), said.code);
            if victim.to_str().unwrap().contains("spans") || victim.ends_with("meta.json") {
                assert!(said.err.contains("copy.thw"), "{what} {}: {}", victim.display(), said.err);
                assert_eq!(said.code, Some(1), "{what} {}", victim.display());
            }
            std::fs::write(&victim, whole).unwrap();
        }
    }
    run(["explain", text(&recording)]).done();
    let empty = here.path().join("empty.thw");
    std::fs::create_dir(&empty).unwrap();
    run(["explain", text(&empty)]).failed(1, &["empty.thw"]);
    run(["explain", text(&here.path().join("absent.thw"))]).failed(1, &["absent.thw"]);
    run(["explain", text(&here.path().join("source"))]).failed(1, &["source"]);
}

#[test]
fn a_recording_from_a_newer_version_is_a_clear_error() {
    let store = Up::start(2);
    let here = scratch();
    let recording = recorded(&store, here.path());
    let path = recording.join("meta.json");
    let mut meta: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(meta["format"], thalweg_trace::FORMAT_VERSION);
    meta["format"] = 999.into();
    std::fs::write(&path, meta.to_string()).unwrap();
    run(["explain", text(&recording)]).failed(1, &["999", &format!("up to format {}", thalweg_trace::FORMAT_VERSION)]);
}

#[test]
fn a_recording_is_not_written_over() {
    let store = Up::start(2);
    let here = scratch();
    let recording = recorded(&store, here.path());
    let before = std::fs::read(recording.join("meta.json")).unwrap();
    let again = run(["cp", "--quiet", "--record", text(&recording), "--source", "memory:1Mi", &store.path("/again")]);
    again.failed(1, &["copy.thw", "exists"]);
    assert_eq!(std::fs::read(recording.join("meta.json")).unwrap(), before);
    run(["ls", &store.path("/again")]).failed(1, &["/again"]);
}
