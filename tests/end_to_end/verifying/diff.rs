//! `thalweg diff`: two runs compared.

use super::{SLOW, SLOW_COPY_BYTES};
use crate::common::{Up, content, file, run, scratch, static_part, text};
use std::path::{Path, PathBuf};

/// Records a `dd` of the same 64 MiB with these additional operands (with only a few calls their file is not always known).
fn dd(here: &Path, name: &str, operands: &[&str]) -> PathBuf {
    let source = here.join("source");
    if !source.exists() {
        file(here, "source", &content(9, 64 << 20));
    }
    let recording = here.join(name);
    let (input, output) = (format!("if={}", text(&source)), format!("of={}", text(&here.join("copy"))));
    run([&["record", "-o", text(&recording), "--", "dd", &input, &output], operands].concat()).done();
    recording
}

#[test]
fn what_went_and_what_came_is_said_in_text_as_json_and_as_a_page() {
    let here = scratch();
    let (before, after) = (dd(here.path(), "a.thw", &["bs=1M", "oflag=dsync"]), dd(here.path(), "b.thw", &["bs=2M"]));
    let page = here.path().join("diff.html");
    let said = run(["diff", text(&before), text(&after), "-o", text(&page)]).done().out;
    assert!(said.lines().count() <= 15 && said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(said.starts_with("dd ") && said.contains("wall time"), "{said}");
    // Where the scratch directory is in memory, `dsync` is only more calls.
    assert!(said.contains("client.") || said.contains("sync  "), "{said}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.ends_with("</html>\n") && static_part(&html).matches("<svg").count() >= 3, "strips and two pictures");
    assert!(html.contains("id=\"thalweg-header-2\"") && html.contains("\"names\":[\"a\",\"b\"]"), "both recordings are in the page");
    let diff = run(["diff", "--json", text(&before), text(&after)]).done().json();
    assert_eq!(diff["schema"], "thalweg.diff/1");
    let sum: f64 = diff["rows"].as_array().unwrap().iter().filter_map(|row| row["change_s"].as_f64()).sum();
    let change = diff["after"]["wall_s"].as_f64().unwrap() - diff["before"]["wall_s"].as_f64().unwrap();
    assert!((sum - change).abs() < 1e-6 && (diff["change_s"].as_f64().unwrap() - change).abs() < 1e-9, "{sum} {change}");
    // Explanations give the same result as their recordings.
    let json = |name: &str, of: &Path| {
        let path = here.path().join(name);
        run(["explain", "--json", "--to", text(&path), text(of)]).done();
        path
    };
    let (a, b) = (json("a.json", &before), json("b.json", &after));
    assert_eq!(run(["diff", "--json", text(&a), text(&b)]).done().json(), diff);
}

#[test]
fn runs_of_different_work_are_refused_with_the_reason() {
    let here = scratch();
    let (whole, part) =
        (dd(here.path(), "whole.thw", &["bs=1M", "conv=fsync"]), dd(here.path(), "part.thw", &["bs=1M", "count=16", "conv=fsync"]));
    let slept = here.path().join("slept.thw");
    run(["record", "-o", text(&slept), "--", "sleep", "0.1"]).done();
    let refused = run(["diff", text(&whole), text(&slept)]).failed(1, &["not runs of the same work", "dd and sleep", "--anyway"]);
    assert_eq!(refused.out, "");
    run(["diff", text(&whole), text(&part)]).failed(1, &["different amounts"]);
    let anyway = run(["diff", "--anyway", text(&whole), text(&part)]).done();
    assert!(anyway.out.contains("Different work: ") && anyway.out.contains("different amounts"), "{}", anyway.out);
    run(["diff", "--made", "no_such_change", text(&whole), text(&whole)]).failed(2, &["--made no_such_change", "no such change"]);
    run(["diff", text(&whole), "/nonexistent"]).failed(1, &["/nonexistent", "expected a recording"]);
    run(["diff", text(&whole), text(&whole), "-o", "diff.pdf"]).failed(2, &[".html"]);
}

#[test]
fn the_change_that_was_made_is_found_and_held_against_its_prediction() {
    let store = Up::start_with(2, 1, SLOW);
    let here = scratch();
    let source = file(here.path(), "source", &content(5, SLOW_COPY_BYTES));
    let copy = |name: &str, flags: &[&str]| {
        let recording = here.path().join(name);
        let fixed = ["cp", "--quiet", "--force", "--request", "1Mi", "--record", text(&recording)];
        run([&fixed[..], flags, &[text(&source), &store.path("/copied")]].concat()).done();
        recording
    };
    // Beside many other programs a copy may wait more for CPUs than for its devices: then another one is recorded.
    let proposed = (0..5).find_map(|n| {
        let serial = copy(&format!("serial-{n}.thw"), &["--requests", "1"]);
        let document = run(["explain", "--json", text(&serial)]).done().json();
        let proposed = document["what_if"].as_array().unwrap().iter().find(|change| change["flags"].is_array()).cloned();
        Some((serial, proposed?))
    });
    let (serial, proposed) = proposed.expect("a change of flags for one of five serial copies");
    let flags: Vec<&str> =
        proposed["flags"].as_array().unwrap().iter().flat_map(|pair| [&pair[0], &pair[1]]).map(|word| word.as_str().unwrap()).collect();
    let changed = copy("changed.thw", &flags);
    let diff = run(["diff", "--json", text(&serial), text(&changed)]).done().json();
    assert_eq!(diff["made"]["id"], proposed["id"], "{}", diff["made"]);
    assert_eq!(diff["made"]["predicted_s"], proposed["predicted_wall_s"]);
    let said = run(["diff", text(&serial), text(&changed)]).done().out;
    assert!(said.contains("predicted") && said.contains("achieved"), "{said}");
    let none = run(["diff", text(&serial), text(&serial)]).done().out;
    assert!(!none.contains("achieved") && none.contains("as fast as before"), "{none}");
}
