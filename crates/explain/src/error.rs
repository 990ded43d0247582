//! Why a recording cannot be explained.

/// A recording cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// It cannot be read.
    #[error(transparent)]
    Source(#[from] thalweg_trace::SourceError),
    /// It holds nothing to explain.
    #[error("{0}")]
    Nothing(String),
}
