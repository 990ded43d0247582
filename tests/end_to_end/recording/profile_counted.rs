//! `thalweg profile` by a user who may not sample, as in a container: the counts of /proc, compared with what programs count themselves.

use super::methods::Unprivileged;
use crate::bounded::Bounded;
use crate::common::{file, is_root, skipped, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Spins for this many seconds, itself or in successive children, and prints its user and system time as the kernel counts it.
const SPINS: &[u8] = br#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static double used(int who) {
    struct rusage u;
    getrusage(who, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
int main(int count, char **words) {
    double goal = atof(words[1]);
    int children = count > 2 ? atoi(words[2]) : 0;
    for (int i = 0; i < children; i++) {
        if (!fork()) {
            while (used(RUSAGE_SELF) < goal / children) { for (volatile int n = 0; n < 100000; n++) {} }
            _exit(0);
        }
        wait(NULL);
    }
    if (!children)
        while (used(RUSAGE_SELF) < goal) { for (volatile int n = 0; n < 1000000; n++) {} }
    struct rusage a, b;
    getrusage(RUSAGE_SELF, &a);
    getrusage(RUSAGE_CHILDREN, &b);
    printf("%f %f\n", a.ru_utime.tv_sec + b.ru_utime.tv_sec + (a.ru_utime.tv_usec + b.ru_utime.tv_usec) / 1e6,
           a.ru_stime.tv_sec + b.ru_stime.tv_sec + (a.ru_stime.tv_usec + b.ru_stime.tv_usec) / 1e6);
    return 5;
}
"#;

struct Setting {
    nobody: Unprivileged,
    spins: String,
    /// Refuses samples.
    filter: String,
}

/// Returns a setting for an unprivileged user, with the program; `None`, with the reason printed, if that is impossible.
fn setting() -> Option<Setting> {
    if !is_root() || !Command::new("setpriv").arg("--version").output_in_time().is_ok_and(|output| output.status.success()) {
        skipped("needs root and setpriv, to become nobody");
        return None;
    }
    let nobody = Unprivileged::new();
    let source = file(nobody.directory.path(), "spins.c", SPINS);
    let spins = nobody.directory.path().join("spins");
    let compiled = Command::new("cc").args(["-O1", "-o", text(&spins), text(&source)]).output_in_time();
    if !compiled.is_ok_and(|output| output.status.success()) {
        skipped("no C compiler");
        return None;
    }
    let filter = nobody.directory.path().join("without_perf");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end/recording/programs/without_perf.c");
    let compiled = Command::new("cc").args(["-o", text(&filter), text(&source)]).output_in_time();
    if !compiled.is_ok_and(|output| output.status.success()) {
        skipped("no C compiler, or no headers of seccomp");
        return None;
    }
    let (spins, filter) = (text(&spins).to_owned(), text(&filter).to_owned());
    Some(Setting { nobody, spins, filter })
}

impl Setting {
    /// Returns the command as nobody, under a filter that ends (`kill`) or refuses whoever wants samples.
    fn filtered(&self, verdict: &str, arguments: &[&str]) -> Command {
        let inner = self.nobody.command(arguments);
        let mut command = Command::new(&self.filter);
        command.arg(verdict).arg(inner.get_program()).args(inner.get_args()).current_dir(self.nobody.directory.path());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn run(&self, arguments: &[&str]) -> (Output, String, String) {
        let output = self.filtered("kill", arguments).output_in_time().expect("it runs");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        (output, out, err)
    }
}

pub(super) fn shares<'a>(host: &'a Value, list: &str, is: impl Fn(&Value) -> bool + 'a, field: &str) -> f64 {
    host[list].as_array().expect("a list").iter().filter(|row| is(row)).filter_map(|row| row[field].as_f64()).sum()
}

/// Returns the host of the profile, from JSON that follows the command's own output.
pub(super) fn host(json: &str) -> Value {
    let document: Value = serde_json::from_str(json.get(json.find("{\n").expect("a document")..).expect("text")).expect("JSON");
    document["hosts"][0].clone()
}

#[test]
fn a_program_has_the_share_that_it_counts_itself_without_any_right() {
    let Some(setting) = setting() else { return };
    let kept = setting.nobody.directory.path().join("kept.thw");
    let (output, out, err) = setting.run(&["profile", "-o", text(&kept), "--", &setting.spins, "2"]);
    assert_eq!(output.status.code(), Some(5), "{err}");
    for part in ["no CAP_BPF, no CAP_PERFMON", "kernel.perf_event_paranoid=", "counted by /proc in steps of 10 ms", "spins (command)"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let shown = err.get(err.find("percent of processor time").expect("a table")..).expect("text");
    assert!(shown.lines().count() <= 24, "{shown}");
    let used: Vec<f64> = out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (again, json, _) = setting.run(&["profile", "--json", text(&kept)]);
    assert!(again.status.success());
    let host = host(&json);
    // The CPUs' counters cover slightly less than the wall time of a busy machine.
    let whole_s = shares(&host, "classes", |_| true, "seconds");
    let is_spins = |row: &Value| row["program"] == "spins" && row["role"] == "client";
    for (field, used) in [("share", used[0] + used[1]), ("user_share", used[0]), ("system_share", used[1])] {
        let found_s = shares(&host, "programs", is_spins, field) * whole_s;
        // Two ticks, and a scan of the CPUs that takes slightly different time.
        assert!((found_s - used).abs() < 0.03 + 0.02 * used, "{field}: {found_s} s of {used} s: {json}");
    }
    let all = shares(&host, "classes", |_| true, "share");
    assert!((all - 1.0).abs() < 1e-6, "{json}");
    // Programs have at least the time of this one; other programs and the time between the two counts are the rest.
    let in_programs = shares(&host, "classes", |row| row["class"] == "user" || row["class"] == "system", "share");
    let by_program = shares(&host, "programs", |_| true, "share");
    let (rest, over) = (host["counted"]["rest"].as_f64().unwrap_or(0.0), host["counted"]["over"].as_f64().unwrap_or(0.0));
    assert!((by_program + rest - over - in_programs).abs() < 1e-6 || host["programs"].as_array().expect("a list").len() == 50, "{json}");
    assert!(rest < 0.1 && over < 0.1, "{json}");
    let (_, table, _) = setting.run(&["profile", text(&kept)]);
    assert!(table.contains("spins (command)") && table.contains("programs' own code"), "{table}");
}

#[test]
fn children_that_ended_between_two_looks_are_counted_with_their_parent() {
    let Some(setting) = setting() else { return };
    let (output, out, err) = setting.run(&["profile", "--json", "--", &setting.spins, "1.2", "120"]);
    assert_eq!(output.status.code(), Some(5), "{err}");
    let used: f64 = out.lines().next().unwrap_or_default().split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum();
    let host = host(&out);
    // The CPUs' counters cover slightly less than the wall time of a busy machine.
    let whole_s = shares(&host, "classes", |_| true, "seconds");
    let of_command = shares(&host, "programs", |row| row["role"] == "client", "share") * whole_s;
    let of_children = shares(&host, "programs", |row| row["program"] == "children of spins", "share") * whole_s;
    // A child seen in a scan may later count a tick too much.
    assert!(used > 1.1 && (of_command - used).abs() < 0.1 + 0.03 * used, "{of_command} s of {used} s: {out}");
    // The more other programs run, the longer a child of 10 ms is visible.
    assert!(of_children > 0.3, "{of_children} s of {used} s in children of 10 ms: {out}");
}

#[test]
fn what_needs_samples_says_so_and_runs_nothing() {
    let Some(setting) = setting() else { return };
    let here = setting.nobody.directory.path();
    let (page, kept, rules) = (here.join("page.html"), here.join("kept.thw"), file(here, "rules", b"class x: y\n"));
    let marker = here.join("ran");
    for (options, part) in [
        (["-o", text(&page)], "-o"),
        (["--classes", text(&rules)], "--classes"),
        (["--symbols", text(here)], "--symbols"),
        (["--events", "page-faults"], "--events"),
    ] {
        let words = [&["profile"][..], &options, &["--", "touch", text(&marker)]].concat();
        let (output, _, err) = setting.run(&words);
        assert!(output.status.code() == Some(1) && err.contains(part), "{options:?}: {err}");
        assert!(err.contains("needs samples") && err.contains("no CAP_BPF"), "{options:?}: {err}");
        assert!(!marker.exists(), "{options:?}: the command was run");
    }
    let (output, _, err) = setting.run(&["profile", "-o", text(&kept), "--for", "1s"]);
    assert!(output.status.success(), "{err}");
    let (output, _, err) = setting.run(&["profile", text(&kept), "-o", text(&page)]);
    assert!(output.status.code() == Some(1) && err.contains("needs samples") && err.contains("kept"), "{err}");
    let (output, _, err) = setting.run(&["export", text(&kept), "--to", "folded", "-o", text(&here.join("x"))]);
    assert!(output.status.code() == Some(1) && err.contains("no stacks"), "{err}");
    let (output, _, err) = setting.run(&["explain", text(&kept)]);
    assert!(!output.status.success() && err.contains("thalweg profile"), "{err}");
}

#[test]
fn a_filter_that_refuses_samples_is_named_once() {
    let Some(setting) = setting() else { return };
    let output = setting.filtered("refuse", &["profile", "--", &setting.spins, "0.6"]).output_in_time().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.code() == Some(5) && err.contains("no samples; counted by /proc"), "{err}");
    assert_eq!(err.matches("seccomp").count(), 1, "{err}");
}

#[test]
fn a_command_that_ends_at_once_has_no_percentages() {
    let Some(setting) = setting() else { return };
    let (output, _, err) = setting.run(&["profile", "--", "true"]);
    assert!(output.status.success() && err.contains("too short") && !err.contains('%'), "{err}");
}

#[test]
fn a_server_of_ones_own_is_profiled_by_its_port() {
    let Some(setting) = setting() else { return };
    let script = "import socket,sys,time\ns=socket.socket();s.bind(('127.0.0.1',0));s.listen();print(s.getsockname()[1],flush=True)\n\
                  t=time.time()\nwhile time.time()<t+30: pass\n";
    let mut python = Command::new("setpriv");
    python
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script])
        .stdout(std::process::Stdio::piped());
    let Ok(mut server) = python.spawn() else { return skipped("no /usr/bin/python3") };
    let mut port = String::new();
    let read = std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().expect("a pipe")), &mut port);
    if read.is_err() || port.trim().is_empty() {
        return skipped("no /usr/bin/python3");
    }
    let (output, out, err) = setting.run(&["profile", "--json", "--port", port.trim(), "--for", "1500ms"]);
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    assert!(output.status.success(), "{err}");
    let host = host(&out);
    let of_server = shares(&host, "programs", |row| row["role"] == "server", "share") * host["cpus"].as_f64().expect("processors");
    // It has a CPU to itself, unless other programs need it.
    assert!(of_server > 0.1, "{out}");
}
