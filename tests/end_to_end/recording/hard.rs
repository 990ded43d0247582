//! Conditions that recorders must survive: full disks, programs with other privileges, thousands of processes, reused process IDs, a
//! thousand connections.

use crate::bounded::Bounded;
use crate::common::{CommandOutput, THALWEG, content, file, is_root, no_bpf, run, scratch, skipped, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn explained(recording: &Path) -> Value {
    let document = run(["explain", "--json", text(recording)]).done().json();
    let charges = document["critical_path"].as_array().expect("charges");
    let shares: f64 = charges.iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() <= 0.001, "shares sum to {shares}");
    document
}

/// Runs a script in separate namespaces; `None` if unavailable.
pub(super) fn apart(flags: &[&str], script: &str) -> Option<CommandOutput> {
    let works = Command::new("unshare").args(flags).arg("true").stderr(Stdio::null()).status_in_time().is_ok_and(|s| s.success());
    let run = || Command::new("unshare").args(flags).args(["sh", "-c", script]).env("NO_COLOR", "1").stdin(Stdio::null()).output_in_time();
    works.then(run)?.ok().map(CommandOutput::from)
}

#[test]
fn a_full_disk_costs_the_recording_and_not_the_command() {
    if !is_root() {
        return skipped("a small file system of its own needs root");
    }
    for method in ["auto", "user", "preload"] {
        let here = scratch();
        let (small, witness) = (here.path().join("small"), here.path().join("witness"));
        std::fs::create_dir(&small).unwrap();
        let work = "i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done; echo done >\"$0\"; exit 6";
        let script = format!(
            "mount -t tmpfs -o size=64k tmpfs {0} || exit 99; \
             {THALWEG} record --method {method} -o {0}/a.thw -- sh -c '{work}' {1}; code=$?; \
             {THALWEG} explain {0}/a.thw >/dev/null && exit $code; exit 98",
            text(&small),
            text(&witness)
        );
        let Some(said) = apart(&["--mount", "--propagation", "private"], &script) else { return skipped("no mount namespace") };
        if said.code == Some(99) {
            return skipped("a tmpfs cannot be mounted");
        }
        assert_eq!(said.code, Some(6), "{method}: {}{}", said.out, said.err);
        assert_eq!(std::fs::read_to_string(&witness).unwrap(), "done\n", "{method}");
        assert!(said.err.contains("lost") || said.err.contains("not be finished"), "{method}: {}", said.err);
    }
}

/// Makes the command and a directory accessible to unprivileged users.
pub(super) fn for_anyone(directory: &Path) -> std::path::PathBuf {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let copy = directory.join("thalweg");
    std::fs::hard_link(THALWEG, &copy).or_else(|_| std::fs::copy(THALWEG, &copy).map(drop)).expect("the command can be copied");
    copy
}

fn as_nobody(thalweg: &Path, arguments: &[&str]) -> Option<CommandOutput> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(thalweg).args(arguments);
    command.env("NO_COLOR", "1").env("HOME", "/nonexistent").stdin(Stdio::null());
    command.output_in_time().ok().map(CommandOutput::from)
}

#[test]
fn a_program_that_takes_other_rights_keeps_them_where_it_can_and_a_note_says_what_is_not_seen() {
    if !is_root() {
        return skipped("a set-user-ID program can be made by root only");
    }
    let here = scratch();
    let thalweg = for_anyone(here.path());
    let secret = file(here.path(), "secret", b"for root only\n");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let program = here.path().join("cat");
    std::fs::copy("/bin/cat", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let recording = here.path().join("a.thw");
    let Some(said) = as_nobody(&thalweg, &["record", "-o", text(&recording), "--", text(&program), text(&secret)]) else {
        return skipped("setpriv is missing");
    };
    if said.out.is_empty() && said.err.contains("Permission denied") {
        return skipped("set-user-ID programs are not honoured on this file system");
    }
    assert_eq!((said.code, said.out.as_str()), (Some(0), "for root only\n"), "{}", said.err);
    assert!(said.err.contains("set-user-ID") || said.err.contains("rights"), "{}", said.err);
    explained(&recording);
}

#[test]
fn without_permission_it_says_what_would_give_it() {
    if !is_root() {
        return skipped("already not root");
    }
    let here = scratch();
    let thalweg = for_anyone(here.path());
    let (recording, witness) = (here.path().join("a.thw"), here.path().join("ran"));
    let touch = ["--", "touch", text(&witness)];
    let ask = |before: &[&str]| as_nobody(&thalweg, &[before, &touch[..]].concat());
    let Some(said) = ask(&["record", "--method", "bpf", "-o", text(&recording)]) else { return skipped("setpriv is missing") };
    said.failed(1, &["CAP_BPF"]);
    ask(&["record", "-o", "/root/a.thw"]).unwrap().failed(1, &["/root"]);
    let init = ask(&["record", "--also", "pid:1", "--method", "bpf", "-o", text(&recording)]).unwrap();
    assert_eq!(init.code, Some(1), "{}", init.err);
    assert!(!witness.exists() && !recording.exists());
    let doctor = as_nobody(&thalweg, &["doctor"]).unwrap().done();
    assert!(doctor.out.contains("recorder bpf") && doctor.out.contains("to get it"), "{}", doctor.out);
}

#[test]
fn process_numbers_that_are_used_again_are_not_mixed_up() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    let recording = here.path().join("a.thw");
    // A few hundred process IDs in a PID namespace, for a thousand processes.
    let work = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done; exit 5";
    let script = format!(
        "echo 350 >/proc/sys/kernel/pid_max 2>/dev/null || exit 99; exec {THALWEG} record -o {} -- sh -c '{work}'",
        text(&recording)
    );
    match apart(&["--pid", "--fork", "--mount-proc"], &script) {
        None => return skipped("no process namespace"),
        Some(said) if said.code == Some(99) => return skipped("this kernel has one limit of process numbers for all namespaces"),
        Some(said) => assert_eq!(said.code, Some(5), "{}", said.err),
    }
    let document = explained(&recording);
    assert_eq!(document["dropped_events"], 0);
    let csv = here.path().join("csv");
    run(["export", text(&recording), "--to", "csv", "-o", text(&csv)]).done();
    let tracks = std::fs::read_to_string(csv.join("tracks.csv")).unwrap();
    let trues = tracks.lines().filter(|line| line.contains(",true")).count();
    assert!(trues >= 1000, "{trues} of 1000 processes");
}

const CONNECTIONS: &str = r#"
import socket, sys
family, host = (socket.AF_INET6, "::1") if sys.argv[1] == "6" else (socket.AF_INET, "127.0.0.1")
listener = socket.socket(family)
listener.bind((host, 0))
listener.listen(1100)
pairs = []
for i in range(1000):
    client = socket.socket(family)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    pairs.append((client, server))
for client, server in pairs:
    client.sendall(b"x" * 1000)
for client, server in pairs:
    got = 0
    while got < 1000:
        got += len(server.recv(4096))
    server.sendall(b"y" * 10)
for client, server in pairs:
    client.recv(10)
"#;

#[test]
fn a_thousand_connections_of_each_family_are_told_apart() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    let script = file(here.path(), "connections.py", CONNECTIONS.as_bytes());
    for (family, from) in [("4", "127.0.0.1:"), ("6", "[::1]:")] {
        let recording = here.path().join(format!("{family}.thw"));
        let said = run(["record", "-o", text(&recording), "--", "/usr/bin/python3", text(&script), family]);
        if family == "6" && said.code == Some(1) {
            return skipped("no IPv6 here");
        }
        let said = said.done();
        explained(&recording);
        let csv = here.path().join(format!("csv{family}"));
        run(["export", text(&recording), "--to", "csv", "-o", text(&csv)]).done();
        let objects = std::fs::read_to_string(csv.join("objects.csv")).unwrap();
        let names: std::collections::HashSet<&str> =
            objects.lines().filter(|l| l.contains("connection")).filter_map(|l| l.split(',').find(|f| f.contains(" > "))).collect();
        assert!(names.len() >= 1000, "{} of 1000 connections: {}", names.len(), said.err);
        assert!(names.iter().all(|name| name.trim_matches('"').starts_with(from)), "{:?}", names.iter().next());
    }
}

#[test]
fn thousands_of_short_processes_are_all_recorded() {
    let here = scratch();
    let recording = here.path().join("a.thw");
    let source = file(here.path(), "few", &content(1, 1000));
    let script = "i=0; while [ $i -lt 1500 ]; do /bin/cat \"$0\" >/dev/null; i=$((i+1)); done; exit 4";
    let said = run(["record", "-o", text(&recording), "--", "sh", "-c", script, text(&source)]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert_eq!(explained(&recording)["dropped_events"], 0, "{}", said.err);
}

/// The reader has a high priority; without pauses it would leave almost nothing of a CPU that it shares with the command.
#[test]
fn a_reader_without_pauses_leaves_the_command_its_part_of_the_processor() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    let recording = here.path().join("a.thw");
    let work = "import time\nw, c = time.monotonic(), time.process_time()\nwhile time.process_time() - c < 0.2: pass\nprint(0.2 / (time.monotonic() - w))";
    let mut command = Command::new("taskset");
    command.args(["-c", "0", THALWEG, "record", "--drain", "0", "-o", text(&recording), "--", "taskset", "-c", "0", "python3", "-c", work]);
    let said = CommandOutput::from(command.env("NO_COLOR", "1").stdin(Stdio::null()).output_in_time().expect("it ends"));
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let part: f64 = said.out.trim().parse().expect("a share");
    assert!(part > 0.1, "the command had {part} of the processor");
}
