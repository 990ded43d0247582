//! Errors of layouts. Each names the thing, its value, and what was expected.

use crate::MAX_OFFSET;

/// Why a layout cannot be made or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No distribution of this name is registered.
    #[error("unknown distribution `{name}`: expected one of {known}")]
    UnknownDistribution {
        /// The requested name.
        name: String,
        /// The registered names, comma-separated.
        known: String,
    },
    /// The distribution has no parameter of this name.
    #[error("{distribution} has no parameter `{parameter}`: expected {known}")]
    UnknownParameter {
        /// The distribution.
        distribution: &'static str,
        /// The given name.
        parameter: String,
        /// The parameters it has, comma-separated, or "none".
        known: String,
    },
    /// A parameter is given more than once.
    #[error("{distribution}: parameter `{parameter}` is given more than once")]
    DuplicateParameter {
        /// The distribution.
        distribution: &'static str,
        /// The parameter.
        parameter: String,
    },
    /// A parameter's value is not acceptable, or a parameter without a default is missing.
    #[error("{distribution}: {parameter} is `{value}`: {expected}")]
    BadParameter {
        /// The distribution.
        distribution: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The given value; shortened when long.
        value: String,
        /// What was expected, and where the value is wrong.
        expected: String,
    },
    /// The distribution cannot have this number of datafiles.
    #[error("{distribution}: {expected}")]
    Datafiles {
        /// The distribution.
        distribution: &'static str,
        /// The request, the available number, and what was expected.
        expected: String,
    },
    /// Each parameter is valid, but together they exceed 63 bits.
    #[error("{distribution}: {what} does not fit in 63 bits (at most {MAX_OFFSET} bytes)")]
    Overflow {
        /// The distribution.
        distribution: &'static str,
        /// The product or sum that does not fit.
        what: String,
    },
    /// Datafile sizes that are impossible for this layout.
    #[error("{distribution}: {what}")]
    Sizes {
        /// The distribution.
        distribution: &'static str,
        /// The datafile, its size, and what was expected.
        what: String,
    },
    /// A distribution's text form is malformed.
    #[error("distribution `{text}`: {expected}")]
    Text {
        /// The given text; shortened when long.
        text: String,
        /// What was expected.
        expected: String,
    },
}

/// Shortens `text` to fit into a message.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
