//! Matches stacks of waits with the spans of those waits.
//!
//! Two recorders, each with its own ring and neither waiting for the other, take the stack of a waiting thread and
//! record the wait. Both give the time the thread was switched out, from a single clock reading: by thread and time,
//! a stack either belongs to a span for certain or is left out. (Rejected: the nearest wait within a tolerance, which
//! is wrong where a thread waits often; and span numbers, which the second recorder cannot know.)

use crate::{Event, Span, SpanKind, Waited};
use std::collections::HashMap;

/// Stacks not yet matched: end and stack number, by thread and start.
#[derive(Debug, Default)]
pub(crate) struct WaitStacks {
    waiting: HashMap<(u64, i64), (i64, u32)>,
}

/// Whether a stack could have been taken in this span: the thread neither ran in it nor was runnable throughout.
fn is_wait(span: &Span) -> bool {
    span.duration_ns > 0 && span.cpu_ns == Some(0) && span.kind != SpanKind::WaitRunqueue
}

impl WaitStacks {
    /// Adds a stack.
    pub(crate) fn add(&mut self, waited: &Waited) {
        self.waiting.insert((waited.track.number(), waited.from.ns()), (waited.until.ns(), waited.stack));
    }

    /// Returns a span with its stack, if one was taken.
    pub(crate) fn with_stack(&mut self, mut span: Span) -> Span {
        if self.waiting.is_empty() || span.stack.is_some() || !is_wait(&span) {
            return span;
        }
        let key = (span.track.number(), span.start.ns());
        if self.waiting.get(&key).is_some_and(|(until, _)| span.end().ns() <= *until) {
            span.stack = self.waiting.remove(&key).map(|(_, stack)| stack);
        }
        span
    }

    /// Returns a span's stack as a separate event.
    pub(crate) fn stack_event(event: &Event) -> Option<Event> {
        let Event::Span(span) = event else { return None };
        let stack = span.stack.filter(|_| is_wait(span))?;
        Some(Event::Waited(Waited { track: span.track, from: span.start, until: span.end(), stack }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpanId, Time, TrackId};

    fn span(track: u64, kind: SpanKind, start: i64, duration_ns: u64, cpu_ns: Option<u64>) -> Span {
        let (id, track, start) = (SpanId::new(1).expect("not 0"), TrackId::new(track).expect("not 0"), Time::from_monotonic_ns(start));
        Span { cpu_ns, ..Span::bare(id, track, kind, start, duration_ns) }
    }

    #[test]
    fn a_stack_is_the_span_s_that_began_with_it_and_nobody_else_s() {
        let mut stacks = WaitStacks::default();
        let at = Time::from_monotonic_ns;
        stacks.add(&Waited { track: TrackId::new(1).expect("not 0"), from: at(100), until: at(300), stack: 7 });
        let timer = SpanKind::WaitTimer;
        for other in [
            span(2, timer, 100, 150, Some(0)),
            span(1, timer, 101, 150, Some(0)),
            span(1, timer, 100, 201, Some(0)),
            span(1, SpanKind::FileRead, 100, 0, Some(0)),
            span(1, SpanKind::FileRead, 100, 150, Some(150)),
            span(1, SpanKind::WaitRunqueue, 100, 150, Some(0)),
        ] {
            assert_eq!(stacks.with_stack(other).stack, None, "{other:?}");
        }
        let wait = span(1, timer, 100, 200, Some(0));
        assert_eq!(stacks.with_stack(wait).stack, Some(7));
        assert_eq!(stacks.with_stack(wait).stack, None, "given once");
    }

    #[test]
    fn a_span_s_stack_goes_apart_and_comes_back() {
        let wait = Span { stack: Some(7), ..span(1, SpanKind::FileSync, 100, 200, Some(0)) };
        let Some(Event::Waited(apart)) = WaitStacks::stack_event(&Event::Span(wait)) else { panic!("nothing apart") };
        let mut stacks = WaitStacks::default();
        stacks.add(&apart);
        assert_eq!(stacks.with_stack(Span { stack: None, ..wait }), wait);
    }
}
