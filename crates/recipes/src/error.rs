//! The crate's error type: what is wrong with a recipe, and where.

use std::path::PathBuf;

/// An error of a recipe.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file could not be read.
    #[error("{path}: reading a recipe: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The recipe is invalid: the file, the table, the field, and what was expected.
    #[error("{0}")]
    Wrong(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
