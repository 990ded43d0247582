//! Promises of a run to the command, whatever the recorder: it runs as it would alone, and its end is recorded
//! correctly.

use crate::bounded::{Bounded, BoundedChild, LIMIT, Lines};
use crate::common::{self, command, compile, is_root, run, spans, until};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use thalweg_trace::{Recording, Source};

/// Recorders available on any machine.
const METHODS: [&str; 2] = ["preload", "proc"];

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn the_commands_own_exit_code_is_returned_and_its_output_is_its_own() {
    for method in METHODS {
        let directory = directory();
        let ran = run(directory.path(), &["--method", method], &["sh", "-c", "echo out; echo err >&2; exit 42"]);
        assert_eq!((ran.code(), ran.out().as_str()), (Some(42), "out\n"), "{}", ran.said());
        assert!(ran.said().starts_with("err\n"), "{}", ran.said());
        let recording = ran.recording();
        assert_eq!(recording.meta().exit_code, Some(42));
        assert_eq!(recording.meta().recorder, method);
        let end = recording.meta().end.expect("finished");
        assert!(end > recording.meta().start);
        assert!(recording.hosts()[0].clock.starts_with("monotonic:"));
    }
}

#[test]
fn a_command_that_cannot_be_run_has_a_shells_exit_code_and_leaves_no_recording() {
    let directory = directory();
    for (word, code) in [("/no/such/program", 127), ("no-such-program-here", 127), ("/etc/passwd", 126), ("/etc", 126)] {
        let ran = run(directory.path(), &["--method", "proc"], &[word]);
        assert_eq!(ran.code(), Some(code), "{}", ran.said());
        assert!(!ran.path.exists());
    }
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("written");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let ran = run(directory.path(), &["--method", "proc"], &[&script.to_string_lossy()]);
    assert_eq!(ran.code(), Some(127), "{}", ran.said());
    assert!(!ran.path.exists(), "what was begun is taken back");
}

#[test]
fn the_signal_that_ends_the_command_is_recorded() {
    for method in METHODS {
        let directory = directory();
        let ran = run(directory.path(), &["--method", method], &["sh", "-c", "kill -KILL $$"]);
        assert_eq!(ran.code(), Some(128 + 9));
        let recording = ran.recording();
        assert!(recording.meta().attributes.contains(&("signal".to_owned(), "9".to_owned())));
        assert_eq!(recording.meta().exit_code, Some(137));
    }
}

#[test]
fn a_signal_to_the_recorder_reaches_the_command_once() {
    // SAFETY: sets a signal's default action; the caller may ignore the signal (nohup), and the command would inherit
    // that.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let directory = directory();
    let script = "n=0; trap 'n=$((n+1)); echo got $n' TERM; trap 'exit 7' HUP; echo ready; while :; do sleep 0.05; done";
    let (mut command, path) = command(directory.path(), &["--method", "proc"], &["sh", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut out = Lines::new(child.stdout.take().expect("piped"));
    let mut next = || out.next(LIMIT).expect("a line, or the end");
    assert_eq!(next(), "ready");
    let send = |signal| {
        // SAFETY: a signal to the child started here.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    };
    send(libc::SIGTERM);
    assert_eq!(next(), "got 1");
    send(libc::SIGHUP);
    assert_eq!(next(), "", "and no second one");
    assert_eq!(child.wait_in_time(LIMIT).expect("ended").code(), Some(7));
    assert!(Recording::open(&path).is_ok());
}

/// Like timeout(1), which signals its child, and then its group, which includes the child.
#[test]
fn a_second_signal_of_one_event_does_not_end_the_recorder() {
    let directory = directory();
    let (mut command, path) = command(directory.path(), &["--method", "proc"], &["sh", "-c", "echo ready; exec sleep 60"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut out = Lines::new(child.stdout.take().expect("piped"));
    assert_eq!(out.next(LIMIT).expect("a line"), "ready");
    // SAFETY: a signal to the child started here.
    let send = || assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    send();
    std::thread::sleep(Duration::from_millis(100));
    send();
    assert_eq!(child.wait_in_time(LIMIT).expect("ended").code(), Some(128 + libc::SIGTERM), "as the command ended");
    assert!(Recording::open(&path).is_ok());
}

#[test]
fn an_ignored_signal_stays_ignored_and_a_pipe_that_breaks_ends_the_command() {
    let directory = directory();
    let (runner, path) = (common::runner(), directory.path().join("run.thw"));
    let script =
        format!("trap '' HUP; exec {} --method proc -o {} -- sh -c 'kill -HUP $PPID $$; echo alive'", runner.display(), path.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output_in_time().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alive\n");
    let ran = run(directory.path(), &["--method", "preload", "-o", "second.thw"], &["sh", "-c", "trap; kill -PIPE $$; echo alive"]);
    assert_eq!((ran.code(), ran.out().as_str()), (Some(128 + 13), ""), "{}", ran.said());
    let _ = std::fs::remove_dir_all("second.thw");
}

#[test]
fn descriptors_and_environment_are_as_without_us() {
    let listing = "ls -l /proc/self/fd | grep -c -- '->'; env | grep -v -e ^_= -e ^SHLVL= -e ^PWD= -e ^OLDPWD= | sort";
    let alone = std::process::Command::new("sh").args(["-c", listing]).stdin(Stdio::null()).output_in_time().expect("run");
    for method in METHODS {
        let directory = directory();
        let ran = run(directory.path(), &["--method", method], &["sh", "-c", listing]);
        assert_eq!(ran.out(), String::from_utf8_lossy(&alone.stdout), "{method}");
    }
}

#[test]
fn what_goes_on_after_the_command_is_recorded_and_not_harmed() {
    let directory = directory();
    let file = directory.path().join("later");
    let script = format!("exec 3<&0; (read line <&3; echo done > {}) & exit 0", file.display());
    let (mut command, path) = command(directory.path(), &["--method", "preload"], &["sh", "-c", &script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut input = child.stdin.take().expect("piped");
    // The process left running keeps the error stream open: read up to the note, not to the end.
    let mut errors = Lines::new(child.stderr.take().expect("piped"));
    loop {
        let line = errors.next(LIMIT).expect("a note of what is still running");
        assert!(!line.is_empty(), "no note of what is still running");
        if line.contains("still running") {
            break;
        }
    }
    assert!(child.wait_in_time(LIMIT).expect("ended").success());
    assert!(Recording::open(&path).is_ok());
    input.write_all(b"go\n").expect("it still reads");
    drop(input);
    until("the work of what goes on", || std::fs::read_to_string(&file).is_ok_and(|text| text == "done\n"));
}

#[test]
fn a_recorder_that_is_killed_costs_the_recording_and_not_the_command() {
    for method in METHODS {
        let directory = directory();
        let file = directory.path().join("result");
        let script = format!(
            "for i in $(seq 50); do cat /etc/passwd > /dev/null; done; echo ready; read line; \
                              for i in $(seq 50); do cat /etc/passwd > /dev/null; done; echo \"$line\" > {}",
            file.display()
        );
        let (mut command, path) = command(directory.path(), &["--method", method], &["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut input = child.stdin.take().expect("piped");
        let mut out = Lines::new(child.stdout.take().expect("piped"));
        assert_eq!(out.next(LIMIT).expect("text"), "ready");
        child.kill().expect("killed");
        child.wait_in_time(LIMIT).expect("reaped");
        input.write_all(b"unharmed\n").expect("the command still reads");
        assert_eq!(out.next(LIMIT).expect("the command closes its output when it ends"), "");
        assert_eq!(std::fs::read_to_string(&file).expect("the command went on"), "unharmed\n", "{method}");
        let recording = Recording::open(&path).expect("an unfinished recording opens");
        assert_eq!(recording.meta().end, None);
    }
}

#[test]
fn a_limit_on_disk_use_is_kept_and_what_is_lost_is_counted() {
    let directory = directory();
    let Some(program) = compile(directory.path(), "sleeps", &[]) else { return };
    let ran = run(directory.path(), &["--method", "preload", "--limit", "20000"], &[&program.to_string_lossy(), "3000"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    assert!(ran.said().contains("events were lost"), "{}", ran.said());
    let recording = ran.recording();
    assert!(recording.meta().dropped_events > 100, "{:?}", recording.meta());
    assert!(spans(&recording).len() < 3000);
    let bytes: u64 = walk(&ran.path).iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum();
    assert!(bytes < 100_000, "{bytes} bytes");
}

fn walk(path: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    entries.flatten().flat_map(|entry| walk(&entry.path())).collect()
}

#[test]
fn a_full_disk_costs_the_recording_and_not_the_command() {
    let directory = directory();
    if !is_root() {
        return println!("SKIPPED: a small file system of our own needs root");
    }
    let Some(program) = compile(directory.path(), "sleeps", &[]) else { return };
    let small = directory.path().join("small");
    std::fs::create_dir(&small).expect("made");
    let script = format!(
        "mount -t tmpfs -o size=128k tmpfs {small} || exit 77; {run} --method preload -o {small}/run.thw -- {program} 6000; code=$?; \
         {run} --method proc -o {small}/second.thw -- true; ls {small}/run.thw/meta.json; exit $code",
        small = small.display(),
        run = common::runner().display(),
        program = program.display(),
    );
    let output = std::process::Command::new("unshare").args(["-m", "sh", "-c", &script]).output_in_time();
    let Ok(output) = output else { return println!("SKIPPED: unshare (util-linux) is not there") };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return println!("SKIPPED: a small file system cannot be mounted here: {said}");
    }
    assert_eq!(output.status.code(), Some(0), "the command is unharmed: {said}");
    assert!(said.contains("events were lost"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("meta.json"), "{said}");
}

#[test]
fn a_recording_may_end_before_the_command_which_is_waited_for() {
    let directory = directory();
    let ran = run(directory.path(), &["--method", "proc", "--for", "50"], &["sh", "-c", "sleep 0.5; exit 4"]);
    assert_eq!(ran.code(), Some(4));
    assert!(ran.said().contains("ended before the command"), "{}", ran.said());
    assert_eq!(ran.recording().meta().exit_code, None);
}

#[test]
fn a_program_that_takes_other_rights_is_not_preloaded_and_the_reason_is_given() {
    if !is_root() {
        return println!("SKIPPED: making a set-user-ID program of another user needs root");
    }
    let directory = directory();
    let program = directory.path().join("cat");
    std::fs::copy("/bin/cat", &program).expect("copied");
    std::os::unix::fs::chown(&program, Some(65534), None).expect("given away");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("set-user-ID");
    let word = program.to_string_lossy();
    let refused = run(directory.path(), &["--method", "preload"], &[&word, "/etc/passwd"]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.said().contains("set-user-ID"), "{}", refused.said());
    let ran = run(directory.path(), &["--method", "proc"], &[&word, "/etc/hostname"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
}

#[test]
fn a_static_program_is_looked_at_and_not_preloaded() {
    let directory = directory();
    let Some(program) = compile(directory.path(), "sleeps", &["-static"]) else { return };
    let word = program.to_string_lossy();
    let refused = run(directory.path(), &["--method", "preload"], &[&word, "1"]);
    assert!(refused.said().contains("statically linked"), "{}", refused.said());
    let ran = run(directory.path(), &["--method", "proc"], &[&word, "5000"]);
    let spans = spans(&ran.recording());
    let (asleep, _) = common::total(&spans, thalweg_trace::SpanKind::WaitTimer);
    assert!(asleep > 0, "its sleeps were seen: {spans:?}");
}

#[test]
fn a_program_with_twenty_thousand_open_files_is_recorded_as_it_runs_alone() {
    for method in METHODS {
        common::record_many_descriptors(directory().path(), method);
    }
}

#[test]
fn a_process_that_ended_is_recorded_once_however_late_its_parent_asks_for_its_status() {
    let directory = directory();
    // (`sleep` does not know its inherited children, and leaves what its shell had started running.)
    let ran = run(directory.path(), &["--method", "proc"], &["sh", "-c", "sleep 0.2 & exec sleep 1"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    let sleeps = recording.tracks().iter().filter(|track| track.name == "sleep").count();
    assert_eq!(sleeps, 2, "{:#?}", recording.tracks());
}

#[test]
fn another_process_is_watched_until_it_ends_or_the_time_is_over() {
    let directory = directory();
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().expect("started");
    let also = format!("pid:{}", other.id());
    let ran = run(directory.path(), &["--method", "proc", "--also", &also, "--for", "100"], &[]);
    assert_eq!(ran.code(), Some(0), "{}", ran.said());
    let recording = ran.recording();
    assert!(recording.tracks().iter().any(|track| track.pid == Some(other.id())));
    let slept = spans(&recording).iter().any(|(name, span)| name == "sleep" && span.kind == thalweg_trace::SpanKind::WaitTimer);
    assert!(slept, "{:?}", spans(&recording));
    other.kill().expect("ended");
    other.wait_in_time(LIMIT).expect("reaped");
    let gone = run(directory.path(), &["--method", "proc", "--also", &also], &[]);
    assert_eq!(gone.code(), Some(1));
    assert!(gone.said().contains("there is no process"), "{}", gone.said());
}
