//! `explain -- COMMAND`: runs and records the command once, or several times and explains the median run.

use super::recorded::{Use, record};
use crate::failure::Failure;
use crate::output;
use crate::recordings::record_flags::RecordFlags;
use crate::recordings::temporary::Temporary;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use thalweg_base::numbers;
use thalweg_explain::{Explanation, Options};
use thalweg_record::Exit;

/// Flags for the number of runs, and commands before and after them.
#[derive(clap::Args)]
#[command(next_help_heading = "Several runs")]
pub(super) struct Repeat {
    /// Run and record the command N times; explain the run of median wall time, with the spread over all runs
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "recordings", value_parser = numbers::parse_count)]
    pub(super) runs: Option<u32>,
    /// Run this with sh -c before each run; it is not recorded
    #[arg(long, value_name = "CMD", conflicts_with = "recordings")]
    pub(super) prepare: Option<String>,
    /// Run this with sh -c after the last run
    #[arg(long, value_name = "CMD", conflicts_with = "recordings")]
    pub(super) cleanup: Option<String>,
}

/// A request to run, record and explain a command.
pub(super) struct Wanted<'a> {
    /// The command.
    pub(super) command: &'a [OsString],
    /// The recording flags.
    pub(super) flags: &'a RecordFlags,
    /// The number of runs, and commands around them.
    pub(super) repeat: &'a Repeat,
    /// The path for the recording, if it is kept.
    pub(super) output: Option<&'a Path>,
    /// Options of the explanation.
    pub(super) options: Options,
}

impl Wanted<'_> {
    /// Returns the use of the recording.
    pub(super) fn to(&self) -> Use {
        Use { keep_command: false, read_once: self.output.is_none() }
    }
}

/// The result of running, recording and explaining a command.
pub(super) struct Ran {
    /// How the command ended.
    pub(super) exit: Option<Exit>,
    /// The explanation of the run, or of the median one.
    pub(super) explained: Result<Explanation, Failure>,
    /// Notes on the recording.
    pub(super) notes: Vec<String>,
    /// Those of them that say why a better recorder was not used.
    pub(super) unavailable: Vec<String>,
}

/// Runs the command as many times as asked for, and explains the recording. Recordings that are not kept are in `temporary`.
///
/// # Errors
/// The command could not be run, `--prepare` or `--cleanup` failed, or one of several runs failed.
pub(super) fn run(wanted: &Wanted<'_>, temporary: &Temporary) -> Result<Ran, Failure> {
    let ran = match wanted.repeat.runs.unwrap_or(1) {
        1 => once(wanted, temporary),
        runs => several(wanted, temporary, runs as usize),
    };
    // Also after a failure: to remove what --prepare made.
    let cleaned = around("--cleanup", wanted.repeat.cleanup.as_deref(), "after the last run");
    let ran = ran?;
    cleaned?;
    Ok(ran)
}

fn once(wanted: &Wanted<'_>, temporary: &Temporary) -> Result<Ran, Failure> {
    around("--prepare", wanted.repeat.prepare.as_deref(), "before the run")?;
    let path = wanted.output.map_or_else(|| temporary.recording("command.thw"), Path::to_owned);
    let recorded = record(wanted.command, wanted.flags, &path, wanted.to())?;
    temporary.guard();
    let explained = recorded.explained(&wanted.options);
    Ok(Ran { exit: recorded.exit, explained, notes: recorded.notes, unavailable: recorded.unavailable })
}

fn several(wanted: &Wanted<'_>, temporary: &Temporary, runs: usize) -> Result<Ran, Failure> {
    if let Some(output) = wanted.output {
        free(output)?;
    }
    let mut outcomes = Vec::new();
    for nth in 1..=runs {
        around("--prepare", wanted.repeat.prepare.as_deref(), &format!("before run {nth} of {runs}"))?;
        let outcome = record(wanted.command, wanted.flags, &temporary.recording(&format!("run-{nth}.thw")), wanted.to())?;
        if let Some(exit) = outcome.exit.filter(|exit| *exit != Exit::Code(0)) {
            let how = match exit {
                Exit::Code(code) => format!("failed with exit code {code}"),
                Exit::Signal(signal) => format!("was killed by signal {signal}"),
            };
            output::note(&format!(
                "thalweg explain: run {nth} of {runs} {how}: so nothing is explained; leave out -n to explain a failing run"
            ));
            return Err(Failure::Ended(exit));
        }
        outcomes.push(outcome);
    }
    temporary.guard();
    let all = outcomes.iter().map(|recorded| recorded.explained(&wanted.options)).collect::<Result<Vec<_>, _>>()?;
    let explained = thalweg_study::repeated(&all).ok_or_else(|| Failure::failed("no run was explained"))?;
    let median = &outcomes[explained.repeated.as_ref().map_or(0, |repeated| repeated.explained - 1)];
    if let Some(output) = wanted.output {
        keep(&median.path, output)?;
    }
    Ok(Ran { exit: median.exit, explained: Ok(explained), notes: median.notes.clone(), unavailable: median.unavailable.clone() })
}

/// Runs a `--prepare` or `--cleanup` command. Its output goes to standard error, since standard output is the command's.
pub(super) fn around(flag: &str, command: Option<&str>, when: &str) -> Result<(), Failure> {
    let Some(command) = command else { return Ok(()) };
    let failed = |how: String| Failure::failed(format!("{flag} '{command}', {when}: {how}"));
    let ours = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned().map_err(|e| failed(e.to_string()))?;
    let ran = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(ours).status();
    match ran {
        Err(error) => Err(failed(error.to_string())),
        Ok(status) if !status.success() => Err(failed(format!("failed with {status}"))),
        Ok(_) => Ok(()),
    }
}

/// Checks before the runs that the median's recording can be moved to `output` after them.
fn free(output: &Path) -> Result<(), Failure> {
    let is_taken = output.symlink_metadata().is_ok() && std::fs::read_dir(output).map_or(true, |mut entries| entries.next().is_some());
    let problem = "exists and is not empty; choose another name for the recording, or remove it first";
    if is_taken { Err(Failure::failed(format!("{}: {problem}", output.display()))) } else { Ok(()) }
}

/// Moves a recording, possibly to another file system.
fn keep(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::failed(format!("{}: cannot move the recording there: {e}", to.display()));
    std::fs::rename(from, to).or_else(|_| copy_tree(from, to)).map_err(failed)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
