//! What went wrong: as an errno for the program that asked, and as the cause for the log where the errno says too little.

use std::path::PathBuf;
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
pub(crate) struct Refusal {
    /// What the program gets.
    pub errno: i32,
    /// What is logged, where the errno is not all there is to say.
    pub cause: Option<Error>,
}

impl Refusal {
    /// A plain errno.
    pub(crate) const fn plain(errno: i32) -> Refusal {
        Refusal { errno, cause: None }
    }

    /// For a file that the program has found before: one that is not there any more is stale, and the kernel looks its name up
    /// again.
    #[must_use]
    pub(crate) fn of_known_file(mut self) -> Refusal {
        if self.is_gone() {
            (self.errno, self.cause) = (libc::ESTALE, None);
        }
        self
    }

    /// Whether there is no such file, any more or yet.
    pub(crate) fn is_gone(&self) -> bool {
        self.errno == libc::ENOENT || self.cause.as_ref().is_some_and(|cause| cause.kind() == ErrorKind::Stale && cause.server().is_none())
    }
}

/// The errno that a program sees for each kind of error. Those that are about servers and messages, which no program knows
/// of, are all EIO, and the log says more.
pub(crate) fn errno(kind: ErrorKind) -> i32 {
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
        Refusal { errno, cause: [libc::EIO, libc::EINVAL, libc::EDQUOT].contains(&errno).then_some(error) }
    }
}

/// What is answered to a request, or why it is refused.
pub(crate) type Answered<T> = std::result::Result<T, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_servers_is_an_input_or_output_error_and_is_logged() {
        let refusal = Refusal::from(Error::new(ErrorKind::Refused, "nobody listens").at_server("io2"));
        assert_eq!(refusal.errno, libc::EIO);
        assert_eq!(refusal.cause.unwrap().server(), Some("io2"));
        let refusal = Refusal::from(Error::new(ErrorKind::Quota, "lot `run` is used up"));
        assert_eq!((refusal.errno, refusal.cause.is_some()), (libc::EDQUOT, true), "which lot, the log says");
        assert_eq!([ErrorKind::CrossLot, ErrorKind::Access, ErrorKind::NoSpace].map(errno), [libc::EXDEV, libc::EACCES, libc::ENOSPC]);
        let refusal = Refusal::from(Error::new(ErrorKind::NotFound, "no such file"));
        assert_eq!((refusal.errno, refusal.cause.is_none()), (libc::ENOENT, true));
        assert_eq!(refusal.of_known_file().errno, libc::ESTALE);
        let refusal = Refusal::from(Error::new(ErrorKind::Stale, "it is gone"));
        assert_eq!((refusal.errno, refusal.of_known_file().errno), (libc::EIO, libc::ESTALE));
    }
}
