//! Finds a command as `execvp` does, with errors like a shell's.

use crate::RecordError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandFile {
    /// Its path.
    pub path: PathBuf,
}

/// Exit code if the command does not exist.
pub(super) const NOT_FOUND: i32 = 127;
/// Exit code if it exists but cannot be run.
pub(super) const NOT_EXECUTABLE: i32 = 126;

pub(super) fn problem(command: &OsStr, problem: impl Into<String>, exit_code: i32) -> RecordError {
    RecordError::Command { command: command.to_string_lossy().into_owned(), problem: problem.into(), exit_code }
}

/// Finds `command`: a path if it has a slash, otherwise searched in `PATH`.
///
/// # Errors
/// Not found (exit code 127), or found but not executable (126).
pub(crate) fn find(command: &OsStr) -> Result<CommandFile, RecordError> {
    if command.is_empty() {
        return Err(problem(command, "the command is an empty word", NOT_FOUND));
    }
    if command.as_bytes().contains(&b'/') {
        return runnable(Path::new(command)).map_err(|(text, code)| problem(command, text, code));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = None;
    for directory in std::env::split_paths(&path) {
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        match runnable(&directory.join(command)) {
            Ok(found) => return Ok(found),
            Err((text, NOT_EXECUTABLE)) => refused = refused.or(Some(format!("{}: {text}", directory.join(command).display()))),
            Err(_) => {}
        }
    }
    match refused {
        Some(text) => Err(problem(command, text, NOT_EXECUTABLE)),
        None => Err(problem(command, "not found in PATH; give its path, or install it", NOT_FOUND)),
    }
}

fn runnable(path: &Path) -> Result<CommandFile, (String, i32)> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => ("a directory in its path may not be entered".to_owned(), NOT_EXECUTABLE),
        std::io::ErrorKind::NotFound => ("there is no such file".to_owned(), NOT_FOUND),
        _ => (error.to_string(), NOT_EXECUTABLE),
    })?;
    if metadata.is_dir() {
        return Err(("is a directory, not a program".to_owned(), NOT_EXECUTABLE));
    }
    let executable = rustix::fs::accessat(rustix::fs::CWD, path, rustix::fs::Access::EXEC_OK, rustix::fs::AtFlags::EACCESS);
    if executable.is_err() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(("is not executable; `chmod +x` it, or run it with its interpreter".to_owned(), NOT_EXECUTABLE));
    }
    Ok(CommandFile { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(command: &str) -> i32 {
        match find(command.as_ref()) {
            Err(RecordError::Command { exit_code, .. }) => exit_code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_run_has_the_exit_code_of_a_shell() {
        assert_eq!(code("no-such-command-anywhere"), NOT_FOUND);
        assert_eq!(code("/no/such/file"), NOT_FOUND);
        assert_eq!(code(""), NOT_FOUND);
        assert_eq!(code("/etc"), NOT_EXECUTABLE);
        assert_eq!(code("/etc/passwd"), NOT_EXECUTABLE);
        assert!(find("sh".as_ref()).is_ok());
    }
}
