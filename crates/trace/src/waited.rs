//! Stacks of waits find the spans of those waits.
//!
//! Who takes the stack of a thread that waits and who records the wait are two recorders with a ring each, and neither waits for the other. Both
//! say when the thread was switched away, of one reading of the clock: by that and by the thread, a stack belongs to a span for certain, or is
//! left out. (Rejected: the nearest wait within a tolerance, which is wrong where a thread waits often; and numbers of spans, which the
//! second recorder cannot know.)

use crate::{Event, Span, SpanKind, Waited};
use std::collections::HashMap;

/// Stacks that have not found their spans yet: until when and which, by thread and beginning.
#[derive(Debug, Default)]
pub(crate) struct WaitStacks {
    waiting: HashMap<(u64, i64), (i64, u32)>,
}

/// Whether a span may be a wait of which a stack was taken: nothing ran in it, and nothing was runnable all through it.
fn is_wait(span: &Span) -> bool {
    span.duration_ns > 0 && span.cpu_ns == Some(0) && span.kind != SpanKind::WaitRunqueue
}

impl WaitStacks {
    /// A stack was taken.
    pub(crate) fn add(&mut self, waited: &Waited) {
        self.waiting.insert((waited.track.number(), waited.from.ns()), (waited.until.ns(), waited.stack));
    }

    /// A span with its stack, if one was taken.
    pub(crate) fn given(&mut self, mut span: Span) -> Span {
        if self.waiting.is_empty() || span.stack.is_some() || !is_wait(&span) {
            return span;
        }
        let key = (span.track.number(), span.start.ns());
        if self.waiting.get(&key).is_some_and(|(until, _)| span.end().ns() <= *until) {
            span.stack = self.waiting.remove(&key).map(|(_, stack)| stack);
        }
        span
    }

    /// The stack of a span as an event of its own.
    pub(crate) fn apart(event: &Event) -> Option<Event> {
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
            assert_eq!(stacks.given(other).stack, None, "{other:?}");
        }
        let wait = span(1, timer, 100, 200, Some(0));
        assert_eq!(stacks.given(wait).stack, Some(7));
        assert_eq!(stacks.given(wait).stack, None, "given once");
    }

    #[test]
    fn a_span_s_stack_goes_apart_and_comes_back() {
        let wait = Span { stack: Some(7), ..span(1, SpanKind::FileSync, 100, 200, Some(0)) };
        let Some(Event::Waited(apart)) = WaitStacks::apart(&Event::Span(wait)) else { panic!("nothing apart") };
        let mut stacks = WaitStacks::default();
        stacks.add(&apart);
        assert_eq!(stacks.given(Span { stack: None, ..wait }), wait);
    }
}
