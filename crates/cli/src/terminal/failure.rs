//! How a verb fails, and the exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: what was asked for was not done; the message says what, and what to do next |
//! | 2 | usage: the command line asks for something that cannot be meant |
//! | 3 | `explain --fail-if`: the command succeeded, and a condition holds |
//! | 3, 4 | `lot show`: little of the lot's time or space is left; its time is over |
//! | 126, 127 | `record` and `explain -- COMMAND`: the command is not executable, was not found (as shells say it) |
//! | 130 | interrupted (SIGINT or SIGTERM): nothing half-made was left under the name asked for |
//!
//! `record` and `explain -- COMMAND` end as the command did: with its exit code, or by the signal that ended it.

use thalweg_record::Exit;

/// A verb did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line cannot be meant as it stands.
    Usage(String),
    /// It was tried and failed.
    Failed(String),
    /// A person or the system asked to stop.
    Interrupted(String),
    /// Nothing was run; the message says why, and the exit code is what a shell would give.
    NotRun(String, u8),
    /// The command that was run ended so; everything else went well.
    Ended(Exit),
    /// Something was not done, and everything that is to be said about it has been.
    Reported,
    /// Everything was done and printed; the exit code says to scripts what was found.
    Verdict(u8),
    /// The reader of the standard output went away (`| head`): nothing to say. Ends by SIGPIPE, as other programs do.
    NobodyReads,
}

impl Failure {
    /// A failure with this message.
    pub(crate) fn failed(message: impl std::fmt::Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// A usage error with this message.
    pub(crate) fn usage(message: impl std::fmt::Display) -> Failure {
        Failure::Usage(message.to_string())
    }

    /// What it says, where it stands among other results.
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
