//! Ending the processes of a program whose job was killed.
//!
//! A job killed by SIGKILL cannot clean up, and the signal its program then gets does not reach the program's children. So a separate
//! process waits for the job's end on a pipe. The program's processes are identified by a variable in their environment, which children
//! inherit. (Rejected: the program's process group, which `setsid` leaves and which on a terminal is the job's own; a control group, which
//! requires privilege or delegation.)

use crate::child::this_program;
use crate::error::{LaunchError, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_store::wire::protocol::common::random_u64;

/// The environment variable that marks the program's processes.
const MARK: &str = "THALWEG_LAUNCH";
/// Sent by the job when its program has ended by itself; then processes it left behind are not touched.
const DONE: &[u8] = b"done";
/// Grace period for processes after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// Pause between scans for marked processes.
const PAUSE: Duration = Duration::from_millis(50);

/// The process that waits for the job's end.
pub(crate) struct Watcher {
    process: Child,
}

impl Watcher {
    /// Marks a program that is about to be started, and starts the watcher.
    pub(crate) fn start(program: &mut Command) -> Result<Watcher> {
        let mark = format!("{:016x}", random_u64());
        program.env(MARK, &mark);
        let mut command = Command::new(this_program()?);
        // In its own process group, so that the keyboard's signals do not reach it.
        command.args(["launch", "--watch", &mark]).env_remove(MARK).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|e| LaunchError::failed(format!("watching the program: {e}")))?;
        Ok(Watcher { process })
    }

    /// Reports that the program has ended by itself.
    pub(crate) fn done(mut self) {
        if let Some(mut input) = self.process.stdin.take() {
            let _ = input.write_all(DONE);
        }
        let _ = self.process.wait();
    }
}

/// Waits for the job's end, and ends the marked processes unless the program had ended by itself.
pub fn watch(mark: &str) {
    let mut said = Vec::new();
    let _ = std::io::stdin().lock().take(DONE.len() as u64).read_to_end(&mut said);
    if said == DONE {
        return;
    }
    let wanted = format!("{MARK}={mark}");
    let begun = Instant::now();
    while begun.elapsed() < GRACE * 2 {
        // Repeatedly: a process may have started another during a scan.
        let signal = if begun.elapsed() < GRACE { Signal::TERM } else { Signal::KILL };
        if end_marked(&wanted, signal) == 0 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends a signal to every process with this variable in its environment; returns their number.
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
            // The process ID may be reused in the meantime: opens it first, then checks the environment again, so that the checked process
            // gets the signal.
            let held = pidfd_open(*pid, PidfdFlags::empty());
            held.is_ok_and(|held| is_marked(*pid) && pidfd_send_signal(&held, signal).is_ok())
        })
        .count()
}
