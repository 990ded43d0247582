//! What the tests share: running the command, and saying why a test cannot run here.

use std::process::{Command, Output};

/// The command under test.
pub const THALWEG: &str = env!("CARGO_BIN_EXE_thalweg");

/// The command with these arguments, in an environment without our variables.
pub fn thalweg<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(THALWEG);
    command.args(arguments).env_remove("THALWEG_STORE").env_remove("THALWEG_NODE").env("NO_COLOR", "1");
    command
}

/// What a finished command said.
pub struct Said {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the command to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Said {
    thalweg(arguments).output().expect("the command starts").into()
}
