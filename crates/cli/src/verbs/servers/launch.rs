//! `thalweg launch --hosts a,b,c -- PROGRAM`: runs a store over these hosts for as long as a program runs.

use crate::failure::Failure;
use crate::output;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_launch::{Job, LaunchError, SavedStore, Starter, hosts};
use thalweg_record::Exit;

/// Arguments of `thalweg launch`.
#[derive(clap::Args)]
#[command(
    after_help = "The program gets the store's address in THALWEG_STORE and finds its credential without a flag. Exits with the program's exit code or by its \
    signal; 1 if its results could not be copied out, 127 not found, 126 not executable. If `launch` gets a signal, it passes the signal \
    on to the program; then the store is shut down, and data that was not yet copied out is kept. docs/LAUNCH.md has examples for Slurm, \
    PBS, MPI and Kubernetes."
)]
pub(crate) struct Arguments {
    /// The hosts, like a,b or n[01-16], each with an I/O server (default: the hosts of the Slurm, PBS, Open MPI or MPICH allocation)
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// A directory on each host for the store's data (default: the host's directory for temporary files). May be repeated; each gets a
    /// target
    #[arg(long, value_name = "DIR")]
    targets: Vec<PathBuf>,
    /// Copy the local path A to B in the store before the program starts. May be repeated
    #[arg(long, value_name = "A:B")]
    stage_in: Vec<String>,
    /// Copy A in the store to the local path B when the program has ended; the store's data is removed only if the copy succeeds. May be
    /// repeated
    #[arg(long, value_name = "A:B")]
    stage_out: Vec<String>,
    /// Mount the store on this directory, on every host and on this machine, while the program runs
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// The command that starts servers: local, ssh, srun, mpirun or mpiexec, with its flags (default: srun in a Slurm allocation, local on
    /// this machine, otherwise the first one installed)
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Timeout for the servers on the hosts to start
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = numbers::parse_duration)]
    wait: Duration,
    /// Keep the store's data on the hosts when the program has ended
    #[arg(long)]
    keep: bool,
    /// Start a store again from kept data, instead of a new one. The data is kept again, unless --stage-out or --remove is given
    #[arg(long, value_name = "STORE", conflicts_with_all = ["hosts", "targets", "plain"])]
    again: Option<String>,
    /// With --again: remove the data when the program has ended
    #[arg(long, requires = "again", conflicts_with_all = ["keep", "stage_out"])]
    remove: bool,
    /// Do not encrypt between hosts, on a trusted network (credentials are still checked)
    #[arg(long)]
    plain: bool,
    /// Path of this command on the hosts (default: the same as here)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Run the part of a job on this host
    #[arg(long, hide = true)]
    part: bool,
    /// Wait for the end of a job, then end the processes that have its mark
    #[arg(long, hide = true, value_name = "MARK")]
    watch: Option<String>,
    /// The program to run, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs a job, or the part of a job on this host.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.part {
        // The job reports why.
        return thalweg_launch::part(output::note).map_err(|_| Failure::Reported);
    }
    if let Some(mark) = &arguments.watch {
        thalweg_launch::watch(mark);
        return Ok(());
    }
    let status = thalweg_launch::run(&arguments.job()?).map_err(failure)?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Ended(Exit::Code(code))),
        (None, signal) => Err(Failure::Ended(Exit::Signal(signal.unwrap_or_default()))),
    }
}

impl Arguments {
    fn job(&self) -> Result<Job, Failure> {
        if self.command.is_empty() {
            return Err(Failure::usage("expected a program to run, after --: thalweg launch --hosts a,b -- PROGRAM"));
        }
        let variable = |name: &str| std::env::var(name).ok();
        hosts::started_once(&variable).map_err(failure)?;
        let again = self.again.as_deref().map(SavedStore::find).transpose().map_err(failure)?;
        let (hosts, source) = match (&again, &self.hosts) {
            (Some(kept), _) => (kept.hosts.clone(), hosts::source(&variable)),
            (None, Some(given)) => (hosts::given(given).map_err(failure)?, hosts::source(&variable)),
            (None, None) => hosts::of_allocation(&variable).map_err(failure)?,
        };
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
        Ok(Job {
            hosts,
            source,
            starter: self.start.as_deref().map(Starter::parse).transpose().map_err(failure)?,
            program_there: self.program.clone(),
            targets: self.targets.iter().map(absolute).collect::<Result<_, _>>()?,
            again,
            plain: self.plain,
            wait: self.wait,
            stage_in: self.stage_in.iter().map(|pair| stage_in(pair)).collect::<Result<_, _>>()?,
            stage_out: self.stage_out.iter().map(|pair| stage_out(pair)).collect::<Result<_, _>>()?,
            mount: self.mount.as_ref().map(absolute).transpose()?,
            keep: self.keep || self.again.is_some() && self.stage_out.is_empty() && !self.remove,
            program: self.command.clone(),
            note: |text| output::note(&format!("thalweg launch: {text}")),
        })
    }
}

/// Parses `A:B`, where B begins with a slash.
fn stage_in(pair: &str) -> Result<(PathBuf, String), Failure> {
    let at = pair.rfind(":/").filter(|at| *at > 0);
    let at =
        at.ok_or_else(|| Failure::usage(format!("--stage-in {pair}: expected A:B, a local path and one in the store, like data:/data")))?;
    let from = PathBuf::from(&pair[..at]);
    if let Err(error) = std::fs::metadata(&from) {
        return Err(Failure::failed(format!("--stage-in {pair}: {}: {error}", from.display())));
    }
    Ok((from, pair[at + 1..].to_owned()))
}

fn stage_out(pair: &str) -> Result<(String, PathBuf), Failure> {
    match pair.split_once(':').filter(|(from, to)| from.starts_with('/') && !to.is_empty()) {
        Some((from, to)) => Ok((from.to_owned(), PathBuf::from(to))),
        None => Err(Failure::usage(format!("--stage-out {pair}: expected A:B, a store path and a local one, like /results:results"))),
    }
}

fn failure(error: LaunchError) -> Failure {
    match error {
        LaunchError::Usage(message) => Failure::Usage(message),
        LaunchError::Failed(message) => Failure::Failed(message),
        LaunchError::Interrupted(message) => Failure::Interrupted(message),
        LaunchError::NotRun(message, code) => Failure::NotRun(message, code),
    }
}
