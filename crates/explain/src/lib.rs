//! Trace in, explanation out: where every second of a transfer's wall time went, and what a change would give.
//!
//! **In:** a recording, through [`thalweg_trace::Source`]. **Out:** an [`Explanation`]. **Never:** files,
//! sockets, clocks, or who recorded what: rules speak of span kinds, tracks, roles, wakers, requests and
//! connections only. How time is charged and how predictions are made is told in `MODEL.md`, for those who
//! read the output.

pub mod cause;
pub mod document;

pub use cause::Cause;
pub use document::Explanation;

/// What can be chosen about an explanation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to replay the run and predict what changes would give.
    pub what_if: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { what_if: true }
    }
}

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

/// Explains a recording.
pub fn explain(source: &dyn thalweg_trace::Source, options: &Options) -> Result<Explanation, ExplainError> {
    let _ = (source, options);
    Err(ExplainError::Nothing("explaining is being built".to_owned()))
}
