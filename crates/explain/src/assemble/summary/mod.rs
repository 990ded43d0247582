//! The run in a few lines, for people: what it did and how fast, one sentence, a row for each program's cause, who is innocent, and what keeps the
//! figures from being relied on.
//!
//! The charges are by cause and place, as fine as the recording allows. Here those of one cause and one program are put together ([`groups`]), and
//! named as a reader knows them ([`names`]): by program, file and device. Nothing is found here that the charges do not say.

pub(crate) mod about;
mod figures;
mod files;
mod groups;
mod innocent;
mod names;
mod remarks;
mod sentence;

use crate::assemble::{Charges, Parts};
use crate::cause::{Cause, End};
use crate::document::{Charge, RoundTrips, Summary, SummaryRow, Transfer, Verdict};
use crate::limits::summary as limits;
use crate::title::title;
use groups::groups;
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
    fn share(&self, causes: impl Fn(Cause) -> bool) -> f64 {
        self.charges.list.iter().filter(|c| causes(c.cause)).map(|c| c.share).sum()
    }

    /// Whether it is too short to say much of: what the recorder itself took aside.
    fn is_short(&self) -> bool {
        self.parts.wall_s() * (1.0 - self.share(|cause| cause == Cause::Recorder)) < limits::SHORT_S
    }
}

/// The summary of a recorded run.
pub(crate) fn summary(of: &Of<'_>) -> Summary {
    let groups = groups(of);
    let short = of.is_short();
    let row = |group: &groups::Group<'_>| {
        let (subject, figures) = figures::figures(of, group);
        SummaryRow { cause: group.cause, share: group.share, subject, figures }
    };
    Summary {
        command: title(&of.meta.command, usize::MAX),
        ended: about::ended(of.meta),
        about: about::about(of),
        sentence: if short { String::new() } else { sentence::sentence(of, &groups) },
        innocent: if short { Vec::new() } else { innocent::innocent(of, &groups) },
        remarks: remarks::remarks(of, &groups),
        tuning: Vec::new(),
        rows: if of.parts.wall_s() < limits::NOTHING_S { Vec::new() } else { groups.iter().map(row).collect() },
    }
}

/// The summary of a recording of packets, of which only the charges are known.
pub(crate) fn of_packets(command: &[String], about: String, charges: &[Charge], verdict: &Verdict, remark: &str) -> Summary {
    let row = |charge: &Charge| SummaryRow {
        cause: charge.cause,
        share: charge.share,
        subject: charge.place.clone(),
        figures: charge.evidence.clone(),
    };
    Summary {
        command: title(command, usize::MAX),
        ended: None,
        about,
        sentence: sentence::cut(&verdict.sentence),
        rows: charges.iter().map(row).collect(),
        innocent: Vec::new(),
        remarks: vec![remark.to_owned()],
        tuning: Vec::new(),
    }
}
