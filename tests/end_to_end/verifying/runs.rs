//! `explain -n`: several runs of one command.

use crate::common::{run, scratch, text};

#[test]
fn the_median_of_several_runs_is_explained_with_what_all_say() {
    let here = scratch();
    let (log, kept) = (here.path().join("log"), here.path().join("median.thw"));
    let note = |what: &str| format!("echo {what} >>{}", text(&log));
    let script = format!("{}; sleep 0.2", note("run"));
    let around = ["--prepare", &note("prepare"), "--cleanup", &note("cleanup")];
    let command = ["--", "sh", "-c", &script];
    let said = run([&["explain", "-n", "3", "-o", text(&kept)], &around[..], &command[..]].concat()).done();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "prepare\nrun\nprepare\nrun\nprepare\nrun\ncleanup\n");
    assert!(said.err.lines().count() <= 15 && said.err.lines().all(|line| line.chars().count() <= 80), "{}", said.err);
    assert!(said.err.contains("3 runs: ") && said.err.contains("median ") && said.err.contains(" %)  think"), "{}", said.err);
    // The recording kept is that of the explained run.
    let json = run([&["explain", "-n", "3", "--json"], &command[..]].concat()).done().json();
    let runs = &json["repeated"];
    let times: Vec<f64> = serde_json::from_value(runs["wall_s"].clone()).unwrap();
    let explained = runs["explained"].as_u64().unwrap() as usize;
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!((times.len(), times[explained - 1], json["wall_s"].as_f64()), (3, sorted[1], Some(sorted[1])));
    assert_eq!(runs["shares"].as_array().map(Vec::len), json["summary"]["rows"].as_array().map(Vec::len));
    let alone = run(["explain", "--json", text(&kept)]).done().json();
    assert!(said.err.contains(&format!("{:.0} ms", alone["wall_s"].as_f64().unwrap() * 1e3)), "{alone} in {}", said.err);
}

#[test]
fn a_run_that_fails_ends_it_with_the_commands_exit_code_and_is_named() {
    let here = scratch();
    let (count, cleaned) = (here.path().join("count"), here.path().join("cleaned"));
    let script = format!("echo x >>{0}; test $(wc -l <{0}) -lt 2 || exit 7", text(&count));
    let cleanup = format!("touch {}", text(&cleaned));
    let said = run(["explain", "-n", "4", "--cleanup", &cleanup, "--", "sh", "-c", &script]);
    said.failed(7, &["run 2 of 4 failed with exit code 7"]);
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
    assert!(cleaned.exists(), "what was prepared is cleaned up");
    let said = run(["explain", "-n", "2", "--prepare", "exit 3", "--", "touch", text(&here.path().join("ran"))]);
    said.failed(1, &["--prepare 'exit 3'", "before run 1 of 2", "exit status: 3"]);
    assert!(!here.path().join("ran").exists());
}

#[test]
fn several_runs_of_a_recording_make_no_sense() {
    for flag in [["-n", "3"], ["--prepare", "true"], ["--cleanup", "true"]] {
        run([&["explain"], &flag[..], &["x.thw"]].concat()).failed(2, &["cannot be used with", "RECORDING"]);
    }
    run(["explain", "-n", "0", "--", "true"]).failed(2, &["at least 1"]);
}
