//! The run in a few lines, for people: what it did and how fast, one sentence, a row for each program's cause, what did not limit, and what
//! makes the figures unreliable.
//!
//! Charges are by cause and place, as fine as the recording allows. Here they are grouped by cause and program ([`groups`]), and named as a
//! reader knows them: by program, file and device. Nothing is concluded here beyond the charges.

pub(crate) mod about;
mod advice;
mod figures;
mod files;
mod gaps;
mod groups;
mod held_back;
mod innocent;
mod numbers;
mod of;
mod operations;
mod peers;
mod remarks;
mod sentence;
mod sleeping;
mod tried;

use crate::document::{Advice, Charge, Number, NumberKind, Status, Summary, SummaryRow, Verdict};
use crate::facts::raise::Raise;
use crate::limits::summary as limits;
use crate::replay::Prediction;
use crate::title::title;
use groups::{Group, groups};
pub(crate) use of::Of;
pub(crate) use remarks::too_short;

/// The summary of a recorded run, apart from predictions.
pub(crate) struct RunSummary<'a> {
    of: &'a Of<'a>,
    groups: Vec<Group<'a>>,
    /// The summary.
    pub summary: Summary,
    /// Its sentence and how certain it is, also for a run too short for a summary.
    pub sentence: String,
    /// Changes that raise the limits its numbers name.
    pub raises: Vec<Raise>,
}

impl<'a> RunSummary<'a> {
    /// Summarises a run.
    pub(crate) fn of(of: &'a Of<'a>) -> RunSummary<'a> {
        let groups = groups(of);
        let (behind, besides) = if of.is_short() { Default::default() } else { numbers::numbers(of, &groups) };
        let (numbers, raises): (Vec<Number>, Vec<Option<Raise>>) = behind.into_iter().map(|one| (one.number, one.raise)).unzip();
        let gaps = if of.is_short() { None } else { gaps::sentence(of) };
        let (summary, sentence) = summary(of, &groups, numbers, gaps);
        RunSummary { of, groups, summary, sentence, raises: raises.into_iter().flatten().chain(besides).collect() }
    }

    /// Advice of recipes, besides the predicted changes.
    pub(crate) fn advice(&self, prediction: &Prediction) -> Vec<Advice> {
        advice::advice(self.of, &self.groups, prediction, &self.summary.numbers)
    }
}

/// Makes the summary, and the verdict's sentence.
fn summary(of: &Of<'_>, groups: &[Group<'_>], numbers: Vec<Number>, gaps: Option<String>) -> (Summary, String) {
    let short = of.is_short();
    // A number may already say how busy the processors were, and with what.
    let is_said = numbers.iter().any(|number| number.kind == NumberKind::AllProcessors) && of.verdict.status == Status::Healthy;
    let standing = remarks::standing(of, groups).filter(|_| !is_said);
    let sentence = sentence::with(sentence::sentence(of, groups), gaps.filter(|_| standing.is_none()));
    let whole = standing.as_ref().map_or_else(|| sentence.clone(), |standing| format!("{}; {standing}.", sentence.trim_end_matches('.')));
    let row = |group: &Group<'_>| {
        let (subject, figures) = figures::figures(of, group);
        SummaryRow { cause: group.cause, share: group.share, subject, figures }
    };
    let summary = Summary {
        command: title(&of.meta.command, usize::MAX),
        ended: about::ended(of.meta, of.parts.around.why_failed.as_ref()),
        about: about::about(of),
        sentence: if short { String::new() } else { sentence },
        numbers,
        innocent: if short { Vec::new() } else { innocent::innocent(of, groups) },
        remarks: remarks::remarks(of, groups, standing),
        tuning: Vec::new(),
        rows: if of.parts.wall_s() < limits::NOTHING_S { Vec::new() } else { groups.iter().map(row).collect() },
    };
    (summary, whole)
}

/// The summary of one phase of a run, which has only its own charges, and its verdict's sentence.
pub(crate) fn of_phase(of: &Of<'_>, about: String) -> (Summary, String) {
    let (summary, sentence) = summary(of, &groups(of), Vec::new(), None);
    (Summary { about, innocent: Vec::new(), ..summary }, sentence)
}

/// The summary of a recording of packets, which has only charges.
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
        numbers: Vec::new(),
        innocent: Vec::new(),
        remarks: vec![remark.to_owned()],
        tuning: Vec::new(),
    }
}
