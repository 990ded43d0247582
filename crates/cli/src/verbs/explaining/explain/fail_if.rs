//! `--fail-if`: turns the explanation into an exit code, for continuous integration.

use crate::failure::Failure;
use crate::output;
use crate::recordings::explained::explanation_of;
use std::path::Path;
use thalweg_explain::{Condition, Explanation};

/// The exit code if a condition holds.
const HOLDS: u8 = 3;

/// A condition, and the explanation of the run it compares with.
pub(super) struct Judged {
    condition: Condition,
    baseline: Option<Explanation>,
}

/// Reads the runs that the conditions compare with.
///
/// # Errors
/// A run cannot be read, or is neither a recording nor an explanation.
pub(super) fn read(conditions: &[Condition]) -> Result<Vec<Judged>, Failure> {
    let judged = |condition: &Condition| {
        let baseline = condition.baseline().map(|path| explanation_of(Path::new(path))).transpose()?;
        Ok(Judged { condition: condition.clone(), baseline })
    };
    conditions.iter().map(judged).collect()
}

/// Reports which conditions hold for a command that succeeded.
///
/// # Errors
/// A condition holds ([`Failure::Verdict`]), or refers to a figure that was not measured.
pub(super) fn judge(conditions: &[Judged], explanation: &Explanation) -> Result<(), Failure> {
    if conditions.is_empty() {
        return Ok(());
    }
    if let Some(ended) = &explanation.summary.ended {
        output::note(&format!("thalweg explain: --fail-if was not checked: the command {ended}"));
        return Ok(());
    }
    let holds = |judged: &Judged| judged.condition.holds(explanation, judged.baseline.as_ref());
    let found: Vec<Option<String>> =
        conditions.iter().map(holds).collect::<Result<_, _>>().map_err(|e| Failure::failed(format!("--fail-if {e}")))?;
    let mut held = found.into_iter().flatten().peekable();
    if held.peek().is_none() {
        return Ok(());
    }
    held.for_each(|why| output::note(&format!("thalweg explain: --fail-if {why}")));
    Err(Failure::Verdict(HOLDS))
}
