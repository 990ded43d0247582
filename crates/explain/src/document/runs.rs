//! Several runs of one command, of which a document explains one.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};

/// Runs of one command, one after the other; the document explains the one of median wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// The wall time of each, in the order in which they were run.
    pub wall_s: Vec<f64>,
    /// Which of them the document explains, from 1.
    pub explained: usize,
    /// The median of `wall_s`.
    pub median_s: f64,
    /// Its 95 % interval, by the bootstrap.
    pub interval_s: (f64, f64),
    /// For each row of the summary, in its order: the 95 % interval of the median of its share over all runs.
    pub shares: Vec<(f64, f64)>,
    /// The largest cause of each run, counted; the one of most runs first.
    pub leading: Vec<Leading>,
}

/// A cause that was the largest in some of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leading {
    /// The cause.
    pub cause: Cause,
    /// In how many.
    pub runs: usize,
}
