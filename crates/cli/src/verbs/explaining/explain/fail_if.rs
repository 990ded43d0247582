//! `--fail-if`: what was found as an exit code, for continuous integration.

use crate::failure::Failure;
use crate::output;
use crate::recordings::explained::explanation_of;
use std::path::Path;
use thalweg_explain::{Condition, Explanation};

/// The exit code of a run for which a condition holds.
const HOLDS: u8 = 3;

/// A condition with the run that it compares with.
pub(super) struct Judged {
    condition: Condition,
    baseline: Option<Explanation>,
}

/// Reads the runs that conditions compare with.
///
/// # Errors
/// One of them cannot be read, or is neither a recording nor an explanation.
pub(super) fn read(conditions: &[Condition]) -> Result<Vec<Judged>, Failure> {
    let judged = |condition: &Condition| {
        let baseline = condition.baseline().map(|path| explanation_of(Path::new(path))).transpose()?;
        Ok(Judged { condition: condition.clone(), baseline })
    };
    conditions.iter().map(judged).collect()
}

/// Says which conditions hold for a command that succeeded, and gives their exit code.
///
/// # Errors
/// One holds; or one asks for what was not measured.
pub(super) fn judge(conditions: &[Judged], explanation: &Explanation) -> Result<(), Failure> {
    if conditions.is_empty() {
        return Ok(());
    }
    if let Some(ended) = &explanation.summary.ended {
        output::note(&format!("thalweg explain: --fail-if is not judged: the command {ended}"));
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
