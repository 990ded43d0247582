//! `thalweg tune`: real commands tuned, resumed after a kill, and commands that cannot be tuned.

use crate::bounded::Bounded;
use crate::common::{CommandOutput, scratch, text, thalweg, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Returns the command that tunes in this directory, with a separate state directory.
fn command(directory: &Path, words: &[&str]) -> std::process::Command {
    let output = directory.join("t");
    let mut command = thalweg([&["tune", "-o", text(&output)], words].concat());
    command.env("XDG_STATE_HOME", directory.join("state")).current_dir(directory);
    command
}

fn tune(directory: &Path, words: &[&str]) -> CommandOutput {
    command(directory, words).output_in_time().expect("the command starts").into()
}

fn document(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(directory.join("t.json")).unwrap()).unwrap()
}

/// A program whose wait shrinks with the requests in flight up to 8, and grows beyond.
const WAITS: &str = "sleep $(awk -v n={requests} 'BEGIN { print 0.4 / (n < 8 ? n : 8) + (n > 8 ? 0.02 * (n - 8) : 0) }')";

#[test]
fn the_best_setting_is_found_and_remembered_and_the_last_line_is_the_command() {
    let directory = scratch();
    let words = ["--vary", "requests=1..32:x2", "--pairs", "3", "--", "sh", "-c", WAITS];
    let said = tune(directory.path(), &words).done();
    let found = document(directory.path());
    let winner = found["winner"]["values"]["requests"].as_str().unwrap().to_owned();
    assert!(["4", "8", "16"].contains(&winner.as_str()), "{}", said.out);
    assert!(found["winner"]["gain"]["low"].as_f64().unwrap() > 1.0, "{found}");
    let last = said.out.lines().last().unwrap();
    assert!(last.contains("sh -c") && last.contains(&format!("n={winner} ")), "{last}");
    assert!(said.out.contains("the default") && said.out.contains("think"), "{}", said.out);
    let runs = found["runs"].as_array().unwrap();
    assert!(runs.len() <= 12 && runs[0]["why"]["reason"] == "default", "{found}");
    // The next tuning starts with the result of this one.
    tune(directory.path(), &words).done();
    let again = document(directory.path());
    assert_eq!(again["runs"][1]["why"]["reason"], "remembered");
    assert_eq!(again["runs"][1]["values"]["requests"], winner.as_str());
}

#[test]
fn a_recipe_is_enough_and_what_its_runs_make_is_removed_and_what_was_there_is_not_touched() {
    let directory = scratch();
    std::fs::write(directory.path().join("from"), vec![7; 1 << 20]).unwrap();
    let said = tune(directory.path(), &["--budget", "4", "--pairs", "2", "--", "dd", "if=from", "of=to"]).done();
    assert!(said.out.lines().last().unwrap().trim_start().starts_with("dd if=from of=to"), "{}", said.out);
    assert!(!directory.path().join("to").exists());
    std::fs::write(directory.path().join("to"), "mine").unwrap();
    tune(directory.path(), &["--", "dd", "if=from", "of=to"]).failed(2, &["to already exists", "--prepare"]);
    assert_eq!(std::fs::read_to_string(directory.path().join("to")).unwrap(), "mine");
}

#[test]
fn what_cannot_be_tuned_is_refused_with_the_reason() {
    let directory = scratch();
    let script = |script: &str, more: &[&str]| {
        let _ = std::fs::remove_file(directory.path().join("t.runs.jsonl"));
        tune(directory.path(), &[&["--no-history", "--vary", "n=1,2,4"], more, &["--", "sh", "-c", script]].concat())
    };
    script("exit 3 # {n}", &[]).failed(1, &["fails as it stands"]);
    script("mkdir once # {n}", &[]).failed(1, &["cannot be repeated", "--cleanup", "{run}"]);
    script("head -c {n}000 /dev/zero > made", &["--bytes", "made"]).failed(1, &["does other work than the default", "--any-bytes"]);
    script("sleep 100 # {n}", &["--timeout", "500ms"]).failed(1, &["time limit"]);
    script("true # {n}", &["--goal", "p99", "--any-bytes"]).failed(1, &["99th percentile"]);
    // Settings that fail do not end the tuning.
    let said = script(
        "test {n} -lt 4 && sleep 0.0$((4 - {n})) && head -c 1000 /dev/zero > made",
        &["--budget", "5", "--pairs", "1", "--bytes", "made"],
    )
    .done();
    assert!(said.out.contains("Fails at: n=4"), "{}", said.out);
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    let directory = scratch();
    let refused = |words: &[&str], says: &[&str]| {
        tune(directory.path(), words).failed(2, says);
    };
    refused(&["--", "true"], &["no recipe for true", "--vary"]);
    refused(&[], &["no command"]);
    refused(&["--vary", "n=1,2", "--budget", "2", "--", "true", "{n}"], &["too small for one comparison"]);
    refused(&["--vary", "n=1,2", "--from", "m=1", "--", "true", "{n}"], &["--from m=1", "one of the names n"]);
    refused(&["--vary", "n=1,2", "--from", "n=3", "--", "true", "{n}"], &["is not one of its values: 1, 2"]);
    refused(&["--vary", "n=1,2", "--kind", "n=speed", "--", "true", "{n}"], &["kinds: streams"]);
    refused(&["--vary", "n=1,2", "--skip", "n == 1", "--", "true", "{n}"], &["excludes the default"]);
    refused(&["--allow", "speed", "--", "dd", "if=a", "of=b"], &["no such parameter"]);
    refused(&["--", "dd", "if=a", "of=b", "count=1"], &["count= counts blocks"]);
    let listed = tune(directory.path(), &["--recipes"]).done();
    for program in ["gridftp", "nfs-cp", "rclone", "xrdcp", "aria2c", "dd", "rsync", "thalweg-cp", "thalweg-mount"] {
        assert!(listed.out.lines().any(|line| line.starts_with(&format!("{program}: "))), "{program}");
    }
}

#[test]
fn a_tuning_that_is_killed_goes_on_and_no_run_is_made_twice() {
    let directory = scratch();
    let log = directory.path().join("made");
    let script = format!("echo {{run}} >> {}; sleep 0.1 # {{requests}}", text(&log));
    let words = ["--no-history", "--pairs", "1", "--budget", "6", "--vary", "requests=1..16:x2", "--", "sh", "-c", &script];
    let mut child = command(directory.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kept = || std::fs::read_to_string(directory.path().join("t.runs.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("two runs are kept", || kept() >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let known = kept();
    tune(directory.path(), &words).failed(2, &["--continue"]);
    tune(directory.path(), &[&["--continue"], &words[..]].concat()).done();
    let text = std::fs::read_to_string(directory.path().join("t.runs.jsonl")).unwrap();
    let keys: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| {
            let run: Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", run["point"], run["subject"], run["repeat"])
        })
        .collect();
    let mut once: Vec<&String> = keys.iter().filter(|key| !key.ends_with(" 0")).collect();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), keys.iter().filter(|key| !key.ends_with(" 0")).count(), "{keys:?}");
    assert!(keys.len() > known, "{text}");
}

#[test]
fn a_sweep_is_tuned_on_again_with_nothing_run() {
    let surface = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tune/surfaces/window.json");
    let directory = scratch();
    let said = tune(directory.path(), &["--replay", text(&surface), "--from", "streams=1,window=64Ki", "--json"]).done();
    let found = said.json();
    assert!(found["winner"]["gain"]["low"].as_f64().unwrap() > 3.0, "{found}");
    assert_eq!(found["replay"], text(&surface));
    tune(directory.path(), &["--replay", "/nowhere.json"]).failed(1, &["/nowhere.json"]);
}
