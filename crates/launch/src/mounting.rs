//! The mount on one machine: a separate process, which ends with the part that started it.

use crate::child;
use crate::error::{LaunchError, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Grace period for programs that still use the mount.
const IN_USE: Duration = Duration::from_secs(10);
/// Timeout for writing out data.
const WRITING: Duration = Duration::from_secs(600);

/// A mounted store.
pub(crate) struct Mounting {
    process: Child,
    directory: PathBuf,
    /// The directory was created for the mount.
    was_made: bool,
}

impl Mounting {
    /// Mounts the store, and waits until the mount is visible.
    pub(crate) fn start(address: &str, credential: &Path, directory: &Path) -> Result<Mounting> {
        let shown = directory.display();
        let was_made = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|e| LaunchError::failed(format!("--mount {shown}: {e}")))?;
        let mut command = Command::new(child::this_program()?);
        command.args(["mount", "--foreground", "--notify", "--credential"]).arg(credential).arg(address).arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process =
            child::spawn(command, true).map_err(|e| LaunchError::failed(format!("--mount {shown}: cannot start its process: {e}")))?;
        let mut word = String::new();
        if let Some(stdout) = process.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut word);
        }
        let mounting = Mounting { process, directory: directory.to_owned(), was_made };
        match word.trim_end() {
            "mounted" => Ok(mounting),
            reason => {
                let reason = if reason.is_empty() { "its process ended without a message" } else { reason };
                let failed = LaunchError::failed(format!("--mount {shown}: {reason}"));
                drop(mounting);
                Err(failed)
            }
        }
    }

    /// Writes everything out and unmounts. After a grace period the mount is detached from programs that still use it; files closed by then
    /// are complete.
    pub(crate) fn end(mut self) -> Result<()> {
        self.ask();
        let is_taken = !self.ends_within(IN_USE);
        if is_taken {
            self.ask();
        }
        let shown = self.directory.display().to_string();
        if !self.ends_within(WRITING) {
            return Err(LaunchError::failed(format!("--mount {shown}: data was not written out within {} s", WRITING.as_secs())));
        }
        match self.process.wait() {
            Ok(status) if status.success() || is_taken => Ok(()),
            Ok(status) => {
                Err(LaunchError::failed(format!("--mount {shown}: its process ended with {status}: the last writes may be lost")))
            }
            Err(error) => Err(LaunchError::failed(format!("--mount {shown}: {error}"))),
        }
    }

    fn ask(&self) {
        if let Some(pid) = Pid::from_raw(self.process.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.ask();
            if !self.ends_within(Duration::from_millis(500)) {
                self.ask();
            }
            if !self.ends_within(IN_USE) {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
        }
        if self.was_made {
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}
