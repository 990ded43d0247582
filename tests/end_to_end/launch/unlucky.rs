//! Jobs that end early: the program, a server, or the job itself is killed.

use super::{Sandbox, below};
use crate::common::{Running, can_mount, listed, wait_until};
use std::fs;

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; the process was found by the mark of this test's job.
    unsafe { libc::kill(pid, signal) };
}

/// Starts a job whose program prints `begun` and its process ID; returns both.
fn begun(sandbox: &Sandbox, more: &[&str], script: &str) -> (Running, i32) {
    let script = format!("echo begun $$; {script}");
    let mut job = sandbox.start(&[&["--hosts", "localhost,127.0.0.2"], more, &["--", "sh", "-c", &script]].concat());
    let line = job.line();
    let pid = line.strip_prefix("begun ").expect("its first line").parse().expect("a process' number");
    (job, pid)
}

#[test]
fn a_program_that_is_killed_takes_the_store_with_it() {
    let sandbox = Sandbox::new();
    let (mut job, program) = begun(&sandbox, &[], "exec sleep 60");
    kill(program, libc::SIGKILL);
    assert_eq!(job.wait(), None, "it ends by the signal of its program");
    sandbox.nothing_is_left();
}

/// Returns whether this process, and so its children, ignores a signal.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask of ignored signals");
    u64::from_str_radix(mask.trim(), 16).expect("a hexadecimal number") & (1 << (signal - 1)) != 0
}

#[test]
fn a_signal_ends_the_program_and_then_the_store() {
    // A shell does not handle a signal that is ignored where the tests run (nohup).
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
        let sandbox = Sandbox::new();
        // It may handle the signal: here it prints a word and exits with a code.
        let (mut job, _) = begun(&sandbox, &[], "trap 'echo told; exit 5' TERM INT HUP; echo ready; while :; do sleep 0.05; done");
        assert_eq!(job.line(), "ready");
        job.signal(signal);
        assert_eq!((job.line().as_str(), job.wait()), ("told", Some(5)), "signal {signal}");
        sandbox.nothing_is_left();
    }
}

#[test]
fn a_second_signal_ends_a_program_that_heeds_none() {
    let sandbox = Sandbox::new();
    let (mut job, _) = begun(&sandbox, &[], "trap '' TERM; echo deaf; while :; do sleep 0.05; done");
    assert_eq!(job.line(), "deaf");
    job.signal(libc::SIGTERM);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(job.runs(), "it has time to end");
    job.signal(libc::SIGTERM);
    assert_eq!(job.wait(), None);
    sandbox.nothing_is_left();
}

#[test]
fn a_signal_keeps_what_was_to_be_copied_out() {
    let sandbox = Sandbox::new();
    let (mut job, _) =
        begun(&sandbox, &["--stage-out", "/f:f"], "echo result | $THALWEG cp --quiet - thal:/f; echo written; exec sleep 60");
    assert_eq!(job.line(), "written");
    job.signal(libc::SIGTERM);
    assert_eq!(job.wait(), None);
    sandbox.nobody_is_left();
    let kept = below(&sandbox.directory.path().join("state/thalweg/launch"));
    let store = kept.first().and_then(|path| path.file_name()?.to_str()).expect("the store that was kept").to_owned();
    sandbox.run(&["--again", &store, "--stage-out", "/f:f", "--", "true"]).done();
    assert_eq!(fs::read_to_string(sandbox.here("f")).unwrap(), "result\n");
    sandbox.nothing_is_left();
}

#[test]
fn a_server_that_dies_is_named_and_the_job_ends_as_its_program_does() {
    let sandbox = Sandbox::new();
    let said = sandbox.here("said");
    let script = "while [ ! -e go ]; do sleep 0.02; done; $THALWEG ls thal:/ > /dev/null 2>&1 && echo names; exit 3";
    let mut command = sandbox.launch(&["--hosts", "localhost,127.0.0.2", "--", "sh", "-c", &format!("echo begun; {script}")]);
    command.stderr(fs::File::create(&said).unwrap());
    let mut job = Running::start(command);
    assert_eq!(job.line(), "begun");
    let mut parts = sandbox.parts();
    parts.sort_unstable();
    assert_eq!(parts.len(), 2, "{:?}", sandbox.processes());
    kill(parts[1], libc::SIGKILL);
    wait_until("the server is missed", || fs::read_to_string(&said).unwrap().contains("host `127.0.0.2`: its server has ended"));
    fs::write(sandbox.here("go"), "").unwrap();
    assert_eq!((job.line().as_str(), job.wait()), ("names", Some(3)), "names are served by the other");
    sandbox.nobody_is_left();
}

#[test]
fn a_job_that_is_killed_outright_leaves_no_process_and_no_mount() {
    let sandbox = Sandbox::new();
    let mount = can_mount();
    let more: &[&str] = if mount { &["--mount", "mnt"] } else { &[] };
    let (mut job, _) = begun(&sandbox, more, "exec sleep 60");
    assert_eq!(listed(&sandbox.here("mnt")).is_some(), mount);
    job.kill();
    sandbox.nobody_is_left();
    assert!(listed(&sandbox.here("mnt")).is_none());
    assert_eq!(below(&sandbox.targets()), Vec::<std::path::PathBuf>::new(), "nothing was to be copied out, so nothing stays");
    // The next job removes its credential, but nothing in use: kept stores, and those of running jobs.
    let kept = sandbox.directory.path().join("state/thalweg/launch");
    let left = below(&kept);
    assert_eq!(left.len(), 1);
    sandbox.run(&["--keep", "--hosts", "localhost", "--", "true"]).done();
    let (mut running, _) = begun(&sandbox, &[], "exec sleep 60");
    let there = below(&kept);
    assert!(!there.contains(&left[0]) && there.len() == 2, "{left:?}, {there:?}");
    sandbox.run(&["--hosts", "localhost", "--", "true"]).done();
    assert_eq!(below(&kept), there);
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn what_a_program_has_started_ends_with_a_job_that_is_killed_outright() {
    let sandbox = Sandbox::new();
    // In the background, and in a separate session; each has the test's mark.
    let (mut job, _) = begun(&sandbox, &[], "sleep 60 & setsid sleep 61 & sleep 62; :");
    wait_until("all of them run", || (60..=62).all(|n| sandbox.processes().iter().any(|(_, line)| line.trim() == format!("sleep {n}"))));
    job.kill();
    sandbox.nobody_is_left();
}

#[test]
fn a_signal_while_hosts_start_leaves_nothing() {
    let sandbox = Sandbox::new();
    let slow = sandbox.here("ssh");
    fs::write(&slow, "#!/bin/sh\necho $$ > started\nexec sleep 60\n").unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut job = sandbox.start(&["--hosts", "localhost", "--start", slow.to_str().unwrap(), "--", "true"]);
    wait_until("a host is being started", || sandbox.here("started").exists());
    job.signal(libc::SIGTERM);
    assert_eq!(job.wait(), Some(130));
    sandbox.nothing_is_left();
}
