//! `lot create --while PID` and `--job ID`: a process of ours that waits for the end of a process or a job, and then ends the lot.
//!
//! It is this program again, in a session of its own, with nothing open but what it waits for. A process is waited for through a descriptor
//! of it, opened before the lot is made and given to the watcher as its standard input: a process number may be another's by the time the
//! watcher looks. (A watcher that polled `/proc` would mistake the one for the other.) What was staged stays, best effort.

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

/// Between two questions, at first: whether a job has ended, or of a store that did not answer.
const SOON: Duration = Duration::from_millis(250);
/// Between two questions whether a job has ended, at most: a scheduler of a thousand jobs is not to notice.
const JOB_EVERY: Duration = Duration::from_secs(15);
/// Between two attempts to end a lot whose store does not answer, at most.
const STORE_EVERY: Duration = Duration::from_secs(60);

/// Arguments of the watcher.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The lot
    name: String,
    /// Its number: another lot may have its name by then
    #[arg(long)]
    number: u32,
    /// When it ends by itself, in nanoseconds since 1970: nothing is to be done any more then
    #[arg(long)]
    until: i64,
    /// The Slurm job; otherwise standard input is a process
    #[arg(long)]
    job: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
}

/// What ends a lot before its time.
pub(super) enum End {
    Process(OwnedFd),
    Job(String),
}

impl End {
    /// A process of this machine, which must be there.
    pub(super) fn of_process(number: i32) -> Result<End, Failure> {
        let wrong = || Failure::usage(format!("--while {number}: expected the number of a process"));
        let pid = (number > 0).then(|| Pid::from_raw(number)).flatten().ok_or_else(wrong)?;
        let process = pidfd_open(pid, PidfdFlags::empty());
        process.map(End::Process).map_err(|e| Failure::failed(format!("--while {number}: no such process can be waited for: {e}")))
    }

    /// A job of Slurm, which must be there.
    pub(super) fn of_job(job: &str) -> Result<End, Failure> {
        if job.is_empty() || !job.chars().all(|c| c.is_ascii_alphanumeric() || "_+[]-".contains(c)) || job.starts_with('-') {
            return Err(Failure::usage(format!("--job {job}: expected the number of a Slurm job")));
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
    /// Slurm could not be asked: why.
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

/// Starts the watcher; its process number.
pub(super) fn watch(end: End, name: &str, lot: &Lot, flags: &StoreFlags) -> Result<u32, Failure> {
    let failed = |e: std::io::Error| {
        Failure::failed(format!("lot {} is there, but nothing ends it before its time: the process for it: {e}", lot.name))
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

/// Waits, and ends the lot.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // The terminal's end is not its own. (It fails where it leads a group: then it was not started by us.)
    let _ = rustix::process::setsid();
    match &arguments.job {
        Some(job) => ask_until(JOB_EVERY, || matches!(job_state(job), JobState::Ended)),
        None => wait_for_input()?,
    }
    // Of a store that is gone for good, nobody has anything.
    ask_until(STORE_EVERY, || end(arguments) || lots::now_ns() > arguments.until);
    Ok(())
}

/// Asks until the answer is yes, and less often as time goes on.
fn ask_until(every: Duration, mut ask: impl FnMut() -> bool) {
    let mut pause = SOON;
    while !ask() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(every);
    }
}

/// Until the process behind standard input has ended.
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

/// Ends the lot. False: its store did not answer, and is to be asked again.
fn end(arguments: &Arguments) -> bool {
    let Ok((session, name)) = lots::connect(&arguments.name, &arguments.store) else { return false };
    let tracer = &mut Tracer::off();
    let mut asked = |operation| match session.names().lots(tracer, operation) {
        Ok(mut reports) => Ok(reports.pop()),
        // Removed, or no longer ours: there is nothing to end.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Access) => Ok(None),
        Err(e) => Err(e),
    };
    let Ok(found) = asked(LotOperation::Show { name: Some(name.clone()) }) else { return false };
    // Another of the same name is not this one; of one that is over, nothing is promised.
    let is_ours = found.is_some_and(|report| report.lot.id.0 == arguments.number && report.lot.until_ns > lots::now_ns());
    !is_ours || asked(LotOperation::Renew { name, for_ns: 0 }).is_ok()
}
