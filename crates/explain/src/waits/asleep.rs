//! Why a thread sleeps, as far as what it did before and after says. The kernel knows until when it sleeps, and not what for.

use super::*;

/// What a sleep stands between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SleptFor {
    /// A question that it took, and its answer.
    Answer,
    /// An answer that it got, and the next question.
    Requests,
    /// Two steps of moving data: it paces itself.
    Steps,
    /// Nothing: a program that was run in order to sleep, by this thread.
    Run(u32),
    /// It is not known.
    Unknown,
}

impl View<'_, '_, '_> {
    /// Of a sleep that is charged from here down: what it was for.
    pub(super) fn slept(&self, span: &LiveSpan) -> Answer<Act> {
        let ns = self.at - self.piece_start(span);
        if let Some((_, by)) = self.made_to_pause(span) {
            return Ok(Act::Slept(SleptFor::Run(by), ns));
        }
        self.ensure(span.start - ns)?;
        Ok(Act::Slept(self.slept_between(), ns))
    }

    fn slept_between(&self) -> SleptFor {
        let passed = &self.lane().passed;
        let before = self.lane().ahead.iter().find(|s| self.is_step(s));
        let Some(before) = before else { return SleptFor::Unknown };
        if before.kind == SpanKind::WaitNetwork {
            return SleptFor::Answer;
        }
        let next = passed.acted.min(passed.send.0).min(passed.receive.0);
        if before.kind == SpanKind::NetReceive && passed.send.1 == before.connection && passed.send.0 <= next {
            let serves = self.feed.side_of(self.tables, self.track, before.connection) == End::Server;
            return if serves { SleptFor::Answer } else { SleptFor::Requests };
        }
        if next == i64::MAX { SleptFor::Unknown } else { SleptFor::Steps }
    }

    /// Whether it moves data, or is a wait that a datagram for this thread ended.
    fn is_step(&self, span: &LiveSpan) -> bool {
        match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive | SpanKind::FileRead | SpanKind::FileWrite => !span.is_fruitless(),
            SpanKind::WaitNetwork => span.is_by_packet() && self.is_addressed(span.object),
            _ => false,
        }
    }
}
