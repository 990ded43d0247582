//! The crate's error: what kind, at which server, on which file, and what was expected.

use crate::limits;
use serde::{Deserialize, Serialize};

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares the kinds: name, errno, meaning.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $errno:expr),+ $(,)?) => {
        /// What went wrong, as the errno an application would see.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorKind { $($(#[$doc])* $name),+ }

        impl ErrorKind {
            /// All there are.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$name),+];

            /// The errno.
            pub const fn errno(self) -> i32 {
                match self { $(ErrorKind::$name => $errno),+ }
            }
            /// The kind with this errno; what has none of its own is [`ErrorKind::Io`].
            pub fn from_errno(errno: i32) -> ErrorKind {
                $(if errno == $errno { return ErrorKind::$name; })+
                ErrorKind::Io
            }
        }
    };
}

kinds! {
    /// Input or output failed.
    Io = libc::EIO,
    /// There is no such file, directory, target or session.
    NotFound = libc::ENOENT,
    /// It exists already.
    Exists = libc::EEXIST,
    /// Bytes that a target should have are not there any more.
    Lost = libc::EREMOTEIO,
    /// A target, or the metadata, is not where it should be; or is older than what belongs to it.
    Absent = libc::ENODEV,
    /// A directory was expected.
    NotDirectory = libc::ENOTDIR,
    /// A file was expected.
    IsDirectory = libc::EISDIR,
    /// The directory is not empty.
    NotEmpty = libc::ENOTEMPTY,
    /// An argument is wrong.
    Invalid = libc::EINVAL,
    /// Not allowed.
    Access = libc::EACCES,
    /// Space is used up.
    NoSpace = libc::ENOSPC,
    /// The peer encrypts, and was spoken to in clear.
    Encrypted = libc::EKEYREJECTED,
    /// A lot is used up.
    Quota = libc::EDQUOT,
    /// Not from one lot to another.
    CrossLot = libc::EXDEV,
    /// Larger than a file may be.
    TooLarge = libc::EFBIG,
    /// A name or path is too long.
    NameTooLong = libc::ENAMETOOLONG,
    /// In use.
    Busy = libc::EBUSY,
    /// The peer does not speak the protocol.
    Protocol = libc::EPROTO,
    /// The peer speaks another version of it.
    Version = libc::EPROTONOSUPPORT,
    /// Bytes are not what their checksum says.
    Corrupt = libc::EBADMSG,
    /// The peer was silent for too long.
    TimedOut = libc::ETIMEDOUT,
    /// The peer refused the connection.
    Refused = libc::ECONNREFUSED,
    /// The peer closed the connection.
    Reset = libc::ECONNRESET,
    /// A handle of something that is gone.
    Stale = libc::ESTALE,
    /// A server was started again meanwhile: what was not synced, or what was locked, may be lost.
    Restarted = libc::ENOTRECOVERABLE,
    /// Stopped on request.
    Cancelled = libc::ECANCELED,
    /// Not offered here.
    Unsupported = libc::EOPNOTSUPP,
    /// Too many at a time.
    TooMany = libc::EUSERS,
    /// The source shrank, vanished or changed while it was read.
    SourceChanged = libc::EREMCHG,
    /// An address is in use.
    AddressInUse = libc::EADDRINUSE,
    /// Not possible for a thing of this kind; or a privilege, which the caller's credential does not store.
    NotPermitted = libc::EPERM,
    /// A lock is held by another, and nobody wants to wait.
    WouldBlock = libc::EAGAIN,
    /// Waiting for this lock would never end: its holder waits for one of ours.
    Deadlock = libc::EDEADLK,
    /// There is no extended attribute of this name.
    NoAttribute = libc::ENODATA,
    /// Symbolic links lead in a circle.
    LinkLoop = libc::ELOOP,
    /// A file has as many names as it can have.
    TooManyLinks = libc::EMLINK,
    /// Larger than an extended attribute may be.
    TooLong = libc::E2BIG,
}

/// An error of the store. `server` and `file` are filled in where they are known on the way up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    kind: ErrorKind,
    server: Option<String>,
    file: Option<String>,
    message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.0.file {
            write!(f, "{file}: ")?;
        }
        if let Some(server) = &self.0.server {
            write!(f, "server {server}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl Error {
    /// An error with what was found, what was expected, and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let mut message = message.into();
        if message.len() > limits::ERROR_TEXT_BYTES {
            let mut end = limits::ERROR_TEXT_BYTES;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
        }
        Error(Box::new(Parts { kind, server: None, file: None, message }))
    }

    /// From a failed system call: what was being done, and what the system said.
    pub fn system(doing: impl std::fmt::Display, error: impl Into<std::io::Error>) -> Error {
        let error = error.into();
        let kind = match error.raw_os_error() {
            // The target's file system has a quota: no lot of ours.
            Some(libc::EDQUOT) => ErrorKind::NoSpace,
            Some(libc::EPERM | libc::EROFS) => ErrorKind::Access,
            Some(libc::EPIPE) => ErrorKind::Reset,
            Some(errno) => ErrorKind::from_errno(errno),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => ErrorKind::Reset,
            None => ErrorKind::Io,
        };
        Error::new(kind, format!("{doing}: {error}"))
    }

    /// Names the server, unless it is named already.
    #[must_use]
    pub fn at_server(mut self, server: impl Into<String>) -> Error {
        self.0.server.get_or_insert_with(|| server.into());
        self
    }

    /// Names the file, unless it is named already.
    #[must_use]
    pub fn on_file(mut self, file: impl Into<String>) -> Error {
        self.0.file.get_or_insert_with(|| file.into());
        self
    }

    /// Names the file, in place of what the file was called before.
    #[must_use]
    pub fn on_file_instead(mut self, file: impl Into<String>) -> Error {
        self.0.file = Some(file.into());
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The server it happened at.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }
    /// The file it happened on.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }
    /// The text without server and file.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the file or directory it happened on is not there any more: a caller that wanted it gone, or what is in it, has nothing to do.
    pub fn is_gone(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::Stale)
    }

    /// Whether the connection it happened on is of no more use.
    pub fn breaks_connection(&self) -> bool {
        use ErrorKind::{Protocol, Refused, Reset, TimedOut, Version};
        matches!(self.kind(), Protocol | Version | TimedOut | Refused | Reset)
    }
}

/// An error as a reply's body; the kind is the header's `status`.
#[derive(Serialize, Deserialize)]
pub struct ErrorBody {
    message: String,
    server: Option<String>,
    file: Option<String>,
}

impl Error {
    /// As it crosses the wire: its number, and the rest.
    pub fn to_wire(&self) -> (u32, ErrorBody) {
        let body = ErrorBody { message: self.0.message.clone(), server: self.0.server.clone(), file: self.0.file.clone() };
        (self.kind().errno() as u32, body)
    }

    /// What came over the wire; names that are longer than they can be are left out.
    pub fn from_wire(status: u32, body: ErrorBody) -> Error {
        let mut error = Error::new(ErrorKind::from_errno(status as i32), body.message);
        error.0.server = body.server.filter(|name| name.len() <= limits::NAME_BYTES);
        error.0.file = body.file.filter(|name| name.len() <= 2 * limits::PATH_BYTES);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_file_then_server_then_what_happened() {
        let error = Error::new(ErrorKind::NoSpace, "the disk is full").at_server("io2").on_file("/big");
        assert_eq!(error.to_string(), "/big: server io2: the disk is full");
        let (status, body) = error.to_wire();
        assert_eq!(Error::from_wire(status, body), error);
    }
}
