//! The input of a summary.

use crate::assemble::{Charges, Parts};
use crate::cause::{Cause, End};
use crate::document::{RoundTrips, Transfer, Verdict};
use crate::limits::summary as limits;
use thalweg_trace::Meta;

/// The input of a summary.
pub(crate) struct Of<'a> {
    /// The gathered and charged facts.
    pub parts: &'a Parts<'a>,
    /// The recording's metadata.
    pub meta: &'a Meta,
    /// The charges.
    pub charges: &'a Charges,
    /// The verdict on them.
    pub verdict: &'a Verdict,
    /// Requests and their answers.
    pub round_trips: Option<&'a RoundTrips>,
    /// The largest transfers.
    pub listed: &'a [Transfer],
    /// Number of files or far ends moved.
    pub transfers: u64,
    /// Bytes moved, summed.
    pub size_bytes: Option<u64>,
    /// The end that was not recorded, and its connection, if it matters.
    pub unrecorded: Option<(End, u32)>,
}

impl Of<'_> {
    /// The share of the wall time charged to these causes.
    pub(super) fn share(&self, causes: impl Fn(Cause) -> bool) -> f64 {
        self.charges.list.iter().filter(|c| causes(c.cause)).map(|c| c.share).sum()
    }

    /// Whether the run, without the recorder's own time, is too short to say much about.
    pub(crate) fn is_short(&self) -> bool {
        self.parts.wall_s() * (1.0 - self.share(|cause| cause == Cause::Recorder)) < limits::SHORT_S
    }
}
