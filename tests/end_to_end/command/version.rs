//! `thalweg --version`: one line that names the build, and what is in it.

use crate::bounded::Bounded;
use crate::common::{run, thalweg};
use std::process::Stdio;

#[test]
fn the_version_names_release_and_build_and_what_is_built_in() {
    let short = run(["-V"]).done().out;
    let long = run(["--version"]).done().out;
    let first = concat!("thalweg ", env!("CARGO_PKG_VERSION"), " (");
    assert!(short.starts_with(first) && short.ends_with(")\n") && short.lines().count() == 1, "{short}");
    assert!(long.starts_with(&short), "{long}");
    let row = |name: &str| {
        let found = long.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {long}"));
        found.trim().to_owned()
    };
    for built_in in ["kernel recorder", "PostgreSQL", "PNG"] {
        assert!(["yes", "no"].contains(&row(built_in).as_str()), "{long}");
    }
    assert!(row("target").contains("-linux-") && row("target").contains(", glibc 2."), "{long}");
    assert!(row("formats").contains("recording 2, wire protocol 13, store 2, explanation 1"), "{long}");
    // What it says of itself is true.
    let doctor = run(["doctor", "--json"]).json();
    let recorder = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "recorder bpf").unwrap().to_string();
    assert_eq!(row("kernel recorder") == "no", recorder.contains("not in this build"), "{recorder}");
}

#[test]
fn the_version_is_asked_for_by_the_first_word_only_and_nobody_needs_to_read_it() {
    run(["ls", "--version"]).failed(2, &["--version"]);
    assert!(run(["--help"]).done().out.contains("--version"));
    let mut unread = thalweg(["--version"]);
    let mut child = unread.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let code = crate::bounded::BoundedChild::wait_in_time(&mut child, crate::bounded::LIMIT).unwrap();
    assert_ne!(code.code(), Some(101), "it does not panic");
}

#[test]
fn a_start_defines_only_the_verb_that_is_used() {
    // Each verb still has its own help, its own errors and its own arguments.
    for (verb, flag) in [("cp", "--layout"), ("explain", "--fail-if"), ("lot", "create"), ("tune", "--replay")] {
        assert!(run([verb, "--help"]).done().out.contains(flag), "{verb}");
    }
    run(["cp", "--no-such-flag"]).failed(2, &["--no-such-flag", "thalweg cp"]);
    run(["lot"]).failed(2, &["thalweg lot"]);
    run(["help", "ls"]).done();
    assert!(thalweg(["help", "lot", "create"]).output_in_time().unwrap().status.success());
}
