//! `thalweg launch --hosts a,b,c -- PROGRAM`: a store over these hosts for as long as a program runs.

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
    after_help = "The program finds the store in THALWEG_STORE, and its credential without a flag. Exits with the program's exit code or by its signal; 1 if its \
results could not be copied out, 127 not found, 126 not executable. A signal is handed on to the program; then the store is taken down, and what was to be copied out is \
kept. docs/LAUNCH.md has examples for Slurm, PBS, MPI and Kubernetes."
)]
pub(crate) struct Arguments {
    /// The hosts, like a,b or n[01-16]; an I/O server on each (default: those of the allocation of Slurm, PBS, Open MPI or MPICH)
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// A directory on each host for the store's data. May be repeated: a target in each (default: where the host has temporary files)
    #[arg(long, value_name = "DIR")]
    targets: Vec<PathBuf>,
    /// Copy A, here, to B in the store before the program starts. May be repeated
    #[arg(long, value_name = "A:B")]
    stage_in: Vec<String>,
    /// Copy A in the store to B, here, when the program has ended. May be repeated. The store's data is not removed unless that succeeded
    #[arg(long, value_name = "A:B")]
    stage_out: Vec<String>,
    /// Mount the store on this directory, on every host and here, while the program runs
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// What starts servers: local, ssh, srun, mpirun or mpiexec, with its own flags (default: srun in Slurm's allocations, nothing on this machine,
    /// otherwise what is there)
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// How long hosts may take to serve
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = numbers::parse_duration)]
    wait: Duration,
    /// Keep the store's data on the hosts when the program has ended
    #[arg(long)]
    keep: bool,
    /// Serve a store again whose data was kept, instead of a new one. It is kept once more, unless --stage-out or --remove is given
    #[arg(long, value_name = "STORE", conflicts_with_all = ["hosts", "targets", "plain"])]
    again: Option<String>,
    /// With --again: remove the data when the program has ended
    #[arg(long, requires = "again", conflicts_with_all = ["keep", "stage_out"])]
    remove: bool,
    /// Do not encrypt between hosts, on a network that is trusted. (The credential is proven all the same)
    #[arg(long)]
    plain: bool,
    /// Where this command is on the hosts (default: where it is here)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Be the part of a job on this host
    #[arg(long, hide = true)]
    part: bool,
    /// Wait for the end of a job, and end what has its mark
    #[arg(long, hide = true, value_name = "MARK")]
    watch: Option<String>,
    /// The program to run, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs a job, or is a part of one.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.part {
        // The job knows why.
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
            return Err(Failure::usage("expected a program to run on the store, behind --: thalweg launch --hosts a,b -- PROGRAM"));
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

/// `A:B`: the place in the store begins with a slash.
fn stage_in(pair: &str) -> Result<(PathBuf, String), Failure> {
    let at = pair.rfind(":/").filter(|at| *at > 0);
    let at =
        at.ok_or_else(|| Failure::usage(format!("--stage-in {pair}: expected A:B, a path here and one in the store, like data:/data")))?;
    let from = PathBuf::from(&pair[..at]);
    if let Err(error) = std::fs::metadata(&from) {
        return Err(Failure::failed(format!("--stage-in {pair}: {}: {error}", from.display())));
    }
    Ok((from, pair[at + 1..].to_owned()))
}

fn stage_out(pair: &str) -> Result<(String, PathBuf), Failure> {
    match pair.split_once(':').filter(|(from, to)| from.starts_with('/') && !to.is_empty()) {
        Some((from, to)) => Ok((from.to_owned(), PathBuf::from(to))),
        None => Err(Failure::usage(format!("--stage-out {pair}: expected A:B, a path in the store and one here, like /results:results"))),
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
