//! The command as a process.

use crate::bounded::{Bounded, BoundedChild, Lines};
use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout for a line of output, or for ending on request.
const SOON: Duration = Duration::from_secs(60);

/// The command under test.
pub const THALWEG: &str = env!("CARGO_BIN_EXE_thalweg");

/// Returns the command with these arguments, in an environment without our variables.
pub fn thalweg<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(THALWEG);
    command
        .args(arguments)
        .env_remove("THALWEG_STORE")
        .env_remove("THALWEG_NODE")
        .env_remove(super::CREDENTIAL)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// The output of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        CommandOutput {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl CommandOutput {
    /// Checks that it succeeded.
    #[track_caller]
    pub fn done(self) -> CommandOutput {
        assert_eq!(self.code, Some(0), "failed: {}{}", self.out, self.err);
        self
    }

    /// Checks that it failed with this exit code, with one message that contains all of these.
    #[track_caller]
    pub fn failed(self, code: i32, says: &[&str]) -> CommandOutput {
        assert_eq!(self.code, Some(code), "out: {} err: {}", self.out, self.err);
        for expected in says {
            assert!(self.err.contains(expected), "expected `{expected}` in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Parses its standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e} in: {}", self.out))
    }
}

/// Runs the command to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> CommandOutput {
    thalweg(arguments).output_in_time().expect("the command starts").into()
}

/// A running process; killed by its process ID when dropped.
pub struct Running {
    child: Child,
    out: Lines,
}

impl Running {
    /// Starts a command whose standard output is read line by line.
    #[track_caller]
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
        let out = Lines::new(child.stdout.take().expect("it is piped"));
        Running { child, out }
    }

    /// Returns the next line of its standard output; empty at the end.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.out.next(SOON).unwrap_or_else(|begun| {
            self.kill();
            panic!("process {} said no line within {SOON:?}, only `{begun}`, and was killed", self.pid())
        })
    }

    /// Returns its process ID.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends it a signal. For SIGSTOP, waits until all threads have stopped: until one of them has taken the signal, the others continue.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.pid(), signal) };
        let stopped = |task: std::fs::DirEntry| {
            let state = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
        };
        let all = || std::fs::read_dir(format!("/proc/{}/task", self.pid())).is_ok_and(|tasks| tasks.flatten().all(stopped));
        let begun = Instant::now();
        while signal == libc::SIGSTOP && !all() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end; kills it at the limit.
    #[track_caller]
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait_in_time(SOON).expect("a child can be waited for").code()
    }

    /// Returns whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it, like a power failure.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the child, for its standard input and error.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.runs() {
            return;
        }
        self.signal(libc::SIGCONT);
        self.signal(libc::SIGTERM);
        let begun = Instant::now();
        while self.runs() {
            if begun.elapsed() > Duration::from_secs(10) {
                self.kill();
                if !std::thread::panicking() {
                    panic!("a server did not end when it was asked to");
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
