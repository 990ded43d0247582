//! Compares two explanations: time saved, time added, and the prediction for the change between them.
//!
//! **In:** the explanations of two runs of the same work. **Out:** a [`Diff`]. Runs of different work ([`work`]) are refused: their
//! difference says nothing of the change. The change that was made, of those the earlier run proposes, is found from the command lines
//! ([`made`]).

mod document;
mod made;
mod work;

pub(crate) use document::wall_s;
pub use document::{Diff, DiffRow, Made, OfRun};
pub use work::different_amount;

use crate::document::{Explanation, SummaryRow};
use crate::limits::diff as limits;

/// Options of a diff.
#[derive(Clone, Debug, Default)]
pub struct DiffOptions {
    /// The `id` of the change made between the runs; found from the command lines if absent.
    pub made: Option<String>,
    /// Compares runs of different work, too.
    pub anyway: bool,
}

/// Why two runs are not compared, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// They did different work.
    #[error("{0}")]
    DifferentWork(String),
    /// The change named as made was not proposed.
    #[error("{0}")]
    NotProposed(String),
}

/// Compares two runs.
///
/// # Errors
/// See [`Refused`].
pub fn diff(before: &Explanation, after: &Explanation, options: &DiffOptions) -> Result<Diff, Refused> {
    let proposed = match &options.made {
        Some(id) => Some(made::named(before, id).map_err(Refused::NotProposed)?),
        None => made::found(before, after),
    };
    // A proposed change may run another program.
    let expected = proposed.map(|change| &change.command).filter(|command| !command.is_empty()).unwrap_or(&before.command);
    let different = work::failed(before, after)
        .or_else(|| work::different_command(expected, &after.command))
        .or_else(|| work::different_amount(before, after));
    if let Some(why) = different.as_ref().filter(|_| !options.anyway) {
        return Err(Refused::DifferentWork(why.clone()));
    }
    let (before_s, after_s) = (wall_s(before), wall_s(after));
    let made = proposed.map(|change| Made::of(change, after));
    let mut notes = Vec::new();
    if made.is_none() {
        notes.push(made::none(before));
    }
    if before.recorder != after.recorder {
        notes.push(format!(
            "recorded by {} before and by {} after: causes that only one of them sees differ",
            before.recorder, after.recorder
        ));
    }
    Ok(Diff {
        schema: document::SCHEMA.to_owned(),
        before: OfRun::of(before, before_s),
        after: OfRun::of(after, after_s),
        change_s: after_s - before_s,
        speedup: before_s / after_s.max(1e-9),
        rows: rows(before, after, (before_s, after_s)),
        made,
        different_work: different,
        notes,
    })
}

/// The seconds of one run by cause and subject; they sum to its wall time.
fn seconds(e: &Explanation, wall_s: f64) -> Vec<(crate::Cause, String, f64)> {
    // A very short run has no rows.
    if e.summary.rows.is_empty() {
        return e.critical_path.iter().map(|charge| (charge.cause, charge.place.clone(), charge.share * wall_s)).collect();
    }
    e.summary.rows.iter().map(|row: &SummaryRow| (row.cause, row.subject.clone(), row.share * wall_s)).collect()
}

/// The seconds of each cause and subject before and after, the largest change first; the changes sum to that of the wall time.
fn rows(before: &Explanation, after: &Explanation, (before_s, after_s): (f64, f64)) -> Vec<DiffRow> {
    let mut left = seconds(after, after_s);
    let mut take = |is: &dyn Fn(&(crate::Cause, String, f64)) -> bool| left.iter().position(is).map(|at| left.remove(at));
    let mut rows: Vec<DiffRow> = Vec::new();
    let first = seconds(before, before_s);
    // First the same subject; then one that differs only in numbers (a port, a process); then the only one of its cause.
    let mut open: Vec<(crate::Cause, String, f64)> = Vec::new();
    for (cause, subject, had_s) in first {
        match take(&|(c, s, _)| *c == cause && *s == subject) {
            Some((.., has_s)) => rows.push(DiffRow::new(Some(cause), subject, None, had_s, has_s)),
            None => open.push((cause, subject, had_s)),
        }
    }
    let mut alone: Vec<(crate::Cause, String, f64)> = Vec::new();
    for (cause, subject, had_s) in open {
        match take(&|(c, s, _)| *c == cause && without_numbers(s) == without_numbers(&subject)) {
            Some((_, now, has_s)) => rows.push(DiffRow::new(Some(cause), subject, Some(now), had_s, has_s)),
            None => alone.push((cause, subject, had_s)),
        }
    }
    for (cause, subject, had_s) in &alone {
        let is_only = alone.iter().filter(|(c, ..)| c == cause).count() == 1 && left.iter().filter(|(c, ..)| c == cause).count() == 1;
        let at = left.iter().position(|(c, ..)| c == cause).filter(|_| is_only);
        let now = at.map(|at| left.remove(at));
        let (subject_after, has_s) = now.map_or((None, 0.0), |(_, subject, has_s)| (Some(subject), has_s));
        rows.push(DiffRow::new(Some(*cause), subject.clone(), subject_after, *had_s, has_s));
    }
    rows.extend(left.into_iter().map(|(cause, subject, has_s)| DiffRow::new(Some(cause), subject, None, 0.0, has_s)));
    let longer_s = before_s.max(after_s);
    rows.retain(|row| row.before_s.max(row.after_s) > limits::SMALL_PART * longer_s);
    rows.sort_by(|a, b| b.change_s.abs().total_cmp(&a.change_s.abs()));
    with_the_rest(rows, (before_s, after_s))
}

/// Adds the remainder of the wall times that no row has.
fn with_the_rest(mut rows: Vec<DiffRow>, (before_s, after_s): (f64, f64)) -> Vec<DiffRow> {
    let rest = (before_s - rows.iter().map(|row| row.before_s).sum::<f64>(), after_s - rows.iter().map(|row| row.after_s).sum::<f64>());
    if rest.0.abs().max(rest.1.abs()) > 1e-9 {
        rows.push(DiffRow::new(None, "the others together".to_owned(), None, rest.0, rest.1));
    }
    rows
}

fn without_numbers(subject: &str) -> String {
    subject.chars().filter(|c| !c.is_ascii_digit()).collect()
}
