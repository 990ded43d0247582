//! Several runs of one command, one of which a document explains.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// Runs of one command, one after the other; the document explains the run of median wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// The wall time of each, in order.
    pub wall_s: Vec<f64>,
    /// Number of the explained run, from 1.
    pub explained: usize,
    /// The median of `wall_s`.
    pub median_s: f64,
    /// The 95 % interval of the median, by the bootstrap.
    pub interval_s: (f64, f64),
    /// For each row of the summary, in order: the 95 % interval of the median of its share over all runs.
    pub shares: Vec<(f64, f64)>,
    /// How many runs had which largest cause; most runs first.
    pub leading: Vec<Leading>,
}

/// A cause that was the largest in some runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leading {
    /// The cause.
    pub cause: Cause,
    /// Number of runs.
    pub runs: usize,
}
