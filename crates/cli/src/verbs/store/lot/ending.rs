//! `lot create --while PID` and `--job ID`: a watcher process that waits for the end of a process or a job, and then expires the lot.
//!
//! It is this program again, in its own session, with no other descriptors open. A process is waited for through a pidfd, opened before the
//! lot is made and passed to the watcher as its standard input, because a PID may be reused before the watcher starts (polling `/proc`
//! would not notice). Files in the lot stay, best effort.

use crate::operand::StoreFlags;
use crate::terminal::detached;
use crate::{failure::Failure, lots};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use thalweg_trace::Tracer;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::lots::{Lot, LotOperation};

/// First interval of polling a job, or of retries with a store that did not answer.
const SOON: Duration = Duration::from_millis(250);
/// Maximum interval of polling a job: a scheduler with 1000 such watchers must not be loaded by them.
const JOB_EVERY: Duration = Duration::from_secs(15);
/// Maximum interval of attempts to expire a lot whose store does not answer.
const STORE_EVERY: Duration = Duration::from_secs(60);

/// Arguments of the watcher.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The lot
    name: String,
    /// Its id: another lot may have its name by then
    #[arg(long)]
    number: u32,
    /// The end of its term in ns since 1970: there is nothing to do after that
    #[arg(long)]
    until: i64,
    /// The Slurm job; without it, standard input is a pidfd
    #[arg(long)]
    job: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
}

/// A process or job whose end expires a lot.
pub(super) enum End {
    Process(OwnedFd),
    Job(String),
}

impl End {
    /// Opens a process on this machine, which must exist.
    pub(super) fn of_process(number: i32) -> Result<End, Failure> {
        let wrong = || Failure::usage(format!("--while {number}: expected a PID"));
        let pid = (number > 0).then(|| Pid::from_raw(number)).flatten().ok_or_else(wrong)?;
        let process = pidfd_open(pid, PidfdFlags::empty());
        process.map(End::Process).map_err(|e| Failure::failed(format!("--while {number}: cannot wait for this process: {e}")))
    }

    /// Checks a Slurm job, which must exist.
    pub(super) fn of_job(job: &str) -> Result<End, Failure> {
        if job.is_empty() || !job.chars().all(|c| c.is_ascii_alphanumeric() || "_+[]-".contains(c)) || job.starts_with('-') {
            return Err(Failure::usage(format!("--job {job}: expected the id of a Slurm job")));
        }
        match job_state(job) {
            JobState::There => Ok(End::Job(job.to_owned())),
            JobState::Ended => Err(Failure::failed(format!("--job {job}: Slurm has no such job, or it has ended"))),
            JobState::Unknown(problem) => Err(Failure::failed(format!("--job {job}: {problem}"))),
        }
    }
}

enum JobState {
    There,
    Ended,
    /// Why Slurm could not be queried.
    Unknown(String),
}

fn job_state(job: &str) -> JobState {
    let asked = match Command::new("squeue").args(["-h", "-j", job]).stdin(Stdio::null()).output() {
        Ok(asked) => asked,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return JobState::Unknown("squeue is not on this machine: run this where Slurm's commands are, or use --while PID".to_owned());
        }
        Err(e) => return JobState::Unknown(format!("squeue: {e}")),
    };
    let said = String::from_utf8_lossy(&asked.stderr);
    match asked.status.success() {
        true if asked.stdout.iter().any(|byte| !byte.is_ascii_whitespace()) => JobState::There,
        true => JobState::Ended,
        false if said.contains("Invalid job id") => JobState::Ended,
        false => JobState::Unknown(format!("squeue failed: {}", said.trim())),
    }
}

/// Starts the watcher; returns its PID.
pub(super) fn watch(end: End, name: &str, lot: &Lot, flags: &StoreFlags) -> Result<u32, Failure> {
    let failed = |e: std::io::Error| {
        Failure::failed(format!("lot {} was created, but will expire only at the end of its term: cannot start the watcher: {e}", lot.name))
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["lot", "end-with", "--number", &lot.id.to_string(), "--until", &lot.until_ns.to_string()]);
    command.args(flags.absolute(name)?);
    let input = match end {
        End::Process(process) => Stdio::from(process),
        End::Job(job) => {
            command.args(["--job", &job]);
            Stdio::null()
        }
    };
    command.args(["--", &lot.name]);
    let started = detached::spawn(command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/"));
    Ok(started.map_err(failed)?.id())
}

/// Waits, and expires the lot.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A new session, so that the end of the terminal does not end it. (Fails for a process group leader, which this verb did not start.)
    let _ = rustix::process::setsid();
    match &arguments.job {
        Some(job) => ask_until(JOB_EVERY, || matches!(job_state(job), JobState::Ended)),
        None => wait_for_input()?,
    }
    // It gives up after the end of the term: the lot has expired anyway.
    ask_until(STORE_EVERY, || end(arguments) || lots::now_ns() > arguments.until);
    Ok(())
}

/// Polls `ask` until it returns true, with back-off.
fn ask_until(every: Duration, mut ask: impl FnMut() -> bool) {
    let mut pause = SOON;
    while !ask() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(every);
    }
}

/// Waits until the process whose pidfd is standard input has ended.
fn wait_for_input() -> Result<(), Failure> {
    let input = std::io::stdin();
    loop {
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], None) {
            Ok(1..) => return Ok(()),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::failed(format!("waiting for a process: {e}"))),
        }
    }
}

/// Expires the lot. Returns false if its store did not answer: try again.
fn end(arguments: &Arguments) -> bool {
    let Ok((session, name)) = lots::connect(&arguments.name, &arguments.store) else { return false };
    let tracer = &mut Tracer::off();
    let mut asked = |operation| match session.names().lots(tracer, operation) {
        Ok(mut reports) => Ok(reports.pop()),
        // Removed, or no longer accessible: nothing to expire.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Access) => Ok(None),
        Err(e) => Err(e),
    };
    let Ok(found) = asked(LotOperation::Show { name: Some(name.clone()) }) else { return false };
    // A lot of the same name with another id is not this one; an expired one needs nothing.
    let is_ours = found.is_some_and(|report| report.lot.id.0 == arguments.number && report.lot.until_ns > lots::now_ns());
    !is_ours || asked(LotOperation::Renew { name, for_ns: 0 }).is_ok()
}
