//! The one error type: what is wrong with a recipe, and where.

use std::path::PathBuf;

/// What went wrong with a recipe.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file could not be read.
    #[error("{path}: reading a recipe: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is none: the file, the table, the field, and what was expected.
    #[error("{0}")]
    Wrong(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
