//! The end of a job that was killed: what its program has started ends too.
//!
//! A job that is killed with SIGKILL can do nothing any more, and the signal that its program gets then does not reach the program's children. So a process
//! of its own waits for the job's end on a pipe. What belongs to the program is known by a mark in its environment, which children inherit. (Rejected: the
//! program's process group, which `setsid` leaves and which on a terminal is the job's own; a control group, which takes privilege or a delegation.)

use crate::child::this_program;
use crate::error::{LaunchError, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_store::wire::protocol::common::random_u64;

/// The variable with the mark.
const MARK: &str = "THALWEG_LAUNCH";
/// What the job says when its program has ended by itself: what that has left behind is its own affair.
const DONE: &[u8] = b"done";
/// How long processes have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How often processes are looked for meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// The process that waits for the job's end.
pub(crate) struct Watcher {
    process: Child,
}

impl Watcher {
    /// Marks a program that is about to be started, and begins to watch.
    pub(crate) fn start(program: &mut Command) -> Result<Watcher> {
        let mark = format!("{:016x}", random_u64());
        program.env(MARK, &mark);
        let mut command = Command::new(this_program()?);
        // In a group of its own: what the keyboard sends is not for it.
        command.args(["launch", "--watch", &mark]).env_remove(MARK).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|e| LaunchError::failed(format!("watching the program: {e}")))?;
        Ok(Watcher { process })
    }

    /// The program has ended.
    pub(crate) fn done(mut self) {
        if let Some(mut input) = self.process.stdin.take() {
            let _ = input.write_all(DONE);
        }
        let _ = self.process.wait();
    }
}

/// Waits until the job has ended, and ends what has the mark if the job could not say that the program had ended.
pub fn watch(mark: &str) {
    let mut said = Vec::new();
    let _ = std::io::stdin().lock().take(DONE.len() as u64).read_to_end(&mut said);
    if said == DONE {
        return;
    }
    let wanted = format!("{MARK}={mark}");
    let begun = Instant::now();
    while begun.elapsed() < GRACE * 2 {
        // More than once: one may have been starting another when it was looked for.
        let signal = if begun.elapsed() < GRACE { Signal::TERM } else { Signal::KILL };
        if end_marked(&wanted, signal) == 0 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends a signal to every process with this in its environment: to how many.
fn end_marked(wanted: &str, signal: Signal) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let is_marked = |pid: Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let marked = pids.filter(|pid| is_marked(*pid));
    marked
        .filter(|pid| {
            // The number may be another process's by the time of the signal: what is looked at once more is the one that gets it.
            let held = pidfd_open(*pid, PidfdFlags::empty());
            held.is_ok_and(|held| is_marked(*pid) && pidfd_send_signal(&held, signal).is_ok())
        })
        .count()
}
