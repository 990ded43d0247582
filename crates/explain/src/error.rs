//! Why a recording cannot be explained.

/// A recording cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The recording cannot be read.
    #[error(transparent)]
    Source(#[from] thalweg_trace::SourceError),
    /// The recording holds nothing to explain.
    #[error("{0}")]
    Nothing(String),
}
