//! Each recorder on programs with known problems: with privileges, without, and on a static program.

use crate::bounded::Bounded;
use crate::common::{THALWEG, content, file, is_root, no_bpf, run, scratch, skipped, text, thalweg};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks that every instant is charged once.
#[track_caller]
pub(super) fn sound(document: &Value, recorder: &str) {
    assert_eq!((&document["schema"], &document["recorder"]), (&"thalweg.explain/1".into(), &recorder.into()));
    let charges = document["critical_path"].as_array().expect("charges");
    let shares: f64 = charges.iter().filter_map(|c| c["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() <= 0.001, "shares sum to {shares}");
    assert_eq!(document["dropped_events"], 0, "events were lost");
}

/// Returns the share of a cause over all its places.
pub(super) fn share(document: &Value, cause: &str) -> f64 {
    let charges = document["critical_path"].as_array().expect("charges");
    charges.iter().filter(|c| c["cause"].as_str().is_some_and(|c| c.ends_with(cause))).filter_map(|c| c["share"].as_f64()).sum()
}

/// Returns the time of a cause over all its places.
pub(super) fn seconds(document: &Value, cause: &str) -> f64 {
    let charges = document["critical_path"].as_array().expect("charges");
    charges.iter().filter(|c| c["cause"].as_str().is_some_and(|c| c.ends_with(cause))).filter_map(|c| c["seconds"].as_f64()).sum()
}

/// Returns the share taken by other programs on the machine, and the recorder.
pub(super) fn taken_away(document: &Value) -> f64 {
    share(document, ".runqueue") + share(document, "recorder")
}

fn explained(recording: &Path) -> Value {
    run(["explain", "--json", text(recording)]).done().json()
}

/// Records a command with one method, and explains it.
#[track_caller]
fn workload(method: &str, command: &[&str]) -> Value {
    let here = scratch();
    let recording = here.path().join("a.thw");
    let record = ["record", "--method", method, "-o", text(&recording), "--"];
    run([&record[..], command].concat()).done();
    let document = explained(&recording);
    sound(&document, method);
    document
}

const SLEEPS: &[&str] = &["sleep", "0.4"];
const COMPUTES: &[&str] = &["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"];

fn computing_and_sleeping_are_told_apart(method: &str) {
    let sleeps = workload(method, SLEEPS);
    assert!(share(&sleeps, ".think") >= 0.8 * (1.0 - taken_away(&sleeps)), "{method}: {:?}", sleeps["critical_path"]);
    let computes = workload(method, COMPUTES);
    // If other programs use the CPUs too, it waits for one.
    assert!(share(&computes, ".cpu") >= 0.8 * (1.0 - taken_away(&computes)), "{method}: {:?}", computes["critical_path"]);
}

fn a_copy_is_explained(method: &str, most_unknown: f64) {
    let here = scratch();
    let source = file(here.path(), "source", &content(3, 48 << 20));
    let sink = here.path().join("sink");
    let document = workload(method, &["cp", text(&source), text(&sink)]);
    assert_eq!(std::fs::read(&sink).unwrap().len(), 48 << 20);
    let unknown = share(&document, "unknown");
    assert!(unknown <= most_unknown, "{method}: unknown {unknown}: {:?}", document["critical_path"]);
    // A copy reads, writes, and uses the CPU and memory for that.
    let copies: f64 =
        [".cpu", ".memory", ".read", ".write", ".metadata"].iter().map(|cause| share(&document, &format!("client{cause}"))).sum();
    let left = 1.0 - taken_away(&document) - unknown;
    assert!(copies >= 0.9 * left, "{method}: {copies} of {left}: {:?}", document["critical_path"]);
}

/// Writes blocks synchronously until a quarter of a second was spent waiting; then prints, as the kernel counts them in nanoseconds, its
/// waits for anything but a CPU, and its CPU time.
const SYNCS: &str = r#"
import os, sys, time
def now():
    with open("/proc/thread-self/schedstat") as file:
        runqueue = int(file.read().split()[1])
    return time.monotonic_ns(), time.thread_time_ns(), runqueue
def spent():
    wall, work, runqueue = (after - before for after, before in zip(now(), began))
    return wall - work - runqueue, work
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
began = now()
for _ in range(400):
    for _ in range(50):
        os.write(file, bytes(4096))
    if spent()[0] > 250_000_000:
        break
print(*spent())
"#;

fn syncing_each_write_is_waiting_for_the_disk(method: &str) {
    // Not in memory: a file system on a device.
    let here = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let recording = here.path().join("a.thw");
    let sink = here.path().join("sink");
    let command = ["/usr/bin/python3", "-c", SYNCS, text(&sink)];
    let said = run([&["record", "--method", method, "-o", text(&recording), "--"], &command[..]].concat()).done();
    let counted: Vec<f64> = said.out.split_whitespace().map(|ns| ns.parse().expect("nanoseconds")).collect();
    let (waited_s, worked_s) = (counted[0] / 1e9, counted[1] / 1e9);
    if waited_s < 0.3 * worked_s {
        return skipped(&format!("this file system waits {waited_s} s and works {worked_s} s for synchronous writes"));
    }
    let document = explained(&recording);
    sound(&document, method);
    let charged_s = seconds(&document, ".sync") + seconds(&document, ".write");
    // The kernel counts queueing from when a CPU has been notified: until then it counts as waiting there, and as queueing here.
    let queued_s = seconds(&document, ".runqueue");
    let enough = charged_s >= 0.4 * waited_s && charged_s + queued_s >= 0.7 * waited_s;
    assert!(enough, "{method}: {charged_s} of {waited_s} s: {:?}", document["critical_path"]);
}

#[test]
fn bpf_knows_sleep_from_work() {
    match no_bpf() {
        Some(why) => skipped(&why),
        None => computing_and_sleeping_are_told_apart("bpf"),
    }
}

#[test]
fn bpf_explains_a_copy() {
    match no_bpf() {
        Some(why) => skipped(&why),
        None => a_copy_is_explained("bpf", 0.02),
    }
}

#[test]
fn bpf_knows_waiting_for_the_disk() {
    match no_bpf() {
        Some(why) => skipped(&why),
        None => syncing_each_write_is_waiting_for_the_disk("bpf"),
    }
}

#[test]
fn an_ordinary_users_recorder_knows_sleep_from_work() {
    computing_and_sleeping_are_told_apart("user");
}

#[test]
fn an_ordinary_users_recorder_explains_a_copy() {
    // What a wait too short for a look was for, outside of calls, is not known.
    a_copy_is_explained("user", 0.15);
}

#[test]
fn an_ordinary_users_recorder_knows_waiting_for_the_disk() {
    syncing_each_write_is_waiting_for_the_disk("user");
}

#[test]
fn a_preloaded_library_knows_sleep_from_work() {
    computing_and_sleeping_are_told_apart("preload");
}

#[test]
fn a_preloaded_library_explains_a_copy() {
    // The reason why a thread was off the CPU between calls is not always known.
    a_copy_is_explained("preload", 0.1);
}

#[test]
fn a_preloaded_library_knows_waiting_for_the_disk() {
    syncing_each_write_is_waiting_for_the_disk("preload");
}

#[test]
fn every_system_call_is_a_span_where_it_is_asked_for() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    let recording = here.path().join("a.thw");
    let source = file(here.path(), "source", &content(4, 4 << 20));
    let (input, output) = (format!("if={}", text(&source)), format!("of={}", text(&here.path().join("sink"))));
    run(["record", "--tier", "syscall", "-o", text(&recording), "--", "dd", &input, &output, "bs=64k", "status=none"]).done();
    let csv = here.path().join("csv");
    run(["export", text(&recording), "--to", "csv", "-o", text(&csv)]).done();
    let spans = std::fs::read_to_string(csv.join("spans.csv")).unwrap();
    let column = |name: &str| spans.lines().next().unwrap().split(',').position(|c| c == name).unwrap();
    let (kind, size, count) = (column("kind"), column("size_bytes"), column("count"));
    for wanted in ["file.read", "file.write"] {
        let rows = spans.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()).filter(|row| row[kind] == wanted);
        let of_64k: Vec<_> = rows.filter(|row| row[size].parse::<u64>().is_ok_and(|s| s >= 64 << 10)).collect();
        let calls: u64 = of_64k.iter().filter_map(|row| row[count].parse::<u64>().ok()).sum();
        let bytes: u64 = of_64k.iter().filter_map(|row| row[size].parse::<u64>().ok()).sum();
        assert_eq!((calls, bytes), (64, 4 << 20), "{wanted}");
    }
}

/// A place accessible to an unprivileged user: the command, and a writable directory.
pub(super) struct Unprivileged {
    pub directory: tempfile::TempDir,
    thalweg: PathBuf,
}

impl Unprivileged {
    pub fn new() -> Unprivileged {
        let directory = scratch();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
        let thalweg = directory.path().join("thalweg");
        std::fs::hard_link(THALWEG, &thalweg).or_else(|_| std::fs::copy(THALWEG, &thalweg).map(drop)).expect("the command can be copied");
        Unprivileged { directory, thalweg }
    }

    /// Returns the command, to be run as nobody.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let inner = thalweg(arguments);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]).arg(&self.thalweg).args(inner.get_args());
        command.env("NO_COLOR", "1").env("HOME", "/nonexistent").current_dir(self.directory.path());
        command
    }
}

#[test]
fn anyone_can_have_a_copy_explained() {
    if !is_root() {
        // The tests above have covered this.
        return skipped("already not root");
    }
    let nobody = Unprivileged::new();
    let here = nobody.directory.path();
    let source = file(here, "source", &content(6, 16 << 20));
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (sink, json) = (here.join("sink"), here.join("explanation.json"));
    let arguments = ["explain", "--json", "--to", text(&json), "--", "cp", text(&source), text(&sink)];
    let Ok(output) = nobody.command(&arguments).output_in_time() else { return skipped("setpriv is missing") };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let document: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    sound(&document, "user");
    assert_eq!(std::fs::read(&sink).unwrap(), std::fs::read(&source).unwrap());
    let notes = document["notes"].to_string();
    assert!(notes.contains("bpf") && notes.contains("faults"), "it says what it could not use, and see: {notes}");
}

#[test]
fn a_static_program_is_looked_at_through_proc_and_that_is_said() {
    let here = scratch();
    let source = file(here.path(), "nap.c", b"#include <unistd.h>\nint main(void) { sleep(1); return 3; }\n");
    let program = here.path().join("nap");
    let compiled = Command::new("cc").args(["-static", "-o", text(&program), text(&source)]).output_in_time();
    if !compiled.is_ok_and(|output| output.status.success()) {
        return skipped("no C compiler with a static C library");
    }
    let recording = here.path().join("a.thw");
    let said = run(["record", "--method", "preload", "-o", text(&recording), "--", text(&program)]).failed(1, &["static"]);
    assert!(!recording.exists(), "{}", said.err);
    let nobody_or_proc = ["record", "--method", "proc", "-o", text(&recording), "--", text(&program)];
    assert_eq!(run(nobody_or_proc).code, Some(3));
    let document = explained(&recording);
    sound(&document, "proc");
    assert!(share(&document, ".think") >= 0.7 * (1.0 - taken_away(&document)), "{:?}", document["critical_path"]);
}

#[test]
fn hundreds_of_short_processes_are_recorded() {
    let here = scratch();
    for method in ["auto", "user", "preload"] {
        let recording = here.path().join(format!("{method}.thw"));
        let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
        run(["record", "--method", method, "-o", text(&recording), "--", "sh", "-c", script]).done();
        let document = explained(&recording);
        assert_eq!(document["dropped_events"], 0);
        assert!(document["tracks"].as_array().is_some_and(|tracks| !tracks.is_empty()));
    }
}
