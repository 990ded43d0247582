//! Jobs on this machine.

use super::{Sandbox, below, copies_through};
use crate::common::{can_mount, listed, text};
use std::fs;

#[test]
fn a_job_finds_its_store_and_leaves_nothing_but_its_results() {
    let sandbox = Sandbox::new();
    let said = copies_through(&sandbox, &["--hosts", "localhost,127.0.0.2"]);
    assert!(said.err.contains("io0") && said.err.contains("io1"), "a server for each host: {}", said.err);
    sandbox.nothing_is_left();
}

#[test]
fn a_job_ends_as_its_program_did() {
    let sandbox = Sandbox::new();
    let of = |script: &str| sandbox.run(&["--hosts", "localhost", "--", "sh", "-c", script]);
    assert_eq!(of("exit 7").code, Some(7));
    assert_eq!(of("kill -KILL $$").code, None, "by its signal");
    sandbox.run(&["--hosts", "localhost", "--", "no-such-program"]).failed(127, &["no-such-program: not found"]);
    sandbox.run(&["--hosts", "localhost", "--", "/etc/passwd"]).failed(126, &["/etc/passwd: not executable"]);
    sandbox.nothing_is_left();
}

#[test]
fn a_program_works_on_a_mount_of_every_host_and_here() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let mount = sandbox.here("mnt");
    let script = "echo hello > mnt/greeting && mkdir mnt/more && cp mnt/greeting mnt/more/";
    let hosts = ["--hosts", "localhost,localhost", "--mount", "mnt", "--stage-out", "/more:more"];
    sandbox.run(&[&hosts[..], &["--", "sh", "-c", script]].concat()).done();
    assert_eq!(fs::read_to_string(sandbox.here("more/greeting")).unwrap(), "hello\n");
    assert!(listed(&mount).is_none() && !mount.exists(), "the mount and the directory that was made for it are gone");
    sandbox.nothing_is_left();
}

#[test]
fn a_mount_that_somebody_still_uses_is_taken_away_all_the_same() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    // Left behind by the program, with the mount as its working directory.
    sandbox
        .run(&["--hosts", "localhost", "--mount", "mnt", "--", "sh", "-c", "cd mnt && { sleep 60 > /dev/null 2>&1 & echo $! > ../left; }"])
        .done();
    assert!(listed(&sandbox.here("mnt")).is_none());
    let left: i32 = fs::read_to_string(sandbox.here("left")).unwrap().trim().parse().unwrap();
    assert!(sandbox.processes().iter().all(|(pid, _)| *pid == left), "{:?}", sandbox.processes());
    // SAFETY: kill has no memory effects; the process is the one that the program has left.
    unsafe { libc::kill(left, libc::SIGKILL) };
    sandbox.nobody_is_left();
}

#[test]
fn data_that_is_kept_is_served_again_with_its_bytes() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.here("f"), "kept").unwrap();
    let said = sandbox.run(&["--hosts", "localhost,127.0.0.2", "--keep", "--stage-in", "f:/f", "--", "true"]).done();
    sandbox.nobody_is_left();
    let store = said.err.split("--again ").nth(1).and_then(|rest| rest.split(' ').next()).expect("how it is served again").to_owned();
    assert_eq!(below(&sandbox.targets()).len(), 1);
    let inspected = sandbox.run(&["--again", &store, "--", "sh", "-c", "$THALWEG ls thal:/"]).done();
    assert_eq!(inspected.out, "f\n");
    assert_eq!(below(&sandbox.targets()).len(), 1, "looking takes nothing away");
    let again = sandbox.run(&["--again", &store, "--stage-out", "/f:g", "--", "sh", "-c", "$THALWEG cat thal:/f"]).done();
    assert_eq!((again.out.as_str(), fs::read_to_string(sandbox.here("g")).unwrap().as_str()), ("kept", "kept"));
    sandbox.nothing_is_left();
    sandbox.run(&["--again", &store, "--", "true"]).failed(2, &["--again", &store, "`thalweg launch` kept"]);
}

#[test]
fn what_was_not_copied_out_stays_and_the_command_that_is_said_gets_it() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.here("f"), "precious").unwrap();
    fs::write(sandbox.here("in-the-way"), "").unwrap();
    let out = format!("/f:{}", text(&sandbox.here("in-the-way/f")));
    let said = sandbox.run(&["--hosts", "localhost", "--stage-in", "f:/f", "--stage-out", &out, "--", "true"]);
    let said = said.failed(1, &["not copied out", "in-the-way", "stays on its hosts"]);
    sandbox.nobody_is_left();
    fs::remove_file(sandbox.here("in-the-way")).unwrap();
    let command = said.err.split('`').find(|part| part.contains("--again")).expect("a command");
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    sandbox.run(&words).done();
    assert_eq!(fs::read_to_string(sandbox.here("in-the-way/f")).unwrap(), "precious");
    sandbox.nothing_is_left();
}
