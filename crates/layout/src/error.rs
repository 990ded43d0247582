//! What can be wrong with a layout. Each error says which thing, what it was, and what was expected.

use crate::MAX_OFFSET;

/// Why a layout cannot be made or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No distribution of this name is registered.
    #[error("unknown distribution `{name}`: expected one of {known}")]
    UnknownDistribution {
        /// What was asked for.
        name: String,
        /// The registered names, comma-separated.
        known: String,
    },
    /// The distribution has no parameter of this name.
    #[error("{distribution} has no parameter `{parameter}`: expected {known}")]
    UnknownParameter {
        /// The distribution.
        distribution: &'static str,
        /// What was given.
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
        /// What was given; shortened when long.
        value: String,
        /// What was expected, and where it went wrong.
        expected: String,
    },
    /// The distribution cannot have this number of datafiles.
    #[error("{distribution}: {expected}")]
    Datafiles {
        /// The distribution.
        distribution: &'static str,
        /// What was asked, what there is, what was expected.
        expected: String,
    },
    /// The parameters are each right, but together they exceed 63 bits.
    #[error("{distribution}: {what} does not fit in 63 bits (at most {MAX_OFFSET} bytes)")]
    Overflow {
        /// The distribution.
        distribution: &'static str,
        /// The product or sum that does not fit.
        what: String,
    },
    /// Datafile sizes that no file of this layout can have.
    #[error("{distribution}: {what}")]
    Sizes {
        /// The distribution.
        distribution: &'static str,
        /// Which datafile, which size, what was expected.
        what: String,
    },
    /// A distribution's text form is malformed.
    #[error("distribution `{text}`: {expected}")]
    Text {
        /// What was given; shortened when long.
        text: String,
        /// What was expected.
        expected: String,
    },
}

/// `text`, cut to a length that fits in a message.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
