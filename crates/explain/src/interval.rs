//! The interval of a recording that is explained.

use crate::error::ExplainError;
use std::iter::Peekable;
use thalweg_trace::{Meta, Source, SourceError, SpanBatch};

/// The interval to explain, in ns: the command's, or else that of the recorded spans.
pub(crate) fn interval(source: &dyn Source) -> Result<(i64, i64), ExplainError> {
    interval_of(source.meta(), &mut source.spans_backward().peekable())
}

/// The interval to explain, given spans about to be read; the first span is examined only if nothing else gives the recording's end.
pub(crate) fn interval_of(
    meta: &Meta,
    batches: &mut Peekable<impl Iterator<Item = Result<SpanBatch, SourceError>>>,
) -> Result<(i64, i64), ExplainError> {
    let start = meta.start.ns();
    let end = match meta.end {
        Some(end) => end.ns(),
        // Never finished: up to the last span.
        None => match batches.peek() {
            Some(Ok(batch)) => batch.end_ns.first().copied().unwrap_or(start),
            Some(Err(_)) => return Err(batches.next().and_then(Result::err).map_or_else(nothing, ExplainError::from)),
            None => start,
        },
    };
    if end <= start { Err(nothing()) } else { Ok((start, end)) }
}

fn nothing() -> ExplainError {
    let problem = "the recording covers no time, so there is nothing to explain: it was cut short, or its command never ran";
    ExplainError::Nothing(problem.to_owned())
}
