//! How a verb fails, and the exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: what was asked for was not done; the message says what, and what to do next |
//! | 2 | usage: the command line asks for something that cannot be meant |
//! | 130 | interrupted (SIGINT or SIGTERM): nothing half-made was left under the name asked for |

use std::process::ExitCode;

/// A verb did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The command line cannot be meant as it stands.
    Usage(String),
    /// It was tried and failed.
    Failed(String),
    /// A person or the system asked to stop.
    Interrupted(String),
    /// Whoever reads the standard output went away (`| head`): nothing to say.
    NobodyReads,
}

impl Failure {
    /// A failure with this message.
    pub fn failed(message: impl std::fmt::Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// A usage error with this message.
    pub fn usage(message: impl std::fmt::Display) -> Failure {
        Failure::Usage(message.to_string())
    }

    /// Says it on standard error, and gives the exit code.
    pub fn tell(&self, verb: &str) -> ExitCode {
        let (message, code) = match self {
            Failure::Usage(message) => (message, 2),
            Failure::Failed(message) => (message, 1),
            Failure::Interrupted(message) => (message, 130),
            Failure::NobodyReads => return ExitCode::from(1),
        };
        crate::output::note(&format!("thalweg {verb}: {message}"));
        ExitCode::from(code)
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
