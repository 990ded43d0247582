//! What a summary is made from.

use crate::assemble::{Charges, Parts};
use crate::cause::{Cause, End};
use crate::document::{RoundTrips, Transfer, Verdict};
use crate::limits::summary as limits;
use thalweg_trace::Meta;

/// What a summary is made from.
pub(crate) struct Of<'a> {
    /// What was gathered and charged.
    pub parts: &'a Parts<'a>,
    /// What was said of the recording.
    pub meta: &'a Meta,
    /// The charges.
    pub charges: &'a Charges,
    /// Their verdict.
    pub verdict: &'a Verdict,
    /// What was asked and waited for.
    pub round_trips: Option<&'a RoundTrips>,
    /// What was moved: those that moved most.
    pub listed: &'a [Transfer],
    /// How many files or far ends were moved.
    pub transfers: u64,
    /// How many bytes, all together.
    pub size_bytes: Option<u64>,
    /// Who was not recorded, if anybody who matters was not: which end, on which connection.
    pub unrecorded: Option<(End, u32)>,
}

impl Of<'_> {
    /// The share of the wall time that was charged to these causes.
    pub(super) fn share(&self, causes: impl Fn(Cause) -> bool) -> f64 {
        self.charges.list.iter().filter(|c| causes(c.cause)).map(|c| c.share).sum()
    }

    /// Whether it is too short to say much of: what the recorder itself took aside.
    pub(crate) fn is_short(&self) -> bool {
        self.parts.wall_s() * (1.0 - self.share(|cause| cause == Cause::Recorder)) < limits::SHORT_S
    }
}
