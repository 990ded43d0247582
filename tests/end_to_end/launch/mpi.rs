//! Jobs over `mpirun`: hosts are network namespaces, which `mpirun`'s remote shell enters.

use super::{Sandbox, has};
use crate::bounded::Bounded;
use crate::common::{CommandOutput, Network, THALWEG, content, skipped, text};
use std::fs;
use std::process::Command;

/// Writes a program with the interface of `ssh`: flags, a host, a command; the host is a namespace.
fn agent(sandbox: &Sandbox, network: &Network, machines: usize) -> String {
    let cases: String = (0..machines).map(|i| format!("{}) space={};;\n", Network::address(i), network.namespace(i))).collect();
    let script = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1; shift\ncase $host in\n{cases}esac\n\
         exec nsenter --net=\"$space\" sh -c \"$*\"\n"
    );
    let path = sandbox.here("agent");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    text(&path).to_owned()
}

/// Runs a job on hosts whose servers are reached through an encrypted network; the program runs on the first.
fn over(mpirun: &str, flags: impl Fn(&str) -> String) {
    let sandbox = Sandbox::new();
    if !has(mpirun, "a job over mpirun") {
        return;
    }
    let Some(network) = Network::of(3) else { return skipped("no network namespaces here (needs root): a job over mpirun") };
    let starter = format!("{mpirun} {}", flags(&agent(&sandbox, &network, 3)));
    let bytes = content(7, 2 << 20);
    fs::write(sandbox.here("a"), &bytes).unwrap();
    let hosts: Vec<String> = (0..3).map(Network::address).collect();
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", network.namespace(0))).args([
        THALWEG,
        "launch",
        "--hosts",
        &hosts.join(","),
        "--targets",
        text(&sandbox.targets()),
    ]);
    command.args(["--start", &starter, "--stage-in", "a:/a", "--stage-out", "/b:b", "--", "sh", "-c"]);
    command.arg("$THALWEG mv thal:/a thal:/b && echo $THALWEG_STORE && $THALWEG df");
    let mut command = sandbox.within(command);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").env("TMPDIR", sandbox.here("."));
    let said: CommandOutput = CommandOutput::from(command.output_in_time().expect("nsenter runs")).done();
    let address = said.out.lines().next().unwrap_or_default();
    assert!(address.starts_with(&format!("thal://{}:", hosts[0])) && address.contains('#'), "encrypted: {address}");
    assert!(["io0", "io1", "io2"].iter().all(|server| said.out.contains(server)), "{}", said.out);
    assert!(fs::read(sandbox.here("b")).unwrap() == bytes);
    sandbox.nothing_is_left();
}

#[test]
fn a_job_over_open_mpis_mpirun_spans_hosts() {
    over("mpirun.openmpi", |agent| format!("--mca plm_rsh_agent {agent}"));
}

#[test]
fn a_job_over_mpichs_mpirun_spans_hosts() {
    over("mpirun.mpich", |agent| format!("-localhost {} -launcher ssh -launcher-exec {agent}", Network::address(0)));
}
