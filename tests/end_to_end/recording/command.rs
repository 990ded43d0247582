//! `record -- COMMAND` and `explain -- COMMAND`: the command runs as it would without recording, and its exit status becomes ours.

use crate::bounded::{Bounded, BoundedChild};
use crate::common::{Running, file, run, scratch, text, thalweg, wait_until};
use std::ffi::CString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Creates a FIFO on which a command waits for the test.
fn gate(directory: &Path) -> PathBuf {
    let path = directory.join("gate");
    let name = CString::new(text(&path)).expect("no zero in it");
    // SAFETY: the name is a terminated string; mkfifo has no other preconditions.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

/// Lets the process that waits at the gate continue.
fn open(gate: &Path) {
    std::fs::write(gate, "go\n").expect("somebody reads");
}

fn recordings(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("it can be read").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|x| x == "thw")).collect()
}

/// Size of a recording before any event: the segment's header, and the machine.
const FIRST_ROWS_BYTES: u64 = 400;

/// Returns the size of an unfinished recording on disk.
fn segment_bytes(recording: &Path) -> u64 {
    let entries = std::fs::read_dir(recording.join("segments")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
}

/// Returns the command with `sh -c SCRIPT`.
fn recording_shell(recording: &Path, script: &str) -> Command {
    thalweg(["record", "-o", text(recording), "--", "sh", "-c", script])
}

#[test]
fn the_commands_exit_code_is_ours() {
    let here = scratch();
    for (number, (script, code)) in [("true", 0), ("false", 1), ("exit 3", 3), ("exit 255", 255)].into_iter().enumerate() {
        let recording = here.path().join(format!("{number}.thw"));
        let said = run(["record", "-o", text(&recording), "--", "sh", "-c", script]);
        assert_eq!(said.code, Some(code), "{script}: {}", said.err);
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(recording.join("meta.json")).unwrap()).unwrap();
        assert_eq!((&meta["exit_code"], meta["end"].is_null()), (&code.into(), false), "{script}");
        assert_eq!(run(["explain", "--", "sh", "-c", script]).code, Some(code), "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_or_not_executable_ends_as_a_shell_says_and_leaves_nothing() {
    let here = scratch();
    let plain = file(here.path(), "plain", b"no program");
    let recording = here.path().join("none.thw");
    for verb in ["record", "explain"] {
        run([verb, "-o", text(&recording), "--", "no-such-program-anywhere"]).failed(127, &["no-such-program-anywhere", "not found"]);
        run([verb, "-o", text(&recording), "--", text(&plain)]).failed(126, &["plain"]);
        run([verb, "-o", text(&recording), "--", text(here.path())]).failed(126, &[text(here.path())]);
    }
    assert!(!recording.exists(), "nothing was run, and something was left");
}

/// Resets a signal that may be ignored, as under `nohup`, so that the tests' children do not inherit that.
fn heed(signal: i32) {
    // SAFETY: sets the default action of a signal; no handler of ours is replaced.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[test]
fn a_command_that_a_signal_ends_ends_us_by_the_same_signal() {
    let here = scratch();
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGHUP] {
        heed(signal);
        let recording = here.path().join(format!("{signal}.thw"));
        let output = recording_shell(&recording, &format!("ulimit -c 0; kill -{signal} $$")).output_in_time().expect("it starts");
        assert_eq!(output.status.signal(), Some(signal), "{}", String::from_utf8_lossy(&output.stderr));
        let meta = std::fs::read_to_string(recording.join("meta.json")).unwrap();
        assert!(meta.contains("\"end\"") && !meta.contains("\"end\": null"), "the recording was finished first: {meta}");
    }
}

#[test]
fn the_commands_input_and_output_are_its_own() {
    let here = scratch();
    let recording = here.path().join("a.thw");
    let mut command = recording_shell(&recording, "cat; printf 'an error' >&2; exit 5");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"what came in\0\xff").unwrap();
    let output = child.output_in_time().unwrap();
    assert_eq!(output.stdout, b"what came in\0\xff");
    assert!(String::from_utf8_lossy(&output.stderr).contains("an error"));
    assert_eq!(output.status.code(), Some(5));
    // An explanation does not interfere.
    let said = run(["explain", "--", "echo", "mine"]).done();
    assert_eq!(said.out, "mine\n");
    assert!(said.err.contains("echo mine: "), "{}", said.err);
    let said = run(["explain", "-v", "--", "echo", "mine"]).done();
    assert!(said.out == "mine\n" && said.err.contains("wall time"), "{}", said.err);
}

#[test]
fn the_short_explanation_of_any_command_fits_and_says_first_how_it_ended() {
    let short = |script: &str| {
        let said = run(["explain", "--", "sh", "-c", script]);
        assert!(said.err.lines().count() <= 15 && said.err.lines().all(|line| line.chars().count() <= 80), "{script}: {}", said.err);
        said.err
    };
    let nothing = short("true");
    assert!(!nothing.contains("->") && nothing.contains("too short to advise on"), "{nothing}");
    assert!(short("sleep 0.1; exit 7").lines().next().is_some_and(|line| line.contains("failed with exit code 7")));
    assert!(short("sleep 0.1; kill -KILL $$").lines().next().is_some_and(|line| line.contains("killed by SIGKILL")));
    let slept = short("sleep 0.2");
    assert!(slept.contains("%  think ") && !slept.contains("client") && !slept.contains("server"), "{slept}");
}

#[test]
fn json_of_a_command_goes_where_it_is_told() {
    let here = scratch();
    let to = here.path().join("explanation.json");
    let said = run(["explain", "--json", "--to", text(&to), "--", "echo", "mine"]).done();
    assert_eq!(said.out, "mine\n");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&to).unwrap()).unwrap();
    assert_eq!(document["schema"], "thalweg.explain/1");
    let quiet = run(["explain", "--json", "--", "true"]).done();
    assert_eq!(quiet.json()["command"][0], "true");
    let witness = here.path().join("ran");
    run(["explain", "--to", "/nonexistent/x", "--", "touch", text(&witness)]).failed(1, &["/nonexistent/x"]);
    assert!(!witness.exists(), "that nothing can be written there was known before");
}

#[test]
fn what_is_asked_for_wrongly_runs_nothing() {
    let here = scratch();
    let witness = here.path().join("ran");
    let taken = here.path().join("taken.thw");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "precious").unwrap();
    let touch = ["--", "touch", text(&witness)];
    run([&["record", "-o", text(&taken)], &touch[..]].concat()).failed(1, &["taken.thw", "not empty"]);
    run([&["record", "-o", "/proc/nowhere/a.thw"], &touch[..]].concat()).failed(1, &["/proc/nowhere"]);
    run([&["record", "--server", "--port", "1"], &touch[..]].concat()).failed(2, &["port"]);
    run([&["record", "--also", "no such process"], &touch[..]].concat()).failed(2, &["no such process"]);
    run([&["record", "--ceilings", "/nonexistent.json"], &touch[..]].concat()).failed(1, &["/nonexistent.json"]);
    run([&["record", "--limit", "0"], &touch[..]].concat()).failed(2, &["limit"]);
    run([&["record", "--port", "2049"], &touch[..]].concat()).failed(2, &["--server"]);
    run(["record"]).failed(2, &["command"]);
    run(["explain"]).failed(2, &["RECORDING"]);
    run([&["explain", "x.thw"], &touch[..]].concat()).failed(2, &[]);
    run(["explain", "--tier", "syscall", text(&taken)]).failed(2, &["COMMAND"]);
    assert!(!witness.exists(), "a command was run");
    assert_eq!(std::fs::read(taken.join("mine")).unwrap(), b"precious");
    assert_eq!(recordings(here.path()), [taken]);
}

#[test]
fn without_a_name_the_recording_has_the_commands_and_the_time() {
    let here = scratch();
    let said: crate::common::CommandOutput = thalweg(["record", "--", "true"]).current_dir(here.path()).output_in_time().unwrap().into();
    let said = said.done();
    let made = recordings(here.path());
    let [made] = made.as_slice() else { panic!("{made:?}") };
    let name = made.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("true-2") && said.err.contains(name), "{name}: {}", said.err);
    run(["explain", text(made)]).done();
}

#[test]
fn a_command_that_closes_all_descriptors_is_recorded_all_the_same() {
    let here = scratch();
    let witness = here.path().join("ran");
    let script = "for fd in 0 1 2 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done; : >\"$0\"; exit 4";
    let said = run(["record", "-o", text(&here.path().join("a.thw")), "--", "sh", "-c", script, text(&witness)]);
    assert_eq!((said.code, witness.exists()), (Some(4), true), "{}", said.err);
    run(["explain", text(&here.path().join("a.thw"))]).done();
}

#[test]
fn the_command_has_the_descriptors_it_would_have_without_us() {
    let list = ["sh", "-c", "ls /proc/$$/fd"];
    let plain = Command::new(list[0]).args(&list[1..]).stdin(Stdio::null()).output_in_time().unwrap();
    let recording = scratch().path().join("a.thw");
    let recorded = run([&["record", "-o", text(&recording), "--"], &list[..]].concat()).done();
    assert_eq!(recorded.out, String::from_utf8_lossy(&plain.stdout));
}

#[test]
fn a_child_that_outlives_the_command_does_not_hold_the_recording_up() {
    let here = scratch();
    let (gate, out, recording) = (gate(here.path()), here.path().join("out"), here.path().join("a.thw"));
    let script = format!("(cat {0}; echo done) >{1} 2>/dev/null & exit 6", text(&gate), text(&out));
    let output = recording_shell(&recording, &script).output_in_time().unwrap();
    assert_eq!(output.status.code(), Some(6));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("still running"), "{told}");
    run(["explain", text(&recording)]).done();
    open(&gate);
    wait_until("the child has gone on unharmed", || std::fs::read_to_string(&out).is_ok_and(|t| t == "go\ndone\n"));
}

#[test]
fn killing_the_recorder_does_not_harm_the_command_and_its_recording_opens() {
    let here = scratch();
    let (gate, out, recording) = (gate(here.path()), here.path().join("out"), here.path().join("a.thw"));
    let script = format!(
        "echo begun; dd if=/dev/zero of={1}.data bs=64k count=64 2>/dev/null; read x <{0}; cat {1}.data | wc -c >{1}.new; mv {1}.new {1}",
        text(&gate),
        text(&out)
    );
    let mut process = Running::start(recording_shell(&recording, &script));
    assert_eq!(process.line(), "begun");
    wait_until("the first events are on disk", || segment_bytes(&recording) > FIRST_ROWS_BYTES);
    process.kill();
    open(&gate);
    wait_until("the command has ended its work", || std::fs::read_to_string(&out).is_ok_and(|t| t.trim() == "4194304"));
    let said = run(["explain", text(&recording)]);
    assert!(matches!(said.code, Some(0 | 1)) && !said.err.contains("panicked"), "{}{}", said.out, said.err);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn signals_are_the_commands_to_answer() {
    let here = scratch();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        heed(signal);
        let recording = here.path().join(format!("{signal}.thw"));
        let script = format!("trap 'exit 7' {signal}; echo ready; while :; do sleep 0.01; done");
        let mut process = Running::start(recording_shell(&recording, &script));
        assert_eq!(process.line(), "ready");
        process.signal(signal);
        assert_eq!(process.wait(), Some(7), "signal {signal}");
        run(["explain", text(&recording)]).done();
    }
}

#[test]
fn a_recording_that_is_to_end_early_leaves_the_command_alone() {
    let here = scratch();
    let (gate, recording) = (gate(here.path()), here.path().join("a.thw"));
    let script = format!("read x <{}; exit 9", text(&gate));
    let mut process = Running::start(thalweg(["record", "--for", "100ms", "-o", text(&recording), "--", "sh", "-c", &script]));
    let finished = || std::fs::read_to_string(recording.join("meta.json")).is_ok_and(|meta| !meta.contains("\"end\": null"));
    wait_until("the recording has ended", finished);
    assert!(process.runs(), "the command went on");
    open(&gate);
    assert_eq!(process.wait(), Some(9));
    run(["explain", text(&recording)]).done();
}

#[test]
fn a_recording_keeps_to_its_limit_and_says_what_it_lost() {
    let here = scratch();
    let recording = here.path().join("a.thw");
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    let said = run(["record", "--limit", "2Ki", "-o", text(&recording), "--", "sh", "-c", script]).done();
    assert!(said.err.contains("lost"), "{}", said.err);
    let document = run(["explain", "--json", text(&recording)]).done().json();
    assert!(document["dropped_events"].as_u64() > Some(0), "{document}");
}
