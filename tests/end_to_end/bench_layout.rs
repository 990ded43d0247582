//! `thalweg bench layout`: a whole study of two nodes on loopback, an interrupted and resumed one, and invalid ones.

use crate::common::{Running, Servers, run, scratch, static_part, stored_bytes, text, thalweg, wait_until};
use serde_json::Value;
use std::path::Path;

/// Returns the arguments of a short study over this store.
fn words<'a>(store: &'a Servers, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["bench", "layout", "--store", text(&store.store), "--out", text(out), "--link-rate", "1Gi"];
    words.extend(["--series", "local,stripe-64k,varstrip-local", "--transfer", "64Ki"]);
    words.extend(more);
    words
}

fn lines(out: &Path) -> Vec<Value> {
    let raw = std::fs::read_to_string(out.join("raw.jsonl")).unwrap_or_default();
    let whole = raw.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok());
    whole.collect()
}

#[test]
fn a_study_keeps_every_time_with_its_caches_and_its_explanation() {
    let store = Servers::start(2);
    let directory = scratch();
    let out = directory.path().join("study");
    let more = ["--sizes", "256Ki,1Mi", "--repeat", "2", "--patterns", "ior-strided,ior-random", "--pattern-size", "256Ki", "--json"];
    let document = run(words(&store, &out, &more)).done().json();
    assert_eq!(document["schema"], "thalweg.layout-study-result/2");
    assert_eq!(document["nodes"], serde_json::json!(["node0", "node1"]));
    assert_eq!(document["problems"], serde_json::json!([]));
    // Three series at two sizes, two more patterns, written and read.
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), (3 * 2 + 3 * 2) * 2);
    for point in points {
        assert_eq!(point["nodes"].as_array().unwrap().len(), 2, "{point}");
        assert_eq!(point["rate_bytes_per_s"]["values"], 4, "{point}");
        let in_store = point["via"] == "library";
        assert_eq!(point["explanation"].is_object(), in_store, "{point}");
        assert_eq!(point["predicted_bytes_per_s"].is_number() && point["of_local"].is_object(), in_store, "{point}");
        assert_eq!(point["cache"].is_object(), point["operation"] == "read", "{point}");
    }
    // One line per run: both operations of both nodes.
    let runs = lines(&out);
    assert_eq!(runs.len(), points.len() / 2 * 2);
    assert!(runs.iter().all(|run| run["sample"].as_array().unwrap().len() == 2 * 2), "{}", runs[0]);
    assert!(document["bars"].as_array().unwrap().iter().any(|bar| bar["what"].as_str().unwrap().starts_with("read: node1 on its own")));
    let html = std::fs::read_to_string(out.join("layout.html")).unwrap();
    assert!(html.contains("<svg") && static_part(&html).contains("Where the time went") && html.contains("\"view\":\"layout\""));
    assert!(out.join("layout-library-read.svg").exists() && out.join("layout.md").exists());
    // The study leaves nothing in the store.
    assert_eq!(run(["ls", "--store", text(&store.store), "/"]).done().out, "");
    wait_until("the datafiles are removed", || (0..2).all(|n| stored_bytes(&store.directory().join(format!("io{n}"))) == 0));
    // The page can be generated again identically.
    std::fs::remove_file(out.join("layout.html")).unwrap();
    run(["bench", "redraw", text(&out)]).done();
    assert_eq!(std::fs::read_to_string(out.join("layout.html")).unwrap(), html);
}

#[test]
fn a_study_that_was_stopped_goes_on_where_it_was() {
    let store = Servers::start(2);
    let directory = scratch();
    let out = directory.path().join("study");
    let more = ["--sizes", "256Ki", "--repeat", "400", "--no-explain"];
    let mut first = Running::start(thalweg(words(&store, &out, &more)));
    wait_until("some times are taken", || lines(&out).len() >= 4);
    first.signal(libc::SIGINT);
    assert_eq!(first.wait(), Some(130));
    let taken = lines(&out);
    assert!(taken.len() >= 4);
    // Existing results are neither ignored nor overwritten.
    let again = run(words(&store, &out, &more)).failed(1, &["--resume"]);
    assert!(again.out.is_empty());
    let repetitions = taken.iter().filter_map(|line| line["repeat"].as_u64()).max().unwrap();
    let repeat = repetitions.to_string();
    let fewer = ["--sizes", "256Ki", "--repeat", repeat.as_str(), "--no-explain", "--resume"];
    run(words(&store, &out, &fewer)).done();
    let all = lines(&out);
    assert_eq!(all[..taken.len()], taken[..]);
    for repeat in 1..=repetitions {
        let mut found: Vec<&str> =
            all.iter().filter(|run| run["repeat"] == repeat).map(|run| run["subject"]["series"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, ["local", "stripe-64k", "varstrip-local"], "repetition {repeat}");
    }
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    let store = Servers::start(2);
    let directory = scratch();
    let out = directory.path().join("study");
    let with = |more: &[&str]| run(words(&store, &out, more));
    with(&["--patterns", "diagonal"]).failed(1, &["pattern `diagonal`: expected part, "]);
    with(&["--nodes", "node0,elsewhere"]).failed(1, &["node elsewhere has no target in this store"]);
    with(&["--run-on", "/no/such/program"]).failed(1, &["node node0: cannot start `/no/such/program "]);
    with(&["--run-on", "false"]).failed(1, &["node node0: its process has ended"]);
    run(["bench", "layout", "--store", "thal://127.0.0.1:1"]).failed(2, &["--nodes"]);
    assert!(!out.exists());
}
