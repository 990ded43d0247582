//! `explain --fail-if`: conditions and their exit code.

use crate::common::{content, file, run, scratch, text};

#[test]
fn a_condition_that_holds_is_exit_code_3_with_one_line_why() {
    let slept = ["--", "sleep", "0.2"];
    let said = |condition: &str| run([&["explain", "--fail-if", condition], &slept[..]].concat());
    let failed = said("wall > 100ms").failed(3, &["--fail-if 'wall > 100ms': it took "]);
    assert_eq!(failed.err.lines().filter(|line| line.contains("--fail-if")).count(), 1, "{}", failed.err);
    said("share(client.think) > 50%").failed(3, &["the share is "]);
    said("share(think) < 1%").done();
    said("wall > 100s").done();
    said("share(network) > 20%").done();
    let both = run([&["explain", "--json", "--fail-if", "wall > 100s", "--fail-if", "wall > 1ms"], &slept[..]].concat());
    assert_eq!(both.json()["schema"], "thalweg.explain/1");
    both.failed(3, &["'wall > 1ms'"]);
}

#[test]
fn rates_are_of_what_was_moved_and_nothing_is_judged_where_nothing_was() {
    let here = scratch();
    let source = file(here.path(), "a", &content(3, 64 << 20));
    let (input, output) = (format!("if={}", text(&source)), format!("of={}", text(&here.path().join("b"))));
    let copy = ["--", "dd", &input, &output, "bs=1M", "conv=fsync"];
    run([&["explain", "--fail-if", "rate < 1000000Gb/s"], &copy[..]].concat()).failed(3, &["the rate is "]);
    run([&["explain", "--fail-if", "rate < 1Ki"], &copy[..]].concat()).done();
    run(["explain", "--fail-if", "rate < 1GiB/s", "--", "sleep", "0.1"]).failed(1, &["'rate < 1GiB/s' cannot be judged", "no moved bytes"]);
}

#[test]
fn a_command_that_fails_keeps_its_own_exit_code() {
    let said = run(["explain", "--fail-if", "wall > 1ms", "--", "sh", "-c", "sleep 0.1; exit 7"]);
    assert!(!said.err.contains("--fail-if"), "{}", said.err);
    said.failed(7, &[]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_the_command_runs() {
    let here = scratch();
    let witness = here.path().join("ran");
    let refused = |code: i32, condition: &str, says: &[&str]| {
        run(["explain", "--fail-if", condition, "--", "touch", text(&witness)]).failed(code, says);
        assert!(!witness.exists(), "{condition}: the command was run");
    };
    refused(2, "speed < 3", &["speed", "expected 'rate < 500MiB/s'"]);
    refused(2, "share(server.mood) > 20%", &["server.mood: no such cause"]);
    refused(2, "wall > soon", &["soon: expected a time"]);
    refused(1, "slower than /nonexistent.json by 5%", &["/nonexistent.json", "expected a recording, or an explanation"]);
}

#[test]
fn a_run_is_held_against_an_earlier_one() {
    let here = scratch();
    let (json, recording) = (here.path().join("baseline.json"), here.path().join("baseline.thw"));
    run(["explain", "--json", "--to", text(&json), "-o", text(&recording), "--", "sleep", "0.1"]).done();
    for baseline in [&json, &recording] {
        let slower = format!("slower than {} by 50%", text(baseline));
        run(["explain", "--fail-if", &slower, "--", "sleep", "0.4"]).failed(3, &["slower than", " against ", "% slower"]);
        run(["explain", "--fail-if", &slower, "--", "sleep", "0.01"]).done();
        // A recording is judged like a command.
        run(["explain", "--fail-if", &slower, text(&recording)]).done();
    }
}
