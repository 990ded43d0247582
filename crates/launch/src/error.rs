//! The crate's error: what was wrong, and what to do about it, in one sentence.

/// Shorthand.
pub type Result<T, E = LaunchError> = std::result::Result<T, E>;

/// Why there is no job, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It was asked for what cannot be.
    #[error("{0}")]
    Usage(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// A signal came before the program was started.
    #[error("{0}")]
    Interrupted(String),
    /// The program cannot be run; and what a shell would exit with.
    #[error("{0}")]
    NotRun(String, u8),
}

impl LaunchError {
    /// A failure with this message.
    pub(crate) fn failed(message: impl std::fmt::Display) -> LaunchError {
        LaunchError::Failed(message.to_string())
    }

    /// A usage error with this message.
    pub(crate) fn usage(message: impl std::fmt::Display) -> LaunchError {
        LaunchError::Usage(message.to_string())
    }
}

impl From<thalweg_store::wire::Error> for LaunchError {
    fn from(error: thalweg_store::wire::Error) -> LaunchError {
        LaunchError::failed(error)
    }
}
