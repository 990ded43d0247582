//! `explain --try`: applying a proposed change.

use super::{SLOW, SLOW_COPY_BYTES};
use crate::common::{THALWEG, Up, content, file, run, scratch, text};

#[test]
fn nothing_is_run_without_being_agreed_to() {
    let here = scratch();
    let witness = here.path().join("ran");
    run(["explain", "--try", "--", "touch", text(&witness)]).failed(2, &["there is no terminal", "--yes"]);
    run(["explain", "--yes", "--", "touch", text(&witness)]).failed(2, &["--try"]);
    run(["explain", "--try", "x.thw"]).failed(2, &[]);
    assert!(!witness.exists());
}

#[test]
fn a_command_that_consumes_its_input_is_refused_unless_something_restores_it() {
    let here = scratch();
    let (from, to) = (file(here.path(), "from", b"mine"), here.path().join("to"));
    let mv = ["--", "mv", text(&from), text(&to)];
    run([&["explain", "--try", "--yes"], &mv[..]].concat()).failed(2, &["mv takes away what it works on", "--prepare"]);
    run(["explain", "--try", "--yes", "--", "sh", "-c", "cat a && rm a"]).failed(2, &["rm takes away"]);
    assert!(from.exists() && !to.exists());
    // Its input is restored and it runs, but too briefly for a change to be proposed.
    let prepare = format!("cp -n {} {}; mv -f {0} {1} 2>/dev/null; echo x >{1}", text(&to), text(&from));
    run([&["explain", "--try", "--yes", "-n", "2", "--prepare", &prepare], &mv[..]].concat()).failed(1, &["nothing to try"]);
    assert!(to.exists());
}

#[test]
fn an_output_that_is_there_already_is_never_removed() {
    let here = scratch();
    let (from, to) = (file(here.path(), "from", &content(1, 1 << 20)), file(here.path(), "to", b"precious"));
    let (input, output) = (format!("if={}", text(&from)), format!("of={}", text(&to)));
    run(["explain", "--try", "--yes", "--", "dd", &input, &output]).failed(2, &["already exists", "--prepare"]);
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
}

#[test]
fn the_proposed_change_of_a_copy_is_made_and_held_against_its_prediction() {
    let store = Up::start_with(2, 1, SLOW);
    let here = scratch();
    let source = file(here.path(), "a source", &content(5, SLOW_COPY_BYTES));
    let target = store.path("/tried");
    let copy = ["--", THALWEG, "cp", "--quiet", "--force", "--request", "1Mi", "--requests", "1", text(&source), &target];
    // Beside many other programs a copy may wait more for CPUs than for its devices, and nothing is tried.
    let tried = (0..5).find_map(|n| {
        let kept = here.path().join(format!("kept-{n}.thw"));
        let said = run([&["explain", "--try", "--yes", "-n", "3", "-o", text(&kept)], &copy[..]].concat());
        assert!(said.code == Some(0) || said.err.contains("nothing to try"), "{}", said.err);
        (said.code == Some(0)).then_some((said, kept))
    });
    let (said, kept) = tried.expect("one of five copies has a change to try");
    for expected in
        ["to try: ", "3 times each", "unchanged ", "with the change ", "--requests ", "'", " predicted (", " achieved (", " in 3 runs: "]
    {
        assert!(said.err.contains(expected), "`{expected}` in: {}", said.err);
    }
    // The explained recording is kept, and gives the same result.
    let explained = run(["explain", text(&kept)]).done().out;
    let sentence = explained.lines().nth(1).expect("a sentence");
    assert!(said.err.contains(sentence), "`{sentence}` in: {}", said.err);
    // Without --force the second run finds the first one's file.
    let again = ["--", THALWEG, "cp", "--quiet", "--request", "1Mi", "--requests", "1", text(&source), &store.path("/new")];
    let said = run([&["explain", "--try", "--yes", "-n", "2"], &again[..]].concat());
    assert!(
        said.code == Some(1) && (said.err.contains("nothing to try") || said.err.contains("refuses a target that exists")),
        "{}",
        said.err
    );
}

#[test]
fn a_verb_of_ours_records_both_of_its_ends_when_it_is_explained() {
    let store = Up::start_with(2, 1, SLOW);
    let here = scratch();
    let source = file(here.path(), "a source", &content(5, SLOW_COPY_BYTES));
    let kept = here.path().join("kept.thw");
    let copy = ["--", THALWEG, "cp", "--quiet", text(&source), &store.path("/explained")];
    let said = run([&["explain", "--json", "-o", text(&kept)], &copy[..]].concat()).done().out;
    let document: serde_json::Value = serde_json::from_str(&said).expect("a document");
    assert_eq!(document["recorder"], "store", "{said}");
    let command: Vec<&str> = document["command"].as_array().expect("words").iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(command, copy[1..], "as it was given");
    // Options of the recorder apply to this recording.
    let again = ["--", THALWEG, "cp", "--quiet", text(&source), &store.path("/again")];
    let said = run([&["explain", "--json", "--only", "--method", "proc"], &again[..]].concat()).done().out;
    let document: serde_json::Value = serde_json::from_str(&said).expect("a document");
    assert_eq!(document["recorder"], "proc", "{said}");
    // A command that fails before anything is recorded keeps its exit status.
    let missing = here.path().join("missing");
    let said = run(["explain", "--", THALWEG, "cp", text(&missing), &store.path("/x")]);
    assert!(said.code == Some(1) && said.err.contains("missing"), "{:?} {}", said.code, said.err);
}
