//! Failures of a verb, and exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: the request was not carried out; the message says why, and what to do next |
//! | 2 | usage: the command line is invalid |
//! | 3 | `explain --fail-if`: the command succeeded, and a condition holds |
//! | 3 | `metadata check`: something was found |
//! | 3, 4 | `lot show`: little of the lot's time or space is left; it has expired |
//! | 126, 127 | `record` and `explain -- COMMAND`: the command is not executable, was not found (as in shells) |
//! | 130 | interrupted (SIGINT or SIGTERM): no partial result is left under the requested name |
//!
//! `record` and `explain -- COMMAND` end as the command did: with its exit code, or by the signal that ended it.

use thalweg_record::Exit;

/// A verb did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The operation failed.
    Failed(String),
    /// A signal asked to stop.
    Interrupted(String),
    /// The command was not run; the message says why, and the exit code is the one a shell would return.
    NotRun(String, u8),
    /// The command failed, and ended like this; everything else succeeded.
    Ended(Exit),
    /// Something failed, and all messages about it have been printed.
    Reported,
    /// The verb succeeded; the exit code tells scripts what was found.
    Verdict(u8),
    /// The reader of standard output closed the pipe (`| head`). Ends silently by SIGPIPE, as other programs do.
    NobodyReads,
}

impl Failure {
    /// Returns a failure with this message.
    pub(crate) fn failed(message: impl std::fmt::Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// Returns a usage error with this message.
    pub(crate) fn usage(message: impl std::fmt::Display) -> Failure {
        Failure::Usage(message.to_string())
    }

    /// Returns its message, for use among other results.
    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Usage(message) | Failure::Failed(message) | Failure::Interrupted(message) | Failure::NotRun(message, _) => message,
            Failure::Ended(_) | Failure::Reported | Failure::Verdict(_) | Failure::NobodyReads => "not done",
        }
    }
}

impl From<thalweg_record::RecordError> for Failure {
    fn from(error: thalweg_record::RecordError) -> Failure {
        use thalweg_record::RecordError;
        match error {
            RecordError::Command { exit_code, .. } => Failure::NotRun(error.to_string(), u8::try_from(exit_code).unwrap_or(1)),
            RecordError::Usage(message) => Failure::Usage(message),
            other => Failure::failed(other),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::NobodyReads,
            _ => Failure::Failed(format!("standard output: {error}")),
        }
    }
}
