//! What went wrong: as an errno for the program that asked, and as a line in the mount's log where the errno says too little.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_store::{Error, ErrorKind};

/// Shorthand.
pub type Result<T, E = MountError> = std::result::Result<T, E>;

/// A mount that could not be made, or has ended badly.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The store.
    #[error("{0}")]
    Store(#[from] Error),
    /// The kernel, or what stands for it.
    #[error("{path}: {problem}")]
    Mounting {
        /// Where it was to be mounted.
        path: PathBuf,
        /// What was found, and what to do.
        problem: String,
    },
}

impl MountError {
    /// A failure at the place of the mount.
    pub fn at(path: impl Into<PathBuf>, problem: impl std::fmt::Display) -> MountError {
        MountError::Mounting { path: path.into(), problem: problem.to_string() }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What the program is told.
    pub errno: i32,
    /// What the log is told, where the errno is not all there is to say.
    pub cause: Option<Error>,
}

impl Refusal {
    /// A plain errno.
    pub const fn plain(errno: i32) -> Refusal {
        Refusal { errno, cause: None }
    }

    /// For a file that the program has found before: one that is not there any more is stale, and the kernel looks its name up
    /// again.
    #[must_use]
    pub fn of_known_file(mut self) -> Refusal {
        if self.is_gone() {
            (self.errno, self.cause) = (libc::ESTALE, None);
        }
        self
    }

    /// Whether there is no such file, any more or yet.
    pub fn is_gone(&self) -> bool {
        self.errno == libc::ENOENT || self.cause.as_ref().is_some_and(|cause| cause.kind() == ErrorKind::Stale && cause.server().is_none())
    }
}

/// The errno that a program sees for each kind of error. Those that are about servers and messages, which no program knows
/// of, are all EIO, and the log says more.
pub fn errno(kind: ErrorKind) -> i32 {
    use ErrorKind as K;
    match kind {
        K::Lost
        | K::Absent
        | K::Protocol
        | K::Version
        | K::Corrupt
        | K::TimedOut
        | K::Refused
        | K::Reset
        | K::Stale
        | K::SourceChanged
        | K::AddressInUse
        | K::TooMany => libc::EIO,
        K::Cancelled => libc::EINTR,
        other => other.errno(),
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let errno = errno(error.kind());
        Refusal { errno, cause: (errno == libc::EIO || errno == libc::EINVAL).then_some(error) }
    }
}

/// What is answered to a request, or why it is refused.
pub type Answered<T> = std::result::Result<T, Refusal>;

/// Lines in the log within [`LOG_WINDOW`] at most; the rest are counted.
const LOG_LINES: u32 = 20;
const LOG_WINDOW: Duration = Duration::from_secs(1);

/// The mount's log: a file or standard error, bounded in rate.
pub struct Log(Mutex<Lines>);

struct Lines {
    since: Instant,
    lines: u32,
    file: Option<File>,
}

impl Log {
    /// To this file, at its end; or to standard error.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(file: Option<&Path>) -> Result<Log> {
        let open = |path: &Path| File::options().create(true).append(true).open(path).map_err(|e| MountError::at(path, e));
        Ok(Log(Mutex::new(Lines { since: Instant::now(), lines: 0, file: file.map(open).transpose()? })))
    }

    /// One line.
    pub fn line(&self, text: impl std::fmt::Display) {
        let mut lines = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lines.since.elapsed() > LOG_WINDOW {
            let left_out = lines.lines.saturating_sub(LOG_LINES);
            if left_out > 0 {
                lines.write(&format!("{left_out} more lines were left out"));
            }
            (lines.since, lines.lines) = (Instant::now(), 0);
        }
        lines.lines += 1;
        if lines.lines <= LOG_LINES {
            lines.write(&text.to_string());
        }
    }
}

impl Lines {
    fn write(&mut self, text: &str) {
        let line = format!("thalweg mount: {text}\n");
        // Nobody can be told that nobody can be told.
        let _ = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_servers_is_an_input_or_output_error_and_is_logged() {
        let refusal = Refusal::from(Error::new(ErrorKind::Refused, "nobody listens").at_server("io2"));
        assert_eq!(refusal.errno, libc::EIO);
        assert_eq!(refusal.cause.unwrap().server(), Some("io2"));
        let refusal = Refusal::from(Error::new(ErrorKind::NotFound, "no such file"));
        assert_eq!((refusal.errno, refusal.cause.is_none()), (libc::ENOENT, true));
        assert_eq!(refusal.of_known_file().errno, libc::ESTALE);
        let refusal = Refusal::from(Error::new(ErrorKind::Stale, "it is gone"));
        assert_eq!((refusal.errno, refusal.of_known_file().errno), (libc::EIO, libc::ESTALE));
    }
}
