//! `thalweg bench commands`: a plan that is measured, resumed, and invalid plans.

use crate::common::{run, scratch, text};
use std::path::Path;

fn plan(directory: &Path, json: &str) -> String {
    let path = directory.join("plan.json");
    std::fs::write(&path, json).unwrap();
    text(&path).to_owned()
}

#[test]
fn commands_are_compared_by_their_time_and_by_what_they_print() {
    let directory = scratch();
    let path = plan(
        directory.path(),
        r#"{"name": "naps", "baseline": "short", "repeat": {"least": 4, "most": 4}, "amount": {"count": 1024, "unit": "bytes"},
            "commands": [{"name": "short", "command": ["sleep", "0.01"]},
                         {"name": "long", "command": ["sh", "-c", "sleep 0.2; echo '{\"naps\": 3}'"], "figures": ["naps"]}]}"#,
    );
    let raw = directory.path().join("raw.jsonl");
    let words = ["bench", "commands", path.as_str(), "--raw", text(&raw)];
    let document = run([&words[..], &["--json"]].concat()).done().json();
    assert_eq!((document["schema"].as_str(), document["plan"].as_str()), (Some("thalweg.measure/2"), Some("naps")));
    assert!(document["ratios"][0]["ratio"]["low"].as_f64().unwrap() > 1.0, "{document}");
    assert_eq!(document["commands"][1]["figures"]["naps"]["median"], 3.0);
    assert_eq!(document["commands"][0]["runs"].as_array().unwrap().len(), 4);
    // Existing results are not ignored; resumed, nothing runs again.
    run(words).failed(1, &["--resume"]);
    let lines = std::fs::read_to_string(&raw).unwrap();
    let page = run([&words[..], &["--resume"]].concat()).done().out;
    assert!(page.contains("| short / long | wall time |") && page.contains("4 interleaved repetitions"), "{page}");
    assert_eq!(std::fs::read_to_string(&raw).unwrap(), lines);
}

#[test]
fn a_plan_that_cannot_be_meant_and_a_command_that_fails_are_named() {
    let directory = scratch();
    let with = |json: &str| run(["bench", "commands", plan(directory.path(), json).as_str()]);
    with(r#"{"name": "x"}"#).failed(1, &["plan.json: missing field `commands`"]);
    with(r#"{"name": "x", "commands": [{"name": "a", "command": ["true"]}], "baseline": "raw"}"#).failed(1, &["no command is named raw"]);
    with(r#"{"name": "x", "commands": [{"name": "a", "command": ["sh", "-c", "echo the disk is full >&2; exit 3"]}]}"#)
        .failed(1, &["x: a, run 0: sh -c", "the disk is full"]);
    run(["bench", "commands", "/no/such/plan"]).failed(1, &["/no/such/plan: "]);
}
