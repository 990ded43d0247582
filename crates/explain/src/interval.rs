//! From when to when a recording is explained.

use crate::error::ExplainError;
use thalweg_trace::Source;

/// The interval to explain: the command's, or of what there is.
pub(crate) fn interval(source: &dyn Source) -> Result<(i64, i64), ExplainError> {
    let meta = source.meta();
    let start = meta.start.ns();
    let end = match meta.end {
        Some(end) => end.ns(),
        // Never finished: up to the last span.
        None => source.spans_backward().next().transpose()?.and_then(|b| b.end_ns.first().copied()).unwrap_or(start),
    };
    if end <= start {
        let problem = "the recording covers no time, so there is nothing to explain: it was cut short, or its command never ran";
        return Err(ExplainError::Nothing(problem.to_owned()));
    }
    Ok((start, end))
}
