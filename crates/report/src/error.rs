//! The error of this crate.

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Source(#[from] thalweg_trace::SourceError),
    /// A picture cannot be drawn as PNG.
    #[error("{0}")]
    Png(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
