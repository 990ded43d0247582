//! `thalweg bench ls`: its short form, an interrupted and resumed study, points that fail, and invalid studies.

use crate::common::{Running, run, scratch, static_part, text, thalweg, wait_until};
use serde_json::Value;
use std::path::Path;

/// Returns the arguments of a short study with its stores below `directory`.
fn words<'a>(directory: &'a Path, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["bench", "ls", "--short", "--directory", text(directory), "--out", text(out)];
    words.extend(more);
    words
}

fn lines(out: &Path) -> Vec<Value> {
    let raw = std::fs::read_to_string(out.join("raw.jsonl")).unwrap_or_default();
    raw.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Returns the points of one method.
fn points<'a>(document: &'a Value, method: &str) -> Vec<&'a Value> {
    document["points"].as_array().unwrap().iter().filter(|point| point["method"] == method).collect()
}

#[test]
fn the_short_form_measures_every_part_and_leaves_nothing() {
    let (stores, results) = (scratch(), scratch());
    let out = results.path().join("study");
    let document = run(words(stores.path(), &out, &["--repeat", "1", "--json"])).done().json();
    assert_eq!(document["schema"], "thalweg.ls-study-result/3");
    let has_fuse = Path::new("/dev/fuse").exists();
    if has_fuse {
        assert_eq!(document["problems"], serde_json::json!([]));
    } else {
        println!("SKIPPED: the part of it through a mount: this machine has no /dev/fuse");
    }
    for method in ["none", "statahead", "glimpse-ahead", "metadata", "thalweg ls -lU"] {
        assert!(points(&document, method).len() >= 2, "{method}");
    }
    // One file at a time costs a request each; read-ahead batches requests.
    let requests =
        |method: &str| points(&document, method).into_iter().map(|p| p["requests_per_file"].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(requests("none").iter().all(|each| *each >= 1.0), "{:?}", requests("none"));
    assert!(requests("glimpse-ahead").iter().all(|each| *each < 0.5), "{:?}", requests("glimpse-ahead"));
    assert!(requests("metadata").iter().all(|each| *each < 0.5), "{:?}", requests("metadata"));
    for point in document["points"].as_array().unwrap() {
        assert!(point["per_file_us"]["median"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["model"]["bound_us"].as_f64().unwrap() > 0.0 && point["bytes_per_file"].as_f64().unwrap() > 0.0, "{point}");
    }
    assert!(document["trends"].as_array().unwrap().iter().any(|trend| trend["method"] == "metadata" && trend["fit"]["slope"].is_object()));
    // Two numbers of workers: of directories and files, two kinds of directories by two batches and the mount; of files that others read,
    // by the library and the mount.
    let ways = 1 + usize::from(has_fuse);
    assert_eq!(document["names"].as_array().unwrap().len(), 2 * (2 * (1 + ways) * 8 + ways * 6));
    let is_read = |n: &&Value| n["phase"] == "file_read" && n["bytes"] == 3901 && n["stride"] == 1;
    assert_eq!(document["names"].as_array().unwrap().iter().filter(is_read).count(), 2 * ways);
    assert!(
        document["crowd"]["p99_ratio"]["median"].as_f64().unwrap() > 0.0
            && document["crowd"]["listed_per_s"]["median"].as_f64().unwrap() > 0.0
    );
    assert_eq!(document["copies"].is_object(), has_fuse);
    assert!(!document["bars"].as_array().unwrap().is_empty());
    let html = std::fs::read_to_string(out.join("ls.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("What was promised") && !static_part(&html).contains("<script"));
    assert!(out.join("ls-mechanisms-loopback.svg").exists() && out.join("ls.md").exists());
    assert!(is_empty(stores.path()), "a store or a tree is left");
    // The page can be generated again identically.
    std::fs::remove_file(out.join("ls.html")).unwrap();
    run(["bench", "redraw", text(&out)]).done();
    assert_eq!(std::fs::read_to_string(out.join("ls.html")).unwrap(), html);
    // Known points are not measured again.
    let known = lines(&out);
    let again = run(words(stores.path(), &out, &["--repeat", "1", "--resume", "--only", "grid,items,targets", "--json"])).done().json();
    assert_eq!(lines(&out), known);
    assert_eq!(again["points"].as_array().unwrap().len(), document["points"].as_array().unwrap().len());
}

#[test]
fn a_study_that_was_stopped_goes_on_where_it_was() {
    let (stores, results) = (scratch(), scratch());
    let out = results.path().join("study");
    let mut first = Running::start(thalweg(words(stores.path(), &out, &["--only", "targets", "--repeat", "4000"])));
    wait_until("some times are taken", || lines(&out).len() >= 8);
    first.signal(libc::SIGINT);
    assert_eq!(first.wait(), Some(130));
    assert!(is_empty(stores.path()), "a store is left");
    let taken = lines(&out);
    // Existing results are neither ignored nor overwritten.
    run(words(stores.path(), &out, &["--only", "targets"])).failed(1, &["--resume"]);
    run(words(stores.path(), &out, &["--only", "targets", "--repeat", "1", "--resume"])).done();
    let all = lines(&out);
    assert_eq!(all[..taken.len()], taken[..]);
    // Two numbers of targets, three methods.
    let first_repetition = all.iter().filter(|line| line["point"]["listing"].is_object() && line["repeat"] == 1).count();
    assert_eq!(first_repetition, 2 * 3);
}

#[test]
fn one_way_that_fails_does_not_lose_the_others() {
    let (stores, results) = (scratch(), scratch());
    let out = results.path().join("study");
    let peers = results.path().join("peers");
    std::fs::create_dir_all(&peers).unwrap();
    // A peer that counts its files, and one that cannot.
    let script = results.path().join("peer");
    let count = format!("#!/bin/sh\necho \"{{\\\"seconds\\\": 0.5, \\\"files\\\": $(ls '{}'/\"$1\" | wc -l)}}\"\n", text(&peers));
    std::fs::write(&script, count).unwrap();
    let stage = results.path().join("stage.toml");
    let peer = |name: &str, list: &str| {
        format!("[[peers]]\nname = \"{name}\"\ndirectory = \"{}\"\nlist = \"{list}\"\nwindows = [1]\ntrips_per_file = 0\n", text(&peers))
    };
    let works = format!("sh {} {{directory}}", text(&script));
    let location = "[[locations]]\nname = \"here\"\nround_trip_us = 0\n";
    std::fs::write(&stage, format!("label = \"a test\"\n{location}{}{}", peer("works", &works), peer("fails", "false"))).unwrap();
    let more = ["--only", "items", "--items", "200x1", "--repeat", "2", "--stage", text(&stage), "--json"];
    let document = run(words(stores.path(), &out, &more)).done().json();
    let problems = document["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem.as_str().unwrap().starts_with("fails, 1 at once from here")), "{problems:?}");
    assert_eq!(points(&document, "works, 1 at once").len(), 1);
    assert_eq!(points(&document, "metadata")[0]["per_file_us"]["values"], 2);
    assert_eq!(document["label"], "a test");
    assert!(is_empty(&peers), "a peer's files are left");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    let (stores, results) = (scratch(), scratch());
    let out = results.path().join("study");
    let with = |more: &[&str]| run(words(stores.path(), &out, more));
    with(&["--only", "walls"]).failed(1, &["part `walls`: expected grid, "]);
    with(&["--datafiles", "0,64"]).failed(1, &["files of 64 datafiles need as many targets, but only 4 are to be started"]);
    with(&["--store", "4by8"]).failed(2, &["expected two numbers like 4x8"]);
    with(&["--stage", "/no/such/stage"]).failed(1, &["/no/such/stage: "]);
    let stage = results.path().join("stage.toml");
    std::fs::write(&stage, "locations = []\n").unwrap();
    with(&["--stage", text(&stage)]).failed(1, &["at least one location"]);
    std::fs::write(&stage, "[[locations]]\nname = \"a\"\nround_trip_us = 0\ndistance = 1\n").unwrap();
    with(&["--stage", text(&stage)]).failed(1, &["distance"]);
    assert!(!out.exists() && is_empty(stores.path()));
    run(["bench", "redraw", text(results.path())]).failed(1, &["expected layout.json or ls.json"]);
}
