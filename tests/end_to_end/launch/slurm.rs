//! A job under Slurm: its daemons on this machine, with separate keys, ports and directories, and the example's script.

use super::{Sandbox, has};
use crate::bounded::Bounded;
use crate::common::{CommandOutput, is_root, skipped, text, wait_until};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `munged`, `slurmctld` and `slurmd`; ended when dropped, the last first.
struct Slurm {
    processes: Vec<Child>,
    configuration: PathBuf,
    directory: PathBuf,
}

impl Slurm {
    /// Starts them; `None` if unavailable, with the reason printed.
    fn start(sandbox: &Sandbox) -> Option<Slurm> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch", "srun"] {
            if !has(program, "a job under Slurm") {
                return None;
            }
        }
        if !is_root() {
            skipped("slurmd needs root: a job under Slurm");
            return None;
        }
        let directory = sandbox.directory.path().join("slurm");
        for name in ["", "state", "spool"] {
            fs::create_dir(directory.join(name)).unwrap();
        }
        // Munge's socket must be accessible to all users.
        for path in [sandbox.directory.path(), &directory] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut slurm = Slurm { processes: Vec::new(), configuration: directory.join("slurm.conf"), directory };
        fs::write(&slurm.configuration, slurm.described()).unwrap();
        slurm.munge();
        let configuration = text(&slurm.configuration).to_owned();
        slurm.daemon("/usr/sbin/slurmctld", &["-D", "-i", "-f", &configuration]);
        slurm.daemon("/usr/sbin/slurmd", &["-D", "-f", &configuration]);
        let begun = std::time::Instant::now();
        while !slurm.command("sinfo", &["-h", "-o", "%T"]).out.contains("idle") {
            if begun.elapsed().as_secs() > 30 {
                let said = fs::read_to_string(slurm.directory.join("slurmd.log")).unwrap_or_default();
                skipped(&format!("Slurm's daemons do not come up here: a job under Slurm ({})", said.lines().last().unwrap_or_default()));
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Some(slurm)
    }

    fn described(&self) -> String {
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = rustix::system::uname().nodename().to_string_lossy().split('.').next().unwrap_or_default().to_owned();
        let at = self.directory.display();
        format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={at}/munge.socket\nSlurmctldPort={}\nSlurmdPort={}\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             MpiDefault=none\nReturnToService=2\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nNodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n\
             PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP\n",
            port(),
            port()
        )
    }

    fn munge(&mut self) {
        let at = |name: &str| text(&self.directory.join(name)).to_owned();
        fs::write(at("munge.key"), crate::common::content(3, 128)).unwrap();
        fs::set_permissions(at("munge.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let of = |flag: &str, name: &str| format!("--{flag}={}", at(name));
        let files = [
            of("socket", "munge.socket"),
            of("key-file", "munge.key"),
            of("pid-file", "munge.pid"),
            of("log-file", "munge.log"),
            of("seed-file", "munge.seed"),
        ];
        let mut flags = vec!["--foreground", "--force"];
        flags.extend(files.iter().map(String::as_str));
        let socket = PathBuf::from(at("munge.socket"));
        self.daemon("/usr/sbin/munged", &flags);
        wait_until("munged listens", || socket.exists());
    }

    fn daemon(&mut self, program: &str, flags: &[&str]) {
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        let log = fs::File::create(self.directory.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(program);
        command.args(flags).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.processes.push(command.spawn().expect("a daemon of Slurm starts"));
    }

    fn command(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        Command::new(program).args(arguments).env("SLURM_CONF", &self.configuration).output_in_time().expect("a command of Slurm").into()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // SAFETY: kill has no memory effects; the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(process.id() as i32, libc::SIGTERM) };
            let begun = std::time::Instant::now();
            while matches!(process.try_wait(), Ok(None)) && begun.elapsed().as_secs() < 10 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Submits a script, with a site's changes; returns the job's number.
fn submitted(sandbox: &Sandbox, slurm: &Slurm, script: &Path) -> String {
    let out = format!("--output={}", text(&sandbox.here("job.log")));
    let mut command = Command::new("sbatch");
    command.args(["--parsable", "--nodes=1", "--chdir", text(&sandbox.here(".")), &out]).arg(script);
    let mut command = sandbox.within(command);
    let directory = Path::new(crate::common::THALWEG).parent().unwrap().display();
    command.env("PATH", format!("{directory}:{}", std::env::var("PATH").unwrap())).env("SLURM_CONF", &slurm.configuration);
    command.env("SCRATCH", sandbox.targets());
    CommandOutput::from(command.output_in_time().expect("sbatch")).done().out.trim().to_owned()
}

/// Waits for a job's end; returns its state, like `COMPLETED 0:0`. (`sbatch --wait` polls only every half minute.)
fn ended(slurm: &Slurm, job: &str) -> String {
    let state = || slurm.command("squeue", &["--noheader", "--states=all", "--format=%T", "--job", job]).out.trim().to_owned();
    wait_until("the job has ended", || !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"].contains(&state().as_str()));
    let shown = slurm.command("scontrol", &["--oneliner", "show", "job", job]).out;
    let exit = shown.split_whitespace().find_map(|word| word.strip_prefix("ExitCode=")).unwrap_or_default().to_owned();
    format!("{} {exit}", state())
}

#[test]
fn the_examples_batch_job_runs_on_a_store_of_its_own() {
    let sandbox = Sandbox::new();
    let Some(slurm) = Slurm::start(&sandbox) else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/launch/slurm.sbatch");
    fs::create_dir(sandbox.here("input")).unwrap();
    fs::write(sandbox.here("input/numbers"), "3\n1\n2\n").unwrap();
    let ended = ended(&slurm, &submitted(&sandbox, &slurm, &example));
    let log = fs::read_to_string(sandbox.here("job.log")).unwrap_or_default();
    assert_eq!(ended, "COMPLETED 0:0", "{log}");
    assert_eq!(fs::read_to_string(sandbox.here("results/sorted")).unwrap(), "1\n2\n3\n", "{log}");
    sandbox.nothing_is_left();
}

#[test]
fn a_job_that_is_cancelled_leaves_no_server_and_keeps_what_was_to_be_copied_out() {
    let sandbox = Sandbox::new();
    let Some(slurm) = Slurm::start(&sandbox) else { return };
    let script = sandbox.here("job");
    fs::write(&script, "#!/bin/sh\nexec thalweg launch --targets \"$SCRATCH\" --stage-out /f:f -- sh -c 'touch begun; exec sleep 60'\n")
        .unwrap();
    let job = submitted(&sandbox, &slurm, &script);
    wait_until("the program runs", || sandbox.here("begun").exists());
    slurm.command("scancel", &["--signal=TERM", "--full", &job]).done();
    assert!(!ended(&slurm, &job).contains("0:0"));
    sandbox.nobody_is_left();
    assert_eq!(
        super::below(&sandbox.directory.path().join("state/thalweg/launch")).len(),
        1,
        "{}",
        fs::read_to_string(sandbox.here("job.log")).unwrap()
    );
}
