//! Errors: an errno for the program, and the cause for the log if the errno is ambiguous.

use std::path::PathBuf;
use thalweg_client::wire::{Error, ErrorKind};

/// Result with [`MountError`] as the default error.
pub type Result<T, E = MountError> = std::result::Result<T, E>;

/// Failure to mount, or error at the end of a mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// An error of the store.
    #[error("{0}")]
    Store(#[from] Error),
    /// An error of the kernel or of `fusermount3`.
    #[error("{path}: {problem}")]
    Mounting {
        /// The mount point.
        path: PathBuf,
        /// The problem and its remedy.
        problem: String,
    },
}

impl MountError {
    /// Creates an error about the mount point.
    pub fn at(path: impl Into<PathBuf>, problem: impl std::fmt::Display) -> MountError {
        MountError::Mounting { path: path.into(), problem: problem.to_string() }
    }
}

/// The reason a request is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Errno for the program.
    pub errno: i32,
    /// Cause to log, if the errno is ambiguous.
    pub cause: Option<Error>,
}

impl Refusal {
    /// Creates a refusal with an errno only.
    pub(crate) const fn plain(errno: i32) -> Refusal {
        Refusal { errno, cause: None }
    }

    /// Adapts the errno for a file that the program had already found. If the file has since been removed, returns ESTALE, so that the kernel
    /// looks its name up again.
    #[must_use]
    pub(crate) fn of_known_file(mut self) -> Refusal {
        if self.is_gone() {
            (self.errno, self.cause) = (libc::ESTALE, None);
        }
        self
    }

    /// Adapts the errno for a name: a removed directory has no names, as on any file system.
    #[must_use]
    pub(crate) fn of_name(mut self) -> Refusal {
        if self.is_gone() {
            (self.errno, self.cause) = (libc::ENOENT, None);
        }
        self
    }

    /// Whether the errno means that the file does not exist, or no longer.
    pub(crate) fn is_gone(&self) -> bool {
        self.errno == libc::ENOENT || self.cause.as_ref().is_some_and(|cause| cause.kind() == ErrorKind::Stale)
    }
}

/// Returns the errno for each kind of error. Errors about servers and messages, which programs do not know of, are EIO, and the log has
/// the details. `docs/MOUNT.md` has the same table.
///
/// A removed file or directory ([`ErrorKind::Stale`]) has another errno if a name was requested: [`Refusal::of_name`].
pub(crate) const fn errno(kind: ErrorKind) -> i32 {
    use ErrorKind as K;
    match kind {
        K::NotFound => libc::ENOENT,
        K::Stale => libc::ESTALE,
        K::Exists => libc::EEXIST,
        K::NotDirectory => libc::ENOTDIR,
        K::IsDirectory => libc::EISDIR,
        K::NotEmpty => libc::ENOTEMPTY,
        K::LinkLoop => libc::ELOOP,
        K::TooManyLinks => libc::EMLINK,
        K::CrossLot => libc::EXDEV,
        K::NameTooLong => libc::ENAMETOOLONG,
        K::NoAttribute => libc::ENODATA,
        K::TooLong => libc::E2BIG,
        K::TooLarge => libc::EFBIG,
        K::NoSpace => libc::ENOSPC,
        K::Quota => libc::EDQUOT,
        K::Access => libc::EACCES,
        K::NotPermitted => libc::EPERM,
        K::Busy => libc::EBUSY,
        K::WouldBlock => libc::EAGAIN,
        K::Deadlock => libc::EDEADLK,
        K::Cancelled => libc::EINTR,
        K::Invalid => libc::EINVAL,
        K::Unsupported => libc::EOPNOTSUPP,
        K::Io
        | K::Lost
        | K::Damaged
        | K::Corrupt
        | K::Restarted
        | K::SourceChanged
        | K::Absent
        | K::TimedOut
        | K::Refused
        | K::Reset
        | K::AddressInUse
        | K::TooMany
        | K::Protocol
        | K::Version
        | K::Encrypted => libc::EIO,
    }
}

/// Ambiguous errnos, whose cause is logged; ESTALE only until it is known how the file was requested.
const LOGGED: [i32; 5] = [libc::EIO, libc::EINVAL, libc::EDQUOT, libc::EPERM, libc::ESTALE];

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let errno = errno(error.kind());
        Refusal { errno, cause: LOGGED.contains(&errno).then_some(error) }
    }
}

/// Result of a request, or the reason for its refusal.
pub(crate) type HandlerResult<T> = std::result::Result<T, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_servers_is_an_input_or_output_error_and_is_logged() {
        let refusal = Refusal::from(Error::new(ErrorKind::Refused, "nobody listens").at_server("io2"));
        assert_eq!(refusal.errno, libc::EIO);
        assert_eq!(refusal.cause.unwrap().server(), Some("io2"));
        let refusal = Refusal::from(Error::new(ErrorKind::Quota, "lot `run` is used up"));
        assert_eq!((refusal.errno, refusal.cause.is_some()), (libc::EDQUOT, true), "the log names the lot");
        let refusal = Refusal::from(Error::new(ErrorKind::Restarted, "started anew").at_server("io2"));
        assert_eq!((refusal.errno, refusal.clone().of_name().errno, refusal.of_known_file().errno), (libc::EIO, libc::EIO, libc::EIO));
    }

    #[test]
    fn what_is_gone_is_no_name_in_a_directory_and_a_stale_file_whichever_server_says_so() {
        let gone = [Error::new(ErrorKind::Stale, "it was removed"), Error::new(ErrorKind::NotFound, "no such file")];
        for error in gone.iter().cloned().chain(gone.iter().map(|error| error.clone().at_server("metadata"))) {
            let refusal = Refusal::from(error);
            assert_eq!(refusal.clone().of_known_file().errno, libc::ESTALE);
            let name = refusal.of_name();
            assert_eq!((name.errno, name.cause.is_none()), (libc::ENOENT, true));
        }
        assert_eq!(Refusal::plain(libc::ESTALE).of_name().errno, libc::ESTALE, "the kernel is to look again");
    }

    /// Returns the name of an errno, as in its manual page.
    fn named(errno: i32) -> String {
        let names = [
            ("ENOENT", libc::ENOENT),
            ("ESTALE", libc::ESTALE),
            ("EEXIST", libc::EEXIST),
            ("ENOTDIR", libc::ENOTDIR),
            ("EISDIR", libc::EISDIR),
            ("ENOTEMPTY", libc::ENOTEMPTY),
            ("ELOOP", libc::ELOOP),
            ("EMLINK", libc::EMLINK),
            ("EXDEV", libc::EXDEV),
            ("ENAMETOOLONG", libc::ENAMETOOLONG),
            ("ENODATA", libc::ENODATA),
            ("E2BIG", libc::E2BIG),
            ("EFBIG", libc::EFBIG),
            ("ENOSPC", libc::ENOSPC),
            ("EDQUOT", libc::EDQUOT),
            ("EACCES", libc::EACCES),
            ("EPERM", libc::EPERM),
            ("EBUSY", libc::EBUSY),
            ("EAGAIN", libc::EAGAIN),
            ("EDEADLK", libc::EDEADLK),
            ("EINTR", libc::EINTR),
            ("EINVAL", libc::EINVAL),
            ("EOPNOTSUPP", libc::EOPNOTSUPP),
            ("EIO", libc::EIO),
        ];
        names.iter().find(|(_, number)| *number == errno).map_or_else(|| format!("{errno}"), |(name, _)| (*name).to_owned())
    }

    #[test]
    fn the_manual_has_the_errno_of_every_kind_of_error() {
        let manual = include_str!("../../../docs/MOUNT.md");
        let table = manual.split("\n## Errors\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section on errors");
        for kind in ErrorKind::ALL {
            let row = table.lines().find(|row| row.contains(&format!("`{kind:?}`"))).unwrap_or_else(|| panic!("no row for {kind:?}"));
            let errno = named(errno(*kind));
            assert!(row.starts_with(&format!("| {errno} ")), "{kind:?} is {errno}: {row}");
        }
    }
}
