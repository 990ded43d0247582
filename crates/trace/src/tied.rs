//! Orders spans that end together: parents before their children.

use crate::Span;

/// Spans with one end, held until a span with an earlier end comes.
///
/// [`crate::Source::spans_backward`] orders such spans by number, which says nothing of which span contains which.
#[derive(Debug, Default)]
pub struct Tied {
    spans: Vec<Span>,
}

impl Tied {
    /// Adds a span, in order of descending end. Hands the spans held so far to `each`, the longest first, if their end is later.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn push<E>(&mut self, span: Span, each: impl FnMut(Span) -> Result<(), E>) -> Result<(), E> {
        if self.spans.first().is_some_and(|first| first.end() != span.end()) {
            self.finish(each)?;
        }
        self.spans.push(span);
        Ok(())
    }

    /// Hands the spans still held to `each`, the longest first.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn finish<E>(&mut self, each: impl FnMut(Span) -> Result<(), E>) -> Result<(), E> {
        self.spans.sort_by_key(|span| (span.start, span.span));
        self.spans.drain(..).try_for_each(each)
    }
}
