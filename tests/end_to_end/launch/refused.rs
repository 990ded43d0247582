//! Invalid or impossible requests: one sentence that names the problem, and nothing left half-started.

use super::Sandbox;
use crate::bounded::Bounded;
use crate::common::{CommandOutput, text};
use std::fs;

#[test]
fn each_mistake_is_one_sentence_and_starts_nothing() {
    let sandbox = Sandbox::new();
    let fails = |arguments: &[&str], code, says: &[&str]| {
        let said = sandbox.run(&[arguments, &["--", "true"]].concat()).failed(code, says);
        assert_eq!(said.err.trim_end().lines().count(), 1, "{}", said.err);
    };
    fails(&["--hosts", "no-such-host.invalid"], 1, &["host `no-such-host.invalid` is not known here", "check the spelling"]);
    fails(&["--hosts", "n[1-"], 2, &["--hosts `n[1-`", "`]`"]);
    fails(&["--hosts=-oProxyCommand=x"], 2, &["not a host name"]);
    fails(&["--hosts", "localhost", "--start", "rsh"], 2, &["--start `rsh`", "expected local, ssh, srun, mpirun"]);
    fails(&["--hosts", "192.0.2.77", "--start", "local"], 2, &["host `192.0.2.77`", "is not this machine"]);
    fails(&["--hosts", "localhost", "--stage-in", "nothing"], 2, &["--stage-in nothing: expected A:B"]);
    fails(&["--hosts", "localhost", "--stage-in", "no-such:/a"], 1, &["no-such", "No such file"]);
    fails(&["--hosts", "localhost", "--stage-out", "a:b"], 2, &["--stage-out a:b: expected A:B"]);
    fails(&[], 2, &["no --hosts", "SLURM_JOB_NODELIST", "give --hosts"]);
    sandbox.run(&["--hosts", "localhost"]).failed(2, &["expected a program"]);
    sandbox.nothing_is_left();
}

#[test]
fn an_allocation_that_cannot_be_read_is_named() {
    let sandbox = Sandbox::new();
    let within = |variable: &str, value: &str| -> CommandOutput {
        sandbox.launch(&["--", "true"]).env(variable, value).output_in_time().expect("the command starts").into()
    };
    within("SLURM_JOB_NODELIST", "n[01-").failed(2, &["SLURM_JOB_NODELIST `n[01-`", "give --hosts"]);
    within("PBS_NODEFILE", "/no/such/file").failed(2, &["PBS_NODEFILE: /no/such/file", "No such file"]);
    within("OMPI_COMM_WORLD_SIZE", "4").failed(2, &["one of 4 processes", "thalweg launch -- mpirun PROGRAM"]);
    sandbox.nothing_is_left();
}

#[test]
fn the_hosts_of_an_allocation_are_used() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.here("nodes"), "127.0.0.1\n127.0.0.1\n127.0.0.2\n").unwrap();
    let mut command = sandbox.launch(&["--", "sh", "-c", "$THALWEG df"]);
    let said: CommandOutput = command.env("PBS_NODEFILE", sandbox.here("nodes")).output_in_time().expect("the command starts").into();
    let said = said.done();
    assert!(said.out.contains("io1") && !said.out.contains("io2"), "two hosts in three lines: {}", said.out);
    sandbox.nothing_is_left();
}

#[test]
fn a_directory_that_servers_cannot_write_to_is_named_with_its_host() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.here("file"), "").unwrap();
    let wrong = sandbox.here("file/targets");
    let said: CommandOutput = sandbox
        .within({
            let mut command = std::process::Command::new(crate::common::THALWEG);
            command.args(["launch", "--hosts", "localhost", "--targets", text(&wrong), "--", "true"]);
            command
        })
        .output_in_time()
        .unwrap()
        .into();
    said.failed(1, &["host `localhost`", "file/targets", "Not a directory", "--targets"]);
    sandbox.nothing_is_left();
}

#[test]
fn a_host_that_starts_nothing_in_time_is_named() {
    let sandbox = Sandbox::new();
    let slow = sandbox.here("ssh");
    fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = sandbox.run(&["--hosts", "localhost,127.0.0.2", "--start", text(&slow), "--wait", "0.5s", "--", "true"]);
    said.failed(1, &["host `localhost` (and 1 others)", "after 0.5 s", "--wait"]);
    sandbox.nothing_is_left();
}

#[test]
fn a_login_script_that_talks_is_named() {
    let sandbox = Sandbox::new();
    let talks = sandbox.here("ssh");
    fs::write(&talks, "#!/bin/sh\necho Welcome to the cluster\nexec sleep 60\n").unwrap();
    fs::set_permissions(&talks, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = sandbox.run(&["--hosts", "localhost", "--start", text(&talks), "--", "true"]);
    said.failed(1, &["host `localhost`", "Welcome to the cluster", "login script"]);
    sandbox.nothing_is_left();
}
