//! Explanations for unprivileged users: chains are followed as far as visible, and the invisible is not blamed on anything.

use super::methods::{Unprivileged, seconds, share, sound, taken_away};
use crate::bounded::Bounded;
use crate::common::{content, file, is_root, run, skipped, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Explains a command as nobody; returns the explanation and the notes.
#[track_caller]
fn explained(nobody: &Unprivileged, method: &str, command: &[&str]) -> (Value, String) {
    let json = nobody.directory.path().join("explanation.json");
    let recording = nobody.directory.path().join("recording.thw");
    let _ = std::fs::remove_dir_all(&recording);
    let options = ["explain", "--json", "--to", text(&json), "--method", method, "-o", text(&recording), "--"];
    let output = nobody.command(&[&options[..], command].concat()).output_in_time().expect("it runs");
    assert!(output.status.success(), "{method}: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&std::fs::read(&json).expect("explained")).expect("a document");
    sound(&document, method);
    (document, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a setting for an unprivileged user; `None`, with the reason printed, if that is impossible.
fn nobody() -> Option<Unprivileged> {
    if !is_root() || !Command::new("setpriv").arg("--version").output_in_time().is_ok_and(|output| output.status.success()) {
        skipped("needs root and setpriv, to become nobody");
        return None;
    }
    Some(Unprivileged::new())
}

/// Compiles a static program; `None`, with the reason printed, if that is impossible.
fn static_program(nobody: &Unprivileged, name: &str, source: &str) -> Option<String> {
    let source = file(nobody.directory.path(), &format!("{name}.c"), source.as_bytes());
    let program = nobody.directory.path().join(name);
    let compiled = Command::new("cc").args(["-static", "-o", text(&program), text(&source)]).output_in_time();
    if !compiled.is_ok_and(|output| output.status.success()) {
        skipped("no C compiler with a static C library");
        return None;
    }
    Some(text(&program).to_owned())
}

/// Checks that most of `slept_s` is charged in two of three runs: /proc is polled rarely on a busy machine, and more is unknown then. No
/// run may guess: everything but the truth is unknown, or charged to the visible part of it.
#[track_caller]
fn is_seen(mut explain: impl FnMut() -> Value, truth: &str, half_seen: Option<&str>, slept_s: f64) {
    let mut paths = Vec::new();
    for _ in 0..3 {
        let document = explain();
        let seen = share(&document, truth);
        let not_known = share(&document, "unknown") + half_seen.map_or(0.0, |cause| share(&document, cause));
        assert!(not_known + seen + taken_away(&document) >= 0.6, "neither seen nor unknown: {}", document["critical_path"]);
        if seconds(&document, truth) < 0.6 * slept_s {
            paths.push(document["critical_path"].clone());
        }
    }
    assert!(paths.len() <= 1, "{truth} was not seen in {} of three tries: {paths:#?}", paths.len());
}

const NAPS: &str = "import time\nfor _ in range(8):\n    time.sleep(0.1)\n    print('x' * 100, flush=True)";

#[test]
fn a_slow_writer_is_followed_through_its_pipe() {
    let Some(nobody) = nobody() else { return };
    file(nobody.directory.path(), "naps.py", NAPS.as_bytes());
    for method in ["proc", "preload", "user"] {
        let explain = || {
            let (document, _) = explained(&nobody, method, &["sh", "-c", "/usr/bin/python3 naps.py | tr x y | cat > /dev/null"]);
            assert!(share(&document, ".lock") <= 0.2, "{method}: {}", document["critical_path"]);
            document
        };
        is_seen(explain, ".think", None, 0.8);
    }
}

#[test]
fn a_static_child_is_followed_by_either_recorder() {
    let Some(nobody) = nobody() else { return };
    let Some(nap) = static_program(&nobody, "nap", "#include <unistd.h>\nint main(void) { return usleep(900000); }\n") else { return };
    for method in ["proc", "preload", "user"] {
        let explain = || explained(&nobody, method, &["sh", "-c", &format!("{nap}; true")]).0;
        is_seen(explain, ".think", None, 0.8);
    }
}

#[test]
fn the_holder_of_a_file_lock_is_followed() {
    let Some(nobody) = nobody() else { return };
    let script = "flock lock sleep 0.9 & sleep 0.2; flock lock true; wait";
    let explain = || explained(&nobody, "proc", &["sh", "-c", script]).0;
    is_seen(explain, ".think", Some(".lock"), 0.9);
}

/// Reads a whole file slowly, without a distinction between its last part and its exit.
const READS: &str = "#include <fcntl.h>\n#include <unistd.h>\nstatic char block[1 << 20];\nint main(int n, char **words) {\n\
    int file = open(words[n - 1], O_RDONLY);\n    while (read(file, block, sizeof block) > 0) usleep(10000);\n    return 0;\n}\n";

#[test]
fn the_bytes_of_a_static_program_are_those_of_its_file() {
    let Some(nobody) = nobody() else { return };
    let Some(reads) = static_program(&nobody, "reads", READS) else { return };
    let size = 40 << 20;
    let source = file(nobody.directory.path(), "source", &content(7, size));
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    // The last reads before its exit may be missed on a busy machine; more than exist are never reported.
    let mut totals = Vec::new();
    while totals.len() < 3 && totals.last() != Some(&(size as u64)) {
        explained(&nobody, "proc", &[&reads, text(&source)]);
        let csv = nobody.directory.path().join("csv");
        let _ = std::fs::remove_dir_all(&csv);
        run(["export", text(&nobody.directory.path().join("recording.thw")), "--to", "csv", "-o", text(&csv)]).done();
        let column =
            |table: &str, name: &str| table.lines().next().and_then(|line| line.split(',').position(|c| c == name)).expect("a column");
        let objects = std::fs::read_to_string(csv.join("objects.csv")).expect("exported");
        let ours = objects.lines().find(|line| line.contains(text(&source))).expect("the file is named");
        let object = ours.split(',').nth(column(&objects, "object")).expect("a number");
        let spans = std::fs::read_to_string(csv.join("spans.csv")).expect("exported");
        let (of, bytes) = (column(&spans, "object"), column(&spans, "size_bytes"));
        let rows = spans.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let total: u64 = rows.filter(|row| row[of] == object).filter_map(|row| row[bytes].parse::<u64>().ok()).sum();
        assert!(total <= size as u64, "{total} of {size} bytes");
        totals.push(total);
    }
    assert_eq!(totals.last(), Some(&(size as u64)), "{totals:?}");
}

/// Works and sleeps alternately, is stopped for a while, and finally prints its CPU time in nanoseconds.
const BY_TURNS: &str = r#"
import os, signal, subprocess, time
helper = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -STOP {os.getpid()}; sleep 0.5; kill -CONT {os.getpid()}"])
for _ in range(10):
    began = time.thread_time()
    while time.thread_time() - began < 0.03:
        pass
    time.sleep(0.03)
print(time.thread_time_ns())
"#;

#[test]
fn running_is_what_the_thread_ran_and_waiting_is_the_rest() {
    let Some(nobody) = nobody() else { return };
    file(nobody.directory.path(), "turns.py", BY_TURNS.as_bytes());
    for method in ["proc", "preload", "user"] {
        // A recorder that looks now and then may miss, on a busy machine, that the program was stopped.
        let mut wrong = Vec::new();
        while wrong.len() < 3 && wrong.last() != Some(&None) {
            let (document, said) = explained(&nobody, method, &["/usr/bin/python3", "turns.py"]);
            wrong.push(beside_what_ran(&document, said.trim().parse::<f64>().expect("nanoseconds") / 1e9));
        }
        assert_eq!(wrong.last(), Some(&None), "{method}: {wrong:#?}");
    }
}

/// Returns what is wrong in the shares of running and waiting of a program that ran `ran_s`, if anything.
fn beside_what_ran(document: &Value, ran_s: f64) -> Option<String> {
    let wall_s = document["wall_s"].as_f64().expect("a wall time");
    let path = &document["critical_path"];
    let running_s = seconds(document, ".cpu") + seconds(document, ".metadata");
    let no_wait_s = running_s + seconds(document, ".runqueue") + seconds(document, "recorder") + seconds(document, "unknown");
    // Its counts exclude starting and ending; unknown time is not blamed on a wait.
    if wall_s - no_wait_s > wall_s - ran_s + 0.05 * wall_s {
        return Some(format!("waited too long, having run {ran_s} of {wall_s} s: {path}"));
    }
    (running_s > ran_s + 0.15 * wall_s).then(|| format!("ran too long, {ran_s} of {wall_s} s: {path}"))
}
