//! The crate's error: kind, server, file, and a message that says what was expected.

use crate::limits;
use serde::{Deserialize, Serialize};

/// A result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares the error kinds: name, errno, meaning.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $errno:expr),+ $(,)?) => {
        /// The kind of an error, as the errno an application sees.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorKind { $($(#[$doc])* $name),+ }

        impl ErrorKind {
            /// All kinds.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$name),+];

            /// Returns the errno.
            pub const fn errno(self) -> i32 {
                match self { $(ErrorKind::$name => $errno),+ }
            }
            /// Returns the kind for an errno; an errno without a kind is [`ErrorKind::Io`].
            pub fn from_errno(errno: i32) -> ErrorKind {
                $(if errno == $errno { return ErrorKind::$name; })+
                ErrorKind::Io
            }
        }
    };
}

kinds! {
    /// I/O error.
    Io = libc::EIO,
    /// No such file, directory, target or session.
    NotFound = libc::ENOENT,
    /// Already exists.
    Exists = libc::EEXIST,
    /// A target has lost bytes it should hold.
    Lost = libc::EREMOTEIO,
    /// A target or the metadata is missing from its place, or older than the data that refers to it.
    Absent = libc::ENODEV,
    /// A directory was expected.
    NotDirectory = libc::ENOTDIR,
    /// A file was expected.
    IsDirectory = libc::EISDIR,
    /// The directory is not empty.
    NotEmpty = libc::ENOTEMPTY,
    /// Invalid argument.
    Invalid = libc::EINVAL,
    /// Permission denied.
    Access = libc::EACCES,
    /// No space left.
    NoSpace = libc::ENOSPC,
    /// The peer requires encryption, and the connection was in clear.
    Encrypted = libc::EKEYREJECTED,
    /// A lot is used up.
    Quota = libc::EDQUOT,
    /// Crosses from one lot to another.
    CrossLot = libc::EXDEV,
    /// Exceeds the largest file size.
    TooLarge = libc::EFBIG,
    /// Name or path too long.
    NameTooLong = libc::ENAMETOOLONG,
    /// In use.
    Busy = libc::EBUSY,
    /// The peer does not speak the protocol.
    Protocol = libc::EPROTO,
    /// The peer speaks another version of the protocol.
    Version = libc::EPROTONOSUPPORT,
    /// Bytes do not match their checksum on the way.
    Corrupt = libc::EBADMSG,
    /// Bytes at rest do not match their checksum.
    Damaged = libc::EUCLEAN,
    /// The peer sent nothing for too long.
    TimedOut = libc::ETIMEDOUT,
    /// The peer refused the connection.
    Refused = libc::ECONNREFUSED,
    /// The peer closed the connection.
    Reset = libc::ECONNRESET,
    /// A handle to an object that no longer exists.
    Stale = libc::ESTALE,
    /// A server restarted meanwhile: unsynced data and locks may be lost.
    Restarted = libc::ENOTRECOVERABLE,
    /// Stopped on request.
    Cancelled = libc::ECANCELED,
    /// Not supported here.
    Unsupported = libc::EOPNOTSUPP,
    /// The maximum number is reached.
    TooMany = libc::EUSERS,
    /// The source shrank, disappeared or changed while it was read.
    SourceChanged = libc::EREMCHG,
    /// The address is in use.
    AddressInUse = libc::EADDRINUSE,
    /// Not possible for an object of this kind, or it needs a privilege that the credential does not have.
    NotPermitted = libc::EPERM,
    /// Another owner holds the lock, and the request does not wait.
    WouldBlock = libc::EAGAIN,
    /// Waiting for this lock would deadlock, because its holder is waiting for a lock that this owner holds.
    Deadlock = libc::EDEADLK,
    /// No extended attribute of this name.
    NoAttribute = libc::ENODATA,
    /// Too many levels of symbolic links.
    LinkLoop = libc::ELOOP,
    /// The file has the maximum number of hard links.
    TooManyLinks = libc::EMLINK,
    /// Exceeds the size limit of an extended attribute.
    TooLong = libc::E2BIG,
}

/// An error of the store. Callers add `server` and `file` where they know them.
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
    /// Makes an error. The message says what was found, what was expected and what to do; it is cut at
    /// [`limits::ERROR_TEXT_BYTES`].
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

    /// Makes an error from a failed system call: what was being done, and the system's message.
    pub fn system(doing: impl std::fmt::Display, error: impl Into<std::io::Error>) -> Error {
        let error = error.into();
        let kind = match error.raw_os_error() {
            // The target's file system has a quota; this is not a lot of the store's.
            Some(libc::EDQUOT) => ErrorKind::NoSpace,
            Some(libc::EPERM | libc::EROFS) => ErrorKind::Access,
            Some(libc::EPIPE) => ErrorKind::Reset,
            Some(errno) => ErrorKind::from_errno(errno),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => ErrorKind::Reset,
            None => ErrorKind::Io,
        };
        Error::new(kind, format!("{doing}: {error}"))
    }

    /// Names the server, unless one is named already.
    #[must_use]
    pub fn at_server(mut self, server: impl Into<String>) -> Error {
        self.0.server.get_or_insert_with(|| server.into());
        self
    }

    /// Names the file, unless one is named already.
    #[must_use]
    pub fn on_file(mut self, file: impl Into<String>) -> Error {
        self.0.file.get_or_insert_with(|| file.into());
        self
    }

    /// Names the file, replacing any name set before.
    #[must_use]
    pub fn on_file_instead(mut self, file: impl Into<String>) -> Error {
        self.0.file = Some(file.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// Returns the server at which the error happened.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }
    /// Returns the file on which the error happened.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }
    /// Returns the message without server and file.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the file or directory no longer exists: a caller that wanted it removed has nothing left to do.
    pub fn is_gone(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::Stale)
    }

    /// Whether the connection is unusable after this error.
    pub fn breaks_connection(&self) -> bool {
        use ErrorKind::{Protocol, Refused, Reset, TimedOut, Version};
        matches!(self.kind(), Protocol | Version | TimedOut | Refused | Reset)
    }
}

/// An error as a reply's body; the header's `status` carries the kind.
#[derive(Serialize, Deserialize)]
pub struct ErrorBody {
    message: String,
    server: Option<String>,
    file: Option<String>,
}

impl Error {
    /// Returns the status for the header, and the body.
    pub fn to_wire(&self) -> (u32, ErrorBody) {
        let body = ErrorBody { message: self.0.message.clone(), server: self.0.server.clone(), file: self.0.file.clone() };
        (self.kind().errno() as u32, body)
    }

    /// Rebuilds an error from a reply; over-long server and file names are dropped.
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
